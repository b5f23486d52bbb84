package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// everything gives all rights without a token.
func everything(*http.Request) (console.Rights, string) { return console.AllRights, "olga" }

// newQuarantine has a sink web/orders with n records whose price is malformed and one that is hostile.
func newQuarantine(t *testing.T, n int) *forebay.Engine {
	t.Helper()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	err = eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("price", "price", mapping.DataType(datatype.Int64)),
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"id":%d, "price":"12,5","big":9007199254740993}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := json.Marshal(hostile)
	if _, err := eng.Ingest(t.Context(), "web", &mapping.Record{
		Body: []byte(`{"price":1,"note":` + string(text) + "," + `"raw":"` + strings.ReplaceAll(strings.ReplaceAll(hostile, `"`, "'"), "\x00", "") + `"}`), Format: mapping.FormatJSON,
		Header: http.Header{"X-Note": {hostile}}, Request: mapping.RequestLine{Method: "POST", Path: "/" + hostile},
	}); err != nil {
		t.Fatal(err)
	}
	return eng
}

// button clicks the first button with a text that is visible.
func (b *tab) button(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	find := `[...document.querySelectorAll("dialog[open] button, section:not([hidden]) button")].find((n) => (document.querySelector("dialog[open]")?.contains(n) ?? true) && n.offsetParent !== null && !n.disabled && n.textContent === ` + string(quoted) + `)`
	b.until(find)
	eval[bool](b, find+`.click(), true`)
}

// Groups, the list, one record with its row, edit, test and replay; then all others by their filter.
func TestQuarantinePage(t *testing.T) {
	eng := newQuarantine(t, 6)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url)
	b.press("gq")
	b.text("7 records in 1 sink")
	b.text("2 groups, 7 records")
	b.text(`malformed: column "price": int64`)
	b.button("List")
	b.until(`document.querySelectorAll(".records tbody tr").length === 6`)
	b.button("Open")
	b.text(`{"id":0, "price":"12,5","big":9007199254740993}`)
	b.text("A replay would reject it again.")
	b.until(`document.activeElement.matches(".record h2")`)
	b.button("Edit")
	b.until(`document.activeElement.matches(".record textarea")`)
	write := func(text string) {
		quoted, _ := json.Marshal(text)
		eval[bool](b, `(() => { const a = document.querySelector(".record textarea"); a.value = `+string(quoted)+`; a.dispatchEvent(new Event("input")); return true; })()`)
	}
	write(`{"id":70,"price":"x"}`)
	b.button("Test")
	b.text(`"x"`)
	write(`{"id":70,"price":71}`)
	b.button("Test")
	b.text("A replay would store it.")
	if n := eng.Stats().Sinks[0].Accepted; n != 0 {
		t.Errorf("a test has stored %d rows", n)
	}
	b.button("Save and replay")
	b.text("The record is a row now.")
	b.text("6 records in 1 sink")
	if n := eng.Stats().Sinks[0].Accepted; n != 1 {
		t.Errorf("%d rows were stored, want 1", n)
	}
	b.button("Close the record")
	b.button("Replay 5…")
	b.until(`document.activeElement.textContent === "Cancel"`)
	b.button("Replay")
	b.text("0 replayed, 5 rejected again, 0 gone before, done")
	b.button("Discard 5…")
	b.text("Discard 5 records of web/orders, malformed, column price?")
	b.button("Cancel")
	b.button("Discard 5…")
	b.button("Discard")
	b.text("5 discarded, 0 gone before, done")
	b.text("1 record in 1 sink")
	b.text("1 group, 1 record")
	if n := eng.Stats().Sinks[0].Quarantine.Records; n != 1 {
		t.Errorf("%d records are left, want 1", n)
	}
}

// What strangers have sent is text with marks, at the width of a phone too, and every control has a name.
func TestQuarantineOfStrangers(t *testing.T) {
	eng := newQuarantine(t, 0)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t, "status of 404")
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(360, 740)); err != nil {
		t.Fatal(err)
	}
	b.open(url + "#/quarantine?list=all")
	b.button("Open")
	if n := eval[int](b, `[...document.querySelectorAll("#page > section")].filter((n) => !n.hidden).length`); n != 1 {
		t.Errorf("%d pages are shown at once, want 1", n)
	}
	b.text(`javascript:alert(1) {{7*7}} ${window.owned=1} ‹U+202E›gnp.exe‹U+202C›`)
	if eval[bool](b, `window.owned !== undefined || document.querySelector("section[data-page=quarantine] :is(img, svg:not(.icon)), header img") !== null`) {
		t.Error("a text became markup")
	}
	eval[bool](b, `document.querySelector(".record details").open = true`)
	b.text("X-Note")
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	b.button("Edit")
	b.text("It is not UTF-8, so a text field would change it.")
	nameless := eval[[]string](b, `[...document.querySelectorAll("button, input, select, textarea, a[href]")]
		.filter((n) => n.offsetParent !== null && !(n.getAttribute("aria-label") || n.textContent.trim() || n.labels?.length || n.getAttribute("aria-labelledby"))).map((n) => n.outerHTML)`)
	if len(nameless) > 0 {
		t.Errorf("controls without a name: %q", nameless)
	}
	// What is in the address is from strangers too.
	b.open(url + "#/quarantine?sink=%3Cimg%20src%3Dx%20onerror%3D%22window.owned%3D1%22%3E&group=%5B1%5D&record=%3Cb%3E")
	b.text("This record is not in the quarantine")
	if eval[bool](b, `window.owned !== undefined || document.querySelector("main img, section[data-page=quarantine] b") !== null`) {
		t.Error("the address became markup")
	}
}

// Who may see and not change has no buttons that change.
func TestQuarantineToLookAt(t *testing.T) {
	eng := newQuarantine(t, 1)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: func(*http.Request) (console.Rights, string) { return console.Records, "vera" }}))
	b := newTab(t)
	b.open(url + "#/quarantine?list=all")
	b.text("2 records in 1 sink") // rights come with the first message
	b.button("Open")
	b.text("A replay would reject it again.")
	for _, word := range []string{"Replay", "Discard", "Save"} {
		if eval[bool](b, `[...document.querySelectorAll("button")].some((n) => n.textContent.startsWith("`+word+`"))`) {
			t.Errorf("there is a button %q", word)
		}
	}
	b.button("Try another body")
	b.button("Test")
	b.button("Cancel")
	b.text("Try another body")
}

// The reason of a discard is asked for and logged, for one record and for many. It may be empty, keys in its field are text, and a cancelled
// dialog leaves no trace.
func TestReasonsOfDiscards(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	logged := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))
	eng := newQuarantine(t, 5)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Logger: logger}))
	b := newTab(t)
	b.live(url + "#/quarantine?reason=malformed&list=all")
	b.until(`document.querySelectorAll(".records tbody tr").length === 5`)
	left := func() int64 { return int64(eng.Stats().Sinks[0].Quarantine.Records) }

	b.button("Open")
	b.text("A replay would reject it again.")
	b.button("Discard…")
	b.until(`document.activeElement.textContent === "Cancel"`)
	if label := eval[string](b, `document.querySelector("dialog[open] #why").labels[0].textContent`); label != "Reason, for the log: " {
		t.Errorf("the field has the label %q", label)
	}
	address := eval[string](b, `location.href`)
	b.click("dialog[open] #why")
	const reason = `gb ?j/p "sent by a probe" <b>`
	b.press(reason)
	b.press(kb.Enter)
	if got := eval[string](b, `document.querySelector("dialog[open] #why").value`); got != reason {
		t.Errorf("the field has %q, want %q", got, reason)
	}
	if now := eval[string](b, `location.href`); now != address {
		t.Errorf("keys in the field lead to %s", now)
	}
	b.button("Cancel")
	b.until(`!document.querySelector("dialog[open]")`)
	if n := left(); n != 6 || strings.Contains(logged(), "probe") {
		t.Errorf("after Cancel %d records are left; the log is %s", n, logged())
	}
	b.button("Discard…")
	b.until(`document.querySelector("dialog[open] #why").value === ""`)
	b.click("dialog[open] #why")
	b.press(reason)
	b.button("Discard")
	b.text("The record is discarded.")
	b.waitFor("the reason in the log", func() bool {
		return strings.Contains(logged(), `why="gb ?j/p \"sent by a probe\" <b>"`)
	})
	b.text("5 records in 1 sink")

	b.button("Open") // without a reason
	b.text("A replay would reject it again.")
	b.button("Discard…")
	b.button("Discard")
	b.text("4 records in 1 sink")
	b.waitFor("a reason that is empty in the log", func() bool { return strings.Contains(logged(), `why=""`) })

	b.button("Discard 3…")
	b.text("Discard 3 records")
	b.click("dialog[open] #why")
	b.press(strings.Repeat("x", 240) + " and what is too much")
	long := strings.Repeat("x", 240) + " and what "
	if got := eval[string](b, `document.querySelector("dialog[open] #why").value`); got != long {
		t.Errorf("the field takes %d characters, want %d", len(got), len(long))
	}
	b.button("Discard")
	b.text("3 discarded, 0 gone before, done")
	b.text("1 record in 1 sink")
	b.waitFor("the reason of the task in the log", func() bool {
		return strings.Count(logged(), `why="`+long+`"`) == 2 // of the call, and of its outcome
	})
	if n := left(); n != 1 {
		t.Errorf("%d records are left, want 1", n)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
