package browsertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Each list that can be long shows 50 lines at once, and its pager leads to the others: nodes, damage and groups of rejected records.
func TestPagesOfLists(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	table := forebay.Table{ID: "web.orders"}
	var recs []*mapping.Record
	for i := range 70 {
		name := fmt.Sprintf("c%02d", i)
		table.Columns = append(table.Columns, mapping.Path(name, name, mapping.DataType(datatype.Int64)))
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{%q:"x"}`, name)))
	}
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "orders", OnReject: forebay.Quarantine, Table: table}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.IngestBatch(t.Context(), "web", recs); err != nil {
		t.Fatal(err)
	}
	nodes := func(context.Context) (list []catalog.Node, err error) {
		for i := range 120 {
			list = append(list, catalog.Node{Name: fmt.Sprintf("node-%03d", i), Ready: i != 110})
		}
		list[0].Ready, list[0].Missing = false, "it does not respond"
		for i := range 8 {
			list[0].Adopted = append(list[0].Adopted, fmt.Sprintf("instance-%d", i))
		}
		return list, nil
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Nodes: nodes}))
	b := newTab(t)
	b.live(url)
	eval[bool](b, `(() => { // the disk has 130 records of damage
		const asked = window.fetch;
		window.fetch = async (url, init) => {
			if (!String(url).startsWith("health.disk")) return asked(url, init);
			const from = Math.min(100, Number(new URLSearchParams(String(url).split("?")[1]).get("from")));
			const damage = Array.from({ length: Math.min(50, 130 - from) }, (_, i) => ({ id: String(from + i), at: Date.now(), sink: "web/orders", file: "file-" + (from + i), rows: "1", size: "1 B", reason: "lost" }));
			return Response.json({ free: "1 GiB", damage, records: 130, from });
		};
		return true;
	})()`)
	b.settle("health")
	list := func(name string) string {
		return `document.querySelector('section[data-page=health] section[aria-label=` + name + `]')`
	}
	next := func(name string) {
		t.Helper()
		eval[bool](b, `[...`+list(name)+`.querySelectorAll("button")].find((n) => n.textContent === "Next").click(), true`)
	}
	shows := func(name string, lines int, texts ...string) {
		t.Helper()
		b.until(list(name) + `.querySelectorAll("tbody tr").length === ` + itoa(lines))
		for _, text := range texts {
			b.until(list(name) + `.innerText.includes(` + quoted(text) + `)`)
		}
	}
	shows("Cluster", 50, "2 of 120 nodes are not ready.", "node-000", "node-110", "1–50 of 120", "adopted instance-0, instance-1, instance-2, instance-3, instance-4 and 3 more")
	shows("Damage", 50, "130 records of rows that are lost.", "file-0", "1–50 of 130")
	next("Cluster")
	shows("Cluster", 50, "51–100 of 120", "2 of 120 nodes are not ready.")
	next("Cluster")
	shows("Cluster", 20, "101–120 of 120", "node-119")
	shows("Damage", 50, "1–50 of 130")
	next("Damage")
	shows("Damage", 50, "51–100 of 130")
	next("Damage")
	shows("Damage", 30, "101–130 of 130", "file-129")

	eval[bool](b, `location.hash = "#/quarantine", true`)
	b.text("70 groups, 70 records")
	b.text("1–50 of 70")
	b.choose("Next")
	b.text("51–70 of 70")
	b.until(`document.querySelectorAll("section[data-page=quarantine] table:first-of-type tbody tr").length === 20`)
}
