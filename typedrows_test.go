package forebay_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Types and NULL reach the table, and a value that does not fit is counted by its reason.
func TestTypedRowsReachTheTable(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events(func(s *forebay.Source) {
		s.Sinks[0].Table.Columns = mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("text", "text", mapping.DataType(datatype.String)),
			mapping.Path("untyped", "text"), mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)),
		}
	}))
	for _, body := range []string{
		`{"id":1e3,"text":"a\"b","at":"2026-11-22T23:00:00+01:00"}`, `{"id":2,"text":null}`, `{"id":3,"text":""}`, `{"id":4,"text":"null","at":null}`,
	} {
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	for body, want := range map[string]mapping.Reason{`{"id":1.5,"text":""}`: mapping.NotIntegral, `{"id":null,"text":""}`: mapping.NullValue, `{"text":""}`: mapping.MissingValue} {
		res, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(body)))
		if err == nil {
			t.Fatalf("%s is stored", body)
		}
		var fail *mapping.Error
		if s := res.Sinks[0]; s.Status != forebay.Rejected || !errors.As(s.Err, &fail) || fail.Reason != want || fail.Column != "id" || fail.Type != datatype.Int64 {
			t.Errorf("%s: got %v %v, want %s", body, s.Status, s.Err, want)
		}
	}
	must(t, e.Flush(t.Context(), "web"))
	want := [][]string{
		{"1000", `a"b`, `"a\"b"`, "2026-11-22T22:00:00.000000Z"},
		{"2", buffertest.Null, "null", buffertest.Null},
		{"3", "", `""`, buffertest.Null},
		{"4", "null", `"null"`, buffertest.Null},
	}
	if got := mem.Rows("in.c-web.users"); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("rows %q\nwant %q", got, want)
	}
	columns := []datatype.Column{{Name: "id", Type: datatype.Int64, Required: true}, {Name: "text", Type: datatype.String}, {Name: "untyped"}, {Name: "at", Type: datatype.Timestamp}}
	if got := mem.Columns("in.c-web.users"); !slices.Equal(got, columns) {
		t.Errorf("columns %v", got)
	}
	for _, s := range e.Stats().Sinks {
		if s.ID != "web/users" {
			continue
		}
		for _, reason := range []string{"notIntegral", "nullValue", "missingValue"} {
			if s.Rejected[reason] != 1 {
				t.Errorf("rejected %v lacks %s", s.Rejected, reason)
			}
		}
	}
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("verify: %+v %v", report, err)
	}
}
