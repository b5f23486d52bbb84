package console_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/console"
)

func TestSessions(t *testing.T) {
	eng := newEngine(t)
	c, err := console.New(eng, console.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	signIn := func(c *console.Console, token string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/x/session", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	if len(c.Token()) < 20 {
		t.Fatalf("the drawn token is %q", c.Token())
	}
	if w := signIn(c, c.Token(), "Origin", "https://evil.example"); w.Code != 403 || len(w.Result().Cookies()) > 0 {
		t.Errorf("from another origin: status %d", w.Code)
	}
	w := signIn(c, " "+c.Token()+"\n")
	if w.Code != 303 || len(w.Result().Cookies()) != 1 {
		t.Fatalf("status %d, %v", w.Code, w.Result().Cookies())
	}
	cookie := w.Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || strings.Contains(cookie.Value, c.Token()) {
		t.Errorf("cookie %v", cookie)
	}
	session := cookie.Name + "=" + cookie.Value
	snapshot := ask(t, c, "GET", "/snapshot", "Cookie", session)
	proof := regexp.MustCompile(`"proof":"(\w+)"`).FindStringSubmatch(snapshot.Body.String())
	if snapshot.Code != 200 || proof == nil {
		t.Fatalf("status %d: %s", snapshot.Code, snapshot.Body)
	}
	if w := ask(t, c, "POST", "/task.cancel", "Cookie", session); w.Code != 403 {
		t.Errorf("a change without proof: status %d", w.Code)
	}
	if w := ask(t, c, "POST", "/task.cancel", "Cookie", session, "Forebay-Page", proof[1]); w.Code != 400 {
		t.Errorf("a change with proof: status %d: %s", w.Code, w.Body)
	}
	for i := range len(cookie.Value) {
		forged := []byte(cookie.Value)
		if forged[i] == 'A' {
			forged[i] = 'B'
		} else {
			forged[i] = 'A'
		}
		// The last character has bits that are not used.
		if w := ask(t, c, "GET", "/snapshot", "Cookie", cookie.Name+"="+string(forged)); w.Code == 200 && i < len(forged)-1 {
			t.Fatalf("a forged session holds: %s", forged)
		}
	}
	if w := ask(t, c, "POST", "/session.end", "Cookie", session); w.Code != 303 || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out: status %d, %v", w.Code, w.Result().Cookies())
	}
	if w := ask(t, c, "GET", "/snapshot", "Cookie", session); w.Code != 401 {
		t.Errorf("a copy of the cookie after signing out: status %d", w.Code)
	}

	// Another console with the same token is a restart of the program.
	again, err := console.New(eng, console.Options{Tokens: []console.Token{{Secret: c.Token(), Rights: console.Numbers}}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if w := ask(t, again, "GET", "/snapshot", "Cookie", session); w.Code != 200 {
		t.Errorf("after a restart: status %d", w.Code)
	}
	secure := signIn(again, c.Token(), "Origin", "https://127.0.0.1").Result().Cookies()
	if len(secure) != 1 || !secure[0].Secure || !strings.HasPrefix(secure[0].Name, "__Host-") || secure[0].Path != "/" {
		t.Errorf("over TLS: cookies %v", secure)
	}
	// Many wrong tokens get late responses. The right one passes meanwhile.
	const held = 50 * time.Millisecond
	console.SetSlowAnswer(again, held)
	limited := false
	for range 30 {
		began := time.Now()
		w := signIn(again, "wrong")
		if w.Code == 429 && time.Since(began) < held {
			t.Fatalf("the answer to a wrong token came after %v", time.Since(began))
		}
		limited = limited || w.Code == 429
	}
	if !limited {
		t.Error("the number of tries is not limited")
	}
	console.SetSlowAnswer(again, time.Hour)
	if w := signIn(again, c.Token()); w.Code != 303 {
		t.Errorf("the right token among wrong ones: status %d", w.Code)
	}
	if w := ask(t, again, "GET", "/snapshot", "Cookie", session); w.Code != 200 {
		t.Errorf("a session while tries are limited: status %d", w.Code)
	}
}

// streamOf opens a stream and reads its hello.
func streamOf(t *testing.T, server *httptest.Server, headers ...string) *bufio.Reader {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/stream?page=overview", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	body := bufio.NewReader(resp.Body)
	if name, data := event(t, body); name != "hello" {
		t.Fatalf("%s: got %s, want \"hello\"", name, data)
	}
	return body
}

// bye reads a stream to its end and returns why it has ended.
func bye(t *testing.T, body *bufio.Reader) string {
	t.Helper()
	for {
		if name, data := event(t, body); name == "bye" {
			return data
		}
	}
}

// A stream ends soon after its user loses a right, and after its session is signed out. Other sessions continue.
func TestStreamsEndWithTheirRights(t *testing.T) {
	var rights atomic.Uint32
	rights.Store(uint32(console.AllRights))
	c := newConsole(t, console.Options{Tokens: tokens, Authorize: func(r *http.Request) (console.Rights, string) {
		if r.Header.Get("X-User") == "" {
			return 0, ""
		}
		return console.Rights(rights.Load()), "zoe"
	}})
	console.SetRightsEvery(c, 0)
	server := httptest.NewServer(c)
	defer server.Close()
	body := streamOf(t, server, "X-User", "zoe")
	if name, _ := event(t, body); name != "full" {
		t.Fatal(name)
	}
	if name, data := event(t, body); name == "bye" { // checked again, with the same rights
		t.Fatal(data)
	}
	rights.Store(uint32(console.Numbers))
	if why := bye(t, body); !strings.Contains(why, "session") {
		t.Errorf("after a right was lost: bye %s", why)
	}
	rights.Store(0)
	if w := ask(t, c, "GET", "/stream", "X-User", "zoe"); w.Code != 401 {
		t.Errorf("without a right: status %d", w.Code)
	}
	_ = c.Close()
}

func TestSigningOutEndsStreams(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: tokens})
	console.SetRightsEvery(c, time.Hour) // so that only the end of the session makes it look
	server := httptest.NewServer(c)
	defer server.Close()
	cookie := func() string {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.PostForm(server.URL+"/session", url.Values{"token": {reader}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	}
	mine, other := cookie(), cookie()
	ends, stays := streamOf(t, server, "Cookie", mine), streamOf(t, server, "Cookie", other)
	if w := ask(t, c, "POST", "/session.end", "Cookie", mine); w.Code != 303 {
		t.Fatalf("status %d", w.Code)
	}
	if why := bye(t, ends); !strings.Contains(why, "session") {
		t.Errorf("bye %s", why)
	}
	for range 3 { // full, and two samples
		if name, data := event(t, stays); name == "bye" {
			t.Errorf("another session: bye %s", data)
		}
	}
	_ = c.Close()
}

// Every call that changes something refuses a parameter in its address and an unknown member of its body, and says its name or that it takes none.
func TestChangesRefuseWhatTheyDoNotKnow(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: threeTokens})
	names := console.Changing(c)
	if len(names) < 10 {
		t.Errorf("the calls that change something are %q", names)
	}
	for _, name := range names {
		if w := send(t, c, "/"+name+"?filter=x", operator, obj{}); w.Code != 400 || !strings.Contains(w.Body.String(), "no parameters") {
			t.Errorf("%s with a parameter: status %d, %s, want 400", name, w.Code, w.Body)
		}
		if w := send(t, c, "/"+name, operator, obj{"surprise": 1}); w.Code != 400 || !strings.Contains(w.Body.String(), "surprise") {
			t.Errorf("%s with an unknown member: status %d, %s, want 400 and its name", name, w.Code, w.Body)
		}
	}
}
