package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// wide sets the width of the page.
func (b *tab) wide(width int64) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)); err != nil {
		b.t.Fatal(err)
	}
	b.until(`innerWidth === ` + itoa(int(width)))
}

// Numbers stand below the heads of their columns, the sentence has most of the width, and no big figure is a word.
func TestOverviewTable(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	ingest(t, eng, "web", 12)
	b.text(`columns differ`)
	b.wide(1280)
	const heads = `[...document.querySelectorAll("#sinks thead th.n")].map((th) => {
		const cell = document.querySelector('#sinks tbody tr[data-key="web/orders"]').cells[th.cellIndex];
		const right = (n) => { const r = document.createRange(); r.selectNodeContents(n); return r.getBoundingClientRect().right; };
		return [th.textContent, Math.abs(right(th) - right(cell.querySelector("span")))];
	}).filter(([, by]) => by > 2).map(([name, by]) => name + " by " + by)`
	if off := eval[[]string](b, heads); len(off) > 0 {
		t.Errorf("numbers do not stand below their heads: %q", off)
	}
	if share := eval[float64](b, `document.querySelector("#sinks th.wide").offsetWidth / document.querySelector("#sinks").offsetWidth`); share < 0.35 {
		t.Errorf("the sentence has %.0f %% of the width", share*100)
	}
	for _, figure := range eval[[]string](b, `[...document.querySelectorAll(".tile .value")].map((n) => n.textContent)`)[3:] {
		if figure != "0" {
			t.Errorf("the figure of what is not in a table is %q", figure)
		}
	}
	b.text("rejected 0, in quarantine 0")
	b.text("Rows expire ")
}

// The row that an event makes is visible together with the event, on a desk of any width.
func TestPlaygroundFold(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.playground(url)
	b.write("#try-body", `{"kind":"12"}`)
	b.until(`document.querySelectorAll("[aria-label=Row] tbody tr").length === 3`)
	for _, width := range []int64{1440, 1280, 1024} {
		b.wide(width)
		if bottom := eval[float64](b, `document.querySelector("[aria-label=Row] tbody").getBoundingClientRect().bottom`); bottom > 700 {
			t.Errorf("at %d pixels the row ends at %.0f", width, bottom)
		}
		if over := eval[int](b, `document.documentElement.scrollWidth`); over > int(width) {
			t.Errorf("at %d pixels the page is %d wide", width, over)
		}
	}
}

// On a phone the head of the page is two lines high: the name with the menu, and the pages, scrolled to the current one.
func TestPhoneHead(t *testing.T) {
	eng, cat := newCatalog(t)
	c := newConsole(t, eng, console.Options{Name: "node-a", Catalog: cat})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	b.wide(390)
	for _, page := range []string{"overview", "health"} {
		eval[string](b, `location.hash = "#/`+page+`"`)
		b.until(`document.querySelector("#links a[aria-current]")?.hash === "#/` + page + `"`)
		if high := eval[float64](b, `document.querySelector("header").offsetHeight`); high > 85 {
			t.Errorf("the head of page %s is %.0f px high, want at most 85", page, high)
		}
		if !eval[bool](b, `(() => { const a = document.querySelector("#links a[aria-current]").getBoundingClientRect(); return a.left >= 0 && a.right <= innerWidth; })()`) {
			t.Errorf("the link of page %s is out of sight", page)
		}
	}
}

// A long name of a console is cut, with all of it as its title, and leaves the head as high as it is without.
func TestLongNameOfAConsole(t *testing.T) {
	eng, cat := newCatalog(t)
	name := "forebay-" + strings.Repeat("ingest-", 12) + "0"
	url := serve(t, newConsole(t, eng, console.Options{Name: name, Catalog: cat, Authorize: everything}))
	b := newTab(t)
	b.live(url)
	b.until(`document.querySelectorAll("#links a").length > 5`)
	for width, most := range map[int64]float64{1280: 60, 390: 85} {
		b.wide(width)
		if high := eval[float64](b, `document.querySelector("header").offsetHeight`); high > most {
			t.Errorf("at %d pixels the head is %.0f px high, want at most %.0f", width, high, most)
		}
		if title := eval[string](b, `document.querySelector(".brand .name").title`); title != name {
			t.Errorf("the title of the name is %q", title)
		}
	}
}

// On the page of a blocked sink, the actions are directly below the problem, and on a phone each value of a file has a label.
func TestBlockedSink(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	ingest(t, eng, "web", 2)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url + "#/sink/web/orders")
	b.text("Import fails: columns differ")
	b.until(button("Retry now"))
	if gap := eval[float64](b, button("Retry now")+`.getBoundingClientRect().top - document.querySelector("section[data-page=sink] p.why").getBoundingClientRect().bottom`); gap < 0 || gap > 40 {
		t.Errorf("Retry now is %.0f px below the error", gap)
	}
	if heads := eval[string](b, `[...document.querySelectorAll("table.causes thead th")].map((n) => n.textContent).join()`); heads != "Cause,Since,Files,Rows,Next attempt in,Rows expire,To do" {
		t.Errorf("the heads are %s", heads)
	}
	b.wide(390)
	for _, label := range []string{"Opened", "Closed because"} {
		if shown := eval[string](b, `getComputedStyle(document.querySelector('.files td[data-label="`+label+`"]'), "::before").content`); !strings.Contains(shown, label) && !strings.Contains(shown, "attr(") {
			t.Errorf("%s of a file has the label %s on a phone", label, shown)
		}
	}
	if share := eval[float64](b, `document.querySelector(".causes tbody th").offsetWidth / document.querySelector(".causes tbody tr").offsetWidth`); share < 0.9 {
		t.Errorf("on a phone the cause has %.0f %% of the width", share*100)
	}
}

// Numbers of the rows of a table stand at the right, as their heads do.
func TestNumbersOfTables(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{
		mapping.Path("a long head of numbers", "n", mapping.DataType(datatype.Int64)), mapping.Path("note", "note", mapping.DataType(datatype.String)),
	}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"n":1,"note":"x"}`, `{"n":1000000,"note":"y"}`} {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url + "#/tables/web/orders")
	b.readAgain(`s.querySelectorAll(".rows tbody tr").length === 2`)
	if aligned := eval[string](b, `[...document.querySelectorAll(".rows tr")].map((r) => [...r.cells].map((c) => getComputedStyle(c).textAlign).join()).join("|")`); aligned != "right,left|right,left|right,left" {
		t.Errorf("the cells are aligned %s", aligned)
	}
}
