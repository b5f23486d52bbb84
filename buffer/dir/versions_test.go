package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

// dayTable has a row's day and its id.
var dayTable = buffer.Table{ID: "in.c-test.days", Columns: []datatype.Column{
	{Name: "at", Type: datatype.Timestamp}, {Name: "id", Type: datatype.Int64},
}}

// dayRows returns rows n to n+count-1: of four days and of none.
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
type lazyDisk struct{ disk }

type lazyFile struct{ file }

func (lazyDisk) Create(path string) (file, error) {
	f, err := disk{}.Create(path)
	return lazyFile{f}, err
}

func (lazyDisk) Append(path string) (file, error) {
	f, err := disk{}.Append(path)
	return lazyFile{f}, err
}

func (lazyFile) Sync() error          { return nil }
func (lazyDisk) SyncDir(string) error { return nil }

func lazyTables(root string, o TablesOptions) *TableDir {
	tables := TablesWith(root, o)
	tables.fs = lazyDisk{}
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
	for _, pattern := range []string{"*.csv*", "dt=*/*.csv*"} {
		found, err := filepath.Glob(filepath.Join(tables.Path(table), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			rel, err := filepath.Rel(tables.Path(table), path)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, rel)
		}
	}
	return names
}

func TestRowsAreSplitByDay(t *testing.T) {
	for _, compress := range []bool{false, true} {
		tables := TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at", Gzip: compress})
		extension := tables.extension()
		rows := dayRows(0, 12)
		f := newFile("file-1", dayTable, rows)
		for range 2 {
			if err := tables.Import(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			"dt=2026-11-21/file-1.3" + extension, "dt=2026-11-22/file-1.2" + extension, "dt=2026-11-23/file-1.2" + extension,
			"dt=2026-11-24/file-1.2" + extension, "dt=__HIVE_DEFAULT_PARTITION__/file-1.3" + extension,
		}
		if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, want) {
			t.Errorf("parts %q, want %q", got, want)
		}
		if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(rows...)) {
			t.Errorf("rows %q", got)
		}
		if n, err := tables.CountFile(t.Context(), dayTable, "file-1"); err != nil || n != 12 {
			t.Errorf("CountFile = %d, %v", n, err)
		}
		// A whole day that is gone was taken away; a part that was cut was not.
		day := filepath.Join(tables.Path(dayTable.ID), "dt=2026-11-22")
		if err := os.RemoveAll(day); err != nil {
			t.Fatal(err)
		}
		if taken, err := tables.TakenAway(t.Context(), dayTable, "file-1"); err != nil || !taken {
			t.Errorf("without a day: TakenAway = %t, %v", taken, err)
		}
		if err := tables.Import(t.Context(), f); err != nil {
			t.Errorf("repeated Import without a day: %v", err)
		}
		if err := os.WriteFile(filepath.Join(tables.Path(dayTable.ID), want[0]), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if taken, err := tables.TakenAway(t.Context(), dayTable, "file-1"); err != nil || taken {
			t.Errorf("with a part that was emptied: TakenAway = %t, %v", taken, err)
		}
		if err := tables.Import(t.Context(), f); !buffer.IsPermanent(err) {
			t.Errorf("repeated Import with a part that was emptied: %v", err)
		}
		expectNoTemp(t, tables.root)
	}
}

func TestPartitionsThatAreRefused(t *testing.T) {
	tables := TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at"})
	table := dayTable
	table.Columns = append(slices.Clone(table.Columns), datatype.Column{Name: "DT"})
	if err := tables.Ensure(t.Context(), table); !buffer.IsPermanent(err) || !strings.Contains(err.Error(), `rename the column "DT"`) {
		t.Errorf("a column of the name of the folders: %v", err)
	}
	if err := tables.Ensure(t.Context(), dayTable); err != nil {
		t.Fatal(err)
	}
	if err := tables.Extend(t.Context(), table); !buffer.IsPermanent(err) || !strings.Contains(err.Error(), `rename the column "DT"`) {
		t.Errorf("a table that gets a column of the name of the folders: %v", err)
	}
	for _, at := range []string{"", "2026-11-2", "2026-11-22 10:00:00", "22.11.2026", "../../etc/x"} {
		err := tables.Import(t.Context(), newFile("file-1", dayTable, [][]string{{at, "1"}}))
		if !buffer.IsPermanent(err) || !strings.Contains(err.Error(), "neither a date nor a timestamp") {
			t.Errorf("%q: %v", at, err)
		}
	}
	expectNoTemp(t, tables.root)
}

// The rows of a day are flushed in pieces when a file is larger than the memory for it.
func TestSplitOfALargeFile(t *testing.T) {
	for _, compress := range []bool{false, true} {
		tables := TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at", Gzip: compress})
		body := strings.Repeat("x", splitBuffer/4)
		table := dayTable
		table.Columns = []datatype.Column{dayTable.Columns[0], {Name: "id"}}
		rows := dayRows(0, 10)
		for i := range rows {
			rows[i][1] += body
		}
		if err := tables.Import(t.Context(), newFile("file-1", table, rows)); err != nil {
			t.Fatal(err)
		}
		if got := readIDs(t, tables, table.ID); !slices.Equal(got, sortedIDs(rows...)) {
			t.Errorf("%d rows differ", len(got))
		}
	}
}

// The merged part has the rows of all, each file is still known, and the old version stays for its readers.
func TestMerge(t *testing.T) {
	for name, options := range map[string]TablesOptions{
		"plain":     {},
		"gzip":      {Gzip: true},
		"no header": {NoHeader: true},
		"days":      {PartitionBy: "at"},
	} {
		t.Run(name, func(t *testing.T) {
			options.MergeTo = 1 << 20
			root := t.TempDir()
			tables := lazyTables(root, options)
			const files = mergeFrom*mergeFrom + mergeFrom
			var all [][]string
			fileOf := func(i int) *buffer.File { return newFile(fmt.Sprintf("file-%04d", i), dayTable, dayRows(10*i, 10)) }
			for i := range files {
				all = append(all, dayRows(10*i, 10)...)
				if err := tables.Import(t.Context(), fileOf(i)); err != nil {
					t.Fatal(err)
				}
				if i%7 == 0 {
					if err := tables.Compact(t.Context(), dayTable); err != nil {
						t.Fatal(err)
					}
				}
			}
			before, err := filepath.EvalSymlinks(tables.Path(dayTable.ID))
			if err != nil {
				t.Fatal(err)
			}
			old, _ := filepath.Glob(filepath.Join(before, "*"))
			if err := tables.Compact(t.Context(), dayTable); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(before, "*")); !slices.Equal(left, old) {
				t.Errorf("the version before has %d files, had %d", len(left), len(old))
			}
			if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
				t.Errorf("%d rows, want %d", len(got), len(all))
			}
			parts := partNames(t, tables, dayTable.ID)
			if limit := 20 * (1 + 4*len(options.PartitionBy)/2); len(parts) > limit {
				t.Errorf("%d parts are left of %d files: %q", len(parts), files, parts)
			}
			for _, again := range []*TableDir{tables, lazyTables(root, options), lazyTables(root, TablesOptions{NoHeader: true})} {
				for i := range files {
					if n, err := again.CountFile(t.Context(), dayTable, fileOf(i).ID); err != nil || n != 10 {
						t.Fatalf("CountFile of file %d = %d, %v", i, n, err)
					}
				}
				for _, i := range []int{0, files / 2, files - 1} {
					if err := again.Import(t.Context(), fileOf(i)); err != nil {
						t.Errorf("repeated import of file %d: %v", i, err)
					}
				}
			}
			if got := len(readTable(t, tables, dayTable.ID)); got != len(all) {
				t.Errorf("%d rows after repeated imports, want %d", got, len(all))
			}
			tables.grace = 0
			if err := tables.Compact(t.Context(), dayTable); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(filepath.Join(root, versionsDir, folder(dayTable.ID))); err != nil || len(left) != 1 {
				t.Errorf("versions %v, %v, want the newest", left, err)
			}
			if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
				t.Errorf("%d rows without the old versions, want %d", len(got), len(all))
			}
			expectNoTemp(t, root)
			if err := tables.Drop(t.Context(), dayTable.ID); err != nil {
				t.Fatal(err)
			}
			if got := readTable(t, tables, dayTable.ID); got != nil {
				t.Errorf("%d rows after Drop", len(got))
			}
			if err := tables.Import(t.Context(), fileOf(0)); err != nil || len(readTable(t, tables, dayTable.ID)) != 10 {
				t.Errorf("import after Drop: %v", err)
			}
			expectNoTemp(t, root)
		})
	}
}

// A plain table becomes a link when its parts are merged first.
func TestMergeOfAPlainTable(t *testing.T) {
	root := t.TempDir()
	var want []string
	for i := range mergeFrom + 1 {
		want = append(want, sortedIDs(dayRows(10+5*i, 5)...)...)
		if err := Tables(root).Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(10+5*i, 5))); err != nil {
			t.Fatal(err)
		}
	}
	merging := TablesWith(root, TablesOptions{MergeTo: 1 << 20})
	err := merging.Compact(t.Context(), dayTable)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this file system cannot exchange names: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if linked, err := merging.isLink(dayTable.ID); err != nil || !linked {
		t.Errorf("a link: %t, %v", linked, err)
	}
	if got := readIDs(t, merging, dayTable.ID); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	// Without the option the table stays what it is.
	if err := Tables(root).Import(t.Context(), newFile("file-x", dayTable, dayRows(99, 1))); err != nil {
		t.Fatal(err)
	}
	if got := readIDs(t, Tables(root), dayTable.ID); !slices.Equal(got, append(want, "99")) {
		t.Errorf("rows %q", got)
	}
	merging.grace = 0
	if err := merging.Compact(t.Context(), dayTable); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(merging.versionsPath(dayTable.ID)); err != nil || len(left) != 1 {
		t.Errorf("versions %v, %v", left, err)
	}
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
			for i := range mergeFrom - 1 {
				f := newFile(fmt.Sprint("file-", i), dayTable, [][]string{{null, fmt.Sprint(i)}}) // of about the size of the last one
				if err := other.Import(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
			grown := dayTable
			grown.Extend = true
			grown.Columns = append(slices.Clone(grown.Columns), datatype.Column{Name: "new"})
			dir, err := filepath.EvalSymlinks(other.Path(dayTable.ID))
			if err != nil {
				t.Fatal(err)
			}
			tables, listed := lazyTables(root, TablesOptions{MergeTo: 1 << 20}), false
			tables.fs = hookedDisk{before: func(path string) {
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

// The clock can be set back behind the newest version, and a switch then be cut short: the next one does not run into what it left.
func TestSwitchAfterTheClockWasSetBack(t *testing.T) {
	tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
	tables.now = func() time.Time { return time.UnixMicro(5_000_000) }
	if err := tables.Import(t.Context(), newFile("file-0", dayTable, dayRows(0, 5))); err != nil {
		t.Fatal(err)
	}
	tables.now = func() time.Time { return time.UnixMicro(1) }
	current, err := os.Readlink(tables.Path(dayTable.ID))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(filepath.Base(current), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(tables.versionsPath(dayTable.ID), fmt.Sprintf("%0*d", len(filepath.Base(current)), n+1))
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, definitionFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tables.Import(t.Context(), newFile("file-1", dayTable, dayRows(5, 5))); err != nil {
		t.Fatal(err)
	}
	if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(dayRows(0, 10)...)) {
		t.Errorf("rows %q", got)
	}
}

// A version is kept for the time of grace after it was replaced, also when the first versions have numbers with fewer digits,
// because the clock began in 1970.
func TestVersionsOfAClockThatWasSetForward(t *testing.T) {
	tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
	for i, at := range []time.Time{time.UnixMicro(5_000_000), time.Unix(1795361400, 0), time.Unix(1795361460, 0)} {
		tables.now = func() time.Time { return at }
		if err := tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(5*i, 5))); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := filepath.EvalSymlinks(tables.Path(dayTable.ID))
	if err != nil {
		t.Fatal(err)
	}
	tables.now = func() time.Time { return time.Unix(1795361520, 0) }
	if err := tables.Import(t.Context(), newFile("file-3", dayTable, dayRows(15, 5))); err != nil {
		t.Fatal(err)
	}
	if err := tables.Compact(t.Context(), dayTable); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the version of a reader that has resolved it a minute ago: %v", err)
	}
}

// The files for locks of one table and the versions of another one do not have the same name.
func TestTablesNamedAsLocks(t *testing.T) {
	for _, ids := range [][]string{{"a", "a.lock", "a.compact"}, {"a.compact", "a.lock", "a"}} {
		tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
		for _, id := range ids {
			table := dayTable
			table.ID = id
			if err := tables.Import(t.Context(), newFile("file-1", table, dayRows(0, 5))); err != nil {
				t.Errorf("%q: %v", id, err)
			}
			if err := tables.Compact(t.Context(), table); err != nil {
				t.Errorf("%q: %v", id, err)
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
		"merge": {TablesOptions{MergeTo: 1 << 20}, mergeFrom},
	} {
		t.Run(name, func(t *testing.T) {
			fileOf := func(i int) *buffer.File { return newFile(fmt.Sprint("file-", i), dayTable, dayRows(10+5*i, 3)) }
			var want [][]string
			for i := range tc.files {
				want = append(want, dayRows(10+5*i, 3)...)
			}
			everyFault(t, func(t *testing.T, d *faultyDisk) {
				root := filepath.Join(d.root, "tables")
				tables := lazyTables(root, tc.options)
				for i := range tc.files - 1 {
					if err := tables.Import(t.Context(), fileOf(i)); err != nil {
						t.Fatal(err)
					}
				}
				stored := want[:len(want)-3]
				tables.fs, tables.grace = d, 0
				err := tables.Import(t.Context(), fileOf(tc.files-1))
				if err == nil {
					stored = want
					err = tables.Compact(t.Context(), dayTable)
				}
				if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, errCrash) {
					t.Errorf("%v does not wrap the fault", err)
				}

				tables = lazyTables(root, tc.options) // as after a restart
				tables.grace = 0
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
				if left, err := os.ReadDir(tables.versionsPath(dayTable.ID)); err != nil || len(left) != 1 {
					t.Errorf("versions %v, %v", left, err)
				}
			})
		})
	}
}

func TestOldPartsAreRemoved(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	at := func(tables *TableDir) *TableDir {
		tables.now = func() time.Time { return now }
		return tables
	}
	t.Run("by day", func(t *testing.T) {
		tables := at(TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at", KeepFor: 48 * time.Hour, MergeTo: 1 << 20}))
		for i := range mergeFrom {
			if err := tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(5*i, 5))); err != nil {
				t.Fatal(err)
			}
		}
		undated, _ := filepath.Glob(filepath.Join(tables.Path(dayTable.ID), noDay, "*"))
		for _, path := range undated {
			if err := os.Chtimes(path, now, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := tables.Compact(t.Context(), dayTable); err != nil {
			t.Fatal(err)
		}
		// The days 21 and 22 have ended more than 48 hours ago.
		if got := partNames(t, tables, dayTable.ID); len(got) != 3 || !strings.HasPrefix(got[0], "dt=2026-11-23") {
			t.Errorf("parts %q", got)
		}
		for i := range mergeFrom {
			id := fmt.Sprint("file-", i)
			n, err := tables.CountFile(t.Context(), dayTable, id)
			taken, terr := tables.TakenAway(t.Context(), dayTable, id)
			if n != 3 || !taken || err != nil || terr != nil {
				t.Errorf("%s: %d rows, taken away %t, %v, %v", id, n, taken, err, terr)
			}
		}
		if err := tables.Import(t.Context(), newFile("file-0", dayTable, dayRows(0, 5))); err != nil {
			t.Errorf("repeated import: %v", err)
		}
	})
	t.Run("by import", func(t *testing.T) {
		tables := at(TablesWith(t.TempDir(), TablesOptions{KeepFor: 48 * time.Hour, MergeTo: 1 << 20}))
		for i := range 3 * mergeFrom {
			id := fmt.Sprintf("file-%02d", i)
			if err := tables.Import(t.Context(), newFile(id, dayTable, dayRows(10+5*i, 1))); err != nil {
				t.Fatal(err)
			}
			imported := now.Add(-time.Duration(i/mergeFrom) * 24 * time.Hour)
			if err := os.Chtimes(filepath.Join(tables.Path(dayTable.ID), id+".csv"), imported, imported); err != nil {
				t.Fatal(err)
			}
		}
		if err := tables.Compact(t.Context(), dayTable); err != nil {
			t.Fatal(err)
		}
		// Those of two days ago are gone; those of yesterday are not kept longer by those of today.
		want := []string{"file-00~file-07~8.csv", "file-08~file-15~8.csv"}
		if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, want) {
			t.Errorf("parts %q, want %q", got, want)
		}
		now = now.Add(24 * time.Hour)
		if err := tables.Compact(t.Context(), dayTable); err != nil {
			t.Fatal(err)
		}
		if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, want[:1]) {
			t.Errorf("a day later: parts %q, want %q", got, want[:1])
		}
		if taken, err := tables.TakenAway(t.Context(), dayTable, "file-09"); err != nil || !taken {
			t.Errorf("TakenAway = %t, %v", taken, err)
		}
	})
}

// A part that a reader deletes while it is merged does not come back with the merged part.
func TestMergeOfAPartThatIsDeleted(t *testing.T) {
	root := t.TempDir()
	tables := TablesWith(root, TablesOptions{MergeTo: 1 << 20})
	for i := range mergeFrom {
		if err := tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(10, 1))); err != nil {
			t.Fatal(err)
		}
	}
	tables.fs = deletingDisk{path: filepath.Join(tables.Path(dayTable.ID), "file-3.csv")}
	if err := tables.Compact(t.Context(), dayTable); err != nil {
		t.Fatal(err)
	}
	if got := partNames(t, tables, dayTable.ID); len(got) != mergeFrom-1 {
		t.Errorf("parts %q", got)
	}
	expectNoTemp(t, root)
}

// deletingDisk deletes a file when a temporary file is finished.
type deletingDisk struct {
	disk
	path string
}

func (d deletingDisk) Chtimes(path string, t time.Time) error {
	return errors.Join(os.Remove(d.path), d.disk.Chtimes(path, t))
}

func TestOnImported(t *testing.T) {
	var calls [][]string
	fail := errors.New("the loader fails")
	tables := TablesWith(t.TempDir(), TablesOptions{OnImported: func(_ context.Context, f *buffer.File, parts []string) error {
		for _, p := range parts {
			if _, err := os.Stat(p); err != nil {
				t.Error(err)
			}
		}
		calls = append(calls, append([]string{f.ID}, parts...))
		return fail
	}})
	f := newFile("file-1", faultTable, faultRows)
	if err := tables.Import(t.Context(), f); !errors.Is(err, fail) {
		t.Errorf("Import = %v, want the error of the hook", err)
	}
	fail = nil
	if err := tables.Import(t.Context(), f); err != nil {
		t.Error(err)
	}
	part := filepath.Join(tables.Path(faultTable.ID), "file-1.csv")
	if want := []string{"file-1", part}; len(calls) != 2 || !slices.Equal(calls[0], want) || !slices.Equal(calls[1], want) {
		t.Errorf("calls %q", calls)
	}
}

// Readers that resolve the table once see every file whole and every row once, beside several drivers that import and
// compact. A reader that opens what it has listed through the link may miss a file, and never reads a row twice.
func TestReadersBesideMerges(t *testing.T) {
	root := t.TempDir()
	options := TablesOptions{PartitionBy: "at", MergeTo: 1 << 20}
	if err := TablesWith(root, options).Ensure(t.Context(), dayTable); err != nil {
		t.Fatal(err)
	}
	const files, rows = 60, 10
	var imported atomic.Int64 // the files below this one are imported
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	writers.Go(func() {
		tables := lazyTables(root, options)
		for i := range files {
			if err := tables.Import(t.Context(), newFile(fmt.Sprintf("file-%04d", i), dayTable, dayRows(rows*i, rows))); err != nil {
				t.Error(err)
				return
			}
			imported.Store(int64(i + 1))
		}
	})
	for range 2 {
		readers.Go(func() {
			tables := lazyTables(root, options)
			for {
				if err := tables.Compact(t.Context(), dayTable); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	reads := 0
	readers.Go(func() {
		tables := Tables(root)
		for {
			least := int(imported.Load()) * rows
			seen := make(map[string]int)
			for _, row := range readTable(t, tables, dayTable.ID) {
				seen[row[1]]++
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("row %s is there %d times", id, n)
				}
			}
			if len(seen) < least || len(seen)%rows != 0 {
				t.Errorf("%d rows, at least %d are imported, %d a file", len(seen), least, rows)
			}
			reads++
			select {
			case <-done:
				return
			default:
			}
		}
	})
	readers.Go(func() {
		for {
			seen := make(map[string]bool)
			parts, err := filepath.Glob(filepath.Join(root, folder(dayTable.ID), "*", "*.csv"))
			if err != nil {
				t.Error(err)
			}
			for _, path := range parts {
				data, err := os.ReadFile(path)
				if errors.Is(err, fs.ErrNotExist) {
					break
				}
				if err != nil {
					t.Error(err)
				}
				for line := range strings.Lines(string(data)) {
					if seen[line] && !strings.HasPrefix(line, `"at"`) {
						t.Errorf("row %q is there twice", line)
					}
					seen[line] = true
				}
			}
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	t.Logf("%d reads, %d parts in the end", reads, len(partNames(t, Tables(root), dayTable.ID)))
}

// go test -bench Switch -benchtime 20x ./buffer/dir
func BenchmarkSwitch(b *testing.B) {
	for _, parts := range []int{10, 1000} {
		b.Run(fmt.Sprintf("parts=%d", parts), func(b *testing.B) {
			tables := TablesWith(b.TempDir(), TablesOptions{PartitionBy: "at"})
			tables.grace = 0
			for i := range parts {
				if err := tables.Import(b.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(5*i+1, 1))); err != nil {
					b.Fatal(err)
				}
			}
			for i := 0; b.Loop(); i++ {
				if err := tables.Import(b.Context(), newFile(fmt.Sprint("more-", i), dayTable, dayRows(1, 2))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
