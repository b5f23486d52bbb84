package buffer_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// A table with types, or with Extend, is refused for a name that some target would lose. Others keep all names.
func TestNamesOfColumns(t *testing.T) {
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	for _, tt := range []struct{ name, problem string }{
		{"", "is empty"},
		{strings.Repeat("ž", 31) + "x", ""},
		{strings.Repeat("ž", 32), "has 64 bytes, at most 63 are allowed"},
		{"a\xff", "is not UTF-8"},
		{"a\x00", "has a control character"},
		{"a\u0085b", "has a control character"},
		{" a", "begins or ends with a space"},
		{"a\u00a0", "begins or ends with a space"},
		{"a b", ""},
		{"_Forebay_x", "begins with _forebay_"},
		{"_forebay", ""},
		{"first", `is taken`},
		{"FIRST", `differs from "first" only in case`},
		{"fir\u017ft", `differs from "first" only in case`}, // the long s folds to s
	} {
		for _, extend := range []bool{false, true} {
			for _, typ := range []datatype.Type{datatype.Untyped, datatype.Int64} {
				table := driver.Table{ID: "t." + fmt.Sprint(extend, typ), Extend: extend, Columns: []datatype.Column{{Name: "first"}, {Name: tt.name, Type: typ}}}
				_, err := b.Define(t.Context(), buffer.SinkConfig{ID: fmt.Sprint(extend, typ, tt.problem), Table: table})
				if want := tt.problem; want == "" || !extend && typ == datatype.Untyped {
					if err != nil {
						t.Errorf("%q in %+v: got %v, want no error", tt.name, table, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("column 2: the name %q %s", tt.name, want)) {
					t.Errorf("%q in %+v: got %v, want %s", tt.name, table, err, want)
				}
			}
		}
	}
}

// All columns that a table has ever had count. From 200 on there is a warning, and beyond 500 the last definition stays.
func TestColumnsOfATableAreBounded(t *testing.T) {
	var log bytes.Buffer
	opts := memoryOptions(t, buffertest.NewMemory())
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b := open(t, opts)
	const each = 100
	for i := range 7 {
		log.Reset()
		columns := []datatype.Column{{Name: "id"}}
		for n := range each - 1 {
			columns = append(columns, datatype.Column{Name: fmt.Sprintf("c%d_%d", min(i, 5), n)})
		}
		if i == 6 { // as the last but one, whose last columns would be too many
			columns = columns[:len(columns)-95]
		}
		table := driver.Table{ID: "t.a", Columns: columns, Extend: true}
		_, err := b.Define(t.Context(), buffer.SinkConfig{ID: "a", Table: table})
		var refused *buffer.ChangeError
		switch tooMany := i == 5; {
		case tooMany != errors.As(err, &refused), tooMany && !strings.Contains(err.Error(), `table "t.a" would have 595 columns, with the columns of earlier definitions; at most 500 are kept`):
			t.Fatalf("definition %d: %v", i, err)
		case tooMany:
			if kept, _ := b.Sink("a").Table(); slices.Equal(kept.Columns, columns) {
				t.Error("a refused definition has replaced the last one")
			}
		case err != nil:
			t.Fatalf("definition %d: %v", i, err)
		case strings.Contains(log.String(), "table has many columns") != (i >= 2):
			t.Errorf("definition %d logs %s", i, &log)
		}
	}
}

// Rows that waited when their table began to grow reach it even if the sink has switched to another table, or back to a fixed
// one.
func TestRowsReachAGrownTableThatTheSinkHasLeft(t *testing.T) {
	grown := driver.Table{ID: "in.c-test.a", Columns: append(columns[:2:2], datatype.Column{Name: "n", Type: datatype.Int64}), Extend: true}
	fixed := grown
	fixed.Extend = false
	for name, next := range map[string]driver.Table{"another": {ID: "in.c-test.b", Columns: columns}, "fixed": fixed} {
		t.Run(name, func(t *testing.T) {
			var away atomic.Bool
			mem := buffertest.NewMemory()
			mem.Before = failWhile(away.Load, errAway, buffertest.OpImport)
			away.Store(true)
			b := open(t, memoryOptions(t, mem))
			first := define(t, b, "a")
			put(t, b, first, 0, 5)
			must(t, mem.Extend(t.Context(), grown))
			define(t, b, "a", func(c *buffer.SinkConfig) { c.Table = grown })
			away.Store(false)
			define(t, b, "a", func(c *buffer.SinkConfig) { c.Table = next })
			put(t, b, first, 5, 8) // of a caller that mapped them before
			flush(t, b, "a")
			wantIDs(t, mem, "in.c-test.a", 0, 8)
			verify(t, b)
		})
	}
}
