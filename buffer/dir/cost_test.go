package dir

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// countingDisk counts the names that are made and all operations. It serves one goroutine.
type countingDisk struct {
	parts.FileSystem
	names, operations int
}

func (d *countingDisk) Create(path string) (parts.File, error) {
	d.names++
	d.operations++
	return d.FileSystem.Create(path)
}

func (d *countingDisk) MkdirAll(path string) error {
	for p := path; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err == nil {
			break
		}
		d.names++
	}
	d.operations++
	return d.FileSystem.MkdirAll(path)
}

func (d *countingDisk) Link(from, to string) error {
	d.names++
	d.operations++
	return d.FileSystem.Link(from, to)
}

func (d *countingDisk) Symlink(target, path string) error {
	d.names++
	d.operations++
	return d.FileSystem.Symlink(target, path)
}

func (d *countingDisk) Open(path string) (io.ReadCloser, error) {
	d.operations++
	return d.FileSystem.Open(path)
}

func (d *countingDisk) Stat(path string) (fs.FileInfo, error) {
	d.operations++
	return d.FileSystem.Stat(path)
}

func (d *countingDisk) ReadDir(path string) ([]fs.DirEntry, error) {
	d.operations++
	return d.FileSystem.ReadDir(path)
}

func (d *countingDisk) Rename(from, to string) error {
	d.operations++
	return d.FileSystem.Rename(from, to)
}

func (d *countingDisk) Remove(path string) error {
	d.operations++
	return d.FileSystem.Remove(path)
}

func (d *countingDisk) SyncDir(path string) error {
	d.operations++
	return d.FileSystem.SyncDir(path)
}

// daysFile returns a file with one row of each of count days, from a day on.
func daysFile(id string, day, count int) *driver.File {
	var rows [][]string
	for i := range count {
		at := time.Date(1900, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, day+i)
		rows = append(rows, []string{at.Format("2006-01-02T15:04:05.000000Z"), fmt.Sprint(day + i)})
	}
	return newFile(id, dayTable, rows)
}

// The cost of an import depends on its rows, however many days the table has. It is at most twice the names and disk operations a day of the
// first import of one day. Compact, which the engine calls after imports, is part of the cost.
func TestCostOfAnImportOfManyDays(t *testing.T) {
	const days, imports = 10, 10
	all := map[string]TablesOptions{
		"days":           {PartitionBy: "at"},
		"days, merged":   {PartitionBy: "at", MergeTo: 1 << 20},
		"days, kept for": {PartitionBy: "at", MergeTo: 1 << 20, KeepFor: 2e6 * time.Hour},
	}
	if testing.Short() {
		all = map[string]TablesOptions{"days, merged": all["days, merged"]}
	}
	for name, options := range all {
		t.Run(name, func(t *testing.T) {
			cost := func(tables *TableDir, n int, file func(i int) *driver.File) (names, operations float64) {
				disk := &countingDisk{FileSystem: tables.folder.FS}
				tables.folder.FS = disk
				for i := range n {
					must(t, tables.Import(t.Context(), file(i)))
					must(t, tables.Compact(t.Context(), dayTable))
				}
				return float64(disk.names) / float64(n), float64(disk.operations) / float64(n)
			}
			one := lazyTables(t.TempDir(), options)
			must(t, one.Ensure(t.Context(), dayTable))
			oneNames, oneOperations := cost(one, imports, func(i int) *driver.File { return daysFile(fmt.Sprint("file-", i), i, 1) })

			many := lazyTables(t.TempDir(), options)
			must(t, many.Import(t.Context(), daysFile("first", 0, 1000)))
			must(t, many.Compact(t.Context(), dayTable))
			names, operations := cost(many, imports, func(i int) *driver.File { return daysFile(fmt.Sprint("file-", i), 1000+days*i, days) })
			t.Logf("one day: %.1f names and %.1f operations an import. %d more days of 1000: %.1f and %.1f", oneNames, oneOperations, days, names, operations)
			if limit := 2 * days * oneNames; names > limit {
				t.Errorf("an import of %d days into 1000 makes %.1f names, want at most %.1f: one day makes %.1f", days, names, limit, oneNames)
			}
			if limit := 2 * days * oneOperations; operations > limit {
				t.Errorf("an import of %d days into 1000 takes %.1f disk operations, want at most %.1f: one day takes %.1f",
					days, operations, limit, oneOperations)
			}
		})
	}
}
