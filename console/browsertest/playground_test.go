package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// write puts a text into a field, as a user who pastes it there.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector(%s)?.offsetParent`, quoted(selector)))
	eval[bool](b, fmt.Sprintf(`(() => { const f = document.querySelector(%s); f.value = %s; f.dispatchEvent(new Event(f.tagName === "SELECT" ? "change" : "input", { bubbles: true })); return true; })()`,
		quoted(selector), quoted(text)))
}

// column is the selector of a field of the column at a position, which counts from 1.
func column(position int, field string) string {
	return fmt.Sprintf("section[data-page=try] .columns > li:nth-child(%d) [id$=-%s]", position, field)
}

// row waits until the row has these cells: name, type and value.
func (b *tab) row(cells ...string) {
	b.t.Helper()
	b.until(`[...document.querySelectorAll("section[data-page=try] [aria-label=Row] tbody tr")].map((r) => [...r.cells].slice(0, 3).map((c) => c.innerText).join(" ")).join("|") === ` +
		quoted(strings.Join(cells, "|")))
}

// playground opens the page of web/events by its form.
func (b *tab) playground(url string) {
	b.t.Helper()
	b.live(url)
	b.press("gt")
	b.write("#try-sink", "web/events")
	b.button("Open")
	b.text("Table in.c-web.events, version 2. Nothing is stored here.")
}

// typed makes the first column a path, because a UUID differs each time, and the second one an int64.
func (b *tab) typed() {
	b.t.Helper()
	b.write(column(1, "type"), "path")
	b.write(column(1, "path"), "id")
	b.write(column(2, "dataType"), "int64")
}

// A pasted event with unsaved columns makes the row that the table would have. Each problem is shown at its place.
func TestPlaygroundRow(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t, "status of 422")
	b.playground(url)
	b.write("#try-body", `{"id":"a-1","kind":"12"}`)
	b.typed()
	b.row(`id untyped "a-1"`, "kind int64 12", `label untyped "<img src=x onerror=\"window.owned=1\">"`)
	b.text("Would be stored. Nothing is stored here.")

	// A value that is not of its type rejects the row in its cell, and the other cells stay.
	b.write("#try-body", `{"id":"a-1","kind":"twelve"}`)
	b.until(`document.querySelectorAll("[aria-label=Row] tbody td.problem").length === 1`)
	b.until(`document.querySelector("[aria-label=Row] .verdict").innerText.startsWith("Rejected because of malformed: ")`)
	b.until(`document.querySelector(` + quoted(column(2, "dataType")) + `).closest("li").querySelectorAll(".problems li").length === 1`)
	b.write("#try-body", `{"id":"a-1","kind":9007199254740993,"more":null}`)
	b.row(`id untyped "a-1"`, "kind int64 9007199254740993", `label untyped "<img src=x onerror=\"window.owned=1\">"`)

	// An error of a template stands at its line and column, which count characters, and the button puts the caret there.
	program := "local a = 1;\nlocal b = '😀'; c"
	b.write(column(3, "template"), program)
	b.text("The columns have an error.")
	b.until(`document.querySelector(` + quoted(column(3, "template")) + `).getAttribute("aria-invalid") === "true"`)
	b.until(`document.querySelector(".columns > li:nth-child(3) .gutter .bad").innerText.trim() === "✕ 2"`)
	b.button("2:16")
	caret := len(utf16.Encode([]rune(program))) - 1
	if at := eval[int](b, `document.activeElement.matches(`+quoted(column(3, "template"))+`) ? document.activeElement.selectionStart : -1`); at != caret {
		t.Errorf("the caret is at %d, want %d", at, caret)
	}
	// One that shows only with the event is in the cell, with its place.
	b.write(column(3, "template"), "local a = 1;\n  error 'no ' + a")
	b.until(`document.querySelector("[aria-label=Row] tbody tr:nth-child(3) td.problem").innerText.startsWith("✕ 2:3 ")`)
	b.text("no 1")

	// The columns as JSON. An error leads to its place, and a text that is right replaces the columns.
	eval[bool](b, `document.querySelector("#try-json").closest("details").open = true`)
	b.write("#try-json", "[\n  {\"type\":\"path\",]")
	b.button("Use this text")
	b.until(`document.activeElement.id === "try-json" && document.activeElement.selectionStart === 19`)
	b.text("2:18 invalid character ']'")
	b.write("#try-json", `[{"type":"path","name":"kind","path":"kind"}]`)
	b.button("Use this text")
	b.row("kind untyped 9007199254740993")

	// An invalid header is reported at the headers, and makes no row.
	b.write("#try-headers", "Content-Type: application/json\nno header")
	b.text("Line 2 of the headers is not “Name: value”.")
	b.until(`document.querySelector("#try-headers").getAttribute("aria-invalid") === "true" && document.querySelectorAll("[aria-label=Row] tbody tr").length === 0`)
	if n := eng.Stats().Sinks[0].Accepted; n != 0 {
		t.Errorf("the page has stored %d rows", n)
	}
	if eval[bool](b, `window.owned !== undefined || document.querySelector("section[data-page=try] :is(img, svg:not(.icon))") !== null`) {
		t.Error("a text became markup")
	}
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(360, 740)); err != nil {
		t.Fatal(err)
	}
	b.until(`innerWidth === 360`)
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
}

// Columns are compared, run as a shadow of the sink's columns on arriving records, and saved as the sink's next version.
func TestPlaygroundShadowAndSave(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.playground(url)
	b.write(column(2, "default"), `"none"`)
	b.write(column(2, "path"), "sort")
	b.button("Compare with the saved columns")
	b.text("Changes since version 2")
	b.until(`[...document.querySelectorAll(".changes li")].map((n) => n.innerText.replace(/\s+/g, " ")).join("|") === 'kind changed default: "none" path: kind → sort'`)

	// One way leads to a new version: the changes, then a shadow, which is the first thing offered.
	b.button("Save as version 3…")
	b.text("Save as version 3?")
	b.until(`document.activeElement.textContent === "Cancel"`)
	b.until(`[...document.querySelectorAll("dialog .changes li")].map((n) => n.innerText.replace(/\s+/g, " ")).join("|") === 'kind changed default: "none" path: kind → sort'`)
	b.until(`document.querySelector("dialog input[type=radio]:checked").value === "shadow"`)
	b.write("#try-minutes", "5")
	b.button("Run the shadow")
	b.text("Shadow by olga")
	for _, body := range []string{`{"kind":"a","sort":"a"}`, `{"kind":"b","sort":"<b>c"}`, `{"kind":"d"}`} {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	count := func(name string, n int) {
		t.Helper()
		b.until(fmt.Sprintf(`[...document.querySelectorAll(".counts dt")].find((n) => n.innerText === %q)?.nextSibling.innerText === "%d"`, name, n))
	}
	count("compared", 3)
	count("equal", 1)
	count("different", 2)
	b.text(`"b" → "<b>c"`)
	b.text(`"d" → "none"`)
	b.button("Stop the shadow")
	b.text("It was stopped.")

	// These columns have had their shadow, so the version is offered now.
	b.button("Save as version 3…")
	b.until(`document.querySelector("dialog input[type=radio]:checked").value === "now" && !document.querySelector("#try-minutes").offsetParent`)
	b.write("#try-description", "sort instead of kind")
	b.button("Cancel")
	if _, sink, err := cat.Sink("web", "events"); err != nil || sink.Version.Number != 2 {
		t.Fatalf("who cancels has saved version %d, %v", sink.Version.Number, err)
	}
	b.button("Save as version 3…")
	b.button("Save as version 3")
	b.text("It is version 3.")
	b.text("Table in.c-web.events, version 3.")
	_, sink, err := cat.Sink("web", "events")
	if err != nil || sink.Version.Number != 3 || sink.Version.By.UserName != "olga" || sink.Version.Description != "sort instead of kind" {
		t.Errorf("got %+v, %v, want version 3 by olga, \"sort instead of kind\", no error", sink.Version, err)
	}
	if c := sink.Columns[1]; c.Path != "sort" || string(c.Default) != `"none"` {
		t.Errorf("saved column %+v", c)
	}
	if i := slices.IndexFunc(eng.Sources()[0].Sinks, func(s forebay.Sink) bool { return s.Table.Columns[1].Path == "sort" }); i < 0 {
		t.Error("the engine maps by other columns")
	}
}

// A user who saves a version that another user has replaced meanwhile is refused until the page has compared with it, and keeps the edits.
func TestPlaygroundSavedMeanwhile(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t, "status of 409")
	b.playground(url)
	b.write(column(2, "path"), "sort")
	b.button("Save as version 3…")
	b.text("Changes since version 2")

	_, sink, err := cat.Sink("web", "events")
	if err != nil {
		t.Fatal(err)
	}
	theirs := slices.Clone(sink.Columns)
	theirs[0].Name = "key"
	task, err := cat.UpdateSink(catalog.By{Type: "user", UserName: "anna"}, "web", "events", catalog.SinkPatch{Columns: theirs})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	eval[bool](b, `document.querySelector("dialog input[value=now]").click(), true`)
	b.button("Save as version 3")
	b.text("Version 3 was saved meanwhile. Compare with it before you save.")
	if _, sink, err = cat.Sink("web", "events"); err != nil || sink.Version.Number != 3 {
		t.Fatalf("version %d, %v", sink.Version.Number, err)
	}

	b.button("Save as version 3…")
	b.text("Version 3 was saved meanwhile by a different user.")
	b.text("Save as version 4?")
	b.until(`[...document.querySelectorAll("dialog .changes strong")].map((n) => n.innerText).join(" ") === "id kind key"`)
	if path := eval[string](b, `document.querySelector(`+quoted(column(2, "path"))+`).value`); path != "sort" {
		t.Errorf("the edited path is %q now", path)
	}
	eval[bool](b, `document.querySelector("dialog input[value=now]").click(), true`)
	b.button("Save as version 4")
	b.text("It is version 4.")
	_, sink, err = cat.Sink("web", "events")
	if err != nil || sink.Version.Number != 4 || sink.Columns[0].Name != "id" || sink.Columns[1].Path != "sort" {
		t.Errorf("version %d, columns %+v, %v", sink.Version.Number, sink.Columns, err)
	}
}

// Another sink does not take the place of edited columns without a question.
func TestPlaygroundKeepsEdits(t *testing.T) {
	eng, cat := newCatalog(t)
	task, err := cat.CreateSink(catalog.By{Type: "user"}, "web", catalog.SinkSpec{
		ID: "others", Name: "Others", TableID: "in.c-web.others", Columns: mapping.Columns{mapping.Path("other", "other")},
	})
	if err == nil {
		_, err = task.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.playground(url)
	b.write(column(2, "path"), "sort")
	b.write("#try-sink", "web/others")
	b.button("Open")
	b.text("Drop the edited columns of web/events?")
	b.until(`document.activeElement.textContent === "Cancel"`)
	b.button("Cancel")
	b.until(`location.hash === "#/try/web/events" && !document.querySelector("dialog")`)
	if path := eval[string](b, `document.querySelector(`+quoted(column(2, "path"))+`).value`); path != "sort" {
		t.Errorf("the edited path is %q now", path)
	}
	b.goTo("overview") // other pages do not touch them
	b.goTo("try/web/events")
	b.write("#try-sink", "web/others")
	b.button("Open")
	b.button("Drop them")
	b.text("Table in.c-web.others, version 1.")
	b.until(`document.querySelector(` + quoted(column(1, "path")) + `).value === "other"`)
	eval[bool](b, `location.hash = "#/try/web/events", true`) // nothing was edited
	b.text("Table in.c-web.events, version 2.")
}
