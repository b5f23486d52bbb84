package forebay_test

import (
	"os"
	"strings"
	"testing"
)

// The sample of the README is the example of drivers/sqlite, so it compiles and does what the README says. It begins before word 150 and has at most 15
// lines, and the README has at most 850 words.
func TestReadmeIsShortAndShowsTheExample(t *testing.T) {
	code, err := os.ReadFile("drivers/sqlite/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
