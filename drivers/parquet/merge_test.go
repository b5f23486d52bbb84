package parquet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/drivertest"
)

// Parts of three versions of a table are merged, next to files that are not its parts.
func TestMergeOfThreeSchemas(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"", "at"} {
		t.Run("by="+by, func(t *testing.T) {
			target := mustTables(t, t.TempDir(), parquet.Options{PartitionBy: by, RowGroup: 300})
			var want [][]string
			var files []*driver.File
			versions := [][]datatype.Column{
				{idColumn, atColumn},
				{idColumn, atColumn, textColumn},
				{textColumn, {Name: "price", Type: datatype.Decimal(20, 2)}, idColumn, atColumn},
			}
			for i := range 24 {
				table := driver.Table{ID: "events", Columns: versions[i/8], Extend: true}
				var rows [][]string
				for _, row := range manyRows(100*i, 100) {
					switch i / 8 {
					case 0:
						rows = append(rows, row[:2])
						want = append(want, []string{row[0], row[1], buffertest.Null, buffertest.Null})
					case 1:
						rows = append(rows, row)
						want = append(want, append(row[:3:3], buffertest.Null))
					case 2:
						rows = append(rows, []string{row[2], "-0.10", row[0], row[1]})
						want = append(want, append(row[:3:3], "-0.10"))
					}
				}
				files = append(files, fileOf(fmt.Sprintf("file-%02d", i), table, rows...))
			}
			drivertest.Import(t, target, files...)
			table := files[len(files)-1].Table
			dir, err := filepath.EvalSymlinks(target.Path(table.ID))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{".hidden", "notes.txt", "half.parquet.tmp"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("PAR1"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			expectRows(t, target, table.ID, want)
			before := len(partsOf(t, target, table.ID))
			for range 2 {
				drivertest.Compact(t, target, table)
			}
			if after := len(partsOf(t, target, table.ID)); after > before/4 {
				t.Errorf("%d parts were merged to %d, want at most %v", before, after, before/4)
			}
			expectRows(t, target, table.ID, want)
			for _, f := range files {
				if n, err := target.CountFile(t.Context(), f.Table, f.ID); n != f.Rows || err != nil {
					t.Errorf("CountFile(%s) = %d, %v, want %d", f.ID, n, err, f.Rows)
				}
			}
			drivertest.Import(t, target, files...) // their parts have other names now
			expectRows(t, target, table.ID, want)
			if n := len(want); n <= 600 {
				t.Errorf("%d rows do not fill two row groups", n)
			}
		})
	}
}

// A reader that resolves the link of a table once sees each imported file whole, and each row once, during imports and merges.
func TestReadersBesideMerges(t *testing.T) {
	t.Parallel()
	target := mustTables(t, t.TempDir(), parquet.Options{PartitionBy: "at"})
	table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, atColumn, textColumn}}
	const files, rows = 40, 30
	drivertest.Import(t, target, fileOf("file-000", table, manyRows(0, rows)...))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var reads int
	wg.Go(func() {
		for ; ctx.Err() == nil; reads++ {
			counts := make(map[string]int)
			got := rowsOf(t, target, table.ID)
			for _, row := range got {
				counts[row[0]]++
			}
			if len(got)%rows != 0 || len(counts) != len(got) {
				t.Errorf("a reader sees %d rows, %d of them different", len(got), len(counts))
				return
			}
		}
	})
	for i := 1; i < files; i++ {
		drivertest.Import(t, target, fileOf(fmt.Sprintf("file-%03d", i), table, manyRows(rows*i, rows)...))
		if i%8 == 0 {
			drivertest.Compact(t, target, table)
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d reads, %d parts in the end", reads, len(partsOf(t, target, table.ID)))
	expectRows(t, target, table.ID, manyRows(0, files*rows))
}

// Two drivers cannot share a table. A damaged part is reported and stays.
func TestPartThatIsNotOurs(t *testing.T) {
	root := t.TempDir()
	target := mustTables(t, root, parquet.Options{})
	table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, textColumn}}
	for i := range 8 {
		drivertest.Import(t, target, fileOf(fmt.Sprintf("file-%d", i), table, []string{fmt.Sprint(i), "a"}))
	}
	path := partsOf(t, target, table.ID)[3]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"cut": string(data[:len(data)/2]), "empty": "", "no footer": strings.Repeat("x", len(data)), "bad length": string(data[:len(data)-6]) + "\xff\xffPAR1",
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := target.CountFile(t.Context(), table, "file-3"); !driver.IsPermanent(err) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: CountFile = %v, want a permanent error with the path", name, err)
		}
		_ = target.Compact(t.Context(), table) // an error if it meets the part
		if n := len(partsOf(t, target, table.ID)); n != 8 {
			t.Errorf("%s: %d parts are left of 8, want 8", name, n)
		}
	}
	var schema *driver.SchemaError
	other := driver.Table{ID: table.ID, Columns: []datatype.Column{idColumn}}
	if err := target.Ensure(t.Context(), other); !errors.As(err, &schema) {
		t.Errorf("Ensure with other columns = %v, want a *driver.SchemaError", err)
	}
}
