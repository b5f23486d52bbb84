package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// flagCommands are the commands with flags. A command with actions has the same flags for each of them.
func flagCommands() (commands [][]string) {
	actions := map[string]string{
		"files": "list", "damage": "list", "quarantine": "list", "replay": "start", "shadow": "start",
	}
	for _, v := range verbs() {
		command := []string{v.name}
		if action := actions[v.name]; action != "" {
			command = append(command, action)
		}
		commands = append(commands, command)
	}
	return append(commands, []string{"replay", "start", "-config", "forebay.yaml"})
}

// flagLine is a flag in the output of -h, with its name, its example, and the rest of its text.
type flagLine struct{ name, example, text string }

func flagLines(out string) (lines []flagLine) {
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := regexp.MustCompile(`^  -([a-z-]+)(?:=(\S+)| (\S.*?))?(?:  +(\S.*))?$`).FindStringSubmatch(line); m != nil {
			lines = append(lines, flagLine{m[1], m[2] + m[3], m[4]})
		} else if strings.HasPrefix(line, "     ") && len(lines) > 0 {
			last := &lines[len(lines)-1]
			last.text = strings.TrimSpace(last.text + " " + strings.TrimSpace(line))
		}
	}
	return lines
}

// units are the words of which the text of a flag with a number has one.
var units = regexp.MustCompile(`\b(bytes|connections|events|clients|kills|percent|records|rows per second|share|number|most records)\b`)

// TestFlagTexts checks that the text of every flag of every command ends with its default, unless the flag is off by default. The left column shows
// an example that the command accepts. The text of a number names its unit, and durations are called durations.
func TestFlagTexts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, command := range flagCommands() {
		status, out, errs := call(t, "", nil, append(slices.Clone(command), "-h", "-all")...)
		lines := flagLines(out + errs)
		if status != 0 || len(lines) == 0 {
			t.Fatalf("forebay %q -h -all: status %d, %d flags\n%s%s", command, status, len(lines), out, errs)
		}
		for _, f := range lines {
			if seen[f.name+f.text] {
				continue // the flags of serve, in another command
			}
			seen[f.name+f.text] = true
			try := func(value string) string {
				_, out, errs := call(t, "", nil, append(slices.Clone(command), "-"+f.name+"="+value, "-h")...)
				if text := out + errs; strings.Contains(text, "invalid ") {
					return text
				}
				return ""
			}
			if strings.Contains(try("?"), "invalid boolean") {
				if f.example != "" && f.example != "false" || f.text == "" {
					t.Errorf("forebay %q -%s: got the example %q and the text %q, want a text, and an example only if the flag is on by default", command, f.name, f.example, f.text)
				}
				continue
			}
			if !strings.HasSuffix(f.text, ")") || !strings.Contains(f.text, "(default ") || f.example == "" {
				t.Errorf("forebay %q -%s: want a default and an example, got %q, %q", command, f.name, f.example, f.text)
			}
			if wrong := try(strings.Trim(f.example, "'")); wrong != "" {
				t.Errorf("forebay %q -%s: the example is refused: %s", command, f.name, wrong)
			}
			switch refusal := try("?"); {
			case strings.Contains(refusal, "number without a unit") && !units.MatchString(f.text):
				t.Errorf("forebay %q -%s: %q names no unit", command, f.name, f.text)
			case strings.Contains(refusal, "want a duration") && !strings.Contains(f.text, "a duration") && f.name != "for":
				t.Errorf("forebay %q -%s: %q is not called a duration", command, f.name, f.text)
			}
		}
	}
	if len(seen) < 80 {
		t.Errorf("saw %d flags, want all of the program, more than 80", len(seen))
	}
}

// TestFlagsFitAScreen: -h shows the flags of the command alone, on 24 lines of 100 columns. It says how to see the others.
func TestFlagsFitAScreen(t *testing.T) {
	t.Parallel()
	for _, command := range flagCommands() {
		_, all, errs := call(t, "", nil, append(slices.Clone(command), "-h", "-all")...)
		flags := len(flagLines(all + errs))
		_, out, errs := call(t, "", nil, append(slices.Clone(command), "-h")...)
		out += errs
		lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
		if len(lines) > 24 {
			t.Errorf("forebay %q -h has %d lines, want at most 24:\n%s", command, len(lines), out)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("forebay %q -h: a line has %d columns, want at most 100: %s", command, n, line)
			}
		}
		if shown := len(flagLines(out)); shown < flags && !strings.Contains(out, "-h -all shows ") {
			t.Errorf("forebay %q -h shows %d of %d flags, and not how to see the others:\n%s", command, shown, flags, out)
		}
		if serves := len(command) == 1 && slices.Contains([]string{"check", "otlp", "orphans"}, command[0]); serves && strings.Contains(out, "  -log-level") {
			t.Errorf("forebay %q -h shows a flag of serve:\n%s", command, out)
		}
	}
}
