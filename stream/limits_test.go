package stream_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// strict has the limits of several SQL databases.
type strict struct{ *buffertest.Memory }

func (strict) Limits() datatype.Limits {
	return datatype.Limits{NoNUL: true, NoNaN: true, MinYear: 1900, MaxCell: 40}
}

// A value that the target cannot store is refused on arrival, over every protocol, and does not reach the table.
func TestLimitsAtEveryDoor(t *testing.T) {
	mem := strict{}
	events := source("web", mapping.UUID("id"), mapping.Path("text", "text", mapping.DataType(datatype.String)),
		mapping.Path("number", "number", mapping.DataType(datatype.Float64)), mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)),
		mapping.Template("computed", `Body("text", "") + "!"`, mapping.DataType(datatype.String)),
		mapping.Path("doc", "doc", mapping.DataType(datatype.JSON)))
	app := forebay.Source{ID: "app", Type: forebay.OTLP, Secret: webSecret, Sinks: []forebay.Sink{{
		ID: "rows", Table: forebay.Table{ID: "in.c-app.rows", Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("text", "body", mapping.DataType(datatype.String))}},
	}}}
	s := newService(t, func(o *forebay.Options) {
		mem.Memory = o.Target.(*buffertest.Memory)
		o.Target = mem
	}, events, app)

	type event struct {
		Text   string `json:"text"`
		Number string `json:"number,omitempty"`
	}
	records := map[string]func(bad bool) *mapping.Record{ // by the reason of the bad one
		"hasNUL":    func(bad bool) *mapping.Record { return mapping.From(event{Text: choose(bad, "a\x00", "a")}) },
		"notFinite": func(bad bool) *mapping.Record { return mapping.From(event{Number: choose(bad, "Infinity", "1e300")}) },
		"outOfRange": func(bad bool) *mapping.Record {
			return mapping.JSON([]byte(`{"at":"` + choose(bad, "1899", "1900") + `-12-31T00:00:00Z"}`))
		},
		"tooLong": func(bad bool) *mapping.Record {
			return mapping.JSON([]byte(`{"doc":["` + choose(bad, strings.Repeat("x", 37), "x") + `"]}`))
		},
	}
	ctx := t.Context()
	refusedAs := func(err error, reason string) bool {
		var fail *mapping.Error
		return errors.As(err, &fail) && fail.Reason.String() == reason
	}
	taken := 0
	for reason, record := range records {
		for door, ingest := range map[string]func(good, bad *mapping.Record) (bool, error){
			"Ingest": func(good, bad *mapping.Record) (bool, error) {
				_, err := s.eng.Ingest(ctx, "web", good)
				_, refused := s.eng.Ingest(ctx, "web", bad)
				return refusedAs(refused, reason), err
			},
			"Submit": func(good, bad *mapping.Record) (bool, error) {
				p, err := s.eng.Submit(ctx, "web", good)
				if err == nil {
					_, err = p.Wait(ctx)
				}
				p, refused := s.eng.Submit(ctx, "web", bad)
				if refused == nil {
					_, refused = p.Wait(ctx)
				}
				return refusedAs(refused, reason), err
			},
			"IngestBatch": func(good, bad *mapping.Record) (bool, error) {
				results, err := s.eng.IngestBatch(ctx, "web", []*mapping.Record{bad, good})
				return refusedAs(err, reason) && results[0].Sinks[0].Err != nil && results[1].Sinks[0].Err == nil, nil
			},
		} {
			refused, err := ingest(record(false), record(true))
			if err != nil || !refused {
				t.Errorf("%s by %s: got %v, refused %v, want no error and a refusal", reason, door, err, refused)
			}
			taken++
		}
	}
	// JSON, forms and telemetry over HTTP.
	for _, tc := range []struct{ contentType, good, bad, reason string }{
		{"application/json", `{"text":"a"}`, `{"text":"\u0000"}`, "hasNUL"},
		{"application/json", `{"text":"` + strings.Repeat("x", 39) + `"}`, `{"text":"` + strings.Repeat("x", 40) + `"}`, "tooLong"}, // a template adds one
		{"application/x-www-form-urlencoded", "text=a", "text=%00", "hasNUL"},
		{"application/x-www-form-urlencoded", "number=1", "number=NaN", "notFinite"},
	} {
		if status, _, answer := s.post("web", tc.contentType, tc.good); status != http.StatusOK {
			t.Errorf("%s: got %d %s, want %v", tc.good, status, answer, http.StatusOK)
		}
		taken++
		if status, _, answer := s.post("web", tc.contentType, tc.bad); status != http.StatusUnprocessableEntity || !strings.Contains(answer, tc.reason) {
			t.Errorf("%s: got %d %s, want %s", tc.bad, status, answer, tc.reason)
		}
	}
	// A NUL in telemetry is replaced, as bytes that are no UTF-8 are.
	for text, want := range map[string]int{"a": 200, "a\x00": 200, strings.Repeat("x", 41): 422} {
		data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs(text))
		if err != nil {
			t.Fatal(err)
		}
		if status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", data, "Content-Type", protobuf); status != want {
			t.Errorf("telemetry %q: %d %s, want %d", text, status, answer, want)
		}
		for doc := range otlpflat.Logs(logs(text)) {
			if _, err := s.eng.Ingest(ctx, "app", &mapping.Record{Document: doc}); (err == nil) != (want == 200) {
				t.Errorf("the document of %q: %v", text, err)
			}
		}
	}
	if err := s.eng.FlushAll(ctx); err != nil {
		t.Fatal(err)
	}
	if rows := mem.Rows("in.c-web.rows"); len(rows) != taken {
		t.Errorf("the table has %d rows, want %d", len(rows), taken)
	}
	var texts []string
	for _, row := range mem.Rows("in.c-app.rows") {
		texts = append(texts, row[1])
	}
	slices.Sort(texts)
	if want := []string{"a", "a", "a\ufffd", "a\ufffd"}; !slices.Equal(texts, want) {
		t.Errorf("texts of telemetry: %q, want %q", texts, want)
	}
}

func choose(bad bool, b, g string) string {
	if bad {
		return b
	}
	return g
}
