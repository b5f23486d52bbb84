package tape

import (
	"fmt"
	"strconv"
	"strings"
)

// Path is a parsed path of a field in a body. The zero value is the whole body. It is immutable.
type Path struct {
	// Text is the path as it was given to ParsePath.
	Text  string
	Steps []Step
}

// Step goes from a value to one value inside it.
type Step struct {
	Key   string // the member of an object
	Index int    // the element of an array, or -1 if the step never means one
}

// PathError says where a path is malformed.
type PathError struct {
	// Offset is the number of bytes before the fault.
	Offset int
	// Msg describes the fault, Next what to write instead.
	Msg, Next string
}

func (e *PathError) Error() string {
	return fmt.Sprintf("%s at position %d; %s", e.Msg, e.Offset+1, e.Next)
}

// Steps to write instead.
const (
	writeIndex     = `write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[`
	writeKey       = `write a quoted key, like ["a.b"]`
	writeBackslash = `a backslash in a name is \\`
)

// maxIndex bounds indexes so that they fit an int on every platform.
const maxIndex = 1<<31 - 1

// ParsePath parses a path. The syntax is documented at mapping.ParsePath. A malformed path gives a [*PathError]. With compat it
// reads the path as the published service does, which has no quotes, no escapes and no errors.
func ParsePath(s string, compat bool) (Path, error) {
	if compat {
		return parseCompatPath(s), nil
	}
	p := Path{Text: s}
	for i := 0; i < len(s); {
		switch s[i] {
		case '.':
			i++
		case '[':
			st, end, err := parseBracket(s, i)
			if err != nil {
				return Path{}, err
			}
			p.Steps = append(p.Steps, st)
			i = end
		default:
			st, end, err := parseName(s, i)
			if err != nil {
				return Path{}, err
			}
			p.Steps = append(p.Steps, st)
			i = end
		}
	}
	return p, nil
}

func parseName(s string, i int) (st Step, end int, err error) {
	rest := s[i:]
	n := strings.IndexAny(rest, `.[\`)
	if n < 0 {
		n = len(rest)
	}
	if n == len(rest) || rest[n] != '\\' {
		return Step{Key: rest[:n], Index: ArrayIndex(rest[:n])}, i + n, nil
	}
	var b strings.Builder
	for ; i < len(s) && s[i] != '.' && s[i] != '['; i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				return Step{}, 0, &PathError{i - 1, "a backslash must be followed by a character", writeBackslash}
			}
		}
		b.WriteByte(s[i])
	}
	return Step{Key: b.String(), Index: -1}, i, nil
}

func parseBracket(s string, i int) (st Step, end int, err error) {
	open := i
	i++
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		key, end, err := parseQuotedKey(s, i)
		if err != nil {
			return Step{}, 0, err
		}
		if end >= len(s) || s[end] != ']' {
			return Step{}, 0, &PathError{end, "expected ']' after the quoted key", writeKey}
		}
		return Step{Key: key, Index: -1}, end + 1, nil
	}
	n := strings.IndexByte(s[i:], ']')
	if n < 0 {
		return Step{}, 0, &PathError{open, "'[' without ']'", writeIndex}
	}
	digits := s[i : i+n]
	for k := range len(digits) {
		if digits[k]-'0' > 9 {
			return Step{}, 0, &PathError{i + k, "no index or quoted key", writeIndex}
		}
	}
	if n == 0 {
		return Step{}, 0, &PathError{i, "no index or quoted key", writeIndex}
	}
	index := ArrayIndex(digits)
	if index < 0 {
		return Step{}, 0, &PathError{i, fmt.Sprintf("the index is above %d", maxIndex), writeKey + " if it is the name of a member"}
	}
	return Step{Key: digits, Index: index}, i + n + 1, nil
}

// parseQuotedKey parses the key whose quote is s[open]. Its escapes are the escapes of JSON strings, and a single quote.
func parseQuotedKey(s string, open int) (key string, end int, err error) {
	for i := open + 1; i < len(s); i++ {
		switch {
		case s[i] == s[open]:
			return string(AppendUnquoted(nil, []byte(s[open+1:i]))), i + 1, nil
		case s[i] != '\\':
		case i+1 == len(s):
			return "", 0, &PathError{i, "a backslash must be followed by a character", writeBackslash}
		case s[i+1] == '\'':
			i++
		default:
			n := escapeLen([]byte(s[i:]))
			if n == 0 {
				return "", 0, &PathError{i, "unknown escape", writeBackslash}
			}
			i += n - 1
		}
	}
	return "", 0, &PathError{open, "quoted key without end", writeKey}
}

// ArrayIndex returns the number that a name of digits means, or -1.
func ArrayIndex(name string) int {
	if name == "" {
		return -1
	}
	for k := range len(name) {
		if name[k]-'0' > 9 {
			return -1
		}
	}
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n > maxIndex {
		return -1
	}
	return int(n)
}

// parseCompatPath is the published service's reading, with no quotes, no escapes, no errors. A bracket that is not an index
// belongs to a name.
func parseCompatPath(s string) Path {
	p := Path{Text: s}
	for i := 0; i < len(s); {
		if s[i] == '.' {
			i++
			continue
		}
		if s[i] == '[' {
			if n := strings.IndexByte(s[i:], ']'); n > 0 {
				if index := ArrayIndex(s[i+1 : i+n]); index >= 0 {
					p.Steps = append(p.Steps, Step{Key: strconv.Itoa(index), Index: index}) // [00] is the number 0, also as a key
					i += n + 1
					continue
				}
			}
			i++
		}
		n := strings.IndexAny(s[i:], ".[")
		if n < 0 {
			n = len(s) - i
		}
		if n > 0 {
			p.Steps = append(p.Steps, Step{Key: s[i : i+n], Index: ArrayIndex(s[i : i+n])})
		}
		i += n
	}
	return p
}
