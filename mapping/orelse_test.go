package mapping

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
)

// A column that is null or missing takes its second field, then the arrival time. Records of JSON and documents have equal rows.
func TestElse(t *testing.T) {
	arrival := time.Date(2026, 11, 28, 10, 0, 0, 123456789, time.FixedZone("", 3600))
	at := TypeOptions{ElsePath: "seen", ElseArrival: true, EmptyIsNull: true}
	nanos := at
	nanos.Epoch = EpochNanos
	day := TypeOptions{ElseArrival: true, FromTimestamp: true}
	m := mustCompile(t, UUID("id"), Path("at", "at", DataType(datatype.Timestamp), With(at)), Path("ns", "at", DataType(datatype.Int64), With(nanos)),
		Path("day", "at", DataType(datatype.Date), With(day)), Path("name", "name", DataType(datatype.String), With(TypeOptions{ElsePath: "alias.first"})))
	for _, tc := range []struct {
		body, want string
		arrival    time.Time
	}{
		{
			`{"at":"2026-01-01T00:00:00.000000007Z","seen":"2026-01-02T00:00:00Z","name":"a","alias":{"first":"b"}}`,
			`2026-01-01T00:00:00.000000Z|1767225600000000007|2026-01-01|a`, arrival,
		},
		{`{"at":null,"seen":"2026-01-02T00:00:00Z","name":null,"alias":{"first":"b"}}`, `2026-01-02T00:00:00.000000Z|1767312000000000000|2026-11-28|b`, arrival},
		{`{"seen":""}`, `2026-11-28T09:00:00.123456Z|1795856400123456789|2026-11-28|NULL`, arrival},
		{`{"seen":null}`, `NULL|NULL|NULL|NULL`, time.Time{}},
	} {
		json := JSON([]byte(tc.body))
		json.Received = tc.arrival
		for how, r := range map[string]*Record{"JSON": json, "document": {Document: &jsonDocument{text: tc.body}, Received: tc.arrival}} {
			var got []string
			for _, c := range m.Cells(r)[1:] {
				switch {
				case c.Err != nil:
					got = append(got, c.Err.Error())
				case c.Null:
					got = append(got, "NULL")
				default:
					got = append(got, c.Value)
				}
			}
			if strings.Join(got, "|") != tc.want {
				t.Errorf("%s of %s that arrived at %s: got %q, want %q", how, tc.body, tc.arrival, got, tc.want)
			}
		}
	}
}

// A required column with a second field or the arrival time rejects the records that have none of them.
func TestElseRequired(t *testing.T) {
	for _, tc := range []struct {
		options TypeOptions
		body    string
		arrival time.Time
		want    string // "" is an error
	}{
		{TypeOptions{ElsePath: "seen"}, `{"at":null,"seen":"2026-01-02T00:00:00Z"}`, time.Time{}, "2026-01-02T00:00:00.000000Z"},
		{TypeOptions{ElsePath: "seen"}, `{"seen":null}`, time.Unix(1, 0), ""},
		{TypeOptions{ElseArrival: true}, `{"at":null}`, time.Unix(1, 0), "1970-01-01T00:00:01.000000Z"},
		{TypeOptions{ElseArrival: true}, `{}`, time.Unix(1, 0), "1970-01-01T00:00:01.000000Z"},
		{TypeOptions{ElseArrival: true}, `{}`, time.Time{}, ""},
		{TypeOptions{ElseArrival: true}, `{"at":"soon"}`, time.Unix(1, 0), ""},
	} {
		tc.options.Required = true
		m := mustCompile(t, UUID("id"), Path("at", "at", DataType(datatype.Timestamp), With(tc.options)))
		json := JSON([]byte(tc.body))
		json.Received = tc.arrival
		for how, r := range map[string]*Record{"JSON": json, "document": {Document: &jsonDocument{text: tc.body}, Received: tc.arrival}} {
			if got := m.Cells(r)[1]; got.Null || got.Value != tc.want || (got.Err != nil) != (tc.want == "") {
				t.Errorf("%+v, %s of %s that arrived at %s: got %+v, want %q", tc.options, how, tc.body, tc.arrival, got, tc.want)
			}
		}
	}
}
