package browsertest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossary = "../../docs/internals/glossary.md"

// numbersInLabels and the ids of strangers are no part of a label.
var numbersInLabels = regexp.MustCompile(`[0-9][0-9,.]*`)

// notShown are labels of states and actions that the engines of this test are not in.
var notShown = map[string]bool{"late": true, "refuses": true, "removed": true, "blocked": true, "fails": true, "idle": true, "flows": true, "Split": true, "To quarantine": true}

// Each label of the console is in the glossary, in its list of labels, and the list has no other one.
func TestLabelsAreInTheGlossary(t *testing.T) {
	seen := make(map[string]string)
	eachPage(t, func(b *tab, address string) {
		for _, label := range eval[[]string](b, `[...document.querySelectorAll("nav a, h2, h3, th[scope=col], button, dt, summary, label, td.state, .menu button")]
				.filter((n) => !n.closest("tbody th, .columns li:nth-child(n+2)") && (n.closest(".menu") || n.checkVisibility()) && !n.closest(".title, .marks"))
				.map((n) => [...n.childNodes].filter((c) => c.nodeType === 3 || ["SPAN", "CODE"].includes(c.tagName)).map((c) => c.textContent).join("").trim()).filter(Boolean)`) {
			label = strings.TrimRight(numbersInLabels.ReplaceAllString(label, "N"), "…: ")
			for _, name := range []string{"web/events", "web/orders", "shop/orders"} {
				label = strings.ReplaceAll(label, name, "SINK")
			}
			if len([]rune(label)) < 2 || strings.HasPrefix(label, "Record ") { // a sign, or the id of a record
				continue
			}
			if seen[label] == "" {
				seen[label] = address
			}
		}
	})
	doc, err := os.ReadFile(glossary)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "\n## Labels of the console\n")
	list, _, _ = strings.Cut(list, "\n## ")
	known := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*([^*]+)\*\* \|`).FindAllStringSubmatch(list, -1) {
		for _, label := range strings.Split(m[1], "; ") {
			known[label] = false
		}
	}
	var missing []string
	for label, address := range seen {
		if _, ok := known[label]; !ok {
			missing = append(missing, label+" ("+address+")")
		}
		known[label] = true
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("%s lacks these labels of the console:\n%s", glossary, strings.Join(missing, "\n"))
	}
	for label, used := range known {
		if !used && !notShown[label] {
			t.Errorf("%s has the label %q, which no page shows", glossary, label)
		}
	}
}
