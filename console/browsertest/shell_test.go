package browsertest

import (
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/internal/porttest"
)

var public = console.Options{Public: console.Numbers, Name: "node-a"}

// Numbers follow the engine's intake, without a reload.
func TestLive(t *testing.T) {
	eng := newEngine(t, 1, 2)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.text("No row yet.")
	b.text("live")
	eval[bool](b, `window.kept = document.querySelector("#sinks tbody tr"), true`)
	ingest(t, eng, "web0", 7)
	b.text("7 rows wait")
	if !eval[bool](b, `window.kept.isConnected && window.kept.textContent.includes("7 rows wait")`) {
		t.Error("the row was replaced")
	}
	if title := eval[string](b, `document.title`); title == "" || title[len(title)-len("· node-a · forebay"):] != "· node-a · forebay" {
		t.Errorf("title %q", title)
	}
}

// The page shows within seconds that its numbers are old, and continues by itself when the server is back.
func TestServerAwayAndBack(t *testing.T) {
	eng := newEngine(t, 1, 1)
	c := newConsole(t, eng, public)
	addr, err := porttest.Addresses(1) // which no connection gets while there is no listener
	if err != nil {
		t.Fatal(err)
	}
	start := func() *http.Server {
		l, err := net.Listen("tcp", addr[0])
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: c}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := start()
	b := newTab(t, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
	b.live("http://" + addr[0] + "/")
	b.text("live")
	_ = s.Close()
	began := time.Now()
	b.until(`document.documentElement.dataset.mode === "away" && document.documentElement.hasAttribute("data-stale")`)
	b.text("server away since")
	t.Logf("away is shown after %v", time.Since(began))
	ingest(t, eng, "web0", 3)
	began = time.Now()
	start()
	b.until(`document.documentElement.dataset.mode === "live" && !document.documentElement.hasAttribute("data-stale")`)
	t.Logf("live again after %v", time.Since(began))
	b.text("3 rows wait")
}

// A program that starts again, with another engine, another proof and counters from zero, is live on the open page within seconds.
func TestRestart(t *testing.T) {
	addr, err := porttest.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	start := func(rows int) (stop func()) {
		eng := newEngine(t, 1, 1)
		ingest(t, eng, "web0", rows)
		c := newConsole(t, eng, console.Options{Authorize: everything})
		l, err := net.Listen("tcp", addr[0])
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: c}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		return func() {
			_ = s.Close()
			_ = c.Close()
			_ = eng.Close()
		}
	}
	stop := start(9)
	b := newTab(t, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
	b.live("http://" + addr[0] + "/")
	b.text("9 rows wait")
	b.until(`document.querySelector(".charts canvas")`) // all scripts are loaded
	eval[bool](b, `window.notLoadedAgain = true`)
	gone := time.Now()
	stop()
	b.until(`document.documentElement.hasAttribute("data-stale")`)
	if d := time.Since(gone); d > 5*time.Second {
		t.Errorf("the page says after %v that its numbers are old", d)
	}
	start(2)
	back := time.Now()
	b.until(`document.documentElement.dataset.mode !== "away" && !document.documentElement.hasAttribute("data-stale") && document.body.innerText.includes("2 rows wait")`)
	d := time.Since(back)
	t.Logf("live again after %v", d)
	if d > 5*time.Second {
		t.Errorf("the page is live again after %v", d)
	}
	b.until(`document.documentElement.dataset.mode === "live"`)
	if !eval[bool](b, `window.notLoadedAgain === true`) {
		t.Error("the page was loaded again")
	}
	b.goTo("sink/web0/sink00")
	b.choose("Flush") // with the proof of the new program
	b.text("Flush web0/sink00: all rows are in the table, done")
	b.text("2 accepted = 2 in table")
}

// Where streams are held back the page polls. Unchanged numbers are not sent again, and changed numbers are.
func TestPolling(t *testing.T) {
	eng := newEngine(t, 1, 1)
	c := newConsole(t, eng, public)
	var unchanged atomic.Int64
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		c.ServeHTTP(&statusWriter{w, &unchanged}, r)
	}))
	b := newTab(t)
	b.live(url)
	b.text("every 2 s")
	b.text("The sink is idle. Nothing waits.")
	b.waitFor("an answer that nothing has changed", func() bool { return unchanged.Load() > 0 })
	ingest(t, eng, "web0", 5)
	b.text("5 rows wait")
	b.goTo("sink/web0/sink00")
	b.text("5 accepted = ")
	b.goTo("overview")
	b.until(`document.querySelectorAll("#sinks tbody tr").length === 1`)
}

// statusWriter counts 304 responses.
type statusWriter struct {
	http.ResponseWriter
	unchanged *atomic.Int64
}

func (w *statusWriter) WriteHeader(status int) {
	if status == http.StatusNotModified {
		w.unchanged.Add(1)
	}
	w.ResponseWriter.WriteHeader(status)
}

func TestPause(t *testing.T) {
	eng := newEngine(t, 1, 1)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.press("p")
	b.text("paused")
	seq := eval[string](b, `document.documentElement.dataset.seq`)
	ingest(t, eng, "web0", 5)
	b.text("numbers are 3 s old") // three samples have passed
	if now := eval[string](b, `document.documentElement.dataset.seq`); now != seq {
		t.Errorf("a paused page took messages %s to %s", seq, now)
	}
	b.click("#pause")
	b.text("5 rows wait")
}

// Signing in works, changes the links, and ends.
func TestSignIn(t *testing.T) {
	eng := newEngine(t, 1, 1)
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t, "429", "403", "401")
	b.open(url)
	b.until(`document.activeElement.name === "token"`)
	b.press("this is not the token\r")
	b.text("The server does not know this token.")
	b.until(`document.readyState === "complete" && document.activeElement.name === "token"`)
	b.press(c.Token() + "\r")
	b.until(`document.documentElement.dataset.seq > 0`)
	b.text("web0/sink00")
	if cookies := eval[string](b, `document.cookie`); cookies != "" {
		t.Errorf("scripts read the cookie: %s", cookies)
	}

	// Another tab of the same browser says that the session has ended, without being loaded again.
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)); err != nil { // the first action opens the tab, until its context ends
		t.Fatal(err)
	}
	other := &tab{t: t, ctx: ctx}
	other.live(url)
	b.openMenu()
	b.click(`form[action="session.end"] button`)
	b.until(`document.querySelector('input[name="token"]')`)
	other.text("the session has ended")
}
