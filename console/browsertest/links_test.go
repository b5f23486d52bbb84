package browsertest

import (
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
)

// From a sink lead links to its rejected records, rows, columns and versions. Who goes back finds the focus where it was, and who opens a page has it there.
func TestLinksOfASink(t *testing.T) {
	eng, cat, _ := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	b.until(`document.querySelector('tr[data-key="shop/orders"] td[data-label="Rejected"] a')`)
	eval[bool](b, `document.querySelector('tr[data-key="shop/orders"] th a').focus(), true`)
	b.press("\r")
	b.until(`location.hash === "#/sink/shop/orders" && document.activeElement.id === "page"`)
	follow := func(sink, text, hash, shows string) {
		t.Helper()
		b.until(`[...document.querySelectorAll(".around a")].some((a) => a.textContent === ` + quoted(text) + `)`)
		eval[bool](b, `window.link = [...document.querySelectorAll(".around a")].find((a) => a.textContent === `+quoted(text)+`), window.link.focus(), true`)
		b.press("\r")
		b.until(`location.hash === ` + quoted(hash) + ` && document.activeElement.id === "page"`)
		b.text(shows)
		eval[bool](b, `history.back(), true`)
		b.until(`location.hash === ` + quoted("#/sink/"+sink) + ` && document.activeElement === window.link`)
	}
	follow("shop/orders", "Rejected records: 1", "#/quarantine?sink=shop%2Forders", "1 record in 1 sink")
	eval[bool](b, `history.back(), true`)
	b.until(`document.activeElement === document.querySelector('tr[data-key="shop/orders"] th a')`)
	eval[bool](b, `location.hash = "#/sink/web/events", true`)
	follow("web/events", "Last rows", "#/tables/web/events", "Refresh")
	follow("web/events", "Playground", "#/try/web/events", "Columns")
	follow("web/events", "Versions", "#/defs?ref=web%2Fevents", "Versions of web/events")
}

// A sink in trouble leads to its section of the runbook, which is there.
func TestRunbookOfASink(t *testing.T) {
	eng, target := newShop(t)
	target.on.Store(true)
	ingest(t, eng, "web", 2)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url + "#/sink/web/orders")
	b.until(`[...document.querySelectorAll(".around a")].some((a) => a.textContent === "Runbook")`)
	script, err := os.ReadFile("../web/sink.js")
	if err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "const sections = {")
	list, _, _ = strings.Cut(list, "}")
	found := 0
	for _, word := range strings.Split(list, `"`) {
		if strings.HasPrefix(word, "forebay") {
			found++
			if !strings.Contains(strings.ToLower(string(runbook)), "# "+word+"\n") {
				t.Errorf("docs/runbook.md has no section %s", word)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d sections in %s, want 4", found, list)
	}
}

// A page that needs a sink offers those that there are, and without any says who defines them.
func TestPagesWithoutASink(t *testing.T) {
	eng, cat, _ := full(t)
	empty, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = empty.Close() })
	some, none := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat})), serve(t, newConsole(t, empty, console.Options{Authorize: everything}))
	for _, page := range []string{"try", "tables"} {
		b := newTab(t)
		b.live(some + "#/" + page)
		b.text("Choose a sink: ")
		eval[bool](b, `[...document.querySelectorAll("section[data-page=`+page+`] a")].find((a) => a.textContent === "web/events").click(), true`)
		b.until(`location.hash === "#/` + page + `/web/events"`)
		b.settle(page + "/web/events")
	}
	for _, page := range []string{"try", "tables", "overview"} {
		b := newTab(t)
		b.live(none + "#/" + page)
		b.text("No sink is defined yet. A program, a configuration file or the Stream API defines sources with their sinks.")
	}
}
