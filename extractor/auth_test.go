package extractor_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestAuthentication asserts the requests of each type of authentication.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	auth := func(s string) string { return `"authentication": {` + s + `}` }
	const job = `"jobs": [{"endpoint": "u"}]`
	const form = " application/x-www-form-urlencoded "
	mac := hmac.New(sha256.New, []byte("k"))
	mac.Write([]byte("/u"))
	sumOfPath := hex.EncodeToString(mac.Sum(nil))
	headers := []string{"Authorization", "X-Key"}
	token := func(rest string) string { return `{"access_token": "at-1", "token_type": "Bearer"` + rest + `}` }
	for _, s := range []story{
		{name: "basic, from attributes", headers: headers, api: auth(`"type": "basic"`), config: `"#username": "me", "#password": "pa:ss", ` + job, answers: []string{`[]`}, requests: []string{"GET /u Authorization=Basic bWU6cGE6c3M="}},
		{name: "basic, spelled out", headers: headers, api: auth(`"type": "basic", "username": "me", "password": {"attr": "#p"}`), config: `"#p": "pw", ` + job, answers: []string{`[]`}, requests: []string{"GET /u Authorization=Basic bWU6cHc="}},
		{name: "bearer", headers: headers, api: auth(`"type": "bearer", "token": {"attr": "#t"}`), config: `"#t": "tok", ` + job, answers: []string{`[]`}, requests: []string{"GET /u Authorization=Bearer tok"}},
		{name: "key in a header", headers: headers, api: auth(`"type": "apiKey", "name": "X-Key", "value": {"attr": "#t"}`), config: `"#t": "key7", ` + job, answers: []string{`[]`}, requests: []string{"GET /u X-Key=key7"}},
		{name: "key in the query", api: auth(`"type": "apiKey", "in": "query", "name": "k", "value": {"attr": "#t"}`), config: `"#t": "key7", ` + job, answers: []string{`400 bad key7`}, requests: []string{"GET /u?k=key7"}, err: "GET http://h/u returned 400: bad ***"},
		{
			name: "key in the query, also of the link to the next page", api: `"pagination": {"method": "response.url"}, ` + auth(`"type": "apiKey", "in": "query", "name": "k", "value": {"attr": "#t"}`), config: `"#t": "key7", ` + job,
			answers: []string{`{"next_page": "/u?a=%C3%A9&k=key7&p=2", "d": [1]}`, `{"next_page": "?k=old&k=older", "d": [2]}`, `{"d": []}`}, requests: []string{"GET /u?k=key7", "GET /u?a=%C3%A9&p=2&k=key7", "GET /u?k=key7"},
		},
		{
			name: "a signature in the query, also of the link to the next page", api: `"pagination": {"method": "response.url"}, ` + auth(`"type": "hmac", "key": "k", "message": {"request": "path"}, "query": {"sig": {"request": "signature"}}`), config: job,
			answers: []string{`{"next_page": "/u?sig=00&p=2", "d": [1]}`, `{"d": []}`}, requests: []string{"GET /u?sig=" + sumOfPath, "GET /u?p=2&sig=" + sumOfPath},
		},
		{
			name: "parameters with credentials", api: `"http": {"defaultOptions": {"params": {"v": 2, "user": "x"}}}, ` + auth(`"type": "query", "query": {"key": {"attr": "#t"}, "user": "me", "sum": {"function": "md5", "args": [{"function": "implode", "args": ["-", ["a", {"attr": "#t"}]]}]}}`), config: `"#t": "key7", ` + job,
			answers: []string{`400 bad key7`}, requests: []string{"GET /u?v=2&key=key7&user=me&sum=" + md5Text("a-key7")}, err: "returned 400: bad ***",
		},
		{name: "a token that is spelled out is secret too", api: auth(`"type": "bearer", "token": "tok-en"`), config: job, answers: []string{`400 no tok-en`}, requests: []string{"GET /u"}, err: "returned 400: no ***"},
		{
			name: "credentials stay with their origin", headers: headers, api: `"pagination": {"method": "response.url"}, ` + auth(`"type": "bearer", "token": "tok"`), config: job,
			answers: []string{`{"next_page": "http://o/x", "d": [1]}`, `{"d": []}`}, requests: []string{"GET /u Authorization=Bearer tok", "GET http://o/x"},
		},
		{
			name: "client credentials", headers: headers, api: auth(`"type": "oauth2", "tokenUrl": "http://idp/token", "clientId": "me", "clientSecret": {"attr": "#s"}, "params": {"scope": "a b"}`), config: `"#s": "s/+", ` + job,
			answers: []string{token(`, "expires_in": 3600`), `[]`}, requests: []string{"POST http://idp/token Authorization=Basic bWU6cyUyRiUyQg==" + form + "scope=a+b&grant_type=client_credentials", "GET /u Authorization=Bearer at-1"},
		},
		{
			name: "client credentials in the body", headers: headers, api: auth(`"type": "oauth2", "tokenUrl": "token", "clientAuth": "body", "clientId": "me", "clientSecret": "s3cret"`), config: job,
			answers: []string{token(""), `[]`}, requests: []string{"POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret", "GET /u Authorization=Bearer at-1"},
		},
		{
			name: "a token that expires before the next request", headers: headers, api: auth(`"type": "oauth2", "tokenUrl": "token", "clientAuth": "body", "clientId": "me", "clientSecret": "s3cret"`), config: `"jobs": [{"endpoint": "u"}, {"endpoint": "v"}]`,
			answers:  []string{token(`, "expires_in": 0`), `[]`, `{"access_token": "at-2"}`, `[]`},
			requests: []string{"POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret", "GET /u Authorization=Bearer at-1", "POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret", "GET /v Authorization=Bearer at-2"},
		},
		{
			name: "401: one new token", headers: headers, api: auth(`"type": "oauth2", "tokenUrl": "token", "clientAuth": "body", "clientId": "me", "clientSecret": "s3cret"`), config: job,
			answers:  []string{token(""), "401 expired", `{"access_token": "at-2"}`, `[]`},
			requests: []string{"POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret", "GET /u Authorization=Bearer at-1", "POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret", "GET /u Authorization=Bearer at-2"},
		},
		{
			name: "a new token is no retry", headers: headers, api: `"retryConfig": {"maxRetries": 1, "http": {"retryHeader": "Wait"}}, ` + auth(`"type": "login", "loginOn": [401], "loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"X-Key": {"response": "t"}}}`), config: job,
			answers: []string{`{"t": 1}`, "401 who?", `{"t": 2}`, "500 Wait: 0.001\ndown", `[]`}, requests: []string{"GET /in", "GET /u X-Key=1", "GET /in", "GET /u X-Key=2", "GET /u X-Key=2"},
		},
		{name: "a password in an endpoint", api: `"pagination": {"method": "pagenum"}`, config: `"jobs": [{"endpoint": "http://me:pass@h/x", "id": "j"}]`, answers: []string{`7`}, requests: []string{"GET /x?page=1"}, err: `endpoint "http://***@h/x": the response is an integer`},
		{
			name: "401 after a new token is the end", headers: headers, api: auth(`"type": "login", "loginOn": [401], "loginRequest": {"endpoint": "in"}, "apiRequest": {"headers": {"X-Key": {"response": "t"}}}`), config: job,
			answers: []string{`{"t": 1}`, "401 who?", `{"t": 2}`, "401 who?"}, requests: []string{"GET /in", "GET /u X-Key=1", "GET /in", "GET /u X-Key=2"}, err: "returned 401 (attempt 2): who?",
		},
		{
			name: "the token request is refused", api: auth(`"type": "oauth2", "tokenUrl": "token", "clientAuth": "body", "clientId": "me", "clientSecret": "s3cret"`), config: job,
			answers: []string{`400 {"error": "invalid_client", "s": "s3cret"}`}, requests: []string{"POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret"}, err: `login failed: POST http://h/token returned 400: {"error": "invalid_client", "s": "***"}`,
		},
		{
			name: "no token in the response", api: auth(`"type": "oauth2", "tokenUrl": "token", "clientAuth": "body", "clientId": "me", "clientSecret": "s3cret"`), config: job,
			answers: []string{`{"token": "at-9"}`}, requests: []string{"POST /token" + form + "grant_type=client_credentials&client_id=me&client_secret=s3cret"}, err: "login failed: POST http://h/token returned 200: the response has no access_token",
		},
	} {
		s.run(t)
	}
}

// TestHMAC checks the signatures of requests as a server does.
func TestHMAC(t *testing.T) {
	t.Parallel()
	type signed struct{ method, uri, body, time, nonce, sign string }
	var mu sync.Mutex
	var got []signed
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, signed{r.Method, r.RequestURI, string(body), r.Header.Get("X-Time"), r.Header.Get("X-Nonce"), r.Header.Get("X-Sign")})
		switch len(got) {
		case 1:
			w.Header().Set("Wait", "0.001")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			_, _ = io.WriteString(w, `[{"id": 1}]`)
		default:
			_, _ = io.WriteString(w, `[]`)
		}
	}))
	defer server.Close()
	cfg, err := extractor.ParseAt([]byte(config(`"retryConfig": {"http": {"retryHeader": "Wait"}}, "pagination": {"method": "pagenum"}, "authentication": {"type": "hmac", "keyEncoding": "base64", "encoding": "base64", "key": {"attr": "#key"},
		"message": {"function": "implode", "args": ["\n", [{"request": "timestamp"}, {"request": "nonce"}, {"request": "method"}, {"request": "target"}, {"function": "hash", "args": ["sha256", {"request": "body"}]}]]},
		"headers": {"X-Time": {"request": "timestamp"}, "X-Nonce": {"request": "nonce"}, "X-Sign": {"function": "concat", "args": ["v1=", {"request": "signature"}]}}}`,
		`"#key": "`+base64Text("secret key")+`", "jobs": [{"endpoint": "a/b", "params": {"x": 1}}, {"endpoint": "c", "method": "POST", "params": {"x": 2}}]`)), server.URL)
	checkError(t, err, "")
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{})
	checkError(t, err, "")
	var lines []string
	nonces := make(map[string]bool)
	mu.Lock()
	defer mu.Unlock()
	for _, g := range got {
		bodySum := sha256.Sum256([]byte(g.body))
		mac := hmac.New(sha256.New, []byte("secret key"))
		mac.Write([]byte(strings.Join([]string{g.time, g.nonce, g.method, g.uri, hex.EncodeToString(bodySum[:])}, "\n")))
		if want := "v1=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)); g.sign != want || g.time == "" || len(g.nonce) != 32 {
			t.Errorf("%+v is not signed %s", g, want)
		}
		nonces[g.nonce] = true
		lines = append(lines, g.method+" "+g.uri+" "+g.body)
	}
	same(t, "requests", lines, []string{"GET /a/b?x=1&page=1 ", "GET /a/b?x=1&page=1 ", "GET /a/b?x=1&page=2 ", `POST /c {"x":2,"page":1}`})
	if len(nonces) != len(got) {
		t.Errorf("got %d nonces for %d requests, want %v", len(nonces), len(got), len(got))
	}
}

// TestRefreshTokens gives a new refresh token for each that is used, and accepts none twice. A run must have made a token durable before
// it uses the access token that was issued with it, and the next run must know it.
func TestRefreshTokens(t *testing.T) {
	t.Parallel()
	const api = `"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "pub", "refreshToken": {"attr": "#r"}}`
	var saved extractor.State
	a := newAPI(t, `{"access_token": "at-1", "refresh_token": "rt-1"}`, `401 gone`, `{"access_token": "at-2", "refresh_token": "rt-2"}`, `[{"id": 1}]`, `{"access_token": "at-3"}`, `[]`, `{"access_token": "at-4"}`, `[]`)
	a.headers = []string{"Authorization"}
	const form = "POST /token application/x-www-form-urlencoded grant_type=refresh_token&refresh_token="
	cfg := config(api, `"#r": "rt-0", "jobs": [{"endpoint": "u"}]`)
	pulled := func(state *extractor.State, opts *extractor.Options) {
		*state = saved
		opts.Checkpoint = func(_ context.Context, s extractor.State) error {
			text, err := json.Marshal(s)
			if err != nil {
				return err
			}
			saved = extractor.State{}
			return errors.Join(err, json.Unmarshal(text, &saved))
		}
	}
	r := extract(t, a, cfg, func(s *extractor.State, o *extractor.Options) {
		pulled(s, o)
		o.Emit = func(context.Context, *extractor.Page) error { return errors.New("killed") }
	})
	checkError(t, r.err, "killed")
	second := extract(t, a, cfg, pulled)
	checkError(t, second.err, "")
	saved = second.state
	// Another token in the configuration replaces all tokens issued for the old token.
	checkError(t, extract(t, a, strings.Replace(cfg, "rt-0", "rt-new", 1), pulled).err, "")
	same(t, "requests", a.asked(), []string{
		form + "rt-0&client_id=pub", "GET /u Authorization=Bearer at-1", form + "rt-1&client_id=pub", "GET /u Authorization=Bearer at-2",
		form + "rt-2&client_id=pub", "GET /u Authorization=Bearer at-3", form + "rt-new&client_id=pub", "GET /u Authorization=Bearer at-4",
	})
	if strings.Contains(r.log, "rt-") || strings.Contains(r.log, "at-1") {
		t.Errorf("a token is in the log:\n%s", r.log)
	}
}

// TestTokenIsNotUsedUnsaved ends the run when a new refresh token cannot be saved. Nothing is asked with it.
func TestTokenIsNotUsedUnsaved(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `{"access_token": "at-1", "refresh_token": "rt-1"}`, `[]`)
	r := extract(t, a, config(`"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "pub", "refreshToken": "rt-0"}`, `"jobs": [{"endpoint": "u"}]`), func(_ *extractor.State, o *extractor.Options) {
		o.Checkpoint = func(_ context.Context, s extractor.State) error {
			if len(s.Tokens) > 0 {
				return errors.New("disk full")
			}
			return nil
		}
	})
	checkError(t, r.err, "disk full")
	if n := len(a.asked()); n != 1 {
		t.Errorf("got %d requests: %s, want 1", n, a.asked())
	}
}

// TestTokenOutlivesItsRun ends the run while the server replaces the refresh token. The new one is saved.
func TestTokenOutlivesItsRun(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config(`"authentication": {"type": "oauth2", "grant": "refresh_token", "tokenUrl": "token", "clientId": "c", "refreshToken": "rt-0"}`, `"jobs": [{"endpoint": "u"}]`)))
	checkError(t, err, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	var saved extractor.State
	_, err = extractor.Run(ctx, cfg, extractor.State{}, extractor.Options{
		Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			cancel(errKilled)
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			w := httptest.NewRecorder()
			_, err := io.WriteString(w, `{"access_token": "at-1", "refresh_token": "rt-1"}`)
			return w.Result(), err
		}),
		Checkpoint: func(ctx context.Context, s extractor.State) error {
			saved = s
			return ctx.Err()
		},
	})
	if !errors.Is(err, errKilled) || len(saved.Tokens) != 1 {
		t.Errorf("error %v, tokens %v", err, saved.Tokens)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnswerRules recognises errors in responses.
func TestAnswerRules(t *testing.T) {
	t.Parallel()
	rules := func(s string) string {
		return `"retryConfig": {"maxRetries": 2, "http": {"retryHeader": "Wait"}}, "pagination": {"method": "pagenum"}, "http": {"answerRules": [` + s + `]}`
	}
	const job = `"jobs": [{"endpoint": "u", "dataField": "d"}]`
	for _, s := range []story{
		{name: "an error", api: rules(`{"path": "error", "message": "error.text"}`), config: job, answers: []string{`{"error": {"text": "no such view"}, "d": [1]}`}, requests: []string{"GET /u?page=1"}, records: []string{}, err: `GET http://h/u?page=1 returned 200: the response has an error at "error": no such view: {"error"`},
		{name: "no error", api: rules(`{"path": "error"}`), config: job, answers: []string{`{"error": null, "d": [1]}`, `{"d": []}`}, requests: []string{"GET /u?page=1", "GET /u?page=2"}, records: []string{`u: {"data":1}`}},
		{name: "tried again", api: rules(`{"path": "code", "equals": [7, "busy"], "action": "retry"}`), config: job, answers: []string{"Wait: 0.001\n" + `{"code": "busy"}`, "Wait: 0.001\n" + `{"code": 7}`, `{"code": 8, "d": []}`}, requests: []string{"GET /u?page=1", "GET /u?page=1", "GET /u?page=1"}, records: []string{}},
		{name: "tried too often", api: rules(`{"path": "code", "equals": 7, "action": "retry"}`), config: job, answers: []string{"Wait: 0.001\n" + `{"code": 7}`, "Wait: 0.001\n" + `{"code": 7}`, `{"code": 7}`}, requests: []string{"GET /u?page=1", "GET /u?page=1", "GET /u?page=1"}, err: `(attempt 3): the response has an error at "code"`},
		{name: "the end", api: rules(`{"path": "status", "except": "ok", "action": "end"}`), config: job, answers: []string{`{"status": "ok", "d": [1]}`, `{"status": "past the end", "d": [2]}`}, requests: []string{"GET /u?page=1", "GET /u?page=2"}, records: []string{`u: {"data":1}`}, log: "a response matched http.answerRules"},
		{name: "the end by a status", api: rules(`{"statuses": [404], "path": "reason", "equals": "page", "action": "end"}`), config: job, answers: []string{`{"d": [1]}`, `404 {"reason": "page"}`}, requests: []string{"GET /u?page=1", "GET /u?page=2"}, records: []string{`u: {"data":1}`}},
		{name: "a status for another reason", api: rules(`{"statuses": [404], "path": "reason", "equals": "page", "action": "end"}`), config: job, answers: []string{`404 {"reason": "view"}`}, requests: []string{"GET /u?page=1"}, err: "returned 404"},
		{name: "a status that is tried again", api: rules(`{"statuses": [403], "action": "retry"}`), config: job, answers: []string{"403 Wait: 0.001\nslow down", `{"d": []}`}, requests: []string{"GET /u?page=1", "GET /u?page=1"}},
		{name: "in a POST", api: rules(`{"path": "code", "equals": 7, "action": "retry"}`), config: `"jobs": [{"endpoint": "u", "method": "POST", "dataField": "d"}]`, answers: []string{"Wait: 0.001\n" + `{"code": 7}`, `{"d": []}`}, requests: []string{`POST /u application/json {"page":1}`, `POST /u application/json {"page":1}`}},
		{
			name: "the end of one child", api: rules(`{"path": "gone", "action": "end"}`), config: `"jobs": [{"endpoint": "u", "dataField": "d", "children": [{"endpoint": "c/{id}", "dataType": "c", "placeholders": {"id": "id"}}]}]`,
			answers:  []string{`{"d": [{"id": 1}, {"id": 2}]}`, `[1]`, `{"gone": 1}`, `{"gone": true}`, `{"d": []}`},
			requests: []string{"GET /u?page=1", "GET /c/1?page=1", "GET /c/1?page=2", "GET /c/2?page=1", "GET /u?page=2"}, records: []string{`u: {"id":1}`, `u: {"id":2}`, `c: {"data":1,"parent_id":"1"}`},
		},
		{
			name: "the end of one window", api: rules(`{"path": "gone", "action": "end"}`), config: `"jobs": [{"endpoint": "u", "windows": {"from": "1970-01-02", "to": "1970-01-04"}, "params": {"f": {"window": "from"}}}]`,
			answers: []string{`[1]`, `{"gone": 1}`, `[2]`, `[]`}, requests: []string{"GET /u?f=86400&page=1", "GET /u?f=86400&page=2", "GET /u?f=172800&page=1", "GET /u?f=172800&page=2"}, records: []string{`u: {"data":1}`, `u: {"data":2}`},
		},
		{name: "what is no JSON matches no path", api: rules(`{"path": "error"}`), config: job, answers: []string{`nonsense`}, requests: []string{"GET /u?page=1"}, err: "the response is not JSON"},
	} {
		s.run(t)
	}
}
