package extractor

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"
)

// A charset says how the bytes of responses are read as text.
type charset struct {
	// name is the character encoding of the configuration. It has precedence over all that a response says of itself.
	name string
	// replace puts U+FFFD in the place of bytes that are not text. Without it they fail the request.
	replace bool
}

func parseCharset(s *section) charset {
	cs := charset{name: s.text("charset", ""), replace: s.boolean("replaceInvalid", false)}
	if _, err := htmlindex.Get(cs.name); cs.name != "" && err != nil {
		s.wrong("charset", "unknown character encoding %q; use a name such as utf-8, windows-1252 or shift_jis", cs.name)
	}
	return cs
}

// decode returns a body as UTF-8. The encoding comes from the configuration, a byte order mark, an XML declaration, or the header
// Content-Type, in this order. Without any it is UTF-8. The text may be no longer than most bytes, by one more.
func (cs charset) decode(body, contentType string, most int64) (string, error) {
	name, declared := cs.of(body, contentType), true
	if name == "" {
		name, declared = "utf-8", false
	}
	encoding, err := htmlindex.Get(name)
	if err != nil {
		return body, fmt.Errorf("the response declares the unknown character encoding %q; set charset in format", name)
	}
	canonical, _ := htmlindex.Name(encoding)
	if canonical == "utf-8" {
		if utf8.ValidString(body) {
			return body, nil
		}
		if cs.replace {
			return strings.ToValidUTF8(body, "\ufffd"), nil
		}
		at := invalidAt(body)
		err := fmt.Errorf("byte %d (0x%02X) is not UTF-8", at, body[at])
		if !declared {
			err = fmt.Errorf("%w, and the response declares no other character encoding; set charset in format", err)
		}
		return body, err
	}
	text, err := readBody(transform.NewReader(strings.NewReader(body), encoding.NewDecoder()), -1, most)
	if err != nil {
		return body, fmt.Errorf("the response cannot be decoded as %s: %w", canonical, err)
	}
	if !cs.replace && strings.Count(text, "\ufffd") != replacements(canonical, body) {
		return body, fmt.Errorf("the response has bytes that are not %s", canonical)
	}
	return text, nil
}

// of returns the name of the encoding of a body, "" if nothing says it.
func (cs charset) of(body, contentType string) string {
	if cs.name != "" {
		return cs.name
	}
	for _, mark := range [][2]string{{"\xef\xbb\xbf", "utf-8"}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"}} {
		if strings.HasPrefix(body, mark[0]) {
			return mark[1]
		}
	}
	// Many servers write the same header for all files, so the declaration inside of the document counts more.
	if name := declaredByXML(body); name != "" {
		return name
	}
	// A parameter that is not well formed does not hide the others.
	if _, params, err := mime.ParseMediaType(contentType); err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) {
		if name := strings.TrimSpace(params["charset"]); name != "" {
			return name
		}
	}
	return ""
}

// declaredByXML returns the encoding of an XML declaration, "" without one.
func declaredByXML(body string) string {
	declaration, _, ok := strings.Cut(body[:min(len(body), 256)], "?>")
	if !ok || !strings.HasPrefix(declaration, "<?xml") {
		return ""
	}
	_, rest, _ := strings.Cut(declaration, "encoding")
	rest = strings.TrimLeft(rest, " \t\r\n=")
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return ""
	}
	name, _, _ := strings.Cut(rest[1:], rest[:1])
	if strings.HasPrefix(strings.ToLower(name), "utf-16") {
		return "" // the declaration could not be read if this were so
	}
	return name
}

// replacements returns how many characters U+FFFD a body has itself. In most encodings it has none, because they cannot express it.
func replacements(encoding, body string) int {
	mark := ""
	switch encoding {
	case "utf-16le":
		mark = "\xfd\xff"
	case "utf-16be":
		mark = "\xff\xfd"
	case "gb18030":
		return strings.Count(body, "\x84\x31\xa4\x37")
	default:
		return 0
	}
	n := 0
	for i := 0; i+1 < len(body); i += 2 {
		if body[i:i+2] == mark {
			n++
		}
	}
	return n
}

// invalidAt returns the place of the first byte that is not UTF-8.
func invalidAt(body string) int {
	for i, r := range body {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(body[i:]); size == 1 {
				return i
			}
		}
	}
	return len(body)
}

// asIs is the CharsetReader of XML. The text is UTF-8 already, whatever its declaration says.
func asIs(_ string, in io.Reader) (io.Reader, error) { return in, nil }
