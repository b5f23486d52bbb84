package otlp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/otlp"
)

// decodeJSON returns the only record of a request, without the members that every record has.
func decodeJSON(t *testing.T, signal forebay.Signal, text string) (string, error) {
	t.Helper()
	if _, err := otlp.Check(signal, otlp.JSON, []byte(text), 0, 1<<20); err != nil {
		return "", err
	}
	docs, _, err := otlp.Decode(signal, otlp.JSON, []byte(text), 0)
	if err != nil {
		return "", err
	}
	var records []string
	for doc := range docs {
		record, err := doc.AppendJSON(nil)
		if err != nil || !json.Valid(record) {
			t.Fatalf("got %v: %s, want no error and json.Valid(record)", err, record)
		}
		records = append(records, string(record))
	}
	return strings.Join(records, "\n"), nil
}

// Everything that protobuf's JSON mapping allows is accepted, and means the same as the form that the decoder knows.
func TestJSONMapping(t *testing.T) {
	log := func(members string) string {
		return `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{` + members + `}]}]}]}`
	}
	point := func(members string) string {
		return `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","histogram":{"dataPoints":[{` + members + `}]}}]}]}]}`
	}
	gauge := func(members string) string {
		return `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{` + members + `}]}}]}]}]}`
	}
	const refused = "refused"
	for _, c := range []struct {
		signal     forebay.Signal
		text, like string
	}{
		{forebay.SignalLogs, log(`"flags":null`), log(``)},
		{forebay.SignalLogs, log(` "flags" : null , "severityText" : "a" `), log(`"severityText":"a"`)},
		{forebay.SignalLogs, log(`"severityText":"a","flags":null,"body":null,"attributes":null,"timeUnixNano":null,"traceId":null,"severityNumber":null`), log(`"severityText":"a"`)},
		{forebay.SignalLogs, log(`"body":{"stringValue":null}`), log(`"body":{}`)},
		{forebay.SignalLogs, log(`"attributes":[{"key":"k","value":null},{"key":"l","value":{"boolValue":true}}]`), log(`"attributes":[{"key":"k"},{"key":"l","value":{"boolValue":true}}]`)},
		{forebay.SignalLogs, `{"resourceLogs":null}`, `{}`},
		{forebay.SignalLogs, `{"resourceLogs":[{"resource":null,"scopeLogs":[{"scope":null,"logRecords":[{}],"schemaUrl":null}]}]}`, log(``)},

		{forebay.SignalLogs, log(`"flags":1e2`), log(`"flags":100`)},
		{forebay.SignalLogs, log(`"flags":1.0,"timeUnixNano":17e17,"droppedAttributesCount":1.20E+1`), log(`"flags":1,"timeUnixNano":"1700000000000000000","droppedAttributesCount":12`)},
		{forebay.SignalLogs, log(`"timeUnixNano":"1.7e18","body":{"intValue":"-2.50e1"}`), log(`"timeUnixNano":"1700000000000000000","body":{"intValue":"-25"}`)},
		{forebay.SignalLogs, log(`"body":{"intValue":-0.9e1}`), log(`"body":{"intValue":-9}`)},
		{forebay.SignalLogs, log(`"body":{"intValue":120e-1}`), log(`"body":{"intValue":12}`)},
		{forebay.SignalLogs, log(`"body":{"intValue":0.0e-400}`), log(`"body":{"intValue":0}`)},
		{forebay.SignalLogs, log(`"body":{"intValue":9.223372036854775807e18}`), log(`"body":{"intValue":9223372036854775807}`)},
		{forebay.SignalLogs, log(`"body":{"intValue":1.5}`), refused},
		{forebay.SignalLogs, log(`"body":{"intValue":"1.5"}`), refused},
		{forebay.SignalLogs, log(`"body":{"intValue":"1e"}`), refused},
		{forebay.SignalLogs, log(`"body":{"intValue":1e19}`), refused},
		{forebay.SignalLogs, log(`"body":{"intValue":1e999999999999999999999}`), refused},
		{forebay.SignalLogs, log(`"body":{"intValue":"[1e3]"}`), refused},
		{forebay.SignalMetrics, point(`"count":"2e0","sum":3.0,"bucketCounts":["1e0",1.0],"explicitBounds":[1e1]`), point(`"count":"2","sum":3,"bucketCounts":["1","1"],"explicitBounds":[10]`)},
		{forebay.SignalMetrics, gauge(`"asInt":"1e3"`), gauge(`"asInt":"1000"`)},
		{forebay.SignalMetrics, gauge(`"asDouble":1e300`), gauge(`"asDouble":1000000000000000000000e279`)},
		{forebay.SignalMetrics, gauge(`"asDouble":25e-2`), gauge(`"asDouble":0.25`)},

		{forebay.SignalLogs, log(`"body":{"bytesValue":"+/8"}`), log(`"body":{"bytesValue":"+/8="}`)},
		{forebay.SignalLogs, log(`"body":{"bytes_value":"-_8="}`), log(`"body":{"bytesValue":"+/8="}`)},
		{forebay.SignalLogs, log(`"body":{"bytesValue":"-_8"}`), log(`"body":{"bytesValue":"+/8="}`)},
		{forebay.SignalLogs, log(`"body":{"bytesValue":"+\/8\u003d"}`), log(`"body":{"bytesValue":"+/8="}`)},
		{forebay.SignalLogs, log(`"body":{"\u0062ytesValue":"_w"}`), log(`"body":{"bytesValue":"/w=="}`)},
		{forebay.SignalLogs, log(`"body":{"bytesValue":"!"}`), refused},
		{forebay.SignalLogs, log(`"body":{"bytesValue":"+_8"}`), refused},
	} {
		got, err := decodeJSON(t, c.signal, c.text)
		if c.like == refused {
			if !errors.Is(err, otlp.ErrRequest) {
				t.Errorf("%s is taken for %s, %v", c.text, got, err)
			}
			continue
		}
		want, err2 := decodeJSON(t, c.signal, c.like)
		if err != nil || err2 != nil || got != want {
			t.Errorf("%s is taken for %s, want %s: %v, %v", c.text, got, want, err, err2)
		}
	}
	// Strings stay strings, whatever they look like.
	const texts = `"body":{"stringValue":"1e3"},"severityText":"null","attributes":[{"key":"count","value":{"stringValue":"-_8 \" , : } null"}}]`
	if got, err := decodeJSON(t, forebay.SignalLogs, log(texts)); err != nil || !strings.Contains(got, `"1e3"`) ||
		!strings.Contains(got, `"severity_text":"null"`) || !strings.Contains(got, `"-_8 \" , : } null"`) {
		t.Errorf("got %s, %v, want the texts of null as they are, no error", got, err)
	}
	if got, err := decodeJSON(t, forebay.SignalMetrics, gauge(`"asDouble":-0.0`)); err != nil || !strings.Contains(got, "-0") {
		t.Errorf("the negative zero is %s, %v", got, err)
	}
}

// Each record can have a copy of the headers.
func TestCopiesOfHeaders(t *testing.T) {
	text := []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}` + strings.Repeat(",{}", 9_999) + `]}]}]}`)
	proto := bytes.Repeat([]byte{2<<3 | 2, 0}, 10_000)
	for _, number := range []byte{2, 1} { // the records in a scope, and that in a resource
		size := len(proto)
		proto = append([]byte{number<<3 | 2, byte(size) | 0x80, byte(size>>7) | 0x80, byte(size >> 14)}, proto...)
	}
	for headers, bomb := range map[int]bool{0: false, 12 << 10: false, 16 << 10: true} {
		_, protoErr := otlp.Check(forebay.SignalLogs, otlp.Protobuf, proto, headers, 1<<30)
		_, _, textErr := otlp.Decode(forebay.SignalLogs, otlp.JSON, text, headers)
		for _, err := range []error{protoErr, textErr} {
			var tooMuch *otlp.TooExpensiveError
			if got := errors.As(err, &tooMuch) && tooMuch.Copies; got != bomb || !bomb && err != nil {
				t.Errorf("%d bytes of headers: %v", headers, err)
			}
		}
	}
}
