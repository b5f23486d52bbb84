package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/casetest"
)

// dayTable has a row's day and its id.
var dayTable = driver.Table{ID: "in.c-test.days", Columns: []datatype.Column{
	{Name: "at", Type: datatype.Timestamp}, {Name: "id", Type: datatype.Int64},
}}

// dayRows returns rows n to n+count-1, of four days and of none.
func dayRows(n, count int) (rows [][]string) {
	for i := n; i < n+count; i++ {
		at := null
		if i%5 > 0 {
			at = fmt.Sprintf("2026-11-%02dT23:59:59.999999Z", 20+i%5)
		}
		rows = append(rows, []string{at, fmt.Sprint(i)})
	}
	return rows
}

// lazyDisk syncs nothing, which makes a test with many files quick.
type lazyDisk struct{ parts.Disk }

type lazyFile struct{ parts.File }

func (lazyDisk) Create(path string) (parts.File, error) {
	f, err := parts.Disk{}.Create(path)
	return lazyFile{f}, err
}

func (lazyDisk) Append(path string) (parts.File, error) {
	f, err := parts.Disk{}.Append(path)
	return lazyFile{f}, err
}

func (lazyFile) Sync() error { return nil }

func (lazyDisk) SyncDir(string) error { return nil }

func lazyTables(root string, o TablesOptions) *TableDir {
	tables := TablesWith(root, o)
	tables.folder.FS = lazyDisk{}
	return tables
}

// readIDs returns the sorted second cells of a table.
func readIDs(t *testing.T, tables *TableDir, table string) (ids []string) {
	t.Helper()
	for _, row := range readTable(t, tables, table) {
		ids = append(ids, row[1])
	}
	slices.Sort(ids)
	return ids
}

func sortedIDs(rows ...[]string) (ids []string) {
	for _, row := range rows {
		ids = append(ids, row[1])
	}
	slices.Sort(ids)
	return ids
}

// partNames lists the parts of a table as a reader finds them.
func partNames(t *testing.T, tables *TableDir, table string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.csv*", "dt=*/*.csv*", "imports/*/dt=*/*.csv*"} {
		found, err := filepath.Glob(filepath.Join(tables.Path(table), pattern))
		must(t, err)
		for _, path := range found {
			rel, err := filepath.Rel(tables.Path(table), path)
			must(t, err)
			names = append(names, rel)
		}
	}
	return names
}

// hookedDisk calls before ahead of each listing of a folder.
type hookedDisk struct {
	lazyDisk
	before func(path string)
}

func (d hookedDisk) ReadDir(path string) ([]fs.DirEntry, error) {
	d.before(path)
	return d.lazyDisk.ReadDir(path)
}

// Another engine gives the table a column, and stores a part that has it, while the parts are listed.
func TestTableGrowsWhileItIsListed(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, tables *TableDir) error{
		"read": func(t *testing.T, tables *TableDir) error {
			for _, err := range tables.Rows(dayTable.ID) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"merge": func(t *testing.T, tables *TableDir) error { return tables.Compact(t.Context(), dayTable) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			other := lazyTables(root, TablesOptions{MergeTo: 1 << 20})
			for i := range parts.MergeFrom - 1 {
				f := newFile(fmt.Sprint("file-", i), dayTable, [][]string{{null, fmt.Sprint(i)}}) // of about the size of the last one
				must(t, other.Import(t.Context(), f))
			}
			grown := dayTable
			grown.Extend = true
			grown.Columns = append(slices.Clone(grown.Columns), datatype.Column{Name: "new"})
			dir, err := filepath.EvalSymlinks(other.Path(dayTable.ID))
			must(t, err)
			tables, listed := lazyTables(root, TablesOptions{MergeTo: 1 << 20}), false
			tables.folder.FS = hookedDisk{before: func(path string) {
				if listed || path != dir {
					return
				}
				listed = true
				if err := other.Import(t.Context(), newFile("file-9", grown, [][]string{{null, "9", "x"}})); err != nil {
					t.Error(err)
				}
			}}
			if err := use(t, tables); err != nil {
				t.Error(err)
			}
			if !listed {
				t.Error("the parts were not listed")
			}
		})
	}
}

// The clock can be set back before the newest version, and a switch then be cut short. The next switch works despite the leftovers.
func TestSwitchAfterTheClockWasSetBack(t *testing.T) {
	tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
	tables.folder.Now = func() time.Time { return time.UnixMicro(5_000_000) }
	must(t, tables.Import(t.Context(), newFile("file-0", dayTable, dayRows(0, 5))))
	tables.folder.Now = func() time.Time { return time.UnixMicro(1) }
	current, err := os.Readlink(tables.Path(dayTable.ID))
	must(t, err)
	n, err := strconv.ParseInt(filepath.Base(current), 10, 64)
	must(t, err)
	left := filepath.Join(tables.folder.VersionsPath(dayTable.ID), fmt.Sprintf("%0*d", len(filepath.Base(current)), n+1))
	must(t, os.Mkdir(left, 0o700))
	must(t, os.WriteFile(filepath.Join(left, parts.DefinitionFile), nil, 0o600))
	must(t, tables.Import(t.Context(), newFile("file-1", dayTable, dayRows(5, 5))))
	if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(dayRows(0, 10)...)) {
		t.Errorf("rows %q", got)
	}
}

// A version is kept for the time of grace after it was replaced, even if the first versions have numbers with fewer digits,
// because the clock began in 1970.
func TestVersionsOfAClockThatWasSetForward(t *testing.T) {
	tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
	for i, at := range []time.Time{time.UnixMicro(5_000_000), time.Unix(1795361400, 0), time.Unix(1795361460, 0)} {
		tables.folder.Now = func() time.Time { return at }
		must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(5*i, 5))))
	}
	dir, err := filepath.EvalSymlinks(tables.Path(dayTable.ID))
	must(t, err)
	tables.folder.Now = func() time.Time { return time.Unix(1795361520, 0) }
	must(t, tables.Import(t.Context(), newFile("file-3", dayTable, dayRows(15, 5))))
	must(t, tables.Compact(t.Context(), dayTable))
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the version of a reader that has resolved it a minute ago: %v", err)
	}
}

// The lock files of one table and the versions of a different table do not have the same name.
func TestTablesNamedAsLocks(t *testing.T) {
	for _, ids := range [][]string{{"a", "a.lock", "a.compact"}, {"a.compact", "a.lock", "a"}} {
		tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
		for _, id := range ids {
			table := dayTable
			table.ID = id
			if err := tables.Import(t.Context(), newFile("file-1", table, dayRows(0, 5))); err != nil {
				t.Errorf("%q: got %v, want no error", id, err)
			}
			if err := tables.Compact(t.Context(), table); err != nil {
				t.Errorf("%q: got %v, want no error", id, err)
			}
		}
	}
}

// Whatever fails in the import of several days, in a merge or in the removal of old versions, the table has every row once.
func TestVersionsSurviveEveryFault(t *testing.T) {
	for name, tc := range map[string]struct {
		options TablesOptions
		files   int
	}{
		"days":  {TablesOptions{PartitionBy: "at"}, 2},
		"merge": {TablesOptions{MergeTo: 1 << 20}, parts.MergeFrom},
	} {
		t.Run(name, func(t *testing.T) {
			fileOf := func(i int) *driver.File { return newFile(fmt.Sprint("file-", i), dayTable, dayRows(10+5*i, 3)) }
			var want [][]string
			for i := range tc.files {
				want = append(want, dayRows(10+5*i, 3)...)
			}
			everyFault(t, casetest.Step(), func(t *testing.T, d *faultyDisk) {
				root := filepath.Join(d.root, "tables")
				tables := lazyTables(root, tc.options)
				for i := range tc.files - 1 {
					must(t, tables.Import(t.Context(), fileOf(i)))
				}
				stored := want[:len(want)-3]
				tables.folder.FS, tables.folder.Grace = d, 0
				err := tables.Import(t.Context(), fileOf(tc.files-1))
				if err == nil {
					stored = want
					err = tables.Compact(t.Context(), dayTable)
				} else if !d.crash {
					expectNoTemp(t, root)
				}
				if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, errCrash) {
					t.Errorf("%v does not wrap the fault", err)
				}

				tables = lazyTables(root, tc.options) // as after a restart
				tables.folder.Grace = 0
				got := readIDs(t, tables, dayTable.ID)
				if !slices.Equal(got, sortedIDs(stored...)) && !slices.Equal(got, sortedIDs(want...)) {
					t.Errorf("after %v: rows %q", err, got)
				}
				for i := range tc.files {
					if err := tables.Import(t.Context(), fileOf(i)); err != nil {
						t.Fatalf("repeated Import = %v", err)
					}
				}
				if err := tables.Compact(t.Context(), dayTable); err != nil {
					t.Fatalf("repeated Compact = %v", err)
				}
				if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(want...)) {
					t.Errorf("in the end: rows %q, want %q", got, sortedIDs(want...))
				}
				if left, err := os.ReadDir(tables.folder.VersionsPath(dayTable.ID)); err != nil || len(left) != 1 {
					t.Errorf("versions %v, %v", left, err)
				}
			})
		})
	}
}

// deletingDisk deletes a file when a temporary file is finished.
type deletingDisk struct {
	parts.Disk
	path string
}

func (d deletingDisk) Chtimes(path string, t time.Time) error {
	return errors.Join(os.Remove(d.path), d.Disk.Chtimes(path, t))
}

// go test -run '^$' -bench ImportOfDays -benchtime 100x ./buffer/dir
func BenchmarkImportOfDays(b *testing.B) {
	for _, c := range []struct{ days, more int }{{1, 1}, {1, 10}, {1000, 1}, {1000, 10}} {
		b.Run(fmt.Sprintf("days=%d/more=%d", c.days, c.more), func(b *testing.B) {
			tables := TablesWith(b.TempDir(), TablesOptions{PartitionBy: "at", MergeTo: 1 << 20})
			if err := tables.Import(b.Context(), daysFile("first", 0, c.days)); err != nil {
				b.Fatal(err)
			}
			if err := tables.Compact(b.Context(), dayTable); err != nil {
				b.Fatal(err)
			}
			disk := &countingDisk{FileSystem: tables.folder.FS}
			tables.folder.FS = disk
			n := 0
			for i := 0; b.Loop(); i++ {
				if err := tables.Import(b.Context(), daysFile(fmt.Sprint("more-", i), c.days+c.more*i, c.more)); err != nil {
					b.Fatal(err)
				}
				if err := tables.Compact(b.Context(), dayTable); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(disk.names)/float64(n), "names/op")
		})
	}
}
