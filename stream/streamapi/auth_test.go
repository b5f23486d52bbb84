package streamapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/stream"
)

// exchangeAuth also knows programmatic tokens, of the projects that their names end with.
type exchangeAuth struct {
	testAuth
	asked []string
}

func (e *exchangeAuth) VerifyProgrammatic(ctx context.Context, token string, project int) (Identity, error) {
	e.asked = append(e.asked, token)
	kind, ok := strings.CutPrefix(token, "kbc_pat_")
	if !ok {
		kind, _ = strings.CutPrefix(token, "kbc_at_")
	}
	if kind == "other-project" {
		return Identity{ProjectID: project + 1, Master: true, Admin: true}, nil
	}
	return e.Verify(ctx, kind)
}

// TestProgrammaticTokens sends tokens that need a project, with right and wrong ones, to an API that exchanges them, to
// one that is configured not to, and to one that cannot.
func TestProgrammaticTokens(t *testing.T) {
	s := newService(t, serviceOptions{})
	var log strings.Builder
	open := func(auth Authenticator, off bool) *api {
		t.Helper()
		h, err := New(s.cat, Options{
			Auth: auth, NoProgrammaticTokens: off, IngestURL: s.ingest.URL, Ingest: stream.Options{
				ProjectID: 7, BranchID: 3, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			},
		})
		must(t, err)
		return h.(*api)
	}
	auth := new(exchangeAuth)
	on, off, plain, static := open(auth, false), open(auth, true), open(testAuth{}, false), open(StaticToken(testToken, 7), false)
	const missing, kind, span = "stream.api.missingField", "stream.api.invalidFieldType", "stream.api.invalidRange"
	const pat, at = "kbc_pat_" + testToken, "kbc_at_" + testToken
	for _, tt := range []struct {
		what           string
		api            *api
		token, project string
		method         string
		status         int
		error, message string
		asked          bool
	}{
		{"personal", on, pat, "7", "GET", 200, "", "", true},
		{"access", on, at, "7", "GET", 200, "", "", true},
		{"change", on, pat, "7", "POST", 400, missing, "body.type is missing", true},
		{"role", on, "kbc_at_" + readerToken, "7", "POST", 403, "stream.api.forbidden", "", true},
		{"no master token", on, "kbc_at_" + limitedToken, "7", "GET", 401, "stream.api.masterTokenRequired", "", true},
		{"unknown", on, "kbc_pat_nobody", "7", "GET", 401, "storage.tokenInvalid", "", true},
		{"platform away", on, "kbc_pat_away", "7", "GET", 503, "stream.api.unavailable", "", true},
		{"fault", on, "kbc_pat_broken", "7", "GET", 500, "stream.api.internalError", "", true},
		{"exchanged for another project", on, "kbc_pat_other-project", "7", "GET", 401, "storage.tokenInvalid", "", true},
		{"another project", on, pat, "8", "GET", 401, "storage.tokenInvalid", "", false},
		{"no project", on, pat, "", "GET", 400, missing, `"X-KBC-ProjectId" is missing from header`, false},
		{"no project and no type", on, pat, "", "POST", 400, missing, "body.type is missing", false},
		{"project is a text", on, pat, "x", "GET", 400, kind, `"x", must be an integer`, false},
		{"project with a sign", on, pat, "+7", "GET", 400, kind, "must be an integer", false},
		{"project is 0", on, at, "0", "GET", 400, span, "greater or equal than 1", false},
		{"project is negative", on, at, "-7", "GET", 400, span, "greater or equal than 1", false},
		{"token of a project", on, testToken, "", "GET", 200, "", "", false},
		{"token of a project, wrong header", on, testToken, "x", "GET", 200, "", "", false},
		{"off", off, pat, "7", "GET", 401, "storage.tokenInvalid", "programmatic tokens are not accepted", false},
		{"off, without project", off, pat, "", "GET", 401, "storage.tokenInvalid", "programmatic tokens are not accepted", false},
		{"off, token of a project", off, testToken, "", "GET", 200, "", "", false},
		{"no extension", plain, pat, "7", "GET", 401, "storage.tokenInvalid", "", false},
		{"static", static, pat, "7", "GET", 401, "storage.tokenInvalid", "programmatic tokens are not accepted", false},
		{"static, the token", static, testToken, "", "GET", 200, "", "", false},
		{"static that looks like one", open(StaticToken(pat, 7), false), pat, "", "GET", 200, "", "", false},
	} {
		for _, header := range []string{tokenHeader, "Authorization"} {
			auth.asked = nil
			server := httptest.NewServer(tt.api)
			s.api = tt.api // whose description it is
			body := `{"name":"x"}`
			if tt.status == http.StatusForbidden {
				body = `{"name":"x","type":"http"}`
			}
			req, err := http.NewRequest(tt.method, server.URL+b+"/sources", strings.NewReader(body))
			must(t, err)
			value := tt.token
			if header == "Authorization" {
				value = "Bearer " + value
			}
			req.Header.Set(header, value)
			if tt.project != "" {
				req.Header.Set(projectHeader, tt.project)
			}
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			must(t, err)
			a := response{status: resp.StatusCode, text: string(text)}
			_ = json.Unmarshal(text, &a.body)
			s.described(req, a)
			name, _ := a.body["error"].(string)
			message, _ := a.body["message"].(string)
			if a.status != tt.status || name != tt.error || !strings.Contains(message, tt.message) {
				t.Errorf("%s in %s: got %d %s %q, want %d %s %q", tt.what, header, a.status, name, message, tt.status, tt.error, tt.message)
			}
			if (len(auth.asked) > 0) != tt.asked {
				t.Errorf("%s in %s: exchanged %v, want %v", tt.what, header, auth.asked, tt.asked)
			}
			if strings.Contains(a.text, tt.token) {
				t.Errorf("%s in %s: the answer has the token: %s", tt.what, header, a.text)
			}
			server.Close()
		}
	}
	for what, a := range map[string]*api{"on": on, "off": off, "static": static} {
		if strings.Contains(string(a.docs.json), projectHeader) != (a == on) {
			t.Errorf("%s: whether the header of the project is described is wrong", what)
		}
	}
	if strings.Contains(log.String(), "kbc_") || !strings.Contains(log.String(), "a fault of the service") {
		t.Errorf("the log is %s", log.String())
	}
}

// TestStaticTokenNamesTheCause checks that an authenticator with one token tells what kind of token it was given.
func TestStaticTokenNamesTheCause(t *testing.T) {
	var refused *AuthError
	if _, err := StaticToken(testToken, 7).Verify(t.Context(), "kbc_at_x"); !errors.As(err, &refused) || refused.Status != 401 || !strings.Contains(refused.Message, "programmatic") {
		t.Errorf("got %v, want errors.As(err, &refused) and refused.Status == 401 and strings.Contains(refused.Message, \"programmatic\")", err)
	}
}

// TestTokenStaysOutOfSamples sends payload tests with every form of token. No column sees it.
func TestTokenStaysOutOfSamples(t *testing.T) {
	s := newService(t, serviceOptions{auth: new(exchangeAuth)})
	s.done("POST", b+"/sources", `{"type":"http","name":"Web","sinks":[`+headersSink+`]}`)
	s.done("POST", b+"/sources", `{"type":"otlp","name":"App","sinks":[`+strings.Replace(headersSink, "in.c-web", "in.c-app", 1)+`]}`)
	for _, header := range []http.Header{
		{tokenHeader: {testToken}},
		{tokenHeader: {"kbc_pat_" + testToken}, projectHeader: {"7"}},
		{"Authorization": {"Bearer " + testToken}},
		{"Authorization": {"Bearer kbc_at_" + testToken}, projectHeader: {"7"}},
		{tokenHeader: {testToken}, "Authorization": {"Basic of-the-sample"}},
	} {
		for _, source := range []string{"web", "app"} {
			req, err := http.NewRequest("POST", s.server.URL+b+"/sources/"+source+"/test", strings.NewReader("{}"))
			must(t, err)
			req.Header = header.Clone()
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || strings.Contains(string(text), testToken) {
				t.Errorf("got %s, %v: %d %s, %v, want no error and resp.StatusCode == 200 and !strings.Contains(string(text), testToken)", source, header, resp.StatusCode, text, err)
			}
			// Ingestion takes Authorization from telemetry, whose secret it may be, and leaves it to events.
			wants := source == "web" && slices.Contains(header["Authorization"], "Basic of-the-sample")
			if strings.Contains(string(text), "of-the-sample") != wants {
				t.Errorf("got %s, %v: %s, want the header of the sample: %v", source, header, text, wants)
			}
		}
	}
}

const headersSink = `{"type":"table","name":"Events","table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.headers","mapping":{"columns":[
	{"type":"headers","name":"headers"}]}}}`
