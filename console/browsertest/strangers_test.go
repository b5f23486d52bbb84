package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// Names that definitions admit. Ids of sources and sinks have small letters, digits, - and _ alone, so the longest ones are the worst. See
// TestIDsOfStrangersAreRefused of the module of the engine.
var (
	longID = strings.Repeat("x", forebay.MaxIDLength)
	// strangeTable is part of an id of a table. The engine accepts any text.
	strangeTable = `../../<img src=x onerror="window.owned=1">"'` + "\u202Elbat\u200B." + strings.Repeat("w", 300)
	// strangeColumns have up to 63 bytes, without control characters.
	strangeColumns = []string{`<img src=x onerror=window.owned=1>`, `"><svg onload=window.owned=1>'`, "\u202Enmuloc\u200B\u2066", "../../{{7*7}}${1}", "__proto__", strings.Repeat("W", 63)}
	// strangeName is the display name of a sink, of 40 characters. strangeUser is the user name of a token.
	strangeName = `<b onclick=window.owned=1>` + "\u202Eeman\u200B" + strings.Repeat("N", 8)
	strangeUser = `"><svg onload=window.owned=1>` + "\u202Eresu" + strings.Repeat("U", 120)
)

// choosy is a target of folders that refuses the rows of one table, in the words of a stranger.
type choosy struct{ *dir.TableDir }

func (c choosy) Import(ctx context.Context, f *driver.File) error {
	if f.Table.ID == "refused."+strangeTable {
		return driver.Permanent(fmt.Errorf("the column %s of %s: %s%s", strangeColumns[0], f.Table.ID, hostile, strings.Repeat("m", 2000)))
	}
	return c.TableDir.Import(ctx, f)
}

// oneLine is a body of about 1 MB without a line break, and without a place where it could be broken.
var oneLine = `{"n":"no number","x":"` + strings.Repeat("0123456789abcdef", 64<<10-8) + `"}`

// strangers is an engine whose names and contents are as hostile as they can be. record is one whose body is oneLine.
func strangers(t *testing.T) (eng *forebay.Engine, cat *catalog.Catalog, record string) {
	t.Helper()
	folder := t.TempDir()
	eng, err := forebay.Open(folder, forebay.Options{Target: choosy{dir.Tables(filepath.Join(folder, "tables"))}, MaxRowBytes: 4 << 20, Buffer: buffer.Tuning{MinImportInterval: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	columns := mapping.Columns{mapping.Path("n", "n", mapping.DataType(datatype.Int64))}
	for _, name := range strangeColumns {
		columns = append(columns, mapping.Path(name, "text", mapping.DataType(datatype.String)))
	}
	often := forebay.Settings{Upload: trigger.Conditions{Interval: time.Second}, Import: trigger.Conditions{Interval: time.Second}}
	if err := eng.Define(t.Context(), forebay.Source{ID: longID, Sinks: []forebay.Sink{
		{ID: longID, OnReject: forebay.Quarantine, Table: forebay.Table{ID: strangeTable, Columns: columns}},
		{ID: "refused", Table: forebay.Table{ID: "refused." + strangeTable, Columns: mapping.Columns{mapping.UUID("id")}}, Settings: often},
	}}); err != nil {
		t.Fatal(err)
	}
	cat, err = catalog.Open(filepath.Join(folder, "catalog"), eng, catalog.Options{Extend: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	task, err := cat.CreateSource(catalog.By{Type: "user", UserName: strangeUser}, catalog.SourceSpec{
		ID: "web", Name: strangeName, Type: forebay.HTTP, Description: hostileText, Sinks: []catalog.SinkSpec{{
			ID: "events", Name: strangeName, Description: hostileText, TableID: "in.c-web.<img src=x onerror=alert(1)>" + strings.Repeat("t", 200), Columns: columns,
		}},
	})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err == nil {
		task, err = cat.UpdateSink(catalog.By{Type: "user", UserName: strangeUser}, "web", "events", catalog.SinkPatch{Columns: columns[:3], ChangeDescription: hostileText + strings.Repeat("d", 1000)})
	}
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	text, _ := json.Marshal(hostileText)
	for _, body := range []string{`{"n":1,"text":` + string(text) + `}`, `{"n":"` + strings.Repeat("x", 500) + `","text":` + string(text) + `}`, oneLine} {
		rec := &mapping.Record{
			Body: []byte(body), Format: mapping.FormatJSON, Request: mapping.RequestLine{Method: "POST", Path: "/" + hostile, Query: strings.Repeat("q", 500)}, Host: hostile,
			Header: http.Header{"X-Note": {hostile, strings.Repeat("h", 3000)}},
		}
		if _, err := eng.Ingest(t.Context(), longID, rec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"n":1,"text":`+string(text)+`}`))); err != nil {
		t.Fatal(err)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	for r, err := range eng.Sink(longID, longID).Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		record = r.ID // the last one
	}
	return eng, cat, record
}

// hostileText is the part of hostile that a JSON text of UTF-8 can contain.
var hostileText = strings.ToValidUTF8(strings.ReplaceAll(hostile, "\x00", ""), "") + "\u200B\u2066\uFEFF\u00AD"

// strangeMarkup finds text that must stay text but became something else: elements, handlers, addresses of scripts, and invisible characters.
// Fields keep their text as it is.
const strangeMarkup = `(() => {
	const bad = [];
	if (window.owned !== undefined) bad.push("a script ran");
	for (const n of document.querySelectorAll("body *")) {
		if (["IMG", "IFRAME", "OBJECT", "EMBED", "SCRIPT", "BASE"].includes(n.tagName) || (n.tagName === "svg" && !n.closest(".tank, .disk") && !n.matches(".icon, .sprite"))) bad.push(n.outerHTML.slice(0, 100));
		for (const a of n.attributes) {
			if (a.name.startsWith("on") || (["href", "src", "action"].includes(a.name) && /^\s*(javascript|data):/i.test(a.value))) bad.push(a.name + "=" + a.value.slice(0, 100));
			if (!["data-key", "value", "href", "id", "data-id"].includes(a.name) && /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(a.value)) bad.push("hidden characters in " + n.tagName + " " + a.name + ": " + JSON.stringify(a.value.slice(0, 100)));
		}
	}
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const text = texts.currentNode.data.replace(/[\n\t]/g, "");
		if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) bad.push("hidden characters in " + texts.currentNode.parentNode.tagName + ": " + JSON.stringify(text.slice(0, 100)));
	}
	return bad.slice(0, 10);
})()`

// tooWide names the elements that make the page wider than the screen, outside of boxes that scroll.
const tooWide = `document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")].filter((n) => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest(".scroll, .unseen, textarea"))
	.concat([...document.querySelectorAll("body *")].filter((n) => n.scrollWidth > n.clientWidth && n.clientWidth > 0 && getComputedStyle(n).overflowX === "visible"))
	.map((n) => n.tagName + "." + n.className + " " + n.textContent.slice(0, 60)).slice(-4).concat("the page is " + document.documentElement.scrollWidth + " wide")`

// On each page names and contents from strangers are text, no character of it is hidden, and nothing makes the page wider than a phone or a desk.
func TestNamesOfStrangers(t *testing.T) {
	eng, cat, record := strangers(t)
	nodes := func(context.Context) ([]catalog.Node, error) {
		return []catalog.Node{{Name: hostile + strings.Repeat("n", 200), Instance: strings.Repeat("i", 200), Missing: hostile, Adopted: []string{hostile, strings.Repeat("a", 300)}}}, nil
	}
	user := func(*http.Request) (console.Rights, string) { return console.AllRights, strangeUser }
	url := serve(t, newConsole(t, eng, console.Options{Authorize: user, Catalog: cat, Nodes: nodes, Name: hostile[:60] + strings.Repeat("N", 100), Version: hostile[:40]}))
	b := newTab(t)
	b.live(url)
	b.text("An operator must fix the cause")
	sink := longID + "/" + longID
	image := `<img src=x onerror="window.owned=1">`
	pages := []struct {
		address, shows string // both as text
	}{
		{"overview", image},
		{"sink/" + longID + "/refused", image},
		{"sink/" + sink, `../../` + image},
		{"quarantine?list=all&record=" + sink + ":" + record, `javascript:alert(1)`},
		{"try/web/events", "<img src=x onerror=alert(1)>"},
		{"tables/web/events", image},
		{"trace", "Request id, trace id, key or value"},
		{"defs?ref=web/events&from=1&to=2", "<b onclick=window.owned=1>‹U+202E›"},
		{"health", image},
	}
	for _, width := range []int64{360, 1280} {
		b.wide(width)
		for _, p := range pages {
			eval[bool](b, `location.hash = `+quoted("#/"+p.address)+`, true`)
			name := p.address[:strings.IndexAny(p.address+"/", "/?")]
			b.until(fmt.Sprintf(`document.documentElement.dataset.page === %q && document.querySelector("section[data-page=%[1]s]").textContent.includes(%s)`, name, quoted(p.shows)))
			if name == "trace" {
				b.find("no number") // a row that waits has none, then one has
				b.find("gnp")
				b.until(`document.querySelector("section[data-page=trace]").textContent.includes("‹U+202E›gnp")`)
			}
			if name == "quarantine" {
				b.until(`document.querySelector(".record details")`)
				eval[bool](b, `(() => { for (const d of document.querySelectorAll("section[data-page=quarantine] details")) d.open = true; return true; })()`)
			}
			if bad := eval[[]string](b, strangeMarkup); len(bad) > 0 {
				t.Errorf("%s: got %q, want len(bad) <= 0", p.address, bad)
			}
			if wide := eval[[]string](b, tooWide); len(wide) > 0 {
				t.Errorf("%s at %d pixels: got %q, want no element that is too wide", p.address, width, wide)
			}
		}
	}
	// Dialogs name the object of a change, and so does the bottom of the page while the change is in progress.
	b.wide(360)
	for address, opener := range map[string]string{"sink/" + sink: "Discard…", "quarantine?list=all": "Discard 2…", "defs?ref=web/events&from=1&to=2": "Roll back…"} {
		eval[bool](b, `location.hash = `+quoted("#/"+address)+`, true`)
		b.choose(opener)
		b.until(`document.querySelector("dialog[open]")`)
		if bad := eval[[]string](b, strangeMarkup); len(bad) > 0 {
			t.Errorf("%s of %s: %q", opener, address, bad)
		}
		if over := eval[bool](b, `document.querySelector("dialog").scrollWidth > document.querySelector("dialog").clientWidth || document.querySelector("dialog").getBoundingClientRect().right > innerWidth`); over {
			t.Errorf("%s of %s is wider than a phone", opener, address)
		}
		b.choose("Cancel")
	}
	b.goTo("sink/" + sink)
	b.choose("Flush")
	b.text("all rows are in the table, done")
	if wide := eval[[]string](b, tooWide); len(wide) > 0 {
		t.Errorf("a task at 360 pixels: %q", wide)
	}
}

// longTask records the longest task of the page, in milliseconds.
const longTask = `window.longest = 0, new PerformanceObserver((l) => { for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({ type: "longtask" }), true`

// A body of one line of 1 MB is read, edited and mapped in a page that still responds.
func TestOneLongLine(t *testing.T) {
	eng, cat, record := strangers(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	b.wide(360)
	eval[bool](b, longTask)
	took := func(what string, do func()) {
		t.Helper()
		// A loop that takes a tenth of a second if no other program runs.
		limit := max(2000, 10*eval[float64](b, `(() => {
			const begin = performance.now();
			for (let i = 0, sum = 0; i < 1e8; i++) sum += i;
			return performance.now() - begin;
		})()`))
		eval[bool](b, `window.longest = 0, true`)
		do()
		// Two frames later, it is drawn.
		eval[bool](b, `window.drawn = false, requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true; })), true`)
		b.until(`window.drawn`)
		longest := eval[float64](b, `window.longest`)
		t.Logf("%s: the longest task took %.0f ms of %.0f", what, longest, limit)
		if longest > limit {
			t.Errorf("%s: the page does not respond for %.0f ms, want at most %.0f", what, longest, limit)
		}
		if wide := eval[[]string](b, tooWide); len(wide) > 0 {
			t.Errorf("%s: got %q, want len(wide) <= 0", what, wide)
		}
	}
	took("a record", func() {
		eval[bool](b, `location.hash = `+quoted("#/quarantine?list=all&record="+longID+"/"+longID+":"+record)+`, true`)
		b.until(`document.querySelector(".record pre")?.textContent.length > 60000`)
	})
	took("its whole body", func() {
		b.button("Show more")
		b.until(`document.querySelector(".record pre")?.textContent.length === ` + itoa(len(oneLine)))
	})
	took("a field with the body", func() {
		b.button("Edit")
		b.until(`document.querySelector(".record textarea")?.value.length === ` + itoa(len(oneLine)))
	})
	took("the test of it", func() {
		b.button("Test")
		b.text("A replay would reject it again.")
	})
	took("the playground", func() {
		eval[bool](b, `location.hash = "#/try/web/events", true`)
		b.until(`document.querySelectorAll("section[data-page=try] .columns > li").length === 3`)
		b.write("#try-body", strings.Replace(oneLine, `"no number"`, "1", 1))
		b.until(`document.querySelectorAll("[aria-label=Row] tbody tr").length === 3`)
	})
}
