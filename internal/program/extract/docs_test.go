package extract

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExampleOfTheDocs runs the commands of the example in docs/extractor.md one after another. Their output must be what stands there, with anything for "…".
func TestExampleOfTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/extractor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "\n## An example\n")
	_, example, _ = strings.Cut(example, "```console\n")
	example, _, found := strings.Cut(example, "```")
	commands := strings.Split(example, "$ go run ./extract ")[1:]
	if !found || len(commands) < 5 {
		t.Fatalf("commands %q", commands)
	}
	work := t.TempDir()
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for _, command := range commands {
		line, want, _ := strings.Cut(command, "\n")
		args := strings.Fields(line)
		for i := range args[1:] {
			if args[i] == "-data" || args[i] == "-state" {
				args[i+1] = work + "/" + args[i+1]
			}
		}
		out, log, err := program(t, args...)
		if err != nil {
			t.Fatalf("got %s: %v\n%s\nwant no error", line, err, log)
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(port.ReplaceAllString(want, "127.0.0.1:1")), "…", "(?s:.*)") + "$"
		if got := port.ReplaceAllString(log+out, "127.0.0.1:1"); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s writes\n%s\nin the docs is\n%s", line, got, want)
		}
	}
}
