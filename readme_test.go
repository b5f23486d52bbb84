package forebay_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The sample of the README is the example of drivers/sqlite, so it compiles and does what the README says. It begins before word 150 and has at most 15
// lines, and the README has at most 850 words.
func TestReadmeIsShortAndShowsTheExample(t *testing.T) {
	code, err := os.ReadFile("drivers/sqlite/example_test.go")
	must(t, err)
	_, body, begins := strings.Cut(string(code), "\t// README.md begins\n")
	body, _, ends := strings.Cut(body, "\t// README.md ends\n")
	if !begins || !ends {
		t.Fatal("drivers/sqlite/example_test.go has no lines between its comments about README.md")
	}
	var sample strings.Builder
	lines := 0
	for line := range strings.Lines(body) {
		sample.WriteString(strings.TrimPrefix(line, "\t"))
		lines++
	}
	readme, err := os.ReadFile("README.md")
	must(t, err)
	before, after, shown := strings.Cut(string(readme), "```go\n"+sample.String()+"```\n")
	if !shown {
		t.Fatalf("README.md does not show the example; put this into it:\n%s", &sample)
	}
	if words := len(strings.Fields(before)); words >= 150 || lines > 15 {
		t.Errorf("the sample has %d lines after %d words, want at most 15 lines before word 150", lines, words)
	}
	if !strings.HasPrefix(after, "\n```sh\nsqlite3 ") || !strings.Contains(after[:100], "SELECT") {
		t.Errorf("after the sample README.md has %.100q, want a SELECT", after)
	}
	if words := len(strings.Fields(string(readme))); words > 850 {
		t.Errorf("README.md has %d words, want at most 850", words)
	}
}

// A reader of the README learns in this order: its purpose, why, how it looks in code, the flow, its promises, the meaning of a response,
// figures, when not to use it, how to get it, its status, and where to read more.
func TestReadmeIsInOrder(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	must(t, err)
	rest := string(readme)
	for _, part := range []string{
		`# Forebay\n\n\*\*[^*]+\.\*\*\n\n`,         // one sentence
		`[A-Z][^.#]+\.\s[A-Z][^.#]+\.\n\n`,         // two sentences
		"```go\n(?s:.*?)```\n\n```sh\n.*\n```\n\n", // the sample and its SELECT
		`[^!|]+?\n\n`, // its import path
		`!\[[^\]]+\]\(docs/flow\.svg\)\n\n`,
		`(?:- \*\*[^*]+\.\*\* .*\n){6}\n<picture>.*console-recovered.*</picture>\n\n`, // of an engine that works
		`## What a response means\n\n(?:\|.*\n)+\n[^#]+`,
		`## Figures\n\n[^\[]+\[[^\]]+\]\([^)]+\):\n\n(?:- \*\*[^\[\n]+\n){3}\n`, // one link, three figures
		`## When not to use it\n\n(?:- .*\n){5}\n[^#]+\[Alternatives\]\(docs/alternatives\.md\)\.\n\n`,
		`## Install\n\n[^|#]+\|.*\n\|.*\n\| library \|.*\n\| driver \|.*\n\| binary \|.*\n\| container \|.*\n\n`,
		`## Status\n\n[^#]+`,
		`## Pages\n\n(?:- \*\*[^*]+:\*\* .*\n){4}\n`,
		`\[Apache-2\.0\]\(LICENSE\)\n$`,
	} {
		found := regexp.MustCompile(`^` + part).FindString(rest)
		if found == "" {
			t.Fatalf("README.md has %.300q, want %s", rest, part)
		}
		rest = rest[len(found):]
	}
}

// The first section of the changelog lists the facts that a user of the last version must know, in at most 1,500 words.
func TestChangelogIsShort(t *testing.T) {
	changelog, err := os.ReadFile("CHANGELOG.md")
	must(t, err)
	_, section, ok := strings.Cut(string(changelog), "\n## ")
	section, _, _ = strings.Cut(section, "\n## ")
	if words := len(strings.Fields(section)); !ok || words > 1500 {
		t.Errorf("the first section of CHANGELOG.md has %d words, want one with at most 1,500: remove what a user need not know", words)
	}
}
