package otlp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/otlp"
)

// The decoder once took a member without a name for the end of the object. Later records were lost, or its content became
// records, and the sender got a success. It also accepted malformed JSON between members.
func TestJSONIsRefusedWhereRecordsWouldBeLost(t *testing.T) {
	const records = `"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]`
	for text, want := range map[string]string{
		`{` + records + `}`:               "",
		`{"x":[{"a":1}],` + records + `}`: "",
		`{"x":"",` + records + `}`:        "",
		`{"x":["",""],` + records + `}`:   "",
		"{\"\":1," + records + `}`:        "no name",
		"{\"\" \n:{}," + records + `}`:    "no name",
		`{` + records + `,"":5}`:          "no name",
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{},{"":[{"severityNumber":3}],"body":{"stringValue":"x"}},{}]}]}]}`: "no name",
		`{"x":1 null,` + records + `}`: "invalid character",
		`{"x":1{` + records + `}`:      "invalid character",
		`{"x":01,` + records + `}`:     "invalid character",
		`{` + records:                  "unexpected end",
		`{` + records + `}{}`:          "more follows its end",
		"":                             "unexpected end",
		`{"x":"`:                       "unexpected end",
		`{"x":"\`:                      "not a valid export",
	} {
		_, err := otlp.Check(forebay.SignalLogs, otlp.JSON, []byte(text), 0, 1<<20)
		if want == "" && err != nil || want != "" && (!errors.Is(err, otlp.ErrRequest) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// Brackets in strings are not nesting.
func TestBracketsInStrings(t *testing.T) {
	text := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"\"` + strings.Repeat("[{", 10_000) + `\\"}}]}]}]}`
	if _, err := otlp.Check(forebay.SignalLogs, otlp.JSON, []byte(text), 0, 1<<20); err != nil {
		t.Error(err)
	}
}

// A member is known by both of its names, in their exact case. A member without records does not determine the signal.
func TestSniffJSON(t *testing.T) {
	for text, want := range map[string]forebay.Signal{
		`{"resourceLogs":[{}]}`:                           forebay.SignalLogs,
		`{"resource_logs":[{}]}`:                          forebay.SignalLogs,
		`{"resource_metrics":[{}]}`:                       forebay.SignalMetrics,
		`{"resource_spans":[{}]}`:                         forebay.SignalTraces,
		`{"resource\u0053pans":[{}]}`:                     forebay.SignalTraces,
		`{"x":{"resourceLogs":[{}]},"resourceSpans":[1]}`: forebay.SignalTraces,
		`{"resourceLogs":null,"resourceSpans":[{}]}`:      forebay.SignalTraces,
		`{"resourceLogs":[],"resourceMetrics":[{}]}`:      forebay.SignalMetrics,
		`{"resourceLogs":[]}`:                             forebay.SignalLogs,
		`{"RESOURCELOGS":[{}]}`:                           "",
		`{}`:                                              "",
		`null`:                                            "",
		`[{"resourceLogs":[{}]}]`:                         "",
		`{"resourceLogs"`:                                 "",
		``:                                                "",
	} {
		if got, ok := otlp.Sniff(otlp.JSON, []byte(text)); got != want || ok != (want != "") {
			t.Errorf("%s is taken for %q, want %q", text, got, want)
		}
	}
}
