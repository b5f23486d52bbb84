package otlp

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/forebay/forebay"
)

// rejectedNames are the partial-success fields that count rejected records.
var rejectedNames = map[forebay.Signal]string{
	forebay.SignalLogs: "rejectedLogRecords", forebay.SignalMetrics: "rejectedDataPoints", forebay.SignalTraces: "rejectedSpans",
}

// AppendResponse appends the response to an export request. rejected and message make its partial success. A message without
// a rejection is a warning. Without both the response is the empty one of a full success.
func AppendResponse(dst []byte, signal forebay.Signal, enc Encoding, rejected int, message string) []byte {
	if enc == JSON {
		dst = append(dst, '{')
		if rejected > 0 || message != "" {
			dst = append(dst, `"partialSuccess":{`...)
			if rejected > 0 {
				dst = append(dst, '"')
				dst = append(dst, rejectedNames[signal]...)
				dst = append(dst, `":"`...)
				dst = strconv.AppendInt(dst, int64(rejected), 10)
				dst = append(dst, `",`...)
			}
			dst = append(dst, `"errorMessage":`...)
			dst = appendJSONText(dst, message)
			dst = append(dst, '}')
		}
		return append(dst, '}')
	}
	if rejected == 0 && message == "" {
		return dst
	}
	// The three responses have the same field numbers.
	var partial []byte
	if rejected > 0 {
		partial = append(partial, 1<<3)
		partial = binary.AppendUvarint(partial, uint64(rejected))
	}
	partial = appendText(partial, 2, message)
	return appendText(dst, 1, string(partial))
}

// Sentence is the text of an error as senders see it.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// AppendStatus appends a google.rpc.Status, the body that the protocol demands for every HTTP error.
func AppendStatus(dst []byte, code uint32, message string) []byte {
	dst = append(dst, 1<<3)
	dst = binary.AppendUvarint(dst, uint64(code))
	return appendText(dst, 2, message)
}

func appendText(dst []byte, field byte, s string) []byte {
	dst = append(dst, field<<3|2)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendJSONText(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("otlp: a string cannot be encoded: " + err.Error())
	}
	return append(dst, b...)
}
