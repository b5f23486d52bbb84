package otlp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/forebay/forebay"
)

// Sniff finds the signal of a request that was sent to an address without one. It returns false for a request without
// records. Protobuf does not name its fields, but the wire types of the first record identify it: log records, metrics and
// spans have their times and numbers in different fields.
func Sniff(enc Encoding, data []byte) (forebay.Signal, bool) {
	if enc == JSON {
		return sniffJSON(data)
	}
	var found forebay.Signal
	eachField(data, 1, func(resource []byte) bool {
		eachField(resource, 2, func(scope []byte) bool {
			eachField(scope, 2, func(record []byte) bool {
				found = sniffRecord(record)
				return found == ""
			})
			return found == ""
		})
		return found == ""
	})
	return found, found != ""
}

// eachField calls f with the fields of wire type 2 that have the number, until it returns false.
func eachField(b []byte, number uint64, f func([]byte) bool) {
	walk(b, func(n uint64, wire uint8, content []byte) bool {
		return n != number || wire != 2 || f(content)
	})
}

// walk visits the fields of a message until f returns false or the message is malformed.
func walk(b []byte, f func(number uint64, wire uint8, content []byte) bool) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		b = b[n:]
		size := 0
		switch tag & 7 {
		case 0:
			_, size = binary.Uvarint(b)
			if size <= 0 {
				return
			}
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return
			}
			b = b[n:]
			size = int(length)
		default:
			return
		}
		if size > len(b) || !f(tag>>3, uint8(tag&7), b[:size]) {
			return
		}
		b = b[size:]
	}
}

// sniffRecord finds the signal of one record. Its times are fixed64 and its numbers varint, in fields where the other
// messages have texts or nothing. A metric has only texts and messages.
func sniffRecord(record []byte) forebay.Signal {
	var found forebay.Signal
	walk(record, func(number uint64, wire uint8, _ []byte) bool {
		switch {
		case wire == 1 && (number == 1 || number == 11), wire == 0 && number == 2, wire == 5 && number == 8:
			found = forebay.SignalLogs
		case wire == 1 && (number == 7 || number == 8), wire == 0 && number == 6:
			found = forebay.SignalTraces
		case wire == 2 && number == 1 && found == "":
			found = forebay.SignalMetrics // or the id of a trace, if a time follows
			return true
		default:
			return true
		}
		return false
	})
	return found
}

// jsonNames are the request members that hold records. Protobuf's JSON form accepts a field by either name.
var jsonNames = map[string]forebay.Signal{
	"resourceLogs": forebay.SignalLogs, "resource_logs": forebay.SignalLogs,
	"resourceMetrics": forebay.SignalMetrics, "resource_metrics": forebay.SignalMetrics,
	"resourceSpans": forebay.SignalTraces, "resource_spans": forebay.SignalTraces,
}

// sniffJSON uses the first member that has a record, or the first that could have some. It runs before the request is
// checked, so it allocates nothing.
func sniffJSON(data []byte) (forebay.Signal, bool) {
	s := scanner{data: data}
	if !s.next('{') {
		return "", false
	}
	var empty forebay.Signal
	for !s.next('}') {
		name, ok := s.text()
		if !ok || !s.next(':') {
			return "", false
		}
		signal, known := jsonNames[string(name)]
		if !known && bytes.IndexByte(name, '\\') >= 0 && len(name) <= longestName {
			var plain string
			if json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &plain) == nil {
				signal, known = jsonNames[plain]
			}
		}
		switch {
		case !known:
			ok = s.skip()
		case s.next('['):
			if !s.next(']') {
				return signal, true
			}
		case s.word("null"):
		default:
			return signal, true
		}
		if !ok {
			return "", false
		}
		empty = cmp.Or(empty, signal)
		s.next(',')
	}
	return empty, empty != ""
}

// longestName is the length of the longest known name with every character escaped.
const longestName = 6 * len("resource_metrics")

// scanner reads JSON that may be invalid.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) blank() {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}
}

// next skips c if it is the next byte.
func (s *scanner) next(c byte) bool {
	s.blank()
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// word skips w if it comes next.
func (s *scanner) word(w string) bool {
	s.blank()
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// text returns a string without its quotes, escapes included.
func (s *scanner) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for from := s.at; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return s.data[from : s.at-1], true
		}
	}
	s.at = len(s.data)
	return nil, false
}

func (s *scanner) skip() bool {
	s.blank()
	depth := 0
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case '"':
			if _, ok := s.text(); !ok {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return true // the end of the surrounding value
			}
			if depth--; depth == 0 {
				s.at++
				return true
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
		s.at++
	}
	return false
}
