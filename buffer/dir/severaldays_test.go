package dir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// olderTable makes a table of an earlier release, with the rows of file-0. Parts of several days are in the folders of the days.
func olderTable(t *testing.T, root string, rows [][]string) {
	t.Helper()
	tables := lazyTables(root, TablesOptions{PartitionBy: "at"})
	must(t, tables.Import(t.Context(), newFile("file-0", dayTable, rows)))
	dir := tables.Path(dayTable.ID)
	days, err := filepath.Glob(filepath.Join(dir, parts.ImportsDir, "file-0", "*"))
	if err != nil || len(days) < 2 {
		t.Fatalf("days %q, %v", days, err)
	}
	for _, day := range days {
		must(t, os.Rename(day, filepath.Join(dir, filepath.Base(day))))
	}
	must(t, os.RemoveAll(filepath.Join(dir, parts.ImportsDir)))
	setVersion(t, filepath.Join(dir, parts.DefinitionFile), "4", "2")
}

func setVersion(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	changed := strings.Replace(string(data), `"version": `+from, `"version": `+to, 1)
	if changed == string(data) {
		t.Fatalf("%s has no version %s: %s", path, from, data)
	}
	must(t, os.WriteFile(path, []byte(changed), 0o600))
}

// A table of an earlier release is read, grows, and is merged. It gets the version that earlier releases refuse with its first file of several
// days, and not before.
func TestSeveralDaysInATableOfAnEarlierRelease(t *testing.T) {
	root := t.TempDir()
	olderTable(t, root, dayRows(0, 5))
	tables := lazyTables(root, TablesOptions{PartitionBy: "at", MergeTo: 1 << 20})
	version := func() string {
		data, err := os.ReadFile(filepath.Join(tables.Path(dayTable.ID), parts.DefinitionFile))
		must(t, err)
		return strings.Fields(string(data))[2]
	}
	all := dayRows(0, 5)
	for i, rows := range [][][]string{dayRows(0, 5), dayRows(6, 1), dayRows(10, 10)} {
		if i > 0 {
			all = append(all, rows...)
		}
		must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, rows)))
		if got, want := version(), []string{"2,", "2,", "4,"}[i]; got != want {
			t.Errorf("after file %d: version %s want %s", i, got, want)
		}
		if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
			t.Errorf("after file %d: rows %q, want %q", i, got, sortedIDs(all...))
		}
	}
	for i := 3; i < 3+parts.MergeFrom; i++ {
		rows := dayRows(10*i, 5)
		all = append(all, rows...)
		must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i), dayTable, rows)))
	}
	must(t, tables.Compact(t.Context(), dayTable))
	if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
		t.Errorf("after a merge: rows %q, want %q", got, sortedIDs(all...))
	}
	// The merged part of a day is in the folder of the day, because one of its sources was.
	if names := partNames(t, tables, dayTable.ID); !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "dt=2026-11-21/file-0~") }) {
		t.Errorf("parts after a merge: %q", names)
	}
	if err := tables.Import(t.Context(), newFile("file-0", dayTable, dayRows(0, 5))); err != nil {
		t.Errorf("repeated import after a merge: %v", err)
	}
}

// A process that knows the parts of a version finds what other processes add to it, and does not store the rows of a file twice.
func TestImportsOfOtherProcessesAreFound(t *testing.T) {
	root := t.TempDir()
	options := TablesOptions{PartitionBy: "at", MergeTo: 1 << 20}
	knows, other := lazyTables(root, options), lazyTables(root, options)
	var all [][]string
	oneDay := slices.Concat(dayRows(6, 1), dayRows(1001, 1), dayRows(1006, 1))
	files := map[string][][]string{"file-1": oneDay, "file-2": dayRows(10, 10)}
	if err := knows.Import(t.Context(), newFile("file-0", dayTable, dayRows(0, 1))); err != nil { // it lists the version
		t.Fatal(err)
	}
	all = append(all, dayRows(0, 1)...)
	for id, rows := range files {
		for _, tables := range []*TableDir{other, knows} {
			must(t, tables.Import(t.Context(), newFile(id, dayTable, rows)))
		}
		all = append(all, rows...)
	}
	if got := readIDs(t, knows, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
		t.Errorf("rows %q, want %q", got, sortedIDs(all...))
	}
	// They are merged, by a third process.
	for i := range parts.MergeFrom {
		rows := dayRows(100+i*10, 10)
		all = append(all, rows...)
		must(t, other.Import(t.Context(), newFile(fmt.Sprint("file-2", i), dayTable, rows)))
	}
	must(t, lazyTables(root, options).Compact(t.Context(), dayTable))
	for id, rows := range files {
		must(t, knows.Import(t.Context(), newFile(id, dayTable, rows)))
	}
	if got := readIDs(t, knows, dayTable.ID); !slices.Equal(got, sortedIDs(all...)) {
		t.Errorf("after a merge: rows %q, want %q", got, sortedIDs(all...))
	}
	for id := range files {
		if err := knows.Import(t.Context(), newFile(id, dayTable, dayRows(1, 1))); !driver.IsPermanent(err) {
			t.Errorf("%s with other rows: got %v, want a permanent error", id, err)
		}
	}
}

// A reader may delete parts. A file whose parts are all gone is imported again, a file that lacks a day counts as imported.
func TestSeveralDaysThatAReaderDeletes(t *testing.T) {
	tables := lazyTables(t.TempDir(), TablesOptions{PartitionBy: "at"})
	f := newFile("file-1", dayTable, dayRows(0, 5))
	must(t, tables.Import(t.Context(), f))
	all := partNames(t, tables, dayTable.ID)
	remove := func(names []string) {
		for _, name := range names {
			must(t, os.Remove(filepath.Join(tables.Path(dayTable.ID), name)))
		}
	}
	remove(all[:1])
	must(t, tables.Import(t.Context(), f))
	if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, all[1:]) {
		t.Errorf("without a day: parts %q, want %q", got, all[1:])
	}
	remove(all[1:])
	must(t, tables.Import(t.Context(), f))
	if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, all) {
		t.Errorf("after all parts were deleted: parts %q, want %q", got, all)
	}
}

// An attempt that the buffer has abandoned runs alongside the next one. The rows are stored once, and both succeed or are
// repeated.
func TestAttemptsOfSeveralDaysBesideEachOther(t *testing.T) {
	root := t.TempDir()
	options := TablesOptions{PartitionBy: "at"}
	tables := []*TableDir{lazyTables(root, options), lazyTables(root, options), lazyTables(root, options)}
	must(t, tables[0].Ensure(t.Context(), dayTable))
	const files = 40
	var attempts sync.WaitGroup
	for _, tables := range tables {
		attempts.Go(func() {
			for i := range files {
				f := newFile(fmt.Sprint("file-", i), dayTable, dayRows(10*i, 10))
				var err error
				for range 10 { // the buffer repeats an attempt whose temporary files are gone
					if err = tables.Import(t.Context(), f); err == nil {
						break
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	attempts.Wait()
	if got, want := readIDs(t, tables[0], dayTable.ID), sortedIDs(dayRows(0, 10*files)...); !slices.Equal(got, want) {
		t.Errorf("got %d rows, want %d", len(got), len(want))
	}
	expectNoTemp(t, root)
}
