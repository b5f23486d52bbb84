package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// full opens a console with something on each page: a sink with versions, and records in a quarantine. Each address is one that shows the most.
func full(t *testing.T) (eng *forebay.Engine, cat *catalog.Catalog, addresses []string) {
	t.Helper()
	eng, cat = newCatalog(t)
	quarantined := newOrders(t, eng)
	ingest(t, eng, "web", 3)
	return eng, cat, []string{
		"overview", "sink/web/events", "quarantine?list=all&record=" + quarantined, "try/web/events", "tables/web/events", "trace", "defs?ref=web/events&from=1&to=2", "health",
	}
}

// eachPage visits every page of an engine with a catalog, and two pages of an engine whose target fails, each when it is complete.
func eachPage(t *testing.T, visit func(b *tab, address string)) {
	t.Helper()
	eng, cat, addresses := full(t)
	shop, target := newShop(t)
	target.on.Store(true)
	ingest(t, shop, "web", 2)
	for _, c := range []struct {
		url       string
		addresses []string
	}{
		{serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat})), addresses},
		{serve(t, newConsole(t, shop, console.Options{Authorize: everything})), []string{"overview", "sink/web/orders"}},
	} {
		b := newTab(t)
		b.live(c.url)
		for _, address := range c.addresses {
			b.settle(address)
			if address == "sink/web/orders" {
				b.text("Import fails: ")
			}
			visit(b, address)
		}
	}
}

// focusable are the places of the page that Tab must stop at, in the order of the document.
const focusable = `window.places = () => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
	.filter((n) => n.tabIndex >= 0 && !n.disabled && n.checkVisibility({ visibilityProperty: true }) && !(n.type === "radio" && !n.checked && document.querySelector("[name=" + n.name + "]:checked")))`

// focused returns the fault in how the focus is shown, or nothing if it has an outline, and nothing lies above it.
const focused = `(() => {
	const n = document.activeElement, style = getComputedStyle(n), box = n.getBoundingClientRect();
	if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return "no outline";
	const x = Math.max(0, box.left) + Math.min(box.width, innerWidth - Math.max(0, box.left)) / 2, y = Math.max(0, box.top) + Math.min(box.bottom, innerHeight) / 2 - Math.max(0, box.top) / 2;
	const seen = document.elementFromPoint(x, y);
	if (box.width < 2 || !seen) return "not seen";
	return n === seen || n.contains(seen) || seen.contains(n) || [...(n.labels || [])].some((l) => l.contains(seen)) ? "" : "covered by " + seen.outerHTML.slice(0, 80);
})()`

// named is a place in words.
const named = `((n) => n.tagName + " " + (n.id || n.getAttribute("aria-label") || n.textContent.trim().slice(0, 40)))`

// Tab visits every usable element, in the order of the document, and leaves again. The focused element is visible.
func TestTabOrder(t *testing.T) {
	eng, cat, addresses := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	for _, address := range addresses {
		b.settle(address)
		b.wide(1280)
		for b.tabThrough(address) { // the page has got more meanwhile
			if t.Context().Err() != nil {
				return
			}
		}
	}
}

// tabThrough goes through a page with Tab, and compares where it stops with the places at the start. It says nothing about a page that has
// other places afterwards, for which changed is true.
func (b *tab) tabThrough(address string) (changed bool) {
	b.t.Helper()
	eval[bool](b, focusable+`, window.order = window.places(), window.scrollTo(0, 0), document.activeElement.blur(), document.body.focus(), true`)
	want := eval[[]string](b, `window.order.map(`+named+`)`)
	// The sequence begins at the start of the document, wherever the last click was.
	eval[bool](b, `(() => { const s = document.createElement("span"); s.tabIndex = 0; document.body.prepend(s); s.focus(); s.remove(); return true; })()`)
	var got, problems []string
	for range len(want) + 5 {
		b.press(kb.Tab)
		if eval[bool](b, `document.activeElement === document.body || document.activeElement === window.order[0] && `+fmt.Sprint(len(got) > 0)) {
			break
		}
		got = append(got, eval[string](b, named+`(document.activeElement)`))
		if problem := eval[string](b, focused); problem != "" {
			problems = append(problems, fmt.Sprintf("the focus on %s: %s", got[len(got)-1], problem))
		}
	}
	if eval[bool](b, `window.places().length !== window.order.length || window.places().some((n, i) => n !== window.order[i])`) {
		return true
	}
	for _, problem := range problems {
		b.t.Errorf("%s: got the problem %s, want none", address, problem)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: Tab goes to\n%s\nwant\n%s", address, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return false
}

// Where the row of the playground is next to the event, above the columns, Tab visits the row first.
func TestTabOrderFollowsTheGrid(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	b.settle("try/web/events")
	b.write("#try-body", `{"kind":"a"}`)
	b.until(`document.querySelector("[aria-label='Row as CSV']")?.checkVisibility() && document.querySelector("[aria-label='Row as CSV']").textContent.includes('"a"')`)
	b.wide(1000)
	b.until(`document.querySelector("[aria-label=Row]").getBoundingClientRect().bottom <= document.querySelector("[aria-label=Columns]").getBoundingClientRect().top`)
	eval[bool](b, `document.querySelector("[aria-label=Event] summary").focus(), true`)
	b.press(kb.Tab)
	if next := eval[string](b, named+`(document.activeElement)`); next != "PRE Row as CSV" {
		t.Errorf("behind the event Tab goes to %q", next)
	}
}

// settle opens an address and waits until the page shows the data that it received.
func (b *tab) settle(address string) {
	b.t.Helper()
	eval[bool](b, `location.hash = `+quoted("#/"+address)+`, true`)
	name, _, _ := strings.Cut(address, "/")
	name, _, _ = strings.Cut(name, "?")
	ready := map[string]string{
		"overview": `document.querySelectorAll("#plots canvas").length === 6`, "sink": `document.querySelector("section[data-page=sink] .files tbody tr")`,
		"quarantine": `document.querySelector(".record pre")`, "try": `document.querySelectorAll("section[data-page=try] .columns > li").length > 0`,
		"tables": `document.querySelector("section[data-page=tables]").dataset.loads`, "trace": `document.querySelector("#trace-text")`,
		"defs": `document.querySelector(".diff ins")`, "health": `document.querySelector("section[data-page=health]").dataset.disk`,
	}[name]
	b.until(fmt.Sprintf(`document.documentElement.dataset.page === %q && (%s)`, name, ready))
}

// The link that skips the bar leads to the contents of the page that is open.
func TestSkipLink(t *testing.T) {
	eng := newEngine(t, 1, 1)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url + "#/sink/web0/sink00")
	b.until(`document.documentElement.dataset.page === "sink"`)
	b.press(kb.Tab)
	b.until(`document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().left >= 0`)
	b.press(kb.Enter)
	b.until(`document.activeElement.id === "page"`)
	if hash := eval[string](b, `location.hash`); hash != "#/sink/web0/sink00" {
		t.Errorf("the link has made the address %s", hash)
	}
	b.press(kb.Tab)
	if !eval[bool](b, `document.activeElement.textContent === "← All sinks"`) {
		t.Errorf("the next place is %s", eval[string](b, named+`(document.activeElement)`))
	}
}

// Dialogs keep the focus while they are open, and give it back when they are closed, by a button or by Escape.
func TestDialogsReturnFocus(t *testing.T) {
	eng, cat, _ := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	for _, c := range []struct{ address, opener string }{
		{"overview", `(document.getElementById("menu").open = true, document.getElementById("keys"))`},
		{"sink/web/events", button("Discard…")},
		{"quarantine?list=all", button("Discard 1…")},
		{"defs?ref=web/events&from=1&to=2", button("Roll back…")},
	} {
		if strings.HasPrefix(c.address, "quarantine") {
			eval[bool](b, `location.hash = "#/quarantine?list=all", true`)
		} else {
			b.settle(c.address)
		}
		b.until(c.opener)
		for _, key := range []string{kb.Enter, kb.Escape} {
			eval[bool](b, `window.opener0 = `+c.opener+`, window.opener0.focus(), true`)
			b.press(kb.Enter)
			b.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
			for range 4 {
				b.press(kb.Tab)
				if !eval[bool](b, `document.activeElement === document.body || document.querySelector("dialog[open]").contains(document.activeElement)`) {
					t.Errorf("%s: Tab leaves the dialog to %s", c.address, eval[string](b, named+`(document.activeElement)`))
				}
			}
			if key == kb.Enter {
				eval[bool](b, `[...document.querySelectorAll("dialog[open] button")].find((n) => n.textContent === "Cancel" || n.textContent === "Close").focus(), true`)
			}
			b.press(key)
			b.until(`!document.querySelector("dialog") && document.activeElement === window.opener0`)
		}
	}
}

// axName and axValue are texts of a node.
func axText(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// containers can have the focus without a name. They are the page as a whole.
var containers = []string{"RootWebArea", "main"}

// Each control of each page has a role and a name in the tree that screen readers read, and headings have no level left out.
func TestAccessibilityTree(t *testing.T) {
	eng, cat, addresses := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	controls := []string{
		"button", "link", "textbox", "searchbox", "combobox", "ComboBoxSelect", "checkbox", "radio", "spinbutton", "slider", "meter", "image", "img", "dialog", "DisclosureTriangle", "region", "table",
		"navigation", "search", "heading", "listbox", "alert",
	}
	for _, address := range addresses {
		b.settle(address)
		tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			t.Fatal(err)
		}
		seen, level := 0, 0
		for _, n := range inOrder(tree.Nodes) {
			if n.Ignored || n.Role == nil {
				continue
			}
			role, name := axText(n.Role), axText(n.Name)
			canFocus, now := false, 0
			for _, p := range n.Properties {
				switch p.Name {
				case "focusable":
					canFocus = axText(p.Value) == "true"
				case "level":
					_, _ = fmt.Sscan(axText(p.Value), &now)
				}
			}
			if (canFocus || slices.Contains(controls, role)) && name == "" && !slices.Contains(containers, role) {
				t.Errorf("%s: a %s has no name: %s", address, role, b.htmlOf(n))
			}
			if canFocus && slices.Contains([]string{"generic", "none", "GenericContainer", "paragraph", "pre", "Pre"}, role) {
				t.Errorf("%s: %q can have the focus and has no role but %s: %s", address, name, role, b.htmlOf(n))
			}
			if canFocus {
				seen++
			}
			if role == "heading" {
				if now > level+1 || level > 0 && now == 1 {
					t.Errorf("%s: the heading %q of level %d comes behind one of level %d", address, name, now, level)
				}
				level = now
			}
		}
		if seen < 12 || level == 0 {
			t.Errorf("%s: the tree has %d places for the focus, and its last heading has level %d", address, seen, level)
		}
	}
}

// The values of each moment of the plots are reached with arrow keys and with a finger.
func TestMomentsOfPlots(t *testing.T) {
	eng := newEngine(t, 1, 1)
	ingest(t, eng, "web0", 40)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.until(`document.querySelectorAll("#plots canvas").length === 6`)
	ingest(t, eng, "web0", 2)
	b.until(`Number(document.querySelectorAll(".moment")[1].max) >= 1`) // two points
	const slider = `document.querySelectorAll(".moment")[1]`
	const line = `document.querySelectorAll("#plots .line")[1].textContent`
	eval[bool](b, slider+`.focus(), true`)
	b.until(`/^\d\d:\d\d:\d\d: local [\d.]+ s, staging 0 s$/.test(` + slider + `.getAttribute("aria-valuetext"))`)
	newest := eval[string](b, slider+`.getAttribute("aria-valuetext")`)
	b.press(kb.ArrowLeft)
	b.until(slider + `.getAttribute("aria-valuetext") !== ` + quoted(newest))
	before := eval[string](b, slider+`.getAttribute("aria-valuetext")`)
	b.until(line + `.startsWith(` + quoted(before[:8]+"  ― local ") + `)`)
	// All plots show the same moment.
	b.until(`[...document.querySelectorAll("#plots .line")].every((n) => n.textContent.startsWith(` + quoted(before[:8]) + `))`)
	if tall := eval[float64](b, slider+`.getBoundingClientRect().height`); tall < 10 {
		t.Errorf("the slider is %v pixels tall while it has the focus", tall)
	}
	eval[bool](b, slider+`.blur(), true`)
	b.until(`!` + line + `.startsWith(` + quoted(before[:8]) + `) && ` + slider + `.getBoundingClientRect().height <= 1`)

	b.until(fmt.Sprintf(`(() => {
		const over = document.querySelectorAll("#plots .u-over")[1], box = over.getBoundingClientRect();
		for (const type of ["pointerdown", "pointermove"]) over.dispatchEvent(new PointerEvent(type, { pointerType: "touch", clientX: box.right - 1, clientY: box.top + 20, bubbles: true }));
		return /^\d\d:\d\d:\d\d  ― local/.test(%s);
	})()`, line))
}

// inOrder returns the nodes of a tree as a reader meets them.
func inOrder(nodes []*accessibility.Node) (out []*accessibility.Node) {
	byID := make(map[accessibility.NodeID]*accessibility.Node, len(nodes))
	for _, n := range nodes {
		byID[n.NodeID] = n
	}
	var visit func(n *accessibility.Node)
	visit = func(n *accessibility.Node) {
		out = append(out, n)
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				visit(child)
			}
		}
	}
	visit(nodes[0])
	return out
}

// htmlOf is the beginning of the element of a node.
func (b *tab) htmlOf(n *accessibility.Node) string {
	got, err := chromedp.Call(b.ctx, dom.GetOuterHTML, dom.GetOuterHTMLParams{BackendNodeID: n.BackendDOMNodeID})
	if err != nil {
		return err.Error()
	}
	return got.OuterHTML[:min(len(got.OuterHTML), 160)]
}

// newOrders defines a sink shop/orders and has it keep a record in its quarantine. It returns the name of the record in addresses.
func newOrders(t *testing.T, eng *forebay.Engine) string {
	t.Helper()
	err := eng.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "shop.orders", Columns: mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"id":"no number"}`))); err != nil {
		t.Fatal(err)
	}
	for record, err := range eng.Sink("shop", "orders").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		return "shop/orders:" + record.ID
	}
	t.Fatal("the quarantine is empty")
	return ""
}
