//go:build !forebay_notemplates

package template

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

// A stack that overflows ends the process, so no text may bring the parser there, neither within the allowed length, nor
// beyond it.
func TestHostileTextNeedsLittleStack(t *testing.T) {
	limit := uint64(32 << 20)
	if raceEnabled {
		limit *= 4
	}
	for _, length := range []int{MaxLength, 300_000} {
		for _, part := range [][3]string{
			{"(", "1", ")"},
			{"[", "", "]"},
			{"[", "", ""},
			{"{a:", "1", "}"},
			{"{a:", "1", ""},
			{"{[", "'a'", "]:1}"},
			{"(function(x)", "1", ")(1)"},
			{"f(", "1", ")"},
			{"'x'[", "0", "]"},
			{"!", "true", ""},
			{"- ", "1", ""},
			{"1+", "1", ""},
			{"if true then ", "1", ""},
			{"if ", "true", " then true"},
			{"local a=", "1", ";a"},
			{"local a=1;", "a", ""},
			{"function(x)", "1", ""},
			{"assert true;", "1", ""},
			{"error ", "1", ""},
			{"", "{}", "{}"},
			{"", "[1]", "[0]"},
			{"", "f", "()"},
			{"[", "1", " for x in [1]]"},
		} {
			n := (length - len(part[1])) / (len(part[0]) + len(part[2]))
			text := strings.Repeat(part[0], n) + part[1] + strings.Repeat(part[2], n)
			runtime.GC() // gives back the stacks of goroutines that have ended
			grown := make(chan uint64)
			go func() {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, _ = Compile(text, Options{})
				runtime.ReadMemStats(&after)
				grown <- after.StackInuse - min(after.StackInuse, before.StackInuse)
			}()
			if size := <-grown; size > limit {
				t.Errorf("%d times %q: got %d MB of stack, want at most %d", n, part, size>>20, limit>>20)
			}
		}
	}
}

func TestTemplateLimits(t *testing.T) {
	nest := func(n int, open, end string) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	brackets := strings.Repeat("(", 2*maxNesting)
	deep := nest(maxNesting+1, "(", ")")
	tooDeep := fmt.Sprintf("%%d:%%d: brackets are nested deeper than %d levels; give the inner parts names with local", maxNesting)
	at := func(line, col int) string { return fmt.Sprintf(tooDeep, line, col+maxNesting) }
	for _, tc := range []struct{ content, want string }{
		{"", "a template has 1 to 4096 characters, not 0"},
		{strings.Repeat("é", MaxLength+1), "a template has 1 to 4096 characters, not 4097"},
		{nest(maxNesting, "(", ")"), ""},
		{nest(maxNesting, "[", "]"), ""},
		{strings.Repeat("[1]+", 2*maxNesting) + "[1]", ""},
		{deep, at(1, 1)},
		{nest(maxNesting+1, "[", "]"), at(1, 1)},
		{strings.Repeat("[", MaxLength), at(1, 1)},
		{strings.Repeat("(](", MaxLength/3), fmt.Sprintf(tooDeep, 1, 3*maxNesting+1)},
		{"'é' +\n'é'+" + deep, at(2, 5)},

		// Brackets that are text do not count.
		{"'" + brackets + "'", ""},
		{`"` + brackets + `"`, ""},
		{`'\'` + brackets + `\\'`, ""},
		{"@'''" + brackets + `\'`, ""},
		{`@"""` + brackets + `\"`, ""},
		{"1 # " + brackets, ""},
		{"1 // ' " + brackets, ""},
		{"1 /* ' " + brackets + "*/", ""},
		{"|||\n  " + brackets + "\n|||", ""},
		{"|||- \t\r\n\n\n \t" + brackets + "\n\n \t " + brackets + "\n\n   |||", ""},

		// What follows text counts.
		{`'\\' + ` + deep, at(1, 8)},
		{`@'\' + ` + deep, at(1, 8)},
		{`@'''' + ` + deep, at(1, 9)},
		{`@"" + ` + deep, at(1, 7)},
		{"1 +# '\n" + deep, at(2, 1)},
		{"1 +// '\n" + deep, at(2, 1)},
		{"1 +/*/ ' */" + deep, at(1, 12)},
		{"1 */* ' **/" + deep, at(1, 12)},
		{"|||\n  it's\n||| + " + deep, at(3, 7)},
		{"|||\n\n  it's\n\n  |||\n   '\n ||| + " + deep, at(7, 8)},
		{"'a' +|||\n\tit's\n\t |||\n|||+" + deep, at(4, 5)},
	} {
		got := ""
		if _, err := compile(tc.content, Options{}); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%.40q...: got %v, want %q", tc.content, got, tc.want)
		}
	}
}

// Whatever a program contains, brackets after it are seen. In a text that is no program the scan only has to reach the end.
func FuzzTemplateNesting(tf *testing.F) {
	f := fuzztest.New(tf)
	corpus, err := os.ReadFile("../../testdata/templates.txt")
	if err != nil {
		f.Fatal(err)
	}
	for c := range strings.Lines(string(corpus)) {
		f.Add(c)
	}
	for _, c := range []string{"|||", "|||\n", "|||\n ", "|||\n a", "|||\n a\n", "|||\n a\n||", "'", `'\`, "@", "@'", "@''''", "/*", "/*/", "#", "//"} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if len(content) > MaxLength {
			return
		}
		// Brackets after a program count. The scan must not take them for text.
		if _, err := compile(content, Options{}); err != nil {
			return
		}
		nested := content + "\n+" + strings.Repeat("(", maxNesting+1) + "1" + strings.Repeat(")", maxNesting+1)
		if source(nested).tooDeep() < 0 {
			t.Errorf("the brackets behind %q were not seen", content)
		}
	})
}
