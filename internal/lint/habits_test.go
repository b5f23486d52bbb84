package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A habit is a turn of phrase that makes a reader read a sentence twice. It may be right in single sentences, so its rate on all pages for users
// is bounded and not its presence. The bounds are the rates that the pages had in November 2026, rounded up. Lower them when the rates fall.
type habit struct {
	name    string
	phrase  *regexp.Regexp
	most    float64 // for each 1,000 words of all pages for users
	instead string
}

var habits = []habit{
	{"of its own", regexp.MustCompile(`(?i)\bof (?:its|their|your|our) own\b`), 0.1, "own, separate"},
	{"beside", regexp.MustCompile(`(?i)\bbesides?\b`), 0.1, "next to, compared with, in addition to"},
	{"somebody", regexp.MustCompile(`(?i)\b(?:somebody|nobody|who has)\b`), 0.1, "name the actor: you, an operator, the caller"},
	{"answer", regexp.MustCompile(`(?i)\banswer(?:s|ed|ing)?\b`), 0.1, "response, returns, confirms"},
	{"goes on", regexp.MustCompile(`(?i)\b(?:go|goes|going|went) on\b`), 0.1, "continues, resumes"},
	{"also when", regexp.MustCompile(`(?i)\balso (?:when|if|after|in|for|from|with|of|through|by|where)\b`), 0.1, "even if, including"},
	{"what as a noun", regexp.MustCompile(`(?i)[^.?!|*#] what (?:is|was|it|they|has|have|comes?|waits?|cannot|can)\b`), 0.2, "name the thing: rows, error, result"},
	{"those that", regexp.MustCompile(`(?i)\b(?:those|the ones?) (?:that|of|which|from|who)\b`), 0.1, "repeat the noun"},
	{"behind, in front of", regexp.MustCompile(`(?i)\b(?:behind|in front of)\b`), 0.1, "after, before"},
	{"under way", regexp.MustCompile(`(?i)\bunder way\b`), 0.1, "in progress"},
	{"any more", regexp.MustCompile(`(?i)\bany more\b`), 0.1, "no longer"},
}

// ratesOf returns for each habit its rate for 1,000 words of texts, and where it is.
func ratesOf(texts map[string]string) (rates map[string]float64, places map[string][]string) {
	words := 0
	rates, places = make(map[string]float64), make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(texts[name], ""), "`")
		text = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(text, "]")
		words += len(strings.Fields(text))
		for line := range strings.Lines(text) {
			for _, h := range habits {
				for _, found := range h.phrase.FindAllString(line, -1) {
					places[h.name] = append(places[h.name], fmt.Sprintf("%s: %q", name, strings.TrimSpace(found)))
				}
			}
		}
	}
	for name, found := range places {
		rates[name] = 1000 * float64(len(found)) / float64(words)
	}
	return rates, places
}

func TestHabitsOfPages(t *testing.T) {
	pages := make(map[string]string)
	for name, text := range loadTree(t).texts {
		if strings.HasSuffix(name, ".md") && strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/internals/") {
			pages[name] = text
		}
	}
	rates, places := ratesOf(pages)
	for _, h := range habits {
		t.Logf("%-20s %.2f", h.name, rates[h.name])
		if rates[h.name] > h.most {
			t.Errorf("%q is %.2f in 1,000 words of the pages, at most %.2f. Write: %s\n%s", h.name, rates[h.name], h.most, h.instead, strings.Join(places[h.name], "\n"))
		}
	}
}

// Each habit is found in prose, and not in code.
func TestHabitsAreFound(t *testing.T) {
	const text = "A module of its own beside a file. Somebody answers and goes on, also when what it says is seen by those who wait. " +
		"A row behind it is under way and not there any more.\n\n```\nbeside\n```\n`beside` [x](beside.md)\n"
	rates, places := ratesOf(map[string]string{"a.md": text})
	for _, h := range habits {
		if len(places[h.name]) != 1 || rates[h.name] == 0 {
			t.Errorf("%s: found %q at %.1f, want one", h.name, places[h.name], rates[h.name])
		}
	}
}
