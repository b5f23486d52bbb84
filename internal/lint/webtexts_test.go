package lint

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// jsParts are comments, regular expressions with the character before them, and texts. Only texts have a group.
	jsParts = regexp.MustCompile("(?s)//[^\n]*|/\\*.*?\\*/|(?:return|[=(,:;!&|?\\[{}>])\\s*/(?:[^/*\\\\\\[\n]|\\\\.|\\[(?:[^\\]\\\\\n]|\\\\.)*\\])(?:[^/\\\\\\[\n]|\\\\.|\\[(?:[^\\]\\\\\n]|\\\\.)*\\])*/" +
		"|(\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`)")
	jsValue    = regexp.MustCompile(`\$\{[^}]*\}`)
	notForEyes = regexp.MustCompile(`(?s)<!--.*?-->|<(script|style)\b.*?</(?:script|style)>|<[a-z/!](?:"[^"]*"|[^">])*>`)
	shownAttr  = regexp.MustCompile(`\b(?:title|placeholder|alt|aria-label)="([^"]*)"`)
	action     = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// code is in texts that no reader sees: selectors, and coordinates of drawings.
	code = regexp.MustCompile(`[\[\]{}<>=#]|:not\(|^[MmLl]?[ \d.,-]*$`)
)

// web reports whether a browser shows the texts of a file. uPlot is a library.
func web(name string) bool {
	return (strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".html")) && path.Base(name) != "uplot.js"
}

// webTexts returns the texts that a script or a page of HTML shows, one a line. As in Go files, a text of one or two words is a name.
func webTexts(name, text string) string {
	var found []string
	if strings.HasSuffix(name, ".html") {
		text = action.ReplaceAllString(text, "`")
		for _, m := range shownAttr.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		found = append(found, strings.Split(notForEyes.ReplaceAllString(text, "\n"), "\n")...)
	} else {
		for _, m := range jsParts.FindAllStringSubmatch(text, -1) {
			if m[1] != "" {
				found = append(found, jsValue.ReplaceAllString(strings.Trim(m[1], "\"'`"), "`"))
			}
		}
	}
	var b strings.Builder
	for _, s := range found {
		if len(strings.Fields(s)) > 2 && !code.MatchString(s) {
			b.WriteString(strings.TrimSpace(s) + "\n")
		}
	}
	return b.String()
}

// The texts of scripts and pages are found, even after a regular expression with a quote, but neither names nor code.
func TestWebTexts(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a.js", `say("The row's file waits."); // "not a comment"` + "\n", "The row's file waits.\n"},
		{"a.js", `x.replace(/["'/]/g, "").split(/"/); /* "nor this comment" */ say('It has "quotes".')`, "It has \"quotes\".\n"},
		{"a.js", "say(`The file ${h('a b c')} waits.`)", "The file ` waits.\n"},
		{"a.js", `h("a", { class: "one two" }); find("tr[data-key] td button"); draw("M 0 0 1 1"); box("0 0 100 100")`, ""},
		{"a.html", `<!-- no such text --><script>say("not this one")</script><p title="The whole of it">{{if .Rows}}The row waits.{{end}}</p>`, "The whole of it\n`The row waits.`\n"},
	} {
		if got := webTexts(tt.name, tt.text); got != tt.want {
			t.Errorf("%s: %s\ngot  %q\nwant %q", tt.name, tt.text, got, tt.want)
		}
	}
}
