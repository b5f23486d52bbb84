package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// longWords are parts of words in tables and facts that are too long to read and have no title with all of it. Messages, errors and cells of rows
// are texts, and one record is the place where its ids can be copied.
const longWords = `(() => {
	const bad = [];
	for (const cell of document.querySelectorAll("#page > section:not([hidden]) :is(table:not(.rows, .cells, .values) :is(tbody td, tbody th), .facts dd)")) {
		if (cell.closest(".record, .message, .why, [data-label=Reason]") || cell.matches("dd") && /\s/.test(cell.firstChild?.textContent)) continue;
		const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) for (const word of texts.currentNode.data.split(/[\s/]/)) if (word.length > 32) bad.push(word);
	}
	return bad;
})()`

// cutIDs are the titles of the ids that are cut. An id that is not a beginning and an end of its title is marked.
const cutIDs = `[...document.querySelectorAll("#page > section:not([hidden]) :is(td, th, dd, h3) [title]")].filter((n) => n.textContent.includes("…")).map((n) => {
	const parts = n.textContent.split("/"), whole = n.title.split("/");
	const same = parts.length === whole.length && parts.every((p, i) => { const [a, b] = p.split("…"); return whole[i].startsWith(a) && whole[i].endsWith(b ?? a); });
	return same ? n.title : "no part of its title: " + n.textContent;
})`

// withDamage puts a record of damage into what the server says of its disk.
func withDamage(file string) string {
	return `(() => {
		const asked = window.fetch;
		window.fetch = async (url, init) => {
			const response = await asked(url, init);
			if (!String(url).startsWith("health.disk")) return response;
			const body = await response.json();
			body.damage = [{ id: "1", at: Date.now(), sink: ` + quoted(longID+"/"+longID) + `, file: ` + quoted(file) + `, rows: "1", size: "1 B", reason: "lost" }, { id: "2", at: Date.now(), sink: ` + quoted(longID) + `, file: "", rows: "1", size: "1 B", reason: "lost" }];
			body.records = 2;
			return Response.json(body);
		};
		return true;
	})()`
}

// Every table of every page cuts long ids in the middle, and has all of an id as its title: sinks, sources, versions, records, files and nodes.
func TestLongIDs(t *testing.T) {
	eng, cat, record := strangers(t)
	long := func(name string) string { return name + "-" + strings.Repeat("0123456789", 6) }
	nodes := func(context.Context) ([]catalog.Node, error) {
		return []catalog.Node{{Name: long("node"), Instance: long("instance"), Adopting: []string{long("adopting")}, Adopted: []string{long("adopted")}, Damaged: []string{long("damaged")}}}, nil
	}
	// The page of definitions lists the catalog.
	defined := strings.Repeat("y", forebay.MaxIDLength)
	task, err := cat.CreateSource(catalog.By{}, catalog.SourceSpec{ID: defined, Name: "long", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{
		ID: defined, Name: "long", TableID: "in.c-web." + long("table"), Columns: mapping.Columns{mapping.UUID("id")},
	}}})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	user := func(*http.Request) (console.Rights, string) { return console.AllRights, "ops" }
	url := serve(t, newConsole(t, eng, console.Options{Authorize: user, Catalog: cat, Nodes: nodes}))
	b := newTab(t)
	b.live(url)
	eval[bool](b, withDamage(long("file")))
	sink := longID + "/" + longID
	for _, p := range []struct {
		address, ready string
		titles         []string
	}{
		{"overview", `document.querySelectorAll("#sinks tbody tr").length > 2`, []string{sink}},
		{"sink/" + sink, `document.querySelector(".files tbody tr")`, nil},
		{"sink/" + defined + "/" + defined, `document.querySelector("section[data-page=sink] .facts dd")?.textContent.startsWith("in.c-web.")`, []string{"in.c-web." + long("table")}},
		{"sink/web/events", `document.querySelector(".files tbody tr")`, nil},
		{"quarantine?list=all&record=" + sink + ":" + record, `document.querySelector(".record pre")`, []string{sink}},
		{"tables/web/events", `document.querySelector("section[data-page=tables]").dataset.loads`, nil},
		{"defs", `document.querySelectorAll("section[data-page=defs] tbody tr").length > 3`, []string{defined, defined + "/" + defined}},
		{"health", `document.querySelectorAll("section[data-page=health] table").length === 2`, []string{
			sink, longID, long("file"), long("node"), long("instance"), long("adopting"), long("adopted"), long("damaged"),
		}},
	} {
		eval[bool](b, `location.hash = `+quoted("#/"+p.address)+`, true`)
		name := p.address[:strings.IndexAny(p.address+"/", "/?")]
		b.until(fmt.Sprintf(`document.documentElement.dataset.page === %q && (%s)`, name, p.ready))
		if bad := eval[[]string](b, longWords); len(bad) > 0 {
			t.Errorf("%s: these are not cut: %q", p.address, bad)
		}
		titles := eval[[]string](b, cutIDs)
		for _, want := range p.titles {
			if !slices.Contains(titles, want) {
				t.Errorf("%s: %s is not the title of an id that is cut: %q", p.address, want, titles)
			}
		}
		for _, title := range titles {
			if strings.HasPrefix(title, "no part") {
				t.Errorf("%s: got %s, want !strings.HasPrefix(title, \"no part\")", p.address, title)
			}
		}
	}
}
