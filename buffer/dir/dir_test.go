package dir_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
)

func TestStagingConformance(t *testing.T) {
	buffertest.Staging(t, func(t *testing.T) driver.Staging { return dir.Staging(t.TempDir()) })
}

func TestTablesConformance(t *testing.T) {
	for name, options := range map[string]dir.TablesOptions{
		"plain":     {},
		"gzip":      {Gzip: true},
		"no header": {NoHeader: true},
		"merged":    {MergeTo: 1 << 20},
		"days":      {PartitionBy: "c_timestamp"},
	} {
		if testing.Short() && name != "merged" && name != "days" {
			continue // played without the race detector
		}
		t.Run(name, func(t *testing.T) {
			var path string
			open := func() driver.Target {
				tables := dir.TablesWith(path, options)
				if options.NoHeader { // such a table cannot grow
					return struct {
						driver.Target
						driver.Counter
					}{tables, tables}
				}
				return tables
			}
			buffertest.Target(t, buffertest.TargetHarness{
				Open: func(t *testing.T) driver.Target {
					path = t.TempDir()
					return open()
				},
				Rows:   func(t *testing.T, table string) [][]string { return rows(t, path, table) },
				Reopen: func(*testing.T) driver.Target { return open() },
				Typed:  true, Unordered: options.PartitionBy != "",
			})
		})
	}
}

func TestKillsDuringImports(t *testing.T) {
	var path string
	open := func(_ *testing.T, place string) driver.Target { return dir.Tables(place) }
	buffertest.Kills(t, buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			path = t.TempDir()
			return open(t, path)
		},
		Rows:    func(t *testing.T, table string) [][]string { return rows(t, path, table) },
		Process: &buffertest.Process{Place: func(*testing.T) string { return path }, Open: open},
	})
}

// rows reads a table. An absent one gives nil.
func rows(t *testing.T, path, table string) (all [][]string) {
	t.Helper()
	for cells, err := range dir.Tables(path).Cells(table) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatalf("reading %s: %v", table, err)
		}
		row := make([]string, len(cells))
		for i, cell := range cells {
			if row[i] = string(cell); cell == nil {
				row[i] = buffertest.Null
			}
		}
		all = append(all, row)
	}
	return all
}
