package parquet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/drivertest"
)

// Each of several programs reads the parts of a table, imported and merged parts, of several pages, with and without NULL and a
// dictionary. internal/sqltest does the same with DuckDB.
func TestOtherReaders(t *testing.T) {
	columns := []datatype.Column{
		{Name: "id", Type: datatype.Int64, Required: true},
		{Name: "kind", Type: datatype.String},
		{Name: "body", Type: datatype.String},
		{Name: "f", Type: datatype.Float64},
		{Name: "ok", Type: datatype.Bool, Required: true},
		{Name: "d", Type: datatype.Decimal(12, 2)},
		{Name: "u", Type: datatype.UUID},
		{Name: "at", Type: datatype.Timestamp},
	}
	table := driver.Table{ID: "events", Columns: columns}
	var want [][]string
	var files []*driver.File
	for n, rows := range []int{16_600, 3, 2, 1, 4, 5, 2, 3, 1, 2} {
		var of [][]string
		for range rows {
			i := len(want)
			row := []string{
				fmt.Sprint(i*i - 1000), []string{"view", "klick é", ""}[i%3], fmt.Sprintf(`{"n":%d}`, i), fmt.Sprint(i) + ".5", fmt.Sprint(i%2 == 0),
				fmt.Sprintf("-%d.25", i), fmt.Sprintf("%08x-0000-4000-8000-00000000000f", i), fmt.Sprintf("2026-11-22T07:47:%02d.000000Z", i%60),
			}
			if i%7 == 3 {
				row[1], row[3], row[5], row[6], row[7] = buffertest.Null, buffertest.Null, buffertest.Null, buffertest.Null, buffertest.Null
			}
			of, want = append(of, row), append(want, row)
		}
		files = append(files, fileOf(fmt.Sprintf("file-%02d", n), table, of...))
	}
	slices.SortFunc(want, slices.Compare[[]string])
	for compression, names := range map[parquet.Compression][]string{parquet.Zstd: {"arrow-rs", "pyarrow"}, parquet.Snappy: {"hyparquet"}} {
		target := mustTables(t, t.TempDir(), parquet.Options{Compression: compression, RowGroup: 16_500})
		drivertest.Import(t, target, files[:9]...)
		drivertest.Compact(t, target, table)
		drivertest.Import(t, target, files[9])
		paths := partsOf(t, target, table.ID)
		if len(paths) == len(files) {
			t.Error("nothing was merged")
		}
		for _, reader := range names {
			script := readers[reader]
			t.Run(reader, func(t *testing.T) {
				if err := exec.Command(script.present[0], script.present[1:]...).Run(); err != nil {
					if os.Getenv("CI") == "true" && !script.optional {
						t.Fatalf("%s is not installed (%v): %s", reader, err, script.install)
					}
					t.Skipf("%s is not installed (%v): %s", reader, err, script.install)
				}
				out, err := exec.Command(script.read[0], append(script.read[1:], paths...)...).Output()
				if err != nil {
					t.Fatalf("got %v: %s, want no error", err, err.(*exec.ExitError).Stderr)
				}
				var got [][]string
				for line := range strings.Lines(string(out)) {
					var row map[string]any
					in := json.NewDecoder(strings.NewReader(line))
					in.UseNumber()
					if err := in.Decode(&row); err != nil {
						t.Fatalf("got %v: %.200s, want no error", err, line)
					}
					var cells []string
					for _, c := range columns {
						cells = append(cells, shown(c, row[c.Name]))
					}
					got = append(got, cells)
				}
				slices.SortFunc(got, slices.Compare[[]string])
				if len(got) != len(want) {
					t.Fatalf("got %d rows, want %d", len(got), len(want))
				}
				for i := range want {
					for at, c := range columns {
						if got[i][at] != want[i][at] && got[i][at] != unseen {
							t.Fatalf("row %q has %s = %q", want[i], c.Name, got[i][at])
						}
					}
				}
			})
		}
	}
}

type script struct {
	present, read []string
	install       string
	optional      bool // CI does not install it
}

var readers = map[string]script{
	"hyparquet": node("hyparquet"),
	"arrow-rs":  node("arrow"),
	"pyarrow": {
		present: []string{"python3", "-c", "import pyarrow.parquet"},
		read:    []string{"python3", filepath.Join("testdata", "readers", "read.py")},
		install: "install it for python3", optional: true,
	},
}

func node(reader string) script {
	path := filepath.Join("testdata", "readers", "read.js")
	return script{
		present: []string{"node", path, reader}, read: []string{"node", path, reader},
		install: "run 'npm install --no-package-lock' in drivers/parquet/testdata/readers",
	}
}

// unseen stands for a cell that a reader shows in its own form.
const unseen = "\x00unseen"

// shown returns the text of a value as the readers print it.
func shown(c datatype.Column, v any) string {
	switch v := v.(type) {
	case nil:
		return buffertest.Null
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		if c.Type == datatype.Decimal(12, 2) && strings.Contains(v.String(), ".") || c.Type == datatype.Float64 || c.Type == datatype.Int64 {
			return v.String()
		}
	case string:
		if c.Type == datatype.UUID && len(v) != 36 || strings.HasPrefix(string(c.Type), "decimal") || c.Type == datatype.Timestamp && len(v) != 24 {
			return unseen
		}
		if c.Type == datatype.Timestamp {
			return strings.TrimSuffix(v, "Z") + "000Z"
		}
		return v
	}
	return unseen
}
