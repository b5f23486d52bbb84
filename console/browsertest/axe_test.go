package browsertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// axeScript checks a page for barriers to people with a screen reader, a keyboard or weak sight.
const axeScript = "testdata/axe/node_modules/axe-core/axe.min.js"

// No page has a violation of any severity, in both themes, on a desktop and on a phone, with the menu open and with a file that fails.
func TestAxe(t *testing.T) {
	script, err := os.ReadFile(axeScript)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("axe is not installed: run 'npm install --no-package-lock' in console/browsertest/testdata/axe")
	} else if err != nil {
		t.Fatal(err)
	}
	eachPage(t, func(b *tab, address string) {
		eval[bool](b, string(script)+`; true`)
		for _, width := range []int64{1280, 390} {
			// The bar at the bottom covers whatever happens to be at the edge of a screen, so the screen has the height of the page.
			if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 6000)); err != nil {
				t.Fatal(err)
			}
			b.until(`innerWidth === ` + itoa(int(width)) + ` && innerHeight === 6000`)
			for _, theme := range []string{"light", "dark"} {
				if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
				}); err != nil {
					t.Fatal(err)
				}
				for _, menu := range []bool{false, true} {
					eval[bool](b, fmt.Sprintf(`document.getElementById("menu").open = %t, true`, menu))
					for _, found := range b.axe(!menu, theme == "dark") {
						t.Errorf("%s at %d px, %s, menu open %t: %s", address, width, theme, menu, found)
					}
				}
			}
		}
	})
}

// axe returns the violations of the page as it is. An open menu covers links in part, whose size is then not of interest. The themes differ in
// colors only, so the second one needs the rules about colors alone.
func (b *tab) axe(sizes, onlyColors bool) []string {
	b.t.Helper()
	options := fmt.Sprintf(`{ resultTypes: ["violations"], rules: { "target-size": { enabled: %t } } }`, sizes)
	if onlyColors {
		options = `{ resultTypes: ["violations"], runOnly: ["color-contrast", "link-in-text-block"] }`
	}
	eval[bool](b, `window.axeFound = null, axe.run(document, `+options+`).then(
		(r) => { window.axeFound = r.violations.map((v) => v.impact + " " + v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary.replace(/\s+/g, " ")).join(" | ")); },
		(e) => { window.axeFound = ["axe: " + e]; }), true`)
	b.until(`window.axeFound !== null`)
	return eval[[]string](b, `window.axeFound`)
}
