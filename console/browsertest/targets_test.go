package browsertest

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// If two targets have a table with the same id, each page shows the rows of its target's table, and says which target it is.
func TestPagesNameTheTarget(t *testing.T) {
	folder := t.TempDir()
	eng, err := forebay.Open(folder, forebay.Options{Targets: map[string]driver.Target{"lake": dir.Tables(filepath.Join(folder, "lake"))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	columns := func(template string) mapping.Columns {
		return mapping.Columns{mapping.Template("row", template, mapping.RawString())}
	}
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{
		{ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: columns(`"of the application"`)}},
		{ID: "copies", Table: forebay.Table{ID: "web.orders", Target: "lake", Columns: columns(`"of the lake"`)}},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url)
	for sink, want := range map[string][2]string{"orders": {"default target", "of the application"}, "copies": {"lake", "of the lake"}} {
		eval[bool](b, `location.hash = "#/tables/web/`+sink+`", true`)
		b.readAgain(`s.innerText.includes("web.orders (` + want[0] + `): this sink has stored 1 row") && s.querySelectorAll(".rows tbody tr").length === 1`)
		b.text(want[1])
		eval[bool](b, `location.hash = "#/sink/web/`+sink+`", true`)
		b.until(`[...document.querySelectorAll("section[data-page=sink] dl.facts dt")].some((n) => n.textContent === "Target" && n.nextElementSibling.textContent === "` + want[0] + `")`)
	}
}
