package browsertest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each page in the navigation, each setting of the menu and each action has an icon next to its text. An icon is drawn from the sprite of the document,
// in the colour of the text, and screen readers do not read it.
func TestIcons(t *testing.T) {
	seen := make(map[string]bool)
	eachPage(t, func(b *tab, address string) {
		b.openMenu()
		for _, bad := range eval[[]string](b, `[...document.querySelectorAll(".icon")].filter((n) => n.checkVisibility()).flatMap((n) => {
			const box = n.getBoundingClientRect(), symbol = document.querySelector(n.firstElementChild.getAttribute("href")), text = n.parentNode.textContent.trim();
			return [!symbol && "no symbol", symbol && !n.firstElementChild.getBBox().width && "nothing is drawn", (box.width < 8 || box.width > 24 || Math.abs(box.width - box.height) > 1) && "size " + box.width + " x " + box.height,
				!text && "no text", n.getAttribute("aria-hidden") !== "true" && "read aloud", getComputedStyle(n).stroke !== getComputedStyle(n.parentNode).color && "colour " + getComputedStyle(n).stroke]
				.filter(Boolean).map((problem) => text + ": " + problem);
		})`) {
			t.Errorf("%s: got the problem %s, want none", address, bad)
		}
		for _, bare := range eval[[]string](b, `[...document.querySelectorAll("#links a, .menu .panel button, .around a, .acts button, .danger, button")]
				.filter((n) => n.checkVisibility() && !n.querySelector(".icon") && (n.matches("#links a, .menu button, .around a, .acts button, .danger")
					|| /^(Retry|Flush|Replay|Discard|Edit|Copy|Verify|Refresh|Roll back|Pause|Find|Add a column)/.test(n.textContent))).map((n) => n.textContent)`) {
			t.Errorf("%s: %s has no icon", address, bare)
		}
		for _, name := range eval[[]string](b, `[...document.querySelectorAll(".icon use")].map((n) => n.getAttribute("href").slice(3))`) {
			seen[name] = true
		}
		eval[bool](b, `document.getElementById("menu").open = false, true`)
	})
	document, err := os.ReadFile("../web/document.html")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	scripts, _ := filepath.Glob("../web/*.js")
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	var sprite []string
	for _, m := range regexp.MustCompile(`<symbol id="i-([a-z]+)"`).FindAllStringSubmatch(string(document), -1) {
		sprite = append(sprite, m[1])
		if !seen[m[1]] && !strings.Contains(string(document), `"icon" "`+m[1]+`"`) && !strings.Contains(code.String(), `("`+m[1]+`", "`) && !strings.Contains(code.String(), `icon: "`+m[1]+`"`) {
			t.Errorf("no page has the icon %s", m[1])
		}
	}
	for name := range seen {
		if !slices.Contains(sprite, name) {
			t.Errorf("the sprite has no %s", name)
		}
	}
}
