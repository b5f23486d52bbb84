// Package messagetest holds messages to the rule that they name the thing, its place and the next step.
package messagetest

import (
	"strings"
	"testing"
)

// Want has a part of a message for each question of its reader. None of them may be empty, and the message must contain them.
type Want struct {
	// What happened, Where is the thing that has the mistake, and Next is what to do.
	What, Where, Next string
}

// raw are texts of other libraries, which name no place and no next step of the reader.
var raw = []string{"dial tcp", "strconv.", "json: cannot", "json: unknown", ": parse error", "unexpected end of JSON", "invalid character", "reflect.", "%!", "errno", "temporarily unavailable", "map[", "<nil>"}

// GoNames returns names that only a Go program knows. Users of the binary and of HTTP never read them.
func GoNames() []string {
	return []string{"Options.", "Inspection.", "Engine.", "forebay.", "buffer: ", "mapping.JSON", "mapping.Format", "mapping.Record"}
}

// Check fails the test unless the message of a mistake, such as a command or a call, has all parts and none of the forbidden texts. The texts of
// other libraries are always forbidden.
func Check(t *testing.T, mistake, message string, want Want, forbidden ...string) {
	t.Helper()
	for _, part := range []struct{ question, text string }{{"what", want.What}, {"where", want.Where}, {"next", want.Next}} {
		if part.text == "" || !strings.Contains(message, part.text) {
			t.Errorf("%s\ngot      %s\nwant %-5s %q", mistake, message, part.question, part.text)
		}
	}
	for _, text := range append(forbidden, raw...) {
		if strings.Contains(message, text) {
			t.Errorf("%s\ngot      %s\nwant it without %q", mistake, message, text)
		}
	}
}
