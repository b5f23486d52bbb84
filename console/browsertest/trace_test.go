package browsertest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/stream"
)

// find fills in the form of the page and waits for the result.
func (b *tab) find(text string) {
	b.t.Helper()
	before := eval[string](b, `document.querySelector("section[data-page=trace]").dataset.finds || "0"`)
	eval[bool](b, `(() => { const field = document.getElementById("trace-text"); field.value = ""; field.focus(); return true; })()`)
	b.press(text + "\r")
	b.until(`(document.querySelector("section[data-page=trace]").dataset.finds || "0") !== ` + quoted(before))
}

// An event is followed by its key, and by a value, until it is in the table.
func TestTrace(t *testing.T) {
	eng, _ := newShop(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	def, _ := eng.Source("web")
	def.Secret = strings.Repeat("s", 48)
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/stream/1/web/"+def.Secret, strings.NewReader("{\"kind\":\"<img src=x onerror=window.owned=1>\u202Eparcel\"}"))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "order-7")
	w := httptest.NewRecorder()
	if stream.Ingest(eng, stream.Options{}).ServeHTTP(w, r); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	b := newTab(t)
	b.live(url + "#/trace")
	b.until(`document.querySelectorAll("#trace-sources option").length === 1`)
	b.find("order-7")
	b.text("Call at web/orders")
	b.text("Call at web/slow")
	b.text("Not in the table web.slow yet. Next upload in")
	b.text("Keys are kept for 24 h.")

	b.find(w.Header().Get("X-Request-Id"))
	b.text("A request with this id came at")
	b.text("Rows of that time at web/orders")
	b.text("Rows of that time at web/slow")

	b.find("parcel")
	b.text("No call with this key or trace id is known.")
	b.text("Row of web/slow")
	b.text(`<img src=x onerror=window.owned=1>‹U+202E›parcel`)
	if eval[bool](b, `window.owned !== undefined || document.querySelector("main img") !== null`) {
		t.Error("a cell became markup")
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	b.find("parcel")
	b.text("No call with this key or trace id is known. No waiting row has this value.")
	b.find("order-7")
	b.text("In the table web.slow.")
	if steps := eval[[]string](b, `[...document.querySelectorAll(".pane:last-child .steps strong")].map((n) => n.textContent)`); !strings.HasSuffix(strings.Join(steps, " "), "File Table") {
		t.Errorf("steps %q", steps)
	}

	// On a phone, for readers of screens, and from the keyboard.
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(360, 740)); err != nil {
		t.Fatal(err)
	}
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	nameless := eval[[]string](b, `[...document.querySelectorAll("button, input, select, textarea, a[href]")]
		.filter((n) => n.offsetParent !== null && !(n.getAttribute("aria-label") || n.textContent.trim() || n.labels?.length)).map((n) => n.outerHTML)`)
	if len(nameless) > 0 {
		t.Errorf("controls without a name: %q", nameless)
	}
	eval[bool](b, `document.activeElement.blur(), location.hash = "#/overview", true`)
	b.until(`document.documentElement.dataset.page === "overview"`)
	b.press("ge")
	b.until(`location.hash === "#/trace"`)
}
