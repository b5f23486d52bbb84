package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// A flag after an argument is refused by every command. Package flag would take it for an argument, such as the id of a record, and
// the command would do less or more than its user means.
func TestFlagsAfterArgumentsAreRefused(t *testing.T) {
	for _, v := range verbs() {
		for _, args := range [][]string{
			{v.name, "list", "a/b", "-reason", "x"}, {v.name, "discard", "a/b", "-reason", "x"}, {v.name, "replay", "a/b", "-all"}, {v.name, "a/b", "-json"},
		} {
			var out, errs bytes.Buffer
			p := process{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) (string, bool) { return "", false }}
			if status := p.run(t.Context(), args); status != wrongUsage && status != failed || out.Len() > 0 || errs.Len() == 0 {
				t.Errorf("forebay %s: status %d, output %q, errors %q, want a refusal", strings.Join(args, " "), status, out.String(), errs.String())
			}
		}
	}
}

// TestUnknownFlagsAreRefused checks that every command, and every command below it that its help shows, refuses an unknown flag. The error
// names the flag, unless the help shows an argument in place of a command.
func TestUnknownFlagsAreRefused(t *testing.T) {
	for _, v := range verbs() {
		calls := [][]string{{v.name, "-surprise"}, {v.name, "-surprise=1", "a/b"}}
		for _, m := range regexp.MustCompile(`(?m)^  forebay `+v.name+` ([a-z]+)\b`).FindAllStringSubmatch(v.help, -1) {
			calls = append(calls, []string{v.name, m[1], "-surprise", "a/b"}, []string{v.name, m[1], "-surprise=1", "a/b", "id"})
		}
		for _, args := range calls {
			var out, errs bytes.Buffer
			p := process{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) (string, bool) { return "", false }}
			if status := p.run(t.Context(), args); status != wrongUsage && status != failed || out.Len() > 0 ||
				!strings.Contains(errs.String(), "-surprise") && (args[1][0] == '-' || errs.Len() == 0) {
				t.Errorf("forebay %s: status %d, output %q, errors %.300q, want a refusal that names the flag", strings.Join(args, " "), status, out.String(), errs.String())
			}
		}
	}
}
