package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/seedtest"
)

// storedFile is a file of rows in the form in which they are stored.
func storedFile(id string, table driver.Table, rows ...string) *driver.File {
	data := strings.Join(rows, "")
	return &driver.File{
		ID: id, Table: table, Rows: int64(len(rows)), Slices: []driver.Object{{ID: id + "-0", Rows: int64(len(rows))}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(data)), nil
		},
	}
}

// tailTexts are the rows of a tail with a word for NULL.
func tailTexts(tail driver.Tail) (rows [][]string) {
	for _, row := range tail.Rows {
		var texts []string
		for _, cell := range row {
			if cell == nil {
				texts = append(texts, buffertest.Null)
			} else {
				texts = append(texts, string(cell))
			}
		}
		rows = append(rows, texts)
	}
	return rows
}

// Tail gives the last rows that a reader of the parts gives, of all types and with NULL, across row groups, parts and merged parts.
func TestTailIsTheEndOfTheTable(t *testing.T) {
	t.Parallel()
	rng := seedtest.Rand(t)
	table := driver.Table{ID: "in.c-web.events", Columns: storedColumns}
	for _, merged := range []bool{false, true} {
		target, err := Tables(t.TempDir(), Options{RowGroup: 30})
		if err != nil {
			t.Fatal(err)
		}
		for part := range 20 { // of which eight of similar size are merged
			rows := make([]string, 40+rng.IntN(20))
			for i := range rows {
				rows[i] = storedRow(rng)
			}
			drivertest.Import(t, target, storedFile(fmt.Sprintf("file-%02d", part), table, rows...))
		}
		if merged {
			drivertest.Compact(t, target, table)
		}
		paths, err := filepath.Glob(filepath.Join(target.Path(table.ID), "*.parquet"))
		if err != nil || merged && len(paths) >= 20 {
			t.Fatalf("got %d parts, %v, want less than 20 after a merge, no error", len(paths), err)
		}
		slices.Sort(paths)
		var all [][]string
		for _, path := range paths {
			rows, err := parquettest.ReadPart(path, storedColumns)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rows...)
		}
		for _, n := range []int{0, 1, 2, 20, 300, 10_000} {
			tail, err := target.Tail(t.Context(), table.ID, n)
			if err != nil || len(tail.Columns) != len(storedColumns) || n > 0 && tail.Imported.IsZero() {
				t.Fatalf("merged %v, %d rows: columns %v, imported %v, %v", merged, n, tail.Columns, tail.Imported, err)
			}
			got, want := tailTexts(tail), all[max(0, len(all)-n):]
			if len(got) != len(want) {
				t.Fatalf("merged %v: %d rows, want %d", merged, len(got), len(want))
			}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("merged %v, %d rows: row %d is\n%.1000q, want\n%.1000q", merged, n, i, got[i], want[i])
				}
			}
		}
	}
}

// The last file is the end of a table that is split by day, and NULL stands for a column that was added later.
func TestTailOfDaysAndNewColumns(t *testing.T) {
	target, err := Tables(t.TempDir(), Options{PartitionBy: "day"})
	if err != nil {
		t.Fatal(err)
	}
	columns := []datatype.Column{{Name: "day", Type: datatype.Date}, {Name: "text", Type: datatype.String}, {Name: "later", Type: datatype.Int64}}
	narrow, wide := driver.Table{ID: "t", Extend: true, Columns: columns[:2]}, driver.Table{ID: "t", Extend: true, Columns: columns}
	drivertest.Import(t, target, storedFile("file-1", narrow, `"2026-11-24","a"`+"\n", `"2026-11-22",""`+"\n"))
	drivertest.Import(t, target, storedFile("file-2", wide, `"2026-11-20","b","-7"`+"\n"))
	tail, err := target.Tail(t.Context(), "t", 2)
	want := [][]string{{"2026-11-24", "a", buffertest.Null}, {"2026-11-20", "b", "-7"}}
	if got := tailTexts(tail); err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if tail, err = target.Tail(t.Context(), "t", 9); err != nil || len(tail.Rows) != 3 || tail.Rows[0][1] == nil {
		t.Errorf("got %q, %v, want no error and len(tail.Rows) == 3 and tail.Rows[0][1] != nil", tailTexts(tail), err)
	}
}

// countingReader counts the bytes that are read of a part.
type countingReader struct {
	io.ReaderAt
	n int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// Little is read of a large part, fewer rows are returned when those before are beyond the limit, and none when the last one is.
func TestTailIsBounded(t *testing.T) {
	target, err := Tables(t.TempDir(), Options{Compression: Plain, MergeTo: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Tail(t.Context(), "t", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no table: %v", err)
	}
	columns := []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}
	table := driver.Table{ID: "t", Columns: columns}
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1000)
	rows := make([]string, 20_000)
	for i := range rows {
		for j := range noise {
			noise[j] = 'a' + byte(rng.IntN(26))
		}
		rows[i] = fmt.Sprintf("\"%d\",\"%s\"\n", i, noise)
	}
	drivertest.Import(t, target, storedFile("file-1", table, rows...))
	path := filepath.Join(target.Path("t"), "file-1.parquet")
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 19<<20 {
		t.Fatalf("the part has %d bytes, %v", len(data), err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := target.Tail(ended, "t", 5); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	in := &countingReader{ReaderAt: bytes.NewReader(data)}
	got, read, err := LastRows(t.Context(), in, int64(len(data)), columns, 20, MaxTail)
	if err != nil || len(got) != 20 || string(got[19][0]) != "19999" || read > 2<<20 || in.n > 2<<20 {
		t.Errorf("the last rows of many: %d, %d bytes of values, %d bytes of the part, %v", len(got), read, in.n, err)
	}
	if got, read, err = LastRows(t.Context(), in, int64(len(data)), columns, len(rows), MaxTail); err != nil || len(got) < 5000 || len(got) > MaxTail/1000 || read != MaxTail || string(got[len(got)-1][0]) != "19999" {
		t.Errorf("all rows that the limit allows: %d, %d bytes of values, %v", len(got), read, err)
	}
	if _, _, err := LastRows(t.Context(), in, int64(len(data)), columns, 5, 100<<10); !errors.Is(err, driver.ErrTailTooLarge) {
		t.Errorf("a page above the limit: %v", err)
	}
	drivertest.Import(t, target, storedFile("file-2", table, "\"1\",\""+strings.Repeat("x", MaxTail)+"\"\n"))
	if _, err := target.Tail(t.Context(), "t", 5); !errors.Is(err, driver.ErrTailTooLarge) {
		t.Errorf("a last row of 16 MiB: %v", err)
	}
	drivertest.Import(t, target, storedFile("file-3", table, "\"2\",\"y\"\n"))
	// The row before the last one is too large, and no row of an earlier part takes its place.
	if tail, err := target.Tail(t.Context(), "t", 5); err != nil || len(tail.Rows) != 1 || string(tail.Rows[0][0]) != "2" {
		t.Errorf("behind a row of 16 MiB: %d rows, %v", len(tail.Rows), err)
	}
}

// A part that is cut, or that is none, is an error.
func TestTailOfDamagedParts(t *testing.T) {
	target, err := Tables(t.TempDir(), Options{MergeTo: -1, Compression: Plain})
	if err != nil {
		t.Fatal(err)
	}
	table := driver.Table{ID: "t", Columns: []datatype.Column{{Name: "text", Type: datatype.String}}}
	drivertest.Import(t, target, storedFile("file-1", table, "\"some text\"\n"))
	path := filepath.Join(target.Path("t"), "file-1.parquet")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Clone(data)
	value[bytes.Index(data, []byte("some text"))]++ // the checksum of the page tells
	for name, damaged := range map[string][]byte{
		"cut": data[:len(data)/2], "empty": {}, "no footer": bytes.Repeat([]byte("x"), len(data)), "bad length": append(data[:len(data)-6:len(data)-6], "\xff\xffPAR1"...), "a value": value,
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if tail, err := target.Tail(t.Context(), "t", 5); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %q, %v, want an error that names the part", name, tailTexts(tail), err)
		}
	}
	other := []datatype.Column{{Name: "text", Type: datatype.Int64}}
	if _, _, err := LastRows(t.Context(), bytes.NewReader(data), int64(len(data)), other, 5, MaxTail); err == nil {
		t.Error("a part with a column of another type is read")
	}
}
