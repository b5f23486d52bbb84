package browsertest

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay/console"
)

// Sorting, pages and the Retry of a row work.
func TestOverviewSteps(t *testing.T) {
	eng := newEngine(t, 2, 40)
	ingest(t, eng, "web1", 2)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.text("1–50 of 80")
	first := func(key string) {
		t.Helper()
		b.until(fmt.Sprintf(`document.querySelector("#sinks tbody tr").dataset.key === %q`, key))
	}
	first("web0/sink00")
	b.click(`th[data-sort="name"] button`)
	b.until(`document.querySelector('th[data-sort="name"]').getAttribute("aria-sort") === "ascending"`)
	b.click(`th[data-sort="name"] button`)
	first("web1/sink39")
	b.until(`location.hash === "#/overview?sort=-name" && document.querySelector('th[data-sort="name"]').getAttribute("aria-sort") === "descending"`)
	b.click("#after")
	b.text("51–80 of 80")
	first("web0/sink29")
	b.click("#before")
	first("web1/sink39")
	b.click(`th[data-sort="local"] button`)
	first("web1/sink00")
}

func TestOverviewRetry(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	ingest(t, eng, "web", 4)
	b.until(`document.querySelector('tr[data-key="web/orders"] .why button')?.getAttribute("aria-label") === "Retry now: web/orders"`)
	target.on.Store(false)
	b.click(`tr[data-key="web/orders"] .why button`)
	b.until(`document.querySelector('tr[data-key="web/orders"]').cells[6].textContent === "4" && !document.querySelector('tr[data-key="web/orders"] .why button')`)
}

// The page stops waiting for a task, and the work that the task has begun continues.
func TestStopWaiting(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	ingest(t, eng, "web", 4)
	c := newConsole(t, eng, console.Options{})
	url := serve(t, c)
	b := newTab(t)
	b.signIn(c, url)
	b.goTo("sink/web/slow")
	b.choose("Flush")
	b.choose("Stop waiting")
	b.text("cancelled")
	b.until(`!` + button("Stop waiting"))
	target.on.Store(false)
	b.choose("Flush")
	b.text("4 accepted = 4 in table")
}

// The filters of the quarantine select, and one record is saved, replayed and discarded by itself. Lists continue where they end.
func TestQuarantineSteps(t *testing.T) {
	eng := newQuarantine(t, 60)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url + "#/quarantine")
	b.text("2 groups, 61 records")
	b.write("#q-column", "price")
	b.text("1 group, 60 records")
	b.write("#q-column", "")
	b.text("2 groups, 61 records")
	b.write("#q-reason", "malformed")
	b.text("1 group, 60 records")
	b.write("#q-reason", "")
	b.text("2 groups, 61 records")
	b.write("#q-text", "no such text")
	b.text("No record matches the filter.")
	b.write("#q-text", "")
	b.write("#q-content", `"id":7,`)
	b.text("1 group, 1 record")
	b.write("#q-content", "")
	b.text("2 groups, 61 records")
	b.write("#q-time", "1h")
	b.text("2 groups, 61 records")
	b.until(`location.hash.includes("time=1h")`)

	b.button("List all")
	b.until(`document.querySelectorAll(".records tbody tr").length === 50`)
	b.button("More records")
	b.until(`document.querySelectorAll(".records tbody tr").length === 61 && !` + button("More records"))

	b.button("Open")
	b.button("Edit")
	b.write(".record textarea", `{"id":1,"price":2}`)
	b.button("Save")
	b.text("Saved. It is a row when it is replayed.")
	if n := eng.Stats().Sinks[0].Accepted; n != 0 {
		t.Errorf("Save has stored %d rows", n)
	}
	b.button("Replay")
	b.text("The record is a row now.")
	b.button("Close the record")
	b.text("60 records in 1 sink")
	b.button("Open")
	b.button("Discard…")
	b.until(`document.activeElement.textContent === "Cancel"`)
	b.button("Discard")
	b.text("59 records in 1 sink")
	if k := eng.Stats().Sinks[0]; k.Accepted != 1 || k.Quarantine.Records != 59 || k.Quarantine.Discarded != 1 {
		t.Errorf("got %d rows, %+v, want 1 row, 59 records, 1 discarded", k.Accepted, k.Quarantine)
	}
}

// Columns are added, moved and removed, get options, and an event is taken from the quarantine.
func TestPlaygroundColumns(t *testing.T) {
	eng := newQuarantine(t, 1)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t, "status of 422")
	b.live(url + "#/try/web/orders")
	b.until(`document.querySelectorAll("#try-pick option").length === 3`)
	b.write("#try-pick", eval[string](b, `[...document.querySelectorAll("#try-pick option")].find((o) => o.textContent.includes("price")).value`))
	b.until(`document.querySelector("#try-body").value.includes("12,5")`)
	b.text("Rejected because of malformed")
	b.button("Add a column")
	b.until(`document.querySelectorAll(".columns > li").length === 3 && document.activeElement.closest("li") === document.querySelector(".columns > li:nth-child(3)")`)
	b.write(column(3, "name"), "sort")
	b.write(column(3, "path"), "sort")
	eval[bool](b, `document.querySelector(".columns > li:nth-child(3) details").open = true`)
	b.write(column(3, "default"), `"none"`)
	eval[bool](b, `document.querySelector(".columns > li:nth-child(3) [aria-label='Move up']").click(), true`)
	b.until(`document.querySelector(` + quoted(column(2, "name")) + `).value === "sort" && document.querySelector(".columns > li:nth-child(2) > [role=group]").getAttribute("aria-label") === "Column 2"`)
	eval[bool](b, `document.querySelector(".columns > li:nth-child(3) [aria-label='Remove this column']").click(), true`)
	b.row("id int64, required 0", "sort string none")
	if n := eng.Stats().Sinks[0].Accepted; n != 0 {
		t.Errorf("%d rows are stored, want 0", n)
	}
}
