package forebay_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// A definition is refused because of one sink. The table of the other one has not grown, so the rows that wait for it without Extend
// arrive.
func TestRefusedDefinitionLetsNoTableBeginToGrow(t *testing.T) {
	id, note, sum := typedPath("id", datatype.Int64), typedPath("note", datatype.String), typedPath("sum", datatype.Int64)
	second := func(extend bool, columns ...mapping.Column) forebay.Sink {
		return forebay.Sink{ID: "second", Table: forebay.Table{ID: "in.c-shop.second", Columns: columns, Extend: extend}}
	}
	for _, tc := range []struct {
		name    string
		refused forebay.Sink
		change  bool // the error is known without the target
	}{
		{"another type", second(true, id, typedPath("sum", datatype.String)), true},
		{"other columns", second(false, id, note), false},
	} {
		for _, last := range []bool{false, true} { // the place of the refused sink
			t.Run(fmt.Sprint(tc.name, last), func(t *testing.T) {
				root := t.TempDir()
				tables := dir.Tables(filepath.Join(root, "tables"))
				e, err := forebay.Open(filepath.Join(root, "data"), forebay.Options{Target: tables})
				must(t, err)
				defer e.Close()
				before := grows(id, note)
				before.Sinks[0].Table.Extend = false
				before.Sinks = append(before.Sinks, second(false, id, sum))
				after := grows(id, note, sum)
				if after.Sinks = append(after.Sinks, tc.refused); !last {
					after.Sinks[0], after.Sinks[1] = after.Sinks[1], after.Sinks[0]
				}
				must(t, e.Define(t.Context(), before))
				ingestJSON(t, e, `{"id":1,"note":"x","sum":5}`)
				err = e.Define(t.Context(), after)
				var change *buffer.ChangeError
				var schema *driver.SchemaError
				if errors.As(err, &change) != tc.change || errors.As(err, &schema) == tc.change || !strings.Contains(err.Error(), "shop/second") ||
					strings.Contains(err.Error(), "shop/orders") {
					t.Errorf("define: %v", err)
				}
				if err := e.FlushAll(t.Context()); err != nil {
					t.Errorf("flush after a definition that was refused: %v", err)
				}
				if got, want := grownRows(t, tables), `"1" "x"`; got != want {
					t.Errorf("the table has\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// Columns that were accepted while the source was disabled stay in use when a later change is refused.
func TestColumnsOfADisabledSourceGoOn(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	e, err := forebay.Open(filepath.Join(root, "data"), forebay.Options{Target: tables})
	must(t, err)
	defer e.Close()
	id, note, sum := typedPath("id", datatype.Int64), typedPath("note", datatype.String), typedPath("sum", datatype.Int64)
	disabled := grows(id, sum)
	disabled.Disabled = true
	for _, def := range []forebay.Source{grows(id, note), disabled, grows(id, typedPath("sum", datatype.Float64))} {
		must(t, e.Define(t.Context(), def))
	}
	if refused := e.Stats().Sinks[0].Refused; !strings.Contains(refused, "float64") {
		t.Errorf("the statistics say %q", refused)
	}
	ingestJSON(t, e, `{"id":1,"sum":5}`)
	must(t, e.FlushAll(t.Context()))
	if got, want := grownRows(t, tables), `"1" NULL "5"`; got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}
