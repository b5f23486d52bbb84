//go:build !forebay_notemplates

package template

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxNesting is how deep the brackets of a template may nest. The parser recurses about twenty frames a level, and a stack
// overflow ends the process, and recover does not help. So the depth is checked before the parser runs.
const maxNesting = 200

// limits returns a fault for a text that must not reach the parser.
func (s source) limits() *Fault {
	if n := utf8.RuneCountInString(string(s)); n == 0 || n > MaxLength {
		return &Fault{0, 0, fmt.Sprintf("a template has 1 to %d characters, not %d", MaxLength, n)}
	}
	if i := s.tooDeep(); i >= 0 {
		return s.faultAt(i, fmt.Sprintf("brackets are nested deeper than %d levels; give the inner parts names with local", maxNesting))
	}
	return nil
}

// tooDeep returns the offset of the first bracket beyond maxNesting, or -1. Brackets in strings and comments do not count.
// Brackets need not match, because the parser stops at the first that does not. Nor does it matter what follows an unfinished token, because
// the whole text is split into tokens before it is parsed.
func (s source) tooDeep() int {
	depth := 0
	for i := 0; i < len(s); {
		rest := string(s[i:])
		switch {
		case strings.HasPrefix(rest, "|||"):
			i += textBlockLen(rest)
			continue
		case strings.ContainsRune(`"'@#/`, rune(rest[0])):
			if n := len(skipped.FindString(rest)); n > 0 {
				i += n
				continue
			}
		case strings.ContainsRune("([{", rune(rest[0])):
			if depth++; depth > maxNesting {
				return i
			}
		case strings.ContainsRune(")]}", rune(rest[0])):
			depth = max(depth-1, 0)
		}
		i++
	}
	return -1
}

// skipped is a string or a comment. A string ends at the first quote without a backslash, a verbatim one at the first that is
// not doubled.
var skipped = regexp.MustCompile(`^(?s:"(?:[^"\\]|\\.)*(?:"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$)` +
	`|@"(?:[^"]|"")*(?:"|$)|@'(?:[^']|'')*(?:'|$)|(?:#|//)[^\n]*\n?|/\*.*?(?:\*/|$))`)

// textBlockLen returns the length of the text block at the start of s. It continues while lines are empty or begin
// with the white space of its first line that is not empty.
func textBlockLen(s string) int {
	i := lineLen(s)
	for i < len(s) && s[i] == '\n' {
		i++
	}
	indent := s[i : i+blankLen(s[i:])]
	if indent == "" {
		return len(s) // refused
	}
	for i < len(s) && (s[i] == '\n' || strings.HasPrefix(s[i:], indent)) {
		i += lineLen(s[i:])
	}
	i += blankLen(s[i:])
	if !strings.HasPrefix(s[i:], "|||") {
		return len(s) // refused
	}
	return i + len("|||")
}

// lineLen returns the length of the first line of s with its line end.
func lineLen(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i + 1
	}
	return len(s)
}

// blankLen returns the length of the white space at the start of s.
func blankLen(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }
