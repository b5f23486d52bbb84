package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
)

// Rows that staging has lost must not count as imported.
func TestImportChecksTheRows(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"cut between rows": {"\"1\",\"a\"\n", "staging has 1 rows, want 2"},
		"cut in a row":     {"\"1\",\"a\"\n\"2\",\"b", "ends within a row"},
		"cut at a comma":   {"\"1\",\"a\"\n\"2\",", "ends within a row"},
		"cut after a cell": {"\"1\",\"a\"\n\"2\",\"b\"", "ends within a row"},
		"empty":            {"", "staging has 0 rows, want 2"},
		"too many":         {"\"1\",\"a\"\n\"2\",\"b\"\n\"3\",\"c\"\n", "staging has 3 rows, want 2"},
		"a cell too few":   {"\"1\"\n\"2\",\"b\"\n", "row 1 has 1 cells"},
		"a cell too many":  {"\"1\",\"a\"\n\"2\",\"b\",\"c\"\n", "row 2 has 3 cells"},
		"no quotes":        {"1,a\n2,b\n", "want a quote"},
		"text after quote": {"\"1\"x,\"a\"\n\"2\",\"b\"\n", "follows the closing quote"},
	} {
		for _, compress := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/gzip=%t", name, compress), func(t *testing.T) {
				f := newFile("file-1", faultTable, faultRows[:1])
				f.Slices[0].Rows, f.Rows = 2, 2
				data := []byte(tc.data)
				if compress {
					f.Slices[0].Encoding = driver.Gzip
					data = gzipped(t, data)
				}
				f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(data)), nil
				}
				tables := TablesWith(t.TempDir(), TablesOptions{Gzip: compress})
				err := tables.Import(t.Context(), f)
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "file-1-0") {
					t.Errorf("Import = %v, want %q and the slice", err, tc.want)
				}
				if got := readTable(t, tables, faultTable.ID); got != nil {
					t.Errorf("the table has %q", got)
				}
				expectNoTemp(t, tables.folder.Root)
			})
		}
	}
}

// Nothing is compressed twice. The part contains the stored members byte for byte.
func TestGzipSlicesAreCopied(t *testing.T) {
	f := newFile("file-1", faultTable, faultRows)
	var stored [][]byte
	for i := range f.Slices {
		f.Slices[i].Encoding = driver.Gzip
		stored = append(stored, gzipped(t, csvRow(faultRows[i]...)))
	}
	f.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(stored[slices.Index(f.Slices, obj)])), nil
	}
	tables := TablesWith(t.TempDir(), TablesOptions{Gzip: true})
	must(t, tables.Import(t.Context(), f))
	got, err := os.ReadFile(filepath.Join(tables.Path(faultTable.ID), "file-1.csv.gz"))
	if rows := bytes.Join(stored, nil); err != nil || !bytes.HasSuffix(got, rows) || len(got) > len(rows)+50 {
		t.Errorf("the part has %d bytes, %v, want a header and the %d stored ones", len(got), err, len(rows))
	}
}

// The option may be changed between two runs, also between an import and its repetition.
func TestPlainAndGzipInOneTable(t *testing.T) {
	root := t.TempDir()
	plain, compressed := Tables(root), TablesWith(root, TablesOptions{Gzip: true})
	var want [][]string
	for i, tables := range []*TableDir{plain, compressed, plain, compressed} {
		f := newFile(fmt.Sprintf("file-%d", i), faultTable, faultRows)
		want = append(want, faultRows...)
		for _, again := range []*TableDir{tables, plain, compressed} {
			must(t, again.Import(t.Context(), f))
		}
	}
	if got := readTable(t, plain, faultTable.ID); !equalRows(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// While one process imports a file, another imports and finishes the same file. The second removes the temporary file of the
// first, which then finds nothing to rename, but the part is there.
func TestImportOvertakenByAnother(t *testing.T) {
	root := t.TempDir()
	f := newFile("file-1", faultTable, faultRows)
	open := f.OpenSlice
	f.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		if obj == f.Slices[1] {
			if err := Tables(root).Import(ctx, newFile("file-1", faultTable, faultRows)); err != nil {
				return nil, err
			}
		}
		return open(ctx, obj)
	}
	if err := Tables(root).Import(t.Context(), f); err != nil {
		t.Errorf("Import = %v, want nil", err)
	}
	if got := readTable(t, Tables(root), faultTable.ID); !equalRows(got, faultRows) {
		t.Errorf("got %q", got)
	}
	expectNoTemp(t, root)
}

func TestRowsOfAnAbsentTable(t *testing.T) {
	n := 0
	for row, err := range Tables(t.TempDir()).Rows("absent") {
		n++
		if row != nil || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %q, %v, want fs.ErrNotExist", row, err)
		}
	}
	if n != 1 {
		t.Errorf("got %d results, want 1", n)
	}
}

func TestRowsCanStop(t *testing.T) {
	tables := Tables(t.TempDir())
	must(t, tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)))
	for row := range tables.Rows(faultTable.ID) {
		if row[0] != "1" {
			t.Fatalf("the loop went on to row %q", row)
		}
		break
	}
}
