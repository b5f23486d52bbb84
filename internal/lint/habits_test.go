package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A habit is a turn of phrase that makes a reader read a sentence twice. It may be right in single sentences, so its rate is bounded and not its
// presence.
type habit struct {
	name   string
	phrase *regexp.Regexp
	// peers is the rate in 392,000 words of documentation of comparable projects, November 2026. All rates are for 1,000 words.
	peers float64
	// most are the bounds of the parts in prosePartNames that differ from the rate of the peers. Without one the bound is that rate, at least 0.1, so
	// that a page of few words may have one.
	most    [6]float64
	instead string
}

// prosePartNames are the parts of the repository that people read: pages for users, all other pages, doc comments of exported names in public
// packages, all other comments, texts of programs, and texts of pages in a browser.
var prosePartNames = [6]string{"pages for users", "pages for contributors", "exported documentation", "other comments", "flags and messages", "pages in a browser"}

// One entry for each of the twelve habits, and two turns that took the place of others. The phrases leave out idioms that are right, such as "takes
// over", "takes 10 ms" and "another node".
var habits = []habit{
	{"of its own", regexp.MustCompile(`(?i)\bof (?:its|their|your|our) own\b`), 0.01, [6]float64{}, "own, separate"},
	{"beside", regexp.MustCompile(`(?i)\bbesides?\b`), 0, [6]float64{}, "next to, compared with, in addition to"},
	{"somebody", regexp.MustCompile(`(?i)\b(?:somebody|nobody|who has)\b`), 0.01, [6]float64{}, "name the actor: you, an operator, the caller"},
	{"answer", regexp.MustCompile(`(?i)\banswer(?:s|ed|ing)?\b`), 0.02, [6]float64{}, "response, returns, confirms"},
	{"goes on", regexp.MustCompile(`(?i)\b(?:go|goes|going|went) on\b`), 0.01, [6]float64{}, "continues, resumes"},
	{"also when", regexp.MustCompile(`(?i)\balso (?:when|if|after|for|from|in|with|of|through|by|where)\b`), 0.01, [6]float64{}, "even if, including"},
	{"what as a noun", regexp.MustCompile(`(?i)[^.?!|*#] what (?:is|was|it|they|has|have|comes?|waits?|cannot|can)\b`), 0.04, [6]float64{}, "name the thing: rows, error, result"},
	{"has 33 KB", regexp.MustCompile(`(?i)\b(?:has|have) [0-9][0-9.,]* ?[kMGT]i?B\b|\bhas rows imported\b`), 0.01, [6]float64{}, "is 33 KB, imports rows"},
	{"those that", regexp.MustCompile(`(?i)\b(?:those|the ones?) (?:that|of|which|from|who)\b`), 0.02, [6]float64{}, "repeat the noun"},
	{"rows come", regexp.MustCompile(`(?i)\b(?:rows|events|records|files|batches|requests|calls|errors?|it|they|that|which) (?:comes?|came)\b[^.]?(?: (?:[^fbw.\s]\S*|first|w\S*))?|\btakes? (?:rows|events|records|files|batches|requests|calls|no|all|both|any|them)\b`), 0.37, [6]float64{}, "arrive, accept, need"},
	{"behind, in front of", regexp.MustCompile(`(?i)\b(?:behind|in front of|another one)\b`), 0.22, [6]float64{0: 0.1}, "after, before, a different one"},
	// The peers were counted in pages. Messages are no prose: an error wraps its cause after a colon, and gives the next step after a colon or a
	// semicolon. Of 1,565 in messages in November 2026, 867 follow a value or the first word, as in "file %s: %w". The bound is the rate of that month.
	{punctuation, regexp.MustCompile(`[;:] [a-z]`), 3.7, [6]float64{4: 34, 5: 34}, "two sentences"},
	{"under way", regexp.MustCompile(`(?i)\bunder way\b`), 0.01, [6]float64{}, "in progress"},
	{"any more", regexp.MustCompile(`(?i)\bany more\b`), 0.01, [6]float64{}, "no longer"},
}

// punctuation is the habit that counts in sentences only, not in tables.
const punctuation = "a; b; c: d"

var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// ratesOf returns for each habit its rate for 1,000 words of texts, where it is, and the number of words.
func ratesOf(texts map[string]string) (rates map[string]float64, places map[string][]string, words int) {
	rates, places = make(map[string]float64), make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(texts[name], ""), "`")
		text = linkTarget.ReplaceAllString(text, "]")
		words += len(strings.Fields(text))
		for line := range strings.Lines(text) {
			for _, h := range habits {
				if h.name == punctuation && strings.HasPrefix(line, "|") {
					continue
				}
				for _, found := range h.phrase.FindAllString(line, -1) {
					places[h.name] = append(places[h.name], fmt.Sprintf("%s: %q", name, strings.TrimSpace(found)))
				}
			}
		}
	}
	for name, found := range places {
		rates[name] = 1000 * float64(len(found)) / float64(words)
	}
	return rates, places, words
}

// proseParts returns the texts of each part, by where they are.
func proseParts(t *tree) (parts [6]map[string]string) {
	for i := range parts {
		parts[i] = make(map[string]string)
	}
	for name, text := range t.texts {
		switch {
		case web(name):
			parts[5][name] = webTexts(name, text)
		case !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md": // it describes the past
		case forContributors(name) || name == "CONTRIBUTING.md" || path.Base(path.Dir(name)) == "stories":
			parts[1][name] = text
		default:
			parts[0][name] = text
		}
	}
	for _, f := range t.files {
		exported := exportedComments(f)
		for _, group := range f.ast.Comments {
			part := 3
			if exported[group] {
				part = 2
			}
			parts[part][t.at(group.Pos())] = strings.Join(strings.Fields(group.Text()), " ")
		}
		if f.test || f.kit() || f.room() == "bench" || path.Base(f.dir) == "bench" || strings.HasPrefix(f.dir, "internal/sim") || strings.HasPrefix(f.dir, "internal/soak") {
			continue
		}
		tags := make(map[*ast.BasicLit]bool)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				if n.Tag != nil && !strings.Contains(n.Tag.Value, `doc:"`) { // the documentation of the Stream API is in tags
					tags[n.Tag] = true
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && !tags[n] && len(strings.Fields(text)) > 2 {
					parts[4][t.at(n.Pos())] += text + "\n"
				}
			}
			return true
		})
	}
	return parts
}

// exportedComments returns the comments of a file that a documentation site shows.
func exportedComments(f *file) map[*ast.CommentGroup]bool {
	shown := make(map[*ast.CommentGroup]bool)
	if !f.public() {
		return shown
	}
	shown[f.ast.Doc] = true
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			shown[d.Doc] = d.Name.IsExported()
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				name := ""
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					name = spec.Name.Name
					shown[spec.Doc], shown[spec.Comment] = token.IsExported(name), token.IsExported(name)
				case *ast.ValueSpec:
					name = spec.Names[0].Name
					shown[spec.Doc], shown[spec.Comment] = token.IsExported(name), token.IsExported(name)
				}
				if token.IsExported(name) {
					shown[d.Doc] = true
					ast.Inspect(spec, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok && (len(field.Names) == 0 || field.Names[0].IsExported()) {
							shown[field.Doc], shown[field.Comment] = true, true
						}
						return true
					})
				}
			}
		}
	}
	return shown
}

func TestHabits(t *testing.T) {
	for i, texts := range proseParts(loadTree(t)) {
		rates, places, words := ratesOf(texts)
		t.Logf("%s: %d words", prosePartNames[i], words)
		for _, h := range habits {
			most := cmp.Or(h.most[i], max(h.peers, 0.1))
			t.Logf("%-20s %.2f, peers %.2f", h.name, rates[h.name], h.peers)
			if rates[h.name] > most {
				found := places[h.name]
				t.Errorf("%s: %q is %.2f in 1,000 words, at most %.2f (peers %.2f). Write: %s\n%s", prosePartNames[i], h.name, rates[h.name], most, h.peers, h.instead,
					strings.Join(found[:min(len(found), 40)], "\n"))
			}
		}
	}
}

// Each habit is found in prose, and not in code.
func TestHabitsAreFound(t *testing.T) {
	const text = "A module of its own beside a file. Somebody answers and goes on, also when what it says is seen by those who wait. " +
		"Rows come; a row behind it has 33 KB, is under way and not there any more.\n\n```\nbeside\n```\n`beside` [x](beside.md)\n| a; b |\n"
	rates, places, words := ratesOf(map[string]string{"a.md": text})
	if words < 30 {
		t.Errorf("got %d words, want at least 30", words)
	}
	for _, h := range habits {
		if len(places[h.name]) != 1 || rates[h.name] == 0 {
			t.Errorf("%s: found %q at %.1f, want one", h.name, places[h.name], rates[h.name])
		}
	}
}

// Each part of the prose is found, that is, a page of each kind, a comment of each kind, a message and a flag, and what scripts and their page show,
// but no struct tag.
func TestProseParts(t *testing.T) {
	tr := newTree()
	for name, text := range map[string]string{
		"docs/a.md": "user", "docs/internals/b.md": "contributor", "x/x.js": "f('The row is stored.');\n",
		"x/x.go": "package x\n\n// F does.\nfunc F() error { return f(\"no such file: name one\") }\n\n// g does not.\nfunc g() {}\n\ntype t struct {\n\ta int `json:\"a b c\"`\n}\n",
	} {
		if err := tr.add(name, text); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"user", "contributor", "F does.", "g does not.", "no such file: name one\n", "The row is stored.\n"} {
		if got := strings.Join(slices.Collect(maps.Values(proseParts(tr)[i])), ""); got != want {
			t.Errorf("%s: got %q, want %q", prosePartNames[i], got, want)
		}
	}
}
