package browsertest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// newCatalog has a sink web/events with two versions. The second one has a template, and a hostile user and description.
func newCatalog(t *testing.T) (*forebay.Engine, *catalog.Catalog) {
	t.Helper()
	folder := t.TempDir()
	eng, err := forebay.Open(folder, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	cat, err := catalog.Open(filepath.Join(folder, "catalog"), eng, catalog.Options{Extend: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	columns := mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}
	task, err := cat.CreateSource(catalog.By{Type: "user", UserName: "anna"}, catalog.SourceSpec{
		ID: "web", Name: "Web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{ID: "events", Name: "Events", TableID: "in.c-web.events", Columns: columns}},
	})
	if err == nil {
		_, err = task.Wait(t.Context())
	}
	if err == nil {
		task, err = cat.UpdateSink(catalog.By{Type: "user", UserName: hostile[:48]}, "web", "events", catalog.SinkPatch{
			Columns: append(columns, mapping.Template("label", "local a = '<img src=x onerror=\"window.owned=1\">';\na")), ChangeDescription: "a label <svg onload=window.owned=1>\u202e",
		})
	}
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	return eng, cat
}

// Definitions are shown 50 at a time. A page that is no longer there shows the last one.
func TestDefinitionsByPage(t *testing.T) {
	eng, cat := newCatalog(t)
	spec := catalog.SourceSpec{ID: "many", Name: "Many", Type: forebay.HTTP}
	for i := range 59 {
		id := "s" + itoa(10+i)
		spec.Sinks = append(spec.Sinks, catalog.SinkSpec{ID: id, Name: id, TableID: "in.c-many." + id, Columns: mapping.Columns{mapping.UUID("id")}})
	}
	task, err := cat.CreateSource(catalog.By{Type: "user", UserName: "anna"}, spec)
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	b.press("gd")
	const lines = `[...document.querySelectorAll("section[data-page=defs] table.cards")][0].tBodies[0].rows.length`
	b.until(lines + " === 50")
	b.text("1–50 of 62")
	b.choose("Next")
	b.until(lines + " === 12")
	b.text("51–62 of 62")
	eval[bool](b, `location.hash = "#/defs?skip=400", true`)
	b.until(lines + ` === 12 && location.hash.includes("400")`)
	b.choose("Previous")
	b.until(lines + ` === 50 && !location.hash.includes("skip")`)
}

// Versions, the difference and the way back, at the width of a desk and of a phone.
func TestDefinitionsPage(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	b.press("gd")
	b.text("web/events")
	b.text("a label <svg onload=window.owned=1>‹U+202E›")
	b.until(`document.querySelectorAll("section[data-page=defs] tbody tr").length === 2`)
	eval[bool](b, `document.querySelector('section[data-page=defs] tr[data-key="web/events"] button').click(), true`)
	b.text("Versions of web/events")
	b.until(`document.activeElement.matches("section[data-page=defs] h2")`)
	b.button("What changed")
	b.until(`document.querySelectorAll(".diff ins").length > 0`)
	b.text(`local a = '<img src=x onerror=\"window.owned=1\">';\n`)
	if eval[bool](b, `window.owned !== undefined || document.querySelector("section[data-page=defs] :is(img, svg:not(.icon))") !== null`) {
		t.Error("a text became markup")
	}
	heading := func(want string) {
		t.Helper()
		b.until(`document.activeElement.matches("section[data-page=defs] h3") && document.activeElement.textContent === ` + quoted(want))
	}
	heading("From version 1 to 2")
	eval[bool](b, `document.querySelector('[aria-label="Content of version 1"]').click(), true`)
	heading("Content of version 1")
	b.until(`document.querySelectorAll(".diff :is(ins, del)").length === 0`)
	b.button("Compare with now")
	heading("From version 1 to 2")
	b.until(`document.querySelectorAll(".diff ins").length > 0`)
	filter := func(text string, found int) {
		t.Helper()
		eval[bool](b, `(() => { const f = document.getElementById("d-filter"); f.value = `+quoted(text)+`; f.dispatchEvent(new Event("input")); return true })()`)
		b.until(fmt.Sprintf(`document.querySelectorAll('section[data-page=defs] tr[data-key^="web"]').length === %d`, found))
	}
	filter("anna", 1) // the user who made the source, and a different user has changed the sink
	filter("nobody", 0)
	b.text("No definition matches the filter.")
	filter("", 2)
	b.button("Roll back…")
	b.text("Roll back web/events to version 1?")
	b.until(`document.activeElement.textContent === "Cancel" && document.querySelectorAll(".diff del").length > 0`)
	b.button("Cancel")
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(360, 740)); err != nil {
		t.Fatal(err)
	}
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	b.button("Roll back…")
	b.button("Roll back")
	b.text("3 now")
	b.text("olga")
	if _, sink, err := cat.Sink("web", "events"); err != nil || sink.Version.Number != 3 || len(sink.Columns) != 2 {
		t.Errorf("got %+v, %v, want no error and sink.Version.Number == 3 and len(sink.Columns) == 2", sink, err)
	}
}
