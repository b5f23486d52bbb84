//go:build forebay_notemplates

package template

import (
	"strings"
	"testing"
)

// A program that was built without templates says so, whatever the text.
func TestNone(t *testing.T) {
	for _, text := range []string{`Body("a")`, "1", "", "(" + strings.Repeat("x", MaxLength)} {
		prog, faults := Compile(text, Options{})
		if prog != nil || len(faults) != 1 || !strings.Contains(faults[0].Msg, "without templates") {
			t.Errorf("%q: got %v, %v, want prog == nil and len(faults) == 1 and strings.Contains(faults[0].Msg, \"without templates\")", text, prog, faults)
		}
	}
}
