package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay/console"
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

// The row that an event makes is in sight beside the event, on a desk of any width.
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
