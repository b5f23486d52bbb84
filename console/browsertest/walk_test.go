package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/console"
)

// walkable are the addresses of all pages, with a text that each shows when it is there. The page of a sink has no separate link.
var walkable = [][2]string{
	{"overview", "Rejected or given up"},
	{"sink/web/events", "All sinks"},
	{"quarantine", "Body or header has"},
	{"try", "Playground"},
	{"tables", "Refresh"},
	{"trace", "Idempotency-Key"},
	{"defs", "Sources and sinks"},
	{"health", "Free on the volume"},
}

// goTo opens a page as a user does, by its link, or by its address if it has none.
func (b *tab) goTo(address string) {
	b.t.Helper()
	name, _, _ := strings.Cut(address, "/")
	eval[bool](b, fmt.Sprintf(`(() => {
		const link = [...document.querySelectorAll("#links a")].find((a) => a.hash === "#/%[1]s");
		if (link) link.click();
		else location.hash = "#/%[1]s";
		return true;
	})()`, address))
	b.until(fmt.Sprintf(`document.documentElement.dataset.page === %[1]q && [...document.querySelectorAll("#page > section")].filter((s) => !s.hidden).map((s) => s.dataset.page).join() === %[1]q`, name))
}

// Every page can be left for every other one, without a complaint, and newTab fails the test for any uncaught error.
func TestWalk(t *testing.T) {
	eng, cat := newCatalog(t)
	ingest(t, eng, "web", 3)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	for _, from := range walkable {
		for _, to := range walkable {
			if from == to {
				continue
			}
			b.goTo(from[0])
			b.goTo(to[0])
			shown, _, _ := strings.Cut(to[0], "/")
			b.until(fmt.Sprintf(`document.querySelector("section[data-page=%s]").textContent.includes(%q)`, shown, to[1]))
		}
	}
}

// A field that searches while it is typed in does not change the address of the page that was opened meanwhile.
func TestLeavingWhileTyping(t *testing.T) {
	eng, cat := newCatalog(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	for page, field := range map[string]string{"overview": "#filter", "quarantine": "#q-text", "defs": "#d-filter"} {
		b.goTo(page)
		other := "trace"
		eval[bool](b, fmt.Sprintf(`(() => {
			const f = document.querySelector(%q);
			f.value = "abc";
			f.dispatchEvent(new Event("input", { bubbles: true }));
			location.hash = "#/%s";
			for (const end = performance.now() + 300; performance.now() < end;) {} // the page learns of it after what was typed is due
			window.later = false;
			setTimeout(() => { window.later = true; }, 500);
			return true;
		})()`, field, other))
		b.until(`window.later`)
		if hash := eval[string](b, `location.hash`); hash != "#/"+other {
			t.Errorf("what was typed in %s has made the address %s", page, hash)
		}
	}
}
