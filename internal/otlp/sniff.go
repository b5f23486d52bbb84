package otlp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

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

// sniffJSON goes by the first member that has a record, or by the first that could have some.
func sniffJSON(data []byte) (forebay.Signal, bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return "", false
	}
	var empty forebay.Signal
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", false
		}
		name, _ := key.(string)
		signal, known := jsonNames[name]
		if !known {
			var other json.RawMessage
			if d.Decode(&other) != nil {
				return "", false
			}
			continue
		}
		switch value, err := d.Token(); {
		case err != nil:
			return "", false
		case value == json.Delim('[') && !d.More():
			if _, err := d.Token(); err != nil {
				return "", false
			}
		case value != nil:
			return signal, true
		}
		if empty == "" {
			empty = signal
		}
	}
	return empty, empty != ""
}
