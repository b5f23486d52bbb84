package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
)

// oneSlice returns a file with all rows in one slice.
func oneSlice(id string, table driver.Table, rows [][]string) *driver.File {
	var data []byte
	for _, row := range rows {
		data = append(data, csvRow(row...)...)
	}
	f := newFile(id, table, nil)
	f.Rows = int64(len(rows))
	f.Slices = []driver.Object{{ID: id + "-0", FileID: id, Rows: f.Rows}}
	f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return f
}

// Tail gives the last rows that Cells gives, whatever is in the cells and however they are spread over parts.
func TestTailIsTheEndOfTheTable(t *testing.T) {
	r := seedtest.Rand(t)
	pieces := []string{"", "a", "\"", "\"\"", "\n", "\r\n", ",", "\",\"", "é", "\x00\xff", strings.Repeat("long \"text\"\n", 2000)}
	for _, o := range []TablesOptions{{}, {NoHeader: true}, {Gzip: true}} {
		tables := TablesWith(t.TempDir(), o)
		table := driver.Table{ID: "in.c-test.t", Columns: datatype.UntypedColumns("a", "b", "c")}
		for part := range 6 {
			var rows [][]string
			for range 1 + r.IntN(40) {
				row := make([]string, 3)
				for i := range row {
					for range r.IntN(4) {
						row[i] += pieces[r.IntN(len(pieces))]
					}
				}
				rows = append(rows, row)
			}
			must(t, tables.Import(t.Context(), oneSlice(fmt.Sprintf("f%03d", part), table, rows)))
		}
		var all [][][]byte
		for cells, err := range tables.Cells(table.ID) {
			must(t, err)
			var row [][]byte
			for _, c := range cells {
				row = append(row, bytes.Clone(c))
			}
			all = append(all, row)
		}
		for _, n := range []int{0, 1, 2, 7, 20, 1000} {
			tail, err := tables.Tail(t.Context(), table.ID, n)
			if err != nil {
				t.Fatalf("%+v, %d rows: got %v, want no error", o, n, err)
			}
			want := all[max(0, len(all)-n):]
			if len(tail.Rows) != len(want) || n > 0 && tail.Imported.IsZero() || len(tail.Columns) != 3 {
				t.Fatalf("got %+v: %d rows, want %d; columns %v, imported %v", o, len(tail.Rows), len(want), tail.Columns, tail.Imported)
			}
			for i := range want {
				for k := range want[i] {
					if !bytes.Equal(tail.Rows[i][k], want[i][k]) || (tail.Rows[i][k] == nil) != (want[i][k] == nil) {
						t.Fatalf("%+v, %d rows: row %d, cell %d is %q, want %q", o, n, i, k, tail.Rows[i][k], want[i][k])
					}
				}
			}
		}
	}
}

// The columns of a part are found by their names, and NULL stays apart from the empty text.
func TestTailOfATableThatGrew(t *testing.T) {
	tables := Tables(t.TempDir())
	narrow := driver.Table{ID: "t", Extend: true, Columns: []datatype.Column{{Name: "a", Type: datatype.String}}}
	wide := driver.Table{ID: "t", Extend: true, Columns: []datatype.Column{{Name: "b", Type: datatype.String}, {Name: "a", Type: datatype.String}}}
	for id, table := range map[string]driver.Table{"f1": narrow, "f2": wide} {
		row := make([]string, len(table.Columns))
		row[0] = id
		must(t, tables.Extend(t.Context(), table))
		must(t, tables.Import(t.Context(), oneSlice(id, table, [][]string{row})))
	}
	tail, err := tables.Tail(t.Context(), "t", 5)
	if err != nil || len(tail.Rows) != 2 || len(tail.Columns) != 2 {
		t.Fatal(tail, err)
	}
	named := func(row [][]byte, name string) []byte {
		for i, c := range tail.Columns {
			if c.Name == name {
				return row[i]
			}
		}
		return []byte("no column")
	}
	if old, last := tail.Rows[0], tail.Rows[1]; string(named(old, "a")) != "f1" || named(old, "b") != nil || string(named(last, "b")) != "f2" || named(last, "a") == nil || len(named(last, "a")) > 0 {
		t.Errorf("rows %q", tail.Rows)
	}
}

// Little is read of a large part, and nothing of one whose last row is too large, or that must be decompressed.
func TestTailIsBounded(t *testing.T) {
	table := driver.Table{ID: "t", Columns: datatype.UntypedColumns("a")}
	many := make([][]string, 60_000)
	for i := range many {
		many[i] = []string{fmt.Sprintf("row %d %s", i, strings.Repeat("x", 100))}
	}
	for _, o := range []TablesOptions{{}, {Gzip: true}} {
		tables := TablesWith(t.TempDir(), o)
		if _, err := tables.Tail(t.Context(), "t", 5); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no table: %v", err)
		}
		must(t, tables.Import(t.Context(), oneSlice("f1", table, many)))
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := tables.Tail(ended, "t", 5); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: got %v after the end of the context, want context.Canceled", o, err)
		}
		tail, err := tables.Tail(t.Context(), "t", 5)
		if o.Gzip {
			if !errors.Is(err, driver.ErrTailTooLarge) {
				t.Errorf("a large compressed part: %v", err)
			}
			continue
		}
		if err != nil || len(tail.Rows) != 5 || !strings.HasPrefix(string(tail.Rows[4][0]), "row 59999 ") {
			t.Errorf("the last rows of many: %d, %v", len(tail.Rows), err)
		}
		if tail, err = tables.Tail(t.Context(), "t", len(many)); err != nil || len(tail.Rows) < 10_000 || len(tail.Rows) > 4<<20/len(many[0][0]) {
			t.Errorf("all rows that the bound allows: %d, %v", len(tail.Rows), err)
		}
		must(t, tables.Import(t.Context(), oneSlice("f2", table, [][]string{{strings.Repeat("\n", 5<<20)}})))
		if _, err := tables.Tail(t.Context(), "t", 5); err != nil && !errors.Is(err, driver.ErrTailTooLarge) {
			t.Errorf("a last row of 5 MiB: %v", err)
		} else if err == nil {
			t.Error("a last row of 5 MiB was read")
		}
	}
}

func TestQueryQuotesNames(t *testing.T) {
	table := driver.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("a", "it's")}
	language, query := Tables("/data/it's").Query(table)
	if language != "DuckDB" || !strings.Contains(query, `read_csv('/data/it''s/in.c-web.events/**/*.csv*', header = true`) {
		t.Errorf("got a query in %s, want DuckDB with an escaped path: %s", language, query)
	}
	if _, query = TablesWith("/data", TablesOptions{NoHeader: true}).Query(table); !strings.Contains(query, `header = false, names = ['a', 'it''s']`) {
		t.Errorf("without headers: %s", query)
	}
}
