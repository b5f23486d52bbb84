package browsertest

import (
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
)

// A sink links to its rejected records, rows, columns and versions. Going back restores the focus, and opening a page sets it there.
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
		t.Errorf("got %d sections in %s, want 4", found, list)
	}
}

// A page that needs a sink offers the existing sinks. If there are none, it says who defines them.
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

// Where a page names a sink, it leads to the page of that sink, and a count of rejected records leads to them.
func TestNamesOfSinksAreLinks(t *testing.T) {
	eng, cat, addresses := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	link := func(selector, hash string) {
		t.Helper()
		b.until(`[...document.querySelectorAll(` + quoted(selector) + `)].some((a) => a.checkVisibility() && a.getAttribute("href") === ` + quoted(hash) + `)`)
	}
	link(".tile:nth-child(3) .line a", "#/sink/web/events")
	link(".tile:nth-child(4) .line a", "#/quarantine")
	b.settle(addresses[2])
	link("section[data-page=quarantine] tbody th a", "#/sink/shop/orders")
	link(".record .facts a", "#/sink/shop/orders")
	b.settle("try/web/events")
	link("section[data-page=try] .tablebar a", "#/sink/web/events")
	b.settle("tables/web/events")
	link("section[data-page=tables] p a", "#/sink/web/events")
	b.settle("defs?ref=web/events&from=1&to=2")
	link("section[data-page=defs] tbody th a", "#/sink/web/events")
}

// A form that asks for a sink explains its input. A table's content disappears when a nonexistent sink is asked for. A link that
// chose a sink gives the focus to the page.
func TestChoosingASink(t *testing.T) {
	eng, cat, _ := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	for _, page := range []string{"try", "tables"} {
		b := newTab(t, "status of 404")
		b.live(url + "#/" + page)
		b.text("Choose a sink: ")
		b.write("#"+page+"-sink", "events")
		b.choose("Open")
		b.text("Write a source and a sink, as in web/events.")
		b.write("#"+page+"-sink", "")
		b.until(`[...document.querySelectorAll("section[data-page=` + page + `] a")].some((a) => a.textContent === "web/events")`)
		eval[bool](b, `[...document.querySelectorAll("section[data-page=`+page+`] a")].find((a) => a.textContent === "web/events").focus(), true`)
		b.press("\r")
		b.until(`location.hash === "#/` + page + `/web/events" && document.activeElement.id === "page"`)
		b.settle(page + "/web/events")
		if page == "tables" {
			b.text("this sink has stored 0 rows, and 3 wait.")
			b.until(`document.getElementById("tables-query").checkVisibility()`)
			eval[bool](b, `location.hash = "#/tables/web/none", true`)
			b.text("There is no sink web/none.")
			b.until(`!document.getElementById("tables-query").checkVisibility() && !document.querySelector("section[data-page=tables]").innerText.includes("this sink")`)
		}
	}
}
