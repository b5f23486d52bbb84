package console_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// newEngine has the source "web" with the sinks "events" and "orders", with three rows in each.
func newEngine(t *testing.T) *forebay.Engine {
	t.Helper()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	def := forebay.Source{ID: "web"}
	for _, id := range []string{"events", "orders"} {
		def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: "web." + id, Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}}})
	}
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"kind":"click"}`))); err != nil {
			t.Fatal(err)
		}
	}
	return eng
}

func newConsole(t *testing.T, opts console.Options) *console.Console {
	t.Helper()
	c, err := console.New(newEngine(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a request to a handler, with headers as pairs of names and values.
func ask(t *testing.T, h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	reader   = "reader-reader-reader"
	operator = "operator-operator-operator"
)

var tokens = []console.Token{
	{Name: "rita", Secret: reader, Rights: console.Numbers},
	{Name: "otto", Secret: operator, Rights: console.AllRights},
}

func TestWhoSeesWhat(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: tokens})
	for _, tc := range []struct {
		name, method, target string
		headers              []string
		status               int
	}{
		{"assets are public", "GET", "/x/app.js", nil, 200},
		{"no numbers without a token", "GET", "/x/snapshot", nil, 401},
		{"no stream without a token", "GET", "/x/stream", nil, 401},
		{"a wrong token", "GET", "/x/snapshot", []string{"Authorization", "Bearer nonsense-nonsense"}, 401},
		{"an empty token", "GET", "/x/snapshot", []string{"Authorization", "Bearer "}, 401},
		{"a part of a token", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader[:16]}, 401},
		{"a token", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader}, 200},
		{"a change without its right", "POST", "/x/task.cancel", []string{"Authorization", "Bearer " + reader}, 403},
		{"a change with its right, of a task that is not there", "POST", "/x/task.cancel", []string{"Authorization", "Bearer " + operator}, 400},
		{"a change by GET", "GET", "/x/task.cancel", []string{"Authorization", "Bearer " + operator}, 405},
		{"a change from another origin", "POST", "/x/task.cancel", []string{"Authorization", "Bearer " + operator, "Origin", "https://evil.example"}, 403},
		{"a change from another site", "POST", "/x/task.cancel", []string{"Authorization", "Bearer " + operator, "Sec-Fetch-Site", "cross-site"}, 403},
		{"a change from an origin with a user", "POST", "/x/task.cancel", []string{"Authorization", "Bearer " + operator, "Origin", "http://evil@127.0.0.1:8080"}, 403},
		{"a change from the same origin", "POST", "/x/task.cancel", []string{"Authorization", "Bearer " + operator, "Origin", "http://127.0.0.1:8080"}, 400},
		{"reading from another site", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader, "Sec-Fetch-Site", "cross-site"}, 403},
		{"reading from another origin of the site", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader, "Sec-Fetch-Site", "same-site"}, 403},
		{"reading from the page", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader, "Sec-Fetch-Site", "same-origin"}, 200},
		{"a name that points here", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader, "Host", "evil.example"}, 421},
		{"a loopback name", "GET", "/x/snapshot", []string{"Authorization", "Bearer " + reader, "Host", "localhost:80"}, 200},
		{"a name that ends like one", "GET", "/x/app.js", []string{"Host", "localhost.evil.example"}, 421},
		{"an address", "GET", "/x/app.js", []string{"Host", "[fe80::1]:80"}, 200},
		{"what is not there", "GET", "/x/other.js", nil, 404},
		{"the page, to sign in", "GET", "/x/", nil, 200},
		{"a POST to the page", "POST", "/x/", nil, 404},
	} {
		if w := ask(t, c, tc.method, tc.target, tc.headers...); w.Code != tc.status {
			t.Errorf("%s: status %d, want %d: %s", tc.name, w.Code, tc.status, w.Body)
		} else if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: got headers %v, want nosniff and same-origin", tc.name, w.Header())
		}
	}
	if body := ask(t, c, "GET", "/x/").Body.String(); strings.Contains(body, "events") || !strings.Contains(body, `name="token"`) {
		t.Errorf("without a token the page is\n%s", body)
	}
}

func TestPublicNumbers(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: tokens, Public: console.Numbers, Hosts: []string{"ops.example.com"}})
	if w := ask(t, c, "GET", "/snapshot?page=overview", "Host", "OPS.example.com:443"); w.Code != 200 || !strings.Contains(w.Body.String(), "web/events") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := ask(t, c, "POST", "/task.cancel", "Host", "ops.example.com"); w.Code != 401 {
		t.Errorf("a change without a token: status %d", w.Code)
	}
}

// The name of the user and the rights come from the embedding program.
func TestAuthorize(t *testing.T) {
	c := newConsole(t, console.Options{Authorize: func(r *http.Request) (console.Rights, string) {
		if r.Header.Get("X-User") == "" {
			return 0, ""
		}
		return console.Changes, r.Header.Get("X-User")
	}})
	if c.Token() != "" {
		t.Error("a token was drawn")
	}
	if w := ask(t, c, "GET", "/snapshot"); w.Code != 401 {
		t.Errorf("without a user: status %d", w.Code)
	}
	w := ask(t, c, "GET", "/snapshot", "X-User", "zoe")
	var got struct {
		Hello struct {
			User, Proof string
			May         []string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Hello.User != "zoe" || strings.Join(got.Hello.May, " ") != "changes numbers" {
		t.Fatalf("got %+v, %v: %s, want no error and got.Hello.User == \"zoe\" and strings.Join(got.Hello.May, \" \") == \"changes numbers\"", got, err, w.Body)
	}
	for proof, status := range map[string]int{"": 403, "00": 403, got.Hello.Proof: 400} {
		if w := ask(t, c, "POST", "/task.cancel", "X-User", "zoe", "Forebay-Page", proof); w.Code != status {
			t.Errorf("proof %q: status %d, want %d: %s", proof, w.Code, status, w.Body)
		}
	}
	if w := ask(t, c, "POST", "/task.cancel", "X-User", "yan", "Forebay-Page", got.Hello.Proof); w.Code != 403 {
		t.Errorf("the proof of another user: status %d", w.Code)
	}
}

func TestOptionsNameEveryProblem(t *testing.T) {
	_, err := console.New(newEngine(t), console.Options{
		Tokens: []console.Token{{Secret: "short", Rights: 64}}, Public: console.Changes, Hosts: []string{"a:80"},
		TrustedOrigins: []string{"example.com"}, MaxViewers: -1,
	})
	for _, want := range []string{"Tokens[0].Secret", "Tokens[0].Rights", "Public", "Hosts[0]", "TrustedOrigins[0]", "MaxViewers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "short") {
		t.Errorf("the secret is in %v", err)
	}
}

// browser is a client with cookies.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

func get(t *testing.T, client *http.Client, target string) (status int, body string) {
	t.Helper()
	resp, err := client.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// One handler, mounted in different ways. The address without its slash leads to the page, whose relative URLs lead to the console.
func TestPrefixes(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: tokens})
	mux := http.NewServeMux()
	mux.Handle("/plain/", c)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", c))
	mux.Handle("/bare", http.StripPrefix("/bare", c))
	mux.Handle("/bare/", http.StripPrefix("/bare/", c))
	mux.Handle("/whole/", http.StripPrefix("/whole/", c))
	mux.HandleFunc("/mounted/", func(w http.ResponseWriter, r *http.Request) { c.ServeHTTP(w, r) })
	mux.HandleFunc("/mounted", func(w http.ResponseWriter, r *http.Request) { c.ServeHTTP(w, r) }) // as chi does
	inner := httptest.NewServer(c)
	defer inner.Close()
	mux.HandleFunc("/proxied/", func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL, _ = url.Parse(inner.URL + strings.TrimPrefix(r.RequestURI, "/proxied"))
		out.RequestURI = ""
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for name, v := range resp.Header {
			w.Header()[name] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
	mux.Handle("/{$}", c)
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, prefix := range []string{"/", "/plain", "/plain/", "/stripped/", "/bare", "/bare/", "/whole/", "/mounted", "/mounted/", "/proxied/"} {
		client := browser(t)
		base := server.URL + strings.TrimSuffix(prefix, "/") + "/"
		if status, body := get(t, client, server.URL+prefix); status != 200 || !strings.Contains(body, `action="session"`) {
			t.Errorf("%s: got status %d, %s, want 200 and the form", prefix, status, body)
		}
		if prefix == "/" {
			continue // the other names are not mounted there
		}
		resp, err := client.PostForm(base+"session", url.Values{"token": {reader}})
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(string(body), "web/orders") || resp.Request.URL.String() != base {
			t.Errorf("%s: after signing in: got status %d at %s, %s, want 200 and web/orders at %s", prefix, resp.StatusCode, resp.Request.URL, body, base)
		}
		if status, body := get(t, client, base+"snapshot?page=overview"); status != 200 || !strings.Contains(body, "web/orders") {
			t.Errorf("%s: snapshot: got status %d, %s, want 200 and web/orders", prefix, status, body)
		}
		if status, body := get(t, client, base+"console.css"); status != 200 || !strings.Contains(body, ":root") {
			t.Errorf("%s: style: got status %d, want 200 and a style", prefix, status)
		}
	}
}

// event reads the next server-sent event.
func event(t *testing.T, r *bufio.Reader) (name, data string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && data != "":
			return name, data
		}
	}
}

// A stream begins with hello and full, continues with deltas, and ends with bye.
func TestStream(t *testing.T) {
	eng := newEngine(t)
	c, err := console.New(eng, console.Options{Tokens: tokens, MaxViewers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server := httptest.NewUnstartedServer(c)
	server.Config.WriteTimeout = 3 * time.Second // which the stream must outlive
	server.Start()
	defer server.Close()
	open := func() *http.Response {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/stream?page=overview", nil)
		r.Header.Set("Authorization", "Bearer "+reader)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	began := time.Now()
	resp := open()
	defer resp.Body.Close()
	if resp.Header.Get("X-Accel-Buffering") != "no" || !strings.Contains(resp.Header.Get("Cache-Control"), "no-transform") {
		t.Errorf("headers %v", resp.Header)
	}
	if second := open(); second.StatusCode != 503 || second.Header.Get("Retry-After") == "" {
		t.Errorf("the second of one viewer: status %d", second.StatusCode)
	}
	body := bufio.NewReader(resp.Body)
	if name, data := event(t, body); name != "hello" || !strings.Contains(data, `"user":"rita"`) || strings.Contains(data, reader) {
		t.Errorf("%s: got %s, want name == \"hello\" and strings.Contains(data, `\"user\":\"rita\"`) and !strings.Contains(data, reader)", name, data)
	}
	if name, data := event(t, body); name != "full" || !strings.Contains(data, `["web/events",`) || !strings.Contains(data, "3 rows wait") {
		t.Errorf("%s: got %s, want name == \"full\" and strings.Contains(data, `[\"web/events\",`) and strings.Contains(data, \"3 rows wait\")", name, data)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"kind":"click"}`))); err != nil {
		t.Fatal(err)
	}
	for seen := false; !seen || time.Since(began) < server.Config.WriteTimeout+time.Second; {
		name, data := event(t, body)
		if name != "delta" && name != "state" {
			t.Fatalf("got event %s, %s, want delta or state", name, data)
		}
		seen = seen || strings.Contains(data, "4 rows wait")
		if strings.Contains(data, `"order"`) {
			t.Errorf("the same order is sent again: %s", data)
		}
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	for name := ""; name != "bye"; {
		var data string
		if name, data = event(t, body); name == "bye" && !strings.Contains(data, "closed") {
			t.Errorf("bye: %s", data)
		}
	}
	if w := ask(t, c, "GET", "/snapshot?page=overview", "Authorization", "Bearer "+reader); !strings.Contains(w.Body.String(), "4 rows wait") || !strings.Contains(w.Body.String(), "engine is closed") {
		t.Errorf("after the engine was closed: %s", w.Body)
	}
}

// Close ends streams, so that a server can be shut down.
func TestCloseEndsStreams(t *testing.T) {
	c := newConsole(t, console.Options{Public: console.Numbers})
	server := httptest.NewServer(c)
	defer server.Close()
	resp, err := http.Get(server.URL + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if name, _ := event(t, body); name != "hello" {
		t.Fatal(name)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for name := ""; name != "bye"; {
		name, _ = event(t, body)
	}
	if w := ask(t, c, "GET", "/snapshot"); w.Code != 503 {
		t.Errorf("after Close: status %d", w.Code)
	}
}

// A server whose writers have no deadlines would cut each stream: the page polls.
func TestStreamNeedsDeadlines(t *testing.T) {
	c := newConsole(t, console.Options{Public: console.Numbers})
	if w := ask(t, c, "GET", "/stream"); w.Code != 204 {
		t.Errorf("status %d", w.Code)
	}
	w := ask(t, c, "GET", "/snapshot")
	if again := ask(t, c, "GET", "/snapshot", "If-None-Match", w.Header().Get("ETag")); again.Code != 304 {
		t.Errorf("an unchanged snapshot: status %d", again.Code)
	}
}

// What the policy promises holds for the document.
func TestDocument(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: tokens, Name: `<img src=x onerror=alert(1)>`})
	w := ask(t, c, "GET", "/", "Authorization", "Bearer "+reader)
	body := w.Body.String()
	nonce := regexp.MustCompile(`script-src 'nonce-(\w{20,})'`).FindStringSubmatch(w.Header().Get("Content-Security-Policy"))
	if nonce == nil || strings.Count(body, `nonce="`+nonce[1]+`"`) != strings.Count(body, "<script")+strings.Count(body, `rel="stylesheet"`)+strings.Count(body, `rel="modulepreload"`) {
		t.Fatalf("policy %s of\n%s", w.Header().Get("Content-Security-Policy"), body)
	}
	if other := ask(t, c, "GET", "/", "Authorization", "Bearer "+reader); strings.Contains(other.Header().Get("Content-Security-Policy"), nonce[1]) {
		t.Error("two documents have one nonce")
	}
	for _, bad := range []string{"<img", " style=", " onclick", "javascript:", "http://", "https://", reader} {
		if strings.Contains(body, bad) {
			t.Errorf("the document has %q", bad)
		}
	}
	for _, want := range []string{"All 2 sinks flow", "web/events", "3 rows wait", `<html lang="en"`, `<table`, `scope="row"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the document lacks %q:\n%s", want, body)
		}
	}
}
