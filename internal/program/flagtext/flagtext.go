// Package flagtext parses the flags of a command and shows them on one screen. The usage of a flag gives its meaning, its unit, and in
// parentheses its default and an example: "longest shutdown, a duration (e.g. 1m)", or "most bytes on disk (default 16 GiB; e.g. 1073741824)".
// Without a default in the text, package flag's default applies. A flag without a value is off by default and needs neither.
package flagtext

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Text is the usage of a flag in parts.
type Text struct{ Meaning, Default, Example string }

// Of returns the parts of the usage of a flag.
func Of(f *flag.Flag) Text {
	t := Text{Meaning: f.Usage}
	if at := max(strings.LastIndex(f.Usage, " (default "), strings.LastIndex(f.Usage, " (e.g. ")); at >= 0 && strings.HasSuffix(f.Usage, ")") {
		t.Meaning = f.Usage[:at]
		inside := f.Usage[at+2 : len(f.Usage)-1]
		if text, ok := strings.CutPrefix(inside, "default "); ok {
			t.Default, t.Example, _ = strings.Cut(text, "; e.g. ")
		} else {
			t.Example = strings.TrimPrefix(inside, "e.g. ")
		}
	}
	if !isSwitch(f) {
		t.Default = cmp.Or(t.Default, f.DefValue)
	}
	return t
}

// isSwitch reports whether a flag is off by default and has no value.
func isSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag() && f.DefValue == "false"
}

// Parse parses the flags of a command. After -h it shows the main flags on the output of the set, and after -h -all every flag. Without
// main flags, -h shows every flag. It returns [flag.ErrHelp] after -h, and prints no other error.
func Parse(flags *flag.FlagSet, args []string, main ...string) error {
	out := flags.Output()
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	flags.SetOutput(out)
	if errors.Is(err, flag.ErrHelp) {
		if slices.Contains(flags.Args(), "-all") {
			main = nil
		}
		show(flags, main)
		return err
	}
	if err != nil {
		return explain(flags, err)
	}
	return nil
}

// Misplaced refuses a flag after the first argument. Package flag would treat it as an argument, so that -reason would be the id of a
// record. Every command with arguments calls Misplaced.
func Misplaced(flags *flag.FlagSet) error {
	for _, arg := range flags.Args() {
		if len(arg) > 1 && arg[0] == '-' {
			return fmt.Errorf("%s stands after the argument %q: put the flags before the arguments", arg, flags.Arg(0))
		}
	}
	return nil
}

// unparsed is the text of package flag for a value that is no number, too large a number, or neither true nor false.
var unparsed = regexp.MustCompile(`^(invalid (?:boolean )?value .* for (?:flag )?-(\S+)): (parse error|value out of range)$`)

// explain replaces the texts of package flag that name no next step.
func explain(flags *flag.FlagSet, err error) error {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		var names []string
		flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		text = fmt.Sprintf("there is no flag -%s", name)
		if near := Nearest(name, names); near != "" {
			text += fmt.Sprintf("; do you mean -%s?", near)
		}
	}
	if m := unparsed.FindStringSubmatch(text); m != nil {
		text = m[1] + ": " + Problem(flags.Lookup(m[2]), errors.New(m[3]))
	}
	if !strings.HasSuffix(text, "?") {
		text += ";"
	}
	return errors.New(text + " -h shows the flags")
}

// Problem returns the text of an error of f.Value.Set. In place of the "parse error" of package flag it says which values the flag accepts.
func Problem(f *flag.Flag, err error) string {
	if text := err.Error(); text != "parse error" && text != "value out of range" {
		return text
	}
	kind := "true or false"
	if getter, ok := f.Value.(flag.Getter); ok {
		switch getter.Get().(type) {
		case int, int64, uint, uint64:
			kind = "a whole number without a unit"
		case float64:
			kind = "a number without a unit"
		case time.Duration:
			kind = "a duration"
		}
	}
	if example := Of(f).Example; example != "" {
		kind += ", such as " + example
	}
	return "want " + kind
}

const (
	width    = 100 // of the screen
	leftmost = 34  // longest left column
)

func show(flags *flag.FlagSet, main []string) {
	var shown []*flag.Flag
	hidden := 0
	flags.VisitAll(func(f *flag.Flag) {
		if len(main) == 0 || slices.Contains(main, f.Name) {
			shown = append(shown, f)
		} else {
			hidden++
		}
	})
	left, column := make([]string, len(shown)), 0
	for i, f := range shown {
		left[i] = strings.TrimSpace("-" + f.Name + " " + Of(f).Example)
		if strings.HasPrefix(Of(f).Example, "-") { // the example of a switch that is on
			left[i] = Of(f).Example
		}
		if n := utf8.RuneCountInString(left[i]); n <= leftmost {
			column = max(column, n)
		}
	}
	out := flags.Output()
	fmt.Fprintln(out, "Flags with example values. A flag without a value is off by default.")
	for i, f := range shown {
		t := Of(f)
		if t.Default != "" {
			t.Meaning += " (default " + t.Default + ")"
		}
		lines := wrap(t.Meaning, width-column-4)
		if utf8.RuneCountInString(left[i]) > leftmost {
			fmt.Fprintf(out, "  %s\n", left[i])
			left[i] = ""
		}
		for _, line := range lines {
			fmt.Fprintf(out, "  %-*s  %s\n", column, left[i], line)
			left[i] = ""
		}
	}
	if hidden > 0 {
		fmt.Fprintf(out, "-h -all shows %d more flags.\n", hidden)
	}
}

// wrap breaks a text into lines between words.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
