package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/buckettest"
)

// The last rows of a table come from the newest files, whatever their days are, with NULL apart from the empty text.
func TestTail(t *testing.T) {
	w := newWorld(t)
	for name, o := range map[string]bucket.TablesOptions{"plain": {}, "days": {PartitionBy: "day"}} {
		t.Run(name, func(t *testing.T) {
			o.Scratch = t.TempDir()
			tables := openTables(t, buckettest.S3URL(w.server, w.name), o)
			if _, err := tables.Tail(t.Context(), "missing", 5); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no table: %v", err)
			}
			table := driver.Table{ID: "tail." + name, Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "day", Type: datatype.Date}, {Name: "text", Type: datatype.String}}}
			for i, rows := range []string{
				"\"1\",\"2026-11-24\",\"a\"\n", "\"2\",\"2026-11-20\",\n\"3\",\"2026-11-20\",\"\"\n", "\"4\",\"2026-11-22\",\"b\"\n",
			} {
				f := &driver.File{ID: fmt.Sprintf("file-%d", i), Table: table, Rows: int64(bytes.Count([]byte(rows), []byte{'\n'}))}
				f.Slices = []driver.Object{{ID: f.ID + "-0", Rows: f.Rows}}
				f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader([]byte(rows))), nil
				}
				check(t, tables.Import(t.Context(), f))
			}
			for n, want := range map[int]string{0: "", 1: "4 b;", 2: "3 ;4 b;", 3: "2 NULL;3 ;4 b;", 9: "1 a;2 NULL;3 ;4 b;"} {
				tail, err := tables.Tail(t.Context(), table.ID, n)
				got := ""
				for _, row := range tail.Rows {
					text := string(row[2])
					if row[2] == nil {
						text = "NULL"
					}
					got += string(row[0]) + " " + text + ";"
				}
				if err != nil || got != want || len(tail.Columns) != 3 || n > 0 && tail.Imported.IsZero() {
					t.Errorf("%d rows: got %q, imported %v, %v, want %q", n, got, tail.Imported, err, want)
				}
			}
		})
	}
}

// Of a large object little is read.
func TestTailOfALargePart(t *testing.T) {
	w := newWorld(t)
	tables := openTables(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.TablesOptions{Compression: parquet.Plain, Scratch: t.TempDir()})
	table := driver.Table{ID: "large", Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}}
	rng := rand.New(rand.NewPCG(1, 2))
	var data []byte
	const rows = 6000
	for i := range rows {
		data = fmt.Appendf(data, "\"%d\",\"", i)
		for range 2000 {
			data = append(data, 'a'+byte(rng.IntN(26)))
		}
		data = append(data, '"', '\n')
	}
	check(t, tables.Import(t.Context(), &driver.File{
		ID: "file-1", Table: table, Rows: rows, Slices: []driver.Object{{ID: "file-1-0", Rows: rows}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		},
	}))
	gets := 0
	w.proxy.Break(func(r *http.Request) buckettest.Fault {
		if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			gets++
		}
		return buckettest.None
	})
	tail, err := tables.Tail(t.Context(), "large", 20)
	w.proxy.Break(nil)
	if err != nil || len(tail.Rows) != 20 || string(tail.Rows[19][0]) != "5999" {
		t.Errorf("got %d rows, %v, want 20 to 5999, no error", len(tail.Rows), err)
	}
	if gets < 2 || gets > 5 {
		t.Errorf("%d ranges of an object of 12 MB were read", gets)
	}
}
