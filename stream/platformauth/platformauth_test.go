package platformauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/stream/platformauth"
	"github.com/forebay/forebay/stream/streamapi"
)

// stub is a platform whose response depends on the token.
type stub struct {
	calls  atomic.Int64
	answer func(token string) (int, string)
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	token := r.Header.Get(storageapi.TokenHeader)
	if token == "" {
		token = r.Header.Get("Authorization") + " of " + r.Header.Get(storageapi.ProjectHeader)
	}
	status, body := s.answer(token)
	if status == 0 {
		return nil, errors.New(body)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func newStub(t *testing.T, opts platformauth.Options, answer func(token string) (int, string)) (streamapi.Authenticator, *stub) {
	t.Helper()
	s := &stub{answer: answer}
	client, err := storageapi.New(storageapi.Options{
		URL: "http://storage.example.com", HTTP: &http.Client{Transport: s}, Retry: storageapi.RetryOptions{Attempts: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	auth, err := platformauth.New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return auth, s
}

const (
	admin  = `{"id":"5","description":"mine","isMasterToken":true,"owner":{"id":7},"admin":{"id":12,"name":"Ann","role":"admin"}}`
	reader = `{"id":"6","isMasterToken":true,"owner":{"id":7},"admin":{"id":13,"name":"Bob","role":"readOnly"}}`
)

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		who    streamapi.Identity
		refuse *streamapi.AuthError
		later  *streamapi.UnavailableError
	}{
		{200, admin, streamapi.Identity{
			ProjectID: 7, Master: true, Admin: true, By: catalog.By{Type: "user", TokenID: "5", TokenDesc: "mine", UserID: "12", UserName: "Ann"},
		}, nil, nil},
		{200, reader, streamapi.Identity{ProjectID: 7, Master: true, By: catalog.By{Type: "user", TokenID: "6", UserID: "13", UserName: "Bob"}}, nil, nil},
		{200, `{"id":"8","owner":{"id":7},"admin":{"id":13,"role":"admin"}}`, streamapi.Identity{
			ProjectID: 7, By: catalog.By{Type: "user", TokenID: "8", UserID: "13"},
		}, nil, nil},
		{401, `{"error":"Invalid access token","code":"storage.tokenInvalid","exceptionId":"e1"}`, streamapi.Identity{}, &streamapi.AuthError{
			Status: 401, Name: "storage.tokenInvalid", Message: "Invalid access token", ExceptionID: "e1",
		}, nil},
		{403, `<html>`, streamapi.Identity{}, &streamapi.AuthError{Status: 403, Name: "storage.accessDenied", Message: "Forbidden"}, nil},
		{503, `{"status":"maintenance","reason":"Back at noon"}`, streamapi.Identity{}, nil, &streamapi.UnavailableError{
			Name: "storage.unavailable", Message: "Back at noon",
		}},
		{500, `{"error":"Oops","code":"storage.internal","exceptionId":"e2"}`, streamapi.Identity{}, nil, &streamapi.UnavailableError{
			Name: "storage.internal", Message: "Oops", ExceptionID: "e2",
		}},
		{429, `{}`, streamapi.Identity{}, nil, &streamapi.UnavailableError{Name: "storage.unavailable", Message: "Too Many Requests"}},
		{200, `<html>`, streamapi.Identity{}, nil, &streamapi.UnavailableError{}},
		{0, "connection refused", streamapi.Identity{}, nil, &streamapi.UnavailableError{}},
	} {
		auth, _ := newStub(t, platformauth.Options{}, func(string) (int, string) { return tt.status, tt.body })
		who, err := auth.Verify(t.Context(), "the-secret")
		if who != tt.who || (err == nil) != (tt.refuse == nil && tt.later == nil) {
			t.Errorf("got %d %s: %+v, %v, want who == %v and (err == nil) == (tt.refuse == nil && tt.later == nil)", tt.status, tt.body, who, err, tt.who)
		}
		if err != nil && strings.Contains(err.Error(), "the-secret") {
			t.Errorf("the error has the token: %v", err)
		}
		refused, ok := errors.AsType[*streamapi.AuthError](err)
		if ok != (tt.refuse != nil) || ok && *refused != *tt.refuse {
			t.Errorf("%d %s: refused with %+v, want %+v", tt.status, tt.body, refused, tt.refuse)
		}
		later, ok := errors.AsType[*streamapi.UnavailableError](err)
		if ok != (tt.later != nil) {
			t.Fatalf("got %d %s: %v, want %+v", tt.status, tt.body, err, tt.later)
		}
		if ok && (later.Name != tt.later.Name || later.Message != tt.later.Message || later.ExceptionID != tt.later.ExceptionID || later.Err == nil) {
			t.Errorf("got %d %s: %+v, want %+v", tt.status, tt.body, later, tt.later)
		}
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		soon := time.Now().Add(20 * time.Second).Format(storageapi.TimeFormat)
		auth, s := newStub(t, platformauth.Options{TTL: time.Minute, Tokens: 3}, func(token string) (int, string) {
			switch {
			case down:
				return 500, "{}"
			case token == "ends":
				return 200, fmt.Sprintf(`{"id":"9","isMasterToken":true,"owner":{"id":7},"expires":%q}`, soon)
			case token == "bad":
				return 401, "{}"
			}
			return 200, admin
		})
		calls := func(token string, want int64) {
			t.Helper()
			before := s.calls.Load()
			_, _ = auth.Verify(t.Context(), token)
			synctest.Wait()
			if n := s.calls.Load() - before; n != want {
				t.Errorf("%s: got %d calls, want %d", token, n, want)
			}
		}
		calls("a", 1)
		calls("a", 0)
		calls("bad", 1)
		calls("bad", 0)
		calls("ends", 1)
		time.Sleep(6 * time.Second)
		calls("bad", 1) // a refused token is remembered for 5 s
		time.Sleep(16 * time.Second)
		calls("ends", 1) // not longer than it is valid
		calls("a", 0)
		time.Sleep(39 * time.Second)
		calls("a", 1) // the minute is over
		calls("b", 1)
		calls("c", 1)
		calls("a", 0)
		calls("d", 1)
		calls("a", 1) // there is room for three. The oldest has gone.
		down = true
		calls("e", 1)
		down = false
		calls("e", 1) // faults of the platform are not remembered
	})
}

// TestSharedCalls checks that requests with one token share a call, that the first of them going away does not fail the
// others, and that calls are bounded.
func TestSharedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var now, most atomic.Int64
		auth, s := newStub(t, platformauth.Options{Calls: 2}, func(string) (int, string) {
			most.Store(max(most.Load(), now.Add(1)))
			<-release
			now.Add(-1)
			return 200, admin
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := auth.Verify(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("the request that has gone away: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() {
				if who, err := auth.Verify(t.Context(), "a"); err != nil || !who.Admin {
					t.Errorf("got %+v, %v, want no error and who.Admin", who, err)
				}
			})
		}
		for i := range 5 {
			wg.Go(func() {
				if _, err := auth.Verify(t.Context(), fmt.Sprint("other", i)); err != nil {
					t.Error(err)
				}
			})
		}
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		if n := s.calls.Load(); n != 6 || most.Load() > 2 {
			t.Errorf("got %d calls, %d at once, want 6 and at most 2", n, most.Load())
		}
	})
}

// TestExchangesAreRemembered checks that the response for a programmatic token holds for one project alone.
func TestExchangesAreRemembered(t *testing.T) {
	auth, s := newStub(t, platformauth.Options{}, func(token string) (int, string) {
		switch token {
		case "Bearer kbc_pat_x of 7":
			return 200, admin
		case "Bearer kbc_pat_x of 8": // a platform that does not look at the project
			return 200, admin
		}
		return 401, "{}"
	})
	programmatic := auth.(streamapi.ProgrammaticAuthenticator)
	for range 2 {
		if who, err := programmatic.VerifyProgrammatic(t.Context(), "kbc_pat_x", 7); err != nil || who.ProjectID != 7 || !who.Admin || who.By.TokenID != "5" {
			t.Errorf("got %+v, %v, want the admin with token 5 of project 7, no error", who, err)
		}
		for token, project := range map[string]int{"kbc_pat_x": 8, "kbc_pat_y": 7} {
			who, err := programmatic.VerifyProgrammatic(t.Context(), token, project)
			refused, ok := errors.AsType[*streamapi.AuthError](err)
			if who != (streamapi.Identity{}) || !ok || refused.Status != 401 || strings.Contains(err.Error(), token) {
				t.Errorf("%s of %d: got %+v, %v, want a refusal with the status 401, without the token", token, project, who, err)
			}
		}
		if _, err := auth.Verify(t.Context(), "kbc_pat_x"); err == nil {
			t.Error("the token is good without a project")
		}
	}
	if n := s.calls.Load(); n != 4 {
		t.Errorf("got %d calls, want 4: every answer is remembered, and each for itself", n)
	}
}

func TestOptionsValidate(t *testing.T) {
	_, err := platformauth.New(nil, platformauth.Options{TTL: -1, Tokens: -1, Calls: -1})
	if err == nil || strings.Count(err.Error(), "must be positive") != 3 {
		t.Errorf("got %v", err)
	}
}
