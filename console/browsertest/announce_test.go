package browsertest

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/console"
)

// hear records what screen readers announce, each new text of a live region that is shown.
const hear = `window.heard = [], new MutationObserver((all) => {
	const regions = new Set();
	for (const m of all) {
		const at = m.target.nodeType === Node.TEXT_NODE ? m.target.parentElement : m.target;
		const region = at?.closest("[aria-live], [role=status], [role=alert]");
		if (region?.isConnected && region.checkVisibility()) regions.add(region);
	}
	for (const r of regions) {
		const text = r.textContent.trim();
		if (text && r.heard !== text) window.heard.push(text);
		r.heard = text;
	}
}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["hidden"] }), true`

// What an act has done is announced, and once.
func TestAnnouncedOnce(t *testing.T) {
	eng, cat, addresses := full(t)
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything, Catalog: cat}))
	b := newTab(t)
	b.live(url)
	eval[bool](b, hear)
	b.settle(addresses[2])
	b.button("Replay")
	b.text("It was rejected again.")
	b.settle("health")
	b.button("Verify")
	b.until(`document.querySelector("section[data-page=health]").textContent.includes("no difference")`)
	b.settle("try/web/events")
	b.write("#try-body", `{"kind":"a"}`)
	b.until(`document.querySelector("[aria-label=Row] .verdict").innerText.startsWith("Would be stored")`)
	b.write("#try-body", `{"kind":`)
	b.text("Rejected because of")
	// Announcements that wait are made within 10 s of the last one.
	b.until(`window.heard.join(" ").includes("no difference")`)
	eval[bool](b, `window.quiet = Date.now(), true`)
	b.until(`Date.now() - window.quiet > 10500`)
	all := eval[[]string](b, `window.heard`)
	t.Logf("heard: %q", all)
	for _, want := range []string{"It was rejected again.", "The check runs.", "no difference", "Would be stored.", "unexpected end at byte 8"} {
		if n := strings.Count(strings.Join(all, " "), want); n != 1 {
			t.Errorf("%q is announced %d times, want 1", want, n)
		}
	}
	if len(all) > 6 { // the page asks for an event at first
		t.Errorf("five acts make %d announcements", len(all))
	}
}
