package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/refusedtest"
	"github.com/forebay/forebay/mapping"
)

func TestTextThatIsNotUTF8(t *testing.T) { refusedtest.Text(t, open(t, Options{}), "events") }

// A value that PostgreSQL cannot store is rejected when its event arrives, so its neighbours are imported. The values next to the limits of the
// driver are stored.
func TestValuesThatTheServerCannotStore(t *testing.T) {
	depth := func(levels int) string {
		return strings.Repeat(`{"a":`, levels-1) + "[]" + strings.Repeat("}", levels-1)
	}
	for _, c := range []struct {
		jsonb  bool
		column mapping.Column
		value  string // JSON
		want   mapping.Reason
	}{
		{false, mapping.Path("c", "c", mapping.RawString()), `"a\u0000b"`, mapping.HasNUL},
		{false, mapping.Path("c", "c"), `"a\u0000b"`, 0}, // JSON as text
		{false, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), depth(maxDepth + 1), mapping.TooDeep},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), depth(maxDepth + 1), mapping.TooDeep},
		{false, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), depth(maxDepth), 0},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), depth(maxDepth), 0},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), `1e200000`, mapping.OutOfRange},
		{false, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), `1e200000`, 0},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), `[{"n":-0.0001e131077}]`, mapping.OutOfRange},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), `[{"n":-0.0001e131075},12e131070,1e-16383,0e200000]`, 0},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), `1e-16384`, mapping.OutOfRange},
		{true, mapping.Path("c", "c", mapping.DataType(datatype.JSON)), `0e9999999999`, mapping.OutOfRange},
	} {
		target := open(t, Options{JSONB: c.jsonb})
		engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		err = engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
			ID: "events", Table: forebay.Table{ID: "events", Columns: mapping.Columns{mapping.Path("id", "id", mapping.DataType(datatype.Int64)), c.column}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		stored := 0
		for i, value := range []string{`"good"`, c.value, `"good"`} {
			_, err := engine.Ingest(t.Context(), "shop", mapping.JSON(fmt.Appendf(nil, `{"id":%d,"c":%s}`, i, value)))
			cause, _ := errors.AsType[*mapping.Error](err)
			rejected := i == 1 && c.want != 0
			if (err != nil) != rejected || rejected && (cause == nil || cause.Reason != c.want) {
				t.Errorf("%.40s as %s, jsonb %t: got %.200v, want reason %v", value, c.column.DataType, c.jsonb, err, c.want)
			}
			if err == nil {
				stored++
			}
		}
		if err := engine.Flush(t.Context(), "shop"); err != nil {
			t.Errorf("%.40s: a file is held: %.300v", c.value, err)
		}
		if st := engine.Stats().Sinks[0]; st.Target.Rows != int64(stored) || st.Poison.Rows != 0 {
			t.Errorf("%.40s: %d rows are in the table and %d were refused, want %d and none", c.value, st.Target.Rows, st.Poison.Rows, stored)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
}
