package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// readAgain reads the table until the page is as it should be, because the numbers come from a sample, and a slow disk may take too long to show
// rows.
func (b *tab) readAgain(condition string) {
	b.t.Helper()
	const read = `(() => {
		const s = document.querySelector("section[data-page=tables]");
		if (%s) return true;
		if (window.loadsSeen === s.dataset.loads) return false;
		window.loadsSeen = s.dataset.loads;
		[...s.querySelectorAll("button")].find((n) => n.textContent === "Refresh").click();
		return false;
	})()`
	eval[bool](b, `window.loadsSeen = undefined, true`)
	b.until(fmt.Sprintf(read, condition))
}

// The last rows of a table are shown newest first, as text, with the query that reads more.
func TestTablesPage(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{
		mapping.Path("note", "note", mapping.DataType(datatype.String)), mapping.Path("card", "card", mapping.DataType(datatype.String), mapping.Secret()),
	}}}}}); err != nil {
		t.Fatal(err)
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t, "status of 404")
	b.live(url)
	b.press("gl")
	b.until(`document.querySelector("#tables-sinks option").value === "web/orders"`)
	b.write("#tables-sink", "web/orders")
	b.button("Open")
	b.until(`location.hash === "#/tables/web/orders"`)
	b.text("The table has no rows.")

	for _, body := range []string{`{"note":"","card":null}`, `{"note":"first","card":"4111"}`, "{\"note\":\"<img src=x onerror=window.owned=1>\u202eend\",\"card\":\"4111\"}"} {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	b.readAgain(`s.innerText.includes("this sink has stored 0 rows, and 3 wait.")`)
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	b.readAgain(`s.innerText.includes("this sink has stored 3 rows, and 0 wait. Last import") && s.querySelectorAll(".rows tbody tr").length === 3`)
	b.text("The last 3 rows, newest first.")
	rows := eval[string](b, `[...document.querySelectorAll(".rows tr")].map((r) => [...r.cells].map((c) => c.innerText.trim()).join(" ")).join("|")`)
	if want := `note string card string|<img src=x onerror=window.owned=1>‹U+202E›end ***|first ***|empty text NULL`; rows != want {
		t.Errorf("rows %s, want %s", rows, want)
	}
	if eval[bool](b, `window.owned !== undefined || document.querySelector("section[data-page=tables] img") !== null || document.body.innerText.includes("4111")`) {
		t.Error("a cell became markup, or a secret is shown")
	}
	b.until(`document.getElementById("tables-query").offsetParent && document.getElementById("tables-query").value.includes("/web.orders/")`)
	b.text("Query for DuckDB")
	b.button("Copy")
	b.until(`document.getElementById("announce").textContent !== ""`)

	// On a phone the table scrolls in its own box, which the keyboard reaches, and every control has a name.
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(360, 740)); err != nil {
		t.Fatal(err)
	}
	b.until(`innerWidth === 360`)
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	if !eval[bool](b, `(() => { const box = document.querySelector("[aria-label='Rows of web.orders']"); box.focus(); return document.activeElement === box; })()`) {
		t.Error("the box of the rows takes no focus")
	}
	nameless := eval[[]string](b, `[...document.querySelectorAll("button, input, select, textarea, a[href]")]
		.filter((n) => n.offsetParent !== null && !(n.getAttribute("aria-label") || n.textContent.trim() || n.labels?.length)).map((n) => n.outerHTML)`)
	if len(nameless) > 0 {
		t.Errorf("controls without a name: %q", nameless)
	}
	eval[bool](b, `location.hash = "#/tables/web/"+encodeURIComponent("<img src=x>"), true`)
	b.text("There is no sink web/<img src=x>.")
}
