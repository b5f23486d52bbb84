package storageapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

const secretToken = "123-456-verysecret"

// fakeTransport responds to requests from a list, without a network. The last response is repeated.
type fakeTransport struct {
	answers []func(*http.Request) (*http.Response, error)
	calls   atomic.Int64
}

func (f *fakeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	n := int(f.calls.Add(1)) - 1
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	return f.answers[min(n, len(f.answers)-1)](req)
}

func answering(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
}

func failing(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func fakeClient(t *testing.T, f *fakeTransport, change ...func(o *Options)) *Client {
	t.Helper()
	o := Options{URL: "https://storage.example.com", Token: secretToken, HTTP: &http.Client{Transport: f}}
	for _, c := range change {
		c(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRetries(t *testing.T) {
	lost := errors.New("connection reset")
	get := func(ctx context.Context, c *Client) error { _, err := c.Bucket(ctx, "in.c-a"); return err }
	post := func(ctx context.Context, c *Client) error {
		_, err := c.CreateToken(ctx, TokenCreate{Description: "d"})
		return err
	}
	named := func(ctx context.Context, c *Client) error {
		_, err := c.CreateConfiguration(ctx, "c", ConfigurationCreate{ConfigurationID: "1", Name: "n"})
		return err
	}
	remove := func(ctx context.Context, c *Client) error { return c.DeleteToken(ctx, "1") }
	good := answering(200, `{"id":"in.c-a"}`)
	for name, c := range map[string]struct {
		call    func(ctx context.Context, c *Client) error
		answers []func(*http.Request) (*http.Response, error)
		calls   int64
		ok      bool
	}{
		"read after 500":            {get, []func(*http.Request) (*http.Response, error){answering(500, ""), answering(502, "<html>"), good}, 3, true},
		"read after a lost answer":  {get, []func(*http.Request) (*http.Response, error){failing(lost), good}, 2, true},
		"read that never succeeds":  {get, []func(*http.Request) (*http.Response, error){answering(503, "")}, 6, false},
		"read that is refused":      {get, []func(*http.Request) (*http.Response, error){answering(400, ""), good}, 1, false},
		"not implemented":           {get, []func(*http.Request) (*http.Response, error){answering(501, ""), good}, 1, false},
		"creation after 500":        {post, []func(*http.Request) (*http.Response, error){answering(500, ""), good}, 1, false},
		"creation, lost answer":     {post, []func(*http.Request) (*http.Response, error){failing(lost), good}, 1, false},
		"creation after 503":        {post, []func(*http.Request) (*http.Response, error){answering(503, ""), answering(201, `{"id":"1"}`)}, 2, true},
		"creation after 429":        {post, []func(*http.Request) (*http.Response, error){answering(429, ""), answering(201, `{"id":"1"}`)}, 2, true},
		"creation after a conflict": {post, []func(*http.Request) (*http.Response, error){answering(409, `{"code":"storage.components.configurations.versionConflict"}`), answering(201, `{"id":"1"}`)}, 2, true},
		"creation, other conflict":  {post, []func(*http.Request) (*http.Response, error){answering(409, ""), good}, 1, false},
		"named creation that was done": {named, []func(*http.Request) (*http.Response, error){
			failing(lost), answering(400, `{"code":"configurationAlreadyExists"}`), answering(200, `{"id":"1"}`),
		}, 3, true},
		"named creation that was taken": {named, []func(*http.Request) (*http.Response, error){answering(400, `{"code":"configurationAlreadyExists"}`), good}, 1, false},
		"deletion that was done":        {remove, []func(*http.Request) (*http.Response, error){failing(lost), answering(404, `{"code":"storage.tokens.notFound"}`)}, 2, true},
		"deletion by job that was done": {
			func(ctx context.Context, c *Client) error { return c.DeleteTable(ctx, "in.c-a.t", false) },
			[]func(*http.Request) (*http.Response, error){failing(lost), answering(404, `{"code":"storage.tables.notFound"}`)},
			2, true,
		},
		"trash that must not be purged": {
			func(ctx context.Context, c *Client) error { return c.DeleteConfiguration(ctx, "c", "1") },
			[]func(*http.Request) (*http.Response, error){failing(lost), answering(204, "")},
			1, false,
		},
		"deletion of nothing": {remove, []func(*http.Request) (*http.Response, error){answering(404, `{"code":"storage.tokens.notFound"}`)}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeTransport{answers: c.answers}
				err := c.call(t.Context(), fakeClient(t, f))
				if (err == nil) != c.ok || f.calls.Load() != c.calls {
					t.Errorf("got %d calls, error %v; want %d calls, success %v", f.calls.Load(), err, c.calls, c.ok)
				}
				if err != nil && strings.Contains(err.Error(), "verysecret") {
					t.Errorf("the error shows the token: %v", err)
				}
			})
		})
	}
}

// The server says when to come again. The client does not come before, and gives up when that is beyond its bound.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){
			answering(503, `{"status":"maintenance","reason":"planned"}`, "Retry-After", "20"), answering(200, `{}`),
		}}
		begin := time.Now()
		if _, err := fakeClient(t, f).Bucket(t.Context(), "in.c-a"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited < 20*time.Second || waited > 25*time.Second {
			t.Errorf("waited %s, want 20s", waited)
		}
		date := time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat)
		f = &fakeTransport{answers: []func(*http.Request) (*http.Response, error){answering(503, `{"status":"maintenance","reason":"planned"}`, "Retry-After", date)}}
		begin = time.Now()
		_, err := fakeClient(t, f).Bucket(t.Context(), "in.c-a")
		var e *Error
		if !errors.As(err, &e) || e.Message != "planned" || e.RetryAfter < time.Hour || time.Since(begin) != 0 {
			t.Errorf("error %+v after %s", err, time.Since(begin))
		}
	})
}

func TestRetriesEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){answering(500, `{"error":"broken","exceptionId":"e-1"}`)}}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		_, err := fakeClient(t, f).Bucket(ctx, "in.c-a")
		var e *Error
		if !errors.As(err, &e) || e.ExceptionID != "e-1" || f.calls.Load() > 4 {
			t.Errorf("got %d calls, error %v, want at most 4, the exception e-1", f.calls.Load(), err)
		}
	})
}

func TestErrorBodies(t *testing.T) {
	for body, want := range map[string]Error{
		`{"error":"text","code":"a.b","exceptionId":"x","status":"error"}`: {Code: "a.b", Message: "text", ExceptionID: "x"},
		`{"error":"text","code":400}`:                                      {Message: "text"},
		`{"error":"text","errors":[{"key":"include","message":"bad"}]}`:    {Message: "text", Violations: []Violation{{"include", "bad"}}},
		``:       {Message: "Conflict"},
		`<html>`: {Message: "Conflict"},
		`[]`:     {Message: "Conflict"},
	} {
		f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){answering(409, body)}}
		_, err := fakeClient(t, f, func(o *Options) { o.Retry.Attempts = 1 }).Bucket(t.Context(), "in.c-a")
		var e *Error
		if !errors.As(err, &e) || e.Status != 409 || e.Code != want.Code || e.Message != want.Message || e.ExceptionID != want.ExceptionID || len(e.Violations) != len(want.Violations) {
			t.Errorf("%s: got %+v, want %+v", body, err, want)
		}
	}
}

// Neither errors nor logs show a token, the signature of an address or other credentials.
func TestSecretsStayInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		prepared := `{"id":1,"absUploadParams":{"blobName":"b","container":"c","absCredentials":{"SASConnectionString":"BlobEndpoint=https://blob.example.com;SharedAccessSignature=sig=verysecret"}}}`
		f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){
			answering(201, prepared), failing(errors.New("reset")), answering(500, ""), answering(403, `verysecret`), answering(204, ""),
		}}
		c := fakeClient(t, f, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		_, err := c.Upload(t.Context(), FilePrepare{Name: "n"}, BytesSource([]byte("x")))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
		f.answers = []func(*http.Request) (*http.Response, error){failing(errors.New("reset"))}
		if _, err = c.VerifyToken(t.Context()); err == nil || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("error %v", err)
		}
		if !strings.Contains(log.String(), "call is repeated") || strings.Contains(log.String(), "verysecret") {
			t.Errorf("log %s", log.String())
		}
		token := Token{Token: secretToken}
		for _, text := range []string{fmt.Sprint(token), fmt.Sprintf("%+v", token), fmt.Sprintf("%#v", token), fmt.Sprintf("%v", Options{Token: secretToken})} {
			if strings.Contains(text, "verysecret") {
				t.Errorf("printed %s", text)
			}
		}
	})
}

// A token is for one host. A redirect to a different host does not take it along.
func TestRedirectKeepsToken(t *testing.T) {
	var leaked atomic.Value
	leaked.Store("")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get(TokenHeader) + r.Header.Get("Authorization"))
		io.WriteString(w, "{}")
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	for _, token := range []Secret{secretToken, "Bearer " + secretToken} {
		c, err := New(Options{URL: first.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Bucket(t.Context(), "in.c-a"); err != nil {
			t.Fatal(err)
		}
		if got := leaked.Load(); got != "" {
			t.Errorf("the other host got %q", got)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestBearer(t *testing.T) {
	f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Authorization") != "Bearer abc" || req.Header.Get(TokenHeader) != "" {
			t.Errorf("header %v", req.Header)
		}
		return answering(200, "{}")(req)
	}}}
	if _, err := fakeClient(t, f).WithToken("Bearer abc").Bucket(t.Context(), "in.c-a"); err != nil {
		t.Fatal(err)
	}
}

// The index needs no token, so it gets none.
func TestIndexGetsNoToken(t *testing.T) {
	f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){func(req *http.Request) (*http.Response, error) {
		if req.Header.Get(TokenHeader) != "" {
			t.Errorf("%s: got the token, want none", req.URL)
		}
		return answering(200, `{"services":[{"id":"queue","url":"https://queue.example.com"}]}`)(req)
	}}}
	c := fakeClient(t, f)
	if index, err := c.Index(t.Context()); err != nil || index.Service("queue") != "https://queue.example.com" || index.Service("none") != "" {
		t.Errorf("got %+v, %v, want no error and index.Service(\"queue\") == \"https://queue.example.com\" and index.Service(\"none\") == \"\"", index, err)
	}
	if _, err := c.Portal(t.Context(), "https://portal.example.com"); err != nil {
		t.Error(err)
	}
}

func TestPages(t *testing.T) {
	var offsets []string
	f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){func(req *http.Request) (*http.Response, error) {
		offsets = append(offsets, req.URL.Query().Get("offset"))
		n := 100
		if len(offsets) == 3 {
			n = 5
		}
		return answering(200, "["+strings.TrimSuffix(strings.Repeat(`{"id":1},`, n), ",")+"]")(req)
	}}}
	c := fakeClient(t, f)
	all, err := Collect(c.Files(t.Context(), FileQuery{}))
	if err != nil || len(all) != 205 || strings.Join(offsets, " ") != "0 100 200" {
		t.Errorf("got %d files, offsets %v, %v, want 205, 0 100 200, no error", len(all), offsets, err)
	}
	// The next page is not asked for when the loop ends before.
	offsets = nil
	n := 0
	for range c.Files(t.Context(), FileQuery{}) {
		if n++; n == 100 {
			break
		}
	}
	if len(offsets) != 1 {
		t.Errorf("offsets %v", offsets)
	}
	f.answers = []func(*http.Request) (*http.Response, error){answering(200, `[{"id":1},{"id":`)}
	if all, err = Collect(c.Files(t.Context(), FileQuery{})); err == nil || len(all) != 1 {
		t.Errorf("cut answer: %d files, %v", len(all), err)
	}
	f.answers = []func(*http.Request) (*http.Response, error){answering(200, `{}`)}
	if _, err = Collect(c.Files(t.Context(), FileQuery{})); err == nil {
		t.Error("an object was taken for a list")
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{URL: "storage.example.com", QueueURL: "ftp://x", Token: "a\nb", Retry: RetryOptions{Attempts: -1}})
	for _, part := range []string{"URL", "QueueURL", "token", "Retry"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %s", err, part)
		}
	}
	if err != nil && strings.Contains(err.Error(), "a\nb") {
		t.Errorf("the error shows the token: %v", err)
	}
}

func TestWaitForJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTransport{answers: []func(*http.Request) (*http.Response, error){
			answering(200, `{"id":7,"status":"waiting","operationName":"x","results":[]}`), answering(200, `{"id":"7","status":"processing"}`),
			answering(200, `{"id":7,"status":"error","operationName":"tableImport","error":{"code":"csvImport.columnsNotMatch","message":"no","exceptionId":"e"}}`),
		}}
		_, err := fakeClient(t, f).WaitForJob(t.Context(), 7)
		var job *JobError
		if !errors.As(err, &job) || job.Code() != "csvImport.columnsNotMatch" || job.Job.ID != 7 || !strings.Contains(err.Error(), "[exception e]") {
			t.Errorf("error %v", err)
		}
		f = &fakeTransport{answers: []func(*http.Request) (*http.Response, error){answering(200, `{"id":7,"status":"waiting"}`)}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err = fakeClient(t, f).WaitForJob(ctx, 7); !errors.Is(err, context.DeadlineExceeded) || f.calls.Load() > 40 {
			t.Errorf("got %d calls, error %v, want at most 40, %v", f.calls.Load(), err, context.DeadlineExceeded)
		}
	})
}
