package otlp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/forebay/forebay"
)

// Sniff finds out the signal of a request that was sent to an address without one. A request without any record tells
// no signal, and false is returned. Protobuf does not name its fields, but the wire types of the first record tell what it
// is: log records, metrics and spans have their times and numbers at different places.
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

// walk goes through the fields of a message, until f returns false or the message is malformed.
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

// sniffRecord tells the signal of one record: times are fixed64 and numbers are varint at places where the other messages
// have texts or nothing. A metric has texts and messages only.
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

// jsonNames are the members of requests that have their records. The JSON form of protobuf takes a field by either name.
var jsonNames = map[string]forebay.Signal{
	"resourceLogs": forebay.SignalLogs, "resource_logs": forebay.SignalLogs,
	"resourceMetrics": forebay.SignalMetrics, "resource_metrics": forebay.SignalMetrics,
	"resourceSpans": forebay.SignalTraces, "resource_spans": forebay.SignalTraces,
}

// sniffJSON goes by the first member that has a record, or by the first that could have some. It is called before the request
// is checked, so it takes no memory, whatever the request has.
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
		if empty == "" {
			empty = signal
		}
		s.next(',')
	}
	return empty, empty != ""
}

// longestName is how long a known name can be when each of its characters is an escape.
const longestName = 6 * len("resource_metrics")

// scanner goes through JSON that need not be valid.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) blank() {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}
}

// next steps over a byte, if it is the next one.
func (s *scanner) next(c byte) bool {
	s.blank()
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// word steps over a word, if it is the next one.
func (s *scanner) word(w string) bool {
	s.blank()
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// text returns a string without its quotes, as it stands there.
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

// skip steps over a value.
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
				return true // the end of what the value is in
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
