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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/casetest"
)

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
			const files = parts.MergeFrom*parts.MergeFrom + parts.MergeFrom
			var all [][]string
			fileOf := func(i int) *driver.File { return newFile(fmt.Sprintf("file-%04d", i), dayTable, dayRows(10*i, 10)) }
			for i := range files {
				all = append(all, dayRows(10*i, 10)...)
				must(t, tables.Import(t.Context(), fileOf(i)))
				if i%7 == 0 {
					must(t, tables.Compact(t.Context(), dayTable))
				}
			}
			before, err := filepath.EvalSymlinks(tables.Path(dayTable.ID))
			must(t, err)
			old, _ := filepath.Glob(filepath.Join(before, "*"))
			must(t, tables.Compact(t.Context(), dayTable))
			if left, _ := filepath.Glob(filepath.Join(before, "*")); !slices.Equal(left, old) {
				t.Errorf("the version before has %d files, had %d", len(left), len(old))
			}
			if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
				t.Errorf("got %d rows, want %d", len(got), len(all))
			}
			names := partNames(t, tables, dayTable.ID)
			if limit := 20 * (1 + 4*len(options.PartitionBy)/2); len(names) > limit {
				t.Errorf("%d parts are left of %d files: %q, want at most %v", len(names), files, names, limit)
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
				t.Errorf("got %d rows after repeated imports, want %d", got, len(all))
			}
			tables.folder.Grace = 0
			must(t, tables.Compact(t.Context(), dayTable))
			if left, err := os.ReadDir(tables.folder.VersionsPath(dayTable.ID)); err != nil || len(left) != 1 {
				t.Errorf("versions %v, %v, want the newest", left, err)
			}
			if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
				t.Errorf("got %d rows without the old versions, want %d", len(got), len(all))
			}
			expectNoTemp(t, root)
			must(t, tables.Drop(t.Context(), dayTable.ID))
			if got := readTable(t, tables, dayTable.ID); got != nil {
				t.Errorf("got %d rows after Drop, want no table", len(got))
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
	for i := range parts.MergeFrom + 1 {
		want = append(want, sortedIDs(dayRows(10+5*i, 5)...)...)
		must(t, Tables(root).Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(10+5*i, 5))))
	}
	merging := TablesWith(root, TablesOptions{MergeTo: 1 << 20})
	err := merging.Compact(t.Context(), dayTable)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this file system cannot exchange names: %v", err)
	}
	must(t, err)
	if linked, err := merging.folder.IsLink(dayTable.ID); err != nil || !linked {
		t.Errorf("a link: %t, %v", linked, err)
	}
	if got := readIDs(t, merging, dayTable.ID); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	// Without the option the table stays unchanged.
	must(t, Tables(root).Import(t.Context(), newFile("file-x", dayTable, dayRows(99, 1))))
	if got := readIDs(t, Tables(root), dayTable.ID); !slices.Equal(got, append(want, "99")) {
		t.Errorf("rows %q", got)
	}
	merging.folder.Grace = 0
	must(t, merging.Compact(t.Context(), dayTable))
	if left, err := os.ReadDir(merging.folder.VersionsPath(dayTable.ID)); err != nil || len(left) != 1 {
		t.Errorf("versions %v, %v", left, err)
	}
}

// rigidDisk cannot exchange two names, as most systems cannot.
type rigidDisk struct{ lazyDisk }

func (rigidDisk) Exchange(string, string) error { return errors.ErrUnsupported }

// Where a plain table cannot become a link, it stays as it is, and each attempt to merge it leaves nothing on the disk.
func TestMergeOfAPlainTableThatStaysPlain(t *testing.T) {
	root := t.TempDir()
	var want []string
	for i := range parts.MergeFrom {
		want = append(want, sortedIDs(dayRows(10+5*i, 5)...)...)
		must(t, lazyTables(root, TablesOptions{}).Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(10+5*i, 5))))
	}
	merging := TablesWith(root, TablesOptions{MergeTo: 1 << 20})
	merging.folder.FS = rigidDisk{}
	for range 2 {
		if err := merging.Compact(t.Context(), dayTable); !errors.Is(err, errors.ErrUnsupported) || !driver.IsPermanent(err) {
			t.Errorf("Compact = %v", err)
		}
		if got := readIDs(t, merging, dayTable.ID); !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
		if left, err := os.ReadDir(merging.folder.VersionsPath(dayTable.ID)); err != nil || len(left) > 0 {
			t.Errorf("versions %v, %v", left, err)
		}
		expectNoTemp(t, root)
	}
}

func TestOldPartsAreRemoved(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	at := func(tables *TableDir) *TableDir {
		tables.folder.Now = func() time.Time { return now }
		return tables
	}
	t.Run("by day", func(t *testing.T) {
		tables := at(TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at", KeepFor: 48 * time.Hour, MergeTo: 1 << 20}))
		for i := range parts.MergeFrom {
			must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(5*i, 5))))
		}
		undated, _ := filepath.Glob(filepath.Join(tables.Path(dayTable.ID), parts.NoDay, "*"))
		for _, path := range undated {
			must(t, os.Chtimes(path, now, now))
		}
		must(t, tables.Compact(t.Context(), dayTable))
		// The days 21 and 22 have ended more than 48 hours ago.
		if got := partNames(t, tables, dayTable.ID); len(got) != 3 || !strings.Contains(got[0], "/dt=2026-11-23/") {
			t.Errorf("parts %q", got)
		}
		for i := range parts.MergeFrom {
			id := fmt.Sprint("file-", i)
			n, err := tables.CountFile(t.Context(), dayTable, id)
			taken, terr := tables.TakenAway(t.Context(), dayTable, id)
			if n != 3 || !taken || err != nil || terr != nil {
				t.Errorf("%s: got %d rows, taken away %t, %v, %v, want 3 rows that were taken away, no errors", id, n, taken, err, terr)
			}
		}
		if err := tables.Import(t.Context(), newFile("file-0", dayTable, dayRows(0, 5))); err != nil {
			t.Errorf("repeated import: %v", err)
		}
	})
	t.Run("by import", func(t *testing.T) {
		tables := at(TablesWith(t.TempDir(), TablesOptions{KeepFor: 48 * time.Hour, MergeTo: 1 << 20}))
		for i := range 3 * parts.MergeFrom {
			id := fmt.Sprintf("file-%02d", i)
			must(t, tables.Import(t.Context(), newFile(id, dayTable, dayRows(10+5*i, 1))))
			imported := now.Add(-time.Duration(i/parts.MergeFrom) * 24 * time.Hour)
			must(t, os.Chtimes(filepath.Join(tables.Path(dayTable.ID), id+".csv"), imported, imported))
		}
		must(t, tables.Compact(t.Context(), dayTable))
		// Versions of two days ago are gone. Versions of today do not keep the versions of yesterday longer.
		want := []string{"file-00~file-07~8.csv", "file-08~file-15~8.csv"}
		if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, want) {
			t.Errorf("parts %q, want %q", got, want)
		}
		now = now.Add(24 * time.Hour)
		resolved, err := filepath.EvalSymlinks(tables.Path(dayTable.ID))
		must(t, err)
		must(t, tables.Compact(t.Context(), dayTable))
		if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, want[:1]) {
			t.Errorf("a day later: parts %q, want %q", got, want[:1])
		}
		for i, name := range want { // a reader that has resolved the link continues for an hour
			if _, err := os.Stat(filepath.Join(resolved, name)); err != nil {
				t.Errorf("part %d of the version before: %v", i, err)
			}
		}
		now = now.Add(2 * time.Hour)
		must(t, tables.Compact(t.Context(), dayTable))
		if _, err := os.Stat(resolved); !os.IsNotExist(err) {
			t.Errorf("the version before is still there: %v", err)
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
	for i := range parts.MergeFrom {
		must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(10, 1))))
	}
	tables.folder.FS = deletingDisk{path: filepath.Join(tables.Path(dayTable.ID), "file-3.csv")}
	must(t, tables.Compact(t.Context(), dayTable))
	if got := partNames(t, tables, dayTable.ID); len(got) != parts.MergeFrom-1 {
		t.Errorf("parts %q", got)
	}
	expectNoTemp(t, root)
}

func TestOnImported(t *testing.T) {
	var calls [][]string
	fail := errors.New("the loader fails")
	tables := TablesWith(t.TempDir(), TablesOptions{OnImported: func(_ context.Context, f *driver.File, parts []string) error {
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

// walk lists the files of rows below a folder, folder by folder. A folder that is gone has none, as for many readers.
func walk(t *testing.T, folder string) []string {
	return walkWith(t, folder, func([]os.DirEntry) {})
}

// walkWith calls listed after each listing of a folder. It may change the order.
func walkWith(t *testing.T, folder string, listed func([]os.DirEntry)) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	listed(entries)
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if e.IsDir() {
			paths = append(paths, walkWith(t, path, listed)...)
		} else if strings.HasSuffix(path, ".csv") {
			paths = append(paths, path)
		}
	}
	return paths
}

// A reader lists the folders of a table through its link, in any order, and a merge switches the version in the middle. It finds every row
// once, or that a part is gone. Rows never disappear without an error.
func TestMergeWhileAReaderListsThroughTheLink(t *testing.T) {
	orders := map[string]func([]os.DirEntry){"up": func([]os.DirEntry) {}, "down": slices.Reverse[[]os.DirEntry]}
	for _, oneDay := range []int{0, 1} { // files of one day, whose part is in the folder of the day
		var want []string
		for i := range parts.MergeFrom {
			want = append(want, sortedIDs(dayRows(10*i+1, 2)...)...)
		}
		for i := range oneDay {
			want = append(want, fmt.Sprint(1001+10*i))
		}
		slices.Sort(want)
		for order, arrange := range orders {
			for at, last := 1, false; !last; at += casetest.Of(1, 2, 6) {
				tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at", MergeTo: 1 << 20})
				for i := range parts.MergeFrom {
					must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, dayRows(10*i+1, 2))))
				}
				for i := range oneDay {
					must(t, tables.Import(t.Context(), newFile(fmt.Sprint("late-", i), dayTable, dayRows(1001+10*i, 1))))
				}
				n := 0
				paths := walkWith(t, tables.Path(dayTable.ID), func(entries []os.DirEntry) {
					arrange(entries)
					if n++; n == at {
						must(t, tables.Compact(t.Context(), dayTable))
					}
				})
				last = n < at
				rows, gone := make(map[string]int), false
				for _, path := range paths {
					err := countRows(path, rows)
					if gone = gone || errors.Is(err, fs.ErrNotExist); err != nil && !gone {
						t.Fatal(err)
					}
				}
				var got []string
				for id, n := range rows {
					got = append(got, strings.Trim(id, `"`))
					if n > 1 {
						t.Errorf("%d files of one day, listed %s, merged after listing %d: row %s is there %d times, want at most 1", oneDay, order, at, id, n)
					}
				}
				if slices.Sort(got); !gone && !slices.Equal(got, want) {
					t.Errorf("%d files of one day, listed %s, merged after listing %d: rows %q without an error, want %q", oneDay, order, at, got, want)
				}
			}
		}
	}
}

// Readers that resolve the table once see every file whole and every row once, while several drivers import and
// compact. A reader that opens files which it has listed through the link may miss a file, and never reads a row
// twice.
func TestReadersBesideMerges(t *testing.T) {
	root := t.TempDir()
	options := TablesOptions{PartitionBy: "at", MergeTo: 1 << 20}
	must(t, TablesWith(root, options).Ensure(t.Context(), dayTable))
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
			for {
				tables := lazyTables(root, options) // the first call merges whatever it can
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
	walks := 0
	readers.Go(func() {
		for {
			least := int(imported.Load()) * rows
			seen, gone := make(map[string]bool), false
			for _, path := range walk(t, Tables(root).Path(dayTable.ID)) {
				data, err := os.ReadFile(path)
				if gone = errors.Is(err, fs.ErrNotExist); gone {
					break
				}
				if err != nil {
					t.Error(err)
				}
				for line := range strings.Lines(string(data)) {
					if strings.HasPrefix(line, `"at"`) {
						continue
					}
					if seen[line] {
						t.Errorf("row %q is there twice", line)
					}
					seen[line] = true
				}
			}
			if !gone {
				if walks++; len(seen) < least {
					t.Errorf("a reader that lists through the link, and finds all that it has listed, has %d rows, at least %d are imported", len(seen), least)
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
	t.Logf("%d reads, %d of them through the link, %d parts in the end", reads+walks, walks, len(partNames(t, Tables(root), dayTable.ID)))
}
