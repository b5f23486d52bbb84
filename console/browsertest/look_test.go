package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// contrast computes the contrast of the colours of a theme, on both backgrounds, as WCAG 2.2 does.
const contrast = `(() => {
	const probe = document.body.appendChild(document.createElement("i"));
	const rgb = (v) => { probe.style.color = "var(--" + v + ")"; return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number); };
	const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const of = (a, b) => { const [x, y] = [light(rgb(a)), light(rgb(b))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const out = {};
	for (const name of ["text", "muted", "water", "warn", "error", "good"]) out[name] = [of(name, "back"), of(name, "panel")];
	probe.remove();
	return out;
})()`

// The button of the theme changes the colours, which can be read in both themes on both backgrounds: texts 4.5, marks 3.
func TestThemesAndContrast(t *testing.T) {
	eng := newEngine(t, 1, 1)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	for _, theme := range []struct{ name, back string }{{"light", "rgb(255, 255, 255)"}, {"dark", "rgb(18, 22, 28)"}} {
		b.openMenu()
		b.click("#theme")
		b.until(fmt.Sprintf(`document.documentElement.dataset.theme === %q && document.getElementById("theme").textContent === "Theme: %[1]s"`, theme.name))
		if back := eval[string](b, `getComputedStyle(document.body).backgroundColor`); back != theme.back {
			t.Errorf("%s: the background is %s, want %v", theme.name, back, theme.back)
		}
		for name, c := range eval[map[string][2]float64](b, contrast) {
			const least = 4.5
			t.Logf("%s %s: %.1f on the page, %.1f on panels", theme.name, name, c[0], c[1])
			if c[0] < least || c[1] < least {
				t.Errorf("%s: %s has a contrast of %.2f on the page and %.2f on panels, want %v", theme.name, name, c[0], c[1], least)
			}
		}
	}
	b.openMenu()
	b.click("#theme")
	b.until(`!document.documentElement.hasAttribute("data-theme")`)
}

// Nothing on the page moves, and with forced colours signs and words distinguish the states.
func TestStillAndForcedColours(t *testing.T) {
	eng := newEngine(t, 1, 1)
	ingest(t, eng, "web0", 2)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	b.until(`document.querySelector(".water")`)
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}},
	}); err != nil {
		t.Fatal(err)
	}
	b.until(`matchMedia("(forced-colors: active)").matches`)
	if moving := eval[[]string](b, `[...document.querySelectorAll("*")].filter((n) => getComputedStyle(n).transitionDuration !== "0s" || getComputedStyle(n).animationName !== "none").map((n) => n.tagName)`); len(moving) > 0 {
		t.Errorf("these move: %q", moving)
	}
	if state := eval[string](b, `(() => { const n = document.querySelector("td.state"); return getComputedStyle(n, "::before").content + n.textContent; })()`); state != `"●"flows` {
		t.Errorf("the state is told by %s", state)
	}
}
