package iceberg_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
)

// liveFiles lists the data files of the newest snapshot of the table.
func liveFiles(t *testing.T, target *iceberg.Target) (paths []string) {
	t.Helper()
	tasks, err := load(t, target.Catalog(), "events").Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		paths = append(paths, task.File.FilePath())
	}
	return paths
}

func mustCompact(t *testing.T, target driver.Compactor) {
	t.Helper()
	if err := target.Compact(t.Context(), makeFile("", 0, 0).Table); err != nil {
		t.Fatalf("Compact: %v", err)
	}
}

// importMany imports files of two rows, beginning with a number.
func importMany(t *testing.T, target driver.Target, first, files int) {
	t.Helper()
	for i := first; i < first+files; i++ {
		mustImport(t, target, makeFile(fmt.Sprintf("engine-f%d", i), 2*i, 2))
	}
}

// Small imports end in few data files, with the same rows and ids. A reader of a snapshot from before the merge reads the same rows.
func TestCompactMerges(t *testing.T) {
	for name, opts := range map[string]iceberg.Options{"one partition": {}, "days": {PartitionBy: "at"}} {
		t.Run(name, func(t *testing.T) {
			target := open(t, t.TempDir(), opts)
			const files = 30
			importMany(t, target, 0, files)
			before := load(t, target.Catalog(), "events")
			old := before.CurrentSnapshot().SnapshotID
			liveBefore := liveFiles(t, target.Target)
			mustCompact(t, target)
			tbl := load(t, target.Catalog(), "events")
			want := 1
			if opts.PartitionBy != "" {
				want = 3
			}
			if paths := liveFiles(t, target.Target); len(paths) != want {
				t.Errorf("got %d data files after the merge of %d, want %d: %q", len(paths), files, want, paths)
			}
			if s := tbl.CurrentSnapshot(); s.Summary.Operation != table.OpReplace || s.Summary.Properties["forebay.merged"] != fmt.Sprint(len(liveBefore)) {
				t.Errorf("the merge is a snapshot %v, want the operation replace of %d files", s.Summary, len(liveBefore))
			}
			if got, want := fmt.Sprint(tbl.Properties()), fmt.Sprint(before.Properties()); got != want {
				t.Errorf("the properties after the merge are %s, want %s", got, want)
			}
			expectIDs(t, target.Catalog(), "events", 2*files)
			if got := scanned(t, tbl.Scan(table.WithSnapshotID(old))); got != 2*files {
				t.Errorf("the snapshot from before the merge has %d rows, want %d", got, 2*files)
			}
			importMany(t, target, 0, files)
			expectIDs(t, target.Catalog(), "events", 2*files)
			commits := len(tbl.Metadata().Snapshots())
			mustCompact(t, target)
			if now := len(load(t, target.Catalog(), "events").Metadata().Snapshots()); now != commits {
				t.Errorf("a second Compact has made %d commits, want none", now-commits)
			}
		})
	}
}

// scanned counts the rows of a scan.
func scanned(t *testing.T, scan *table.Scan) (rows int) {
	t.Helper()
	_, batches, err := scan.ToArrowRecords(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		rows += int(batch.NumRows())
		batch.Release()
	}
	return rows
}

// Every type, and NULL, survives a merge, and so do rows from before a column was added.
func TestMergeKeepsValues(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{PartitionBy: "date"})
	values := []string{
		"é", "", "true", "-9223372036854775808", "-0", "-1234567890.12", "123456789012345678901234567890123.45678",
		"2026-11-22T07:47:19.000001Z", "2026-11-22", "0197c5a1-0000-7000-8000-00000000000f", `{"a":1}`, "AP8=",
	}
	for i := range 10 {
		columns, row := typedColumns, values
		if i < 5 {
			columns, row = typedColumns[:9], values[:9]
		}
		f := fileOf(fmt.Sprintf("engine-f%d", i), columns, [][]string{row})
		f.Table.Extend = true
		mustImport(t, target, f)
	}
	sorted := func() []string {
		var lines []string
		for _, row := range rowsOf(t, target.Catalog(), "events") {
			lines = append(lines, strings.Join(row, "|"))
		}
		slices.Sort(lines)
		return lines
	}
	want := sorted()
	mustCompact(t, target)
	if paths := liveFiles(t, target.Target); len(paths) != 1 {
		t.Errorf("got %d data files, want 1: %q", len(paths), paths)
	}
	if got := sorted(); !slices.Equal(got, want) {
		t.Errorf("the table has the rows\n%q\nwant\n%q", got, want)
	}
}

func TestMergeToSwitchesOff(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{MergeTo: -1})
	importMany(t, target, 0, 10)
	mustCompact(t, target)
	if paths := liveFiles(t, target.Target); len(paths) != 10 {
		t.Errorf("got %d data files with MergeTo -1, want 10", len(paths))
	}
}

// deleteRows deletes rows as another program does, with a file of positions if the table says so.
func deleteRows(t *testing.T, target *iceberg.Target, where iceberglib.BooleanExpression) {
	t.Helper()
	tx := load(t, target.Catalog(), "events").NewTransaction()
	if err := tx.Delete(t.Context(), where, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What other programs commit between the plan of a merge and its commit is kept.
func TestOthersBetweenPlanAndMerge(t *testing.T) {
	const files = 20
	for name, tt := range map[string]struct {
		interfere func(t *testing.T, local *iceberg.Local)
		rows      int
		merged    bool
	}{
		"an import": {func(t *testing.T, local *iceberg.Local) { mustImport(t, local, makeFile("other-f1", 2*files, 10)) }, 2*files + 10, true},
		"a property": {func(t *testing.T, local *iceberg.Local) {
			setProperty(t, local.Catalog(), "forebay.imported.other", "2026-11-22T07:47:19Z 0 f1=1")
		}, 2 * files, true},
		"a merge by another target": {func(t *testing.T, local *iceberg.Local) { mustCompact(t, local) }, 2 * files, true},
		"a merge by another tool":   {func(t *testing.T, local *iceberg.Local) { rewrite(t, local.Catalog()) }, 2 * files, true},
		"a delete by rewriting":     {func(t *testing.T, local *iceberg.Local) { deleteRows(t, local.Target, firstRow) }, 2*files - 1, false},
		"a delete by position": {func(t *testing.T, local *iceberg.Local) {
			setProperty(t, local.Catalog(), table.WriteDeleteModeKey, table.WriteModeMergeOnRead)
			deletePosition(t, local.Target)
		}, 2*files - 1, false},
		"a column": {func(t *testing.T, local *iceberg.Local) {
			alter(t, local.Catalog(), func(u *table.UpdateSchema) {
				u.AddColumn([]string{"more"}, iceberglib.PrimitiveTypes.String, "", false, nil)
			})
		}, 2 * files, true},
	} {
		t.Run(name, func(t *testing.T) {
			local := open(t, t.TempDir(), iceberg.Options{})
			importMany(t, local, 0, files)
			c := &faultyCatalog{Catalog: local.Catalog()}
			c.before = func(n int) error {
				if n == 0 {
					tt.interfere(t, local)
				}
				return nil
			}
			mustCompact(t, iceberg.New(c, iceberg.Options{}))
			if c.n == 0 {
				t.Fatal("the merge made no commit")
			}
			if rows := len(rowsOf(t, local.Catalog(), "events")); rows != tt.rows {
				t.Errorf("the table has %d rows, want %d", rows, tt.rows)
			}
			if n := len(liveFiles(t, local.Target)); (n < mergedBelow) != tt.merged {
				t.Errorf("the table has %d data files, want merged %t", n, tt.merged)
			}
			importMany(t, local, 0, files)
			if rows := len(rowsOf(t, local.Catalog(), "events")); rows != tt.rows {
				t.Errorf("after a repetition of the imports the table has %d rows, want %d", rows, tt.rows)
			}
		})
	}
}

// firstRow is one of the two rows of the first file.
var firstRow = iceberglib.EqualTo(iceberglib.Reference("id"), int64(0))

// mergedBelow is a number of data files that only a merge reaches.
const mergedBelow = 8

// deletePosition deletes the first row of a data file with a file of positions.
func deletePosition(t *testing.T, target *iceberg.Target) {
	t.Helper()
	deleteRows(t, target, firstRow)
	tasks, err := load(t, target.Catalog(), "events").Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if len(task.DeleteFiles) > 0 {
			return
		}
	}
	t.Fatal("the library has written no file of deletes")
}

// A merge whose response is lost is found, and is not repeated.
func TestLostAnswerOfAMerge(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	importMany(t, local, 0, 20)
	c := &lostOnce{Catalog: local.Catalog()}
	mustCompact(t, iceberg.New(c, iceberg.Options{}))
	if n := len(liveFiles(t, local.Target)); n != 1 || c.n != 1 {
		t.Errorf("got %d data files after %d commits, want 1 and 1", n, c.n)
	}
	expectIDs(t, local.Catalog(), "events", 40)
}

// Data files with deletes of another program, and data files that another program has written, stay as they are.
func TestMergeLeavesFilesOfOthers(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	importMany(t, target, 0, 20)
	rewrite(t, target.Catalog()) // now it is a file of another program
	foreign := liveFiles(t, target.Target)
	importMany(t, target, 20, 12)
	setProperty(t, target.Catalog(), table.WriteDeleteModeKey, table.WriteModeMergeOnRead)
	deleteRows(t, target.Target, iceberglib.EqualTo(iceberglib.Reference("id"), int64(63)))
	tasks, err := load(t, target.Catalog(), "events").Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stay := foreign
	for _, task := range tasks {
		if len(task.DeleteFiles) > 0 {
			stay = append(stay, task.File.FilePath())
		}
	}
	if len(stay) < 2 {
		t.Fatal("the library has written no file of deletes")
	}
	importMany(t, target, 32, 10)
	before := liveFiles(t, target.Target)
	mustCompact(t, target)
	after := liveFiles(t, target.Target)
	for _, path := range stay {
		if !slices.Contains(after, path) {
			t.Errorf("the merge replaced %s, which has deletes or is a file of another program", path)
		}
	}
	if len(after) > len(before)-9 {
		t.Errorf("got %d data files after the merge of %d, want that the newest 10 are one", len(after), len(before))
	}
	if rows := len(rowsOf(t, target.Catalog(), "events")); rows != 2*42-1 {
		t.Errorf("the table has %d rows, want %d", rows, 2*42-1)
	}
}

// A table of another program whose sort order, columns or version the driver does not know stays as it is.
func TestMergeLeavesUnknownTables(t *testing.T) {
	for name, change := range map[string]func(tx *table.Transaction) error{
		"a sort order": func(tx *table.Transaction) error {
			order, err := table.NewSortOrder(1, []table.SortField{{
				SourceIDs: []int{1}, Transform: iceberglib.IdentityTransform{}, Direction: table.SortASC, NullOrder: table.NullsFirst,
			}})
			if err != nil {
				return err
			}
			return tx.ReplaceSortOrder(order)
		},
		"a column": func(tx *table.Transaction) error {
			return tx.UpdateSchema(true, false).AddColumn([]string{"small"}, iceberglib.PrimitiveTypes.Int32, "", false, nil).Commit()
		},
		"another partitioning": func(tx *table.Transaction) error {
			return tx.UpdateSpec(true).AddField("at", iceberglib.MonthTransform{}, "month").Commit()
		},
		"version 3": func(tx *table.Transaction) error { return tx.UpgradeFormatVersion(3) },
	} {
		t.Run(name, func(t *testing.T) {
			target := open(t, t.TempDir(), iceberg.Options{})
			importMany(t, target, 0, 10)
			tx := load(t, target.Catalog(), "events").NewTransaction()
			if err := change(tx); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustCompact(t, target)
			if n := len(liveFiles(t, target.Target)); n != 10 {
				t.Errorf("got %d data files, want 10: the driver does not know the table", n)
			}
		})
	}
}

// Old data files of this driver to which no snapshot refers are removed. All others stay.
func TestOrphansAreRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a lake%41")
	target := open(t, folder, iceberg.Options{PartitionBy: "at"})
	importMany(t, target, 0, 20)
	old := load(t, target.Catalog(), "events").CurrentSnapshot().SnapshotID
	mustCompact(t, target) // the sources now belong to old snapshots alone
	paths := dataFiles(t, folder)
	dir := filepath.Dir(paths[0])
	own := filepath.Base(paths[0])
	names := map[string]bool{ // whether the file stays
		strings.Replace(own, "00000-", "00007-", 1):                  false,
		"00000-0-0197c5a1-0000-4000-8000-00000000000f-00001.parquet": true, // of another program
		strings.TrimSuffix(own, ".parquet") + ".tmp":                 true,
		"young-" + own: true,
		strings.Replace(own, "00000-", "00008-", 1):                        true, // young
		filepath.Join("..", "..", strings.Replace(own, "00000-", "1-", 1)): true, // not below data
	}
	for name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	week := time.Now().Add(-7 * 24 * time.Hour)
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "00008-") {
			return err
		}
		return os.Chtimes(path, week, week)
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCompact(t, open(t, folder, iceberg.Options{KeepOrphans: -1}))
	if _, err := os.Stat(filepath.Join(dir, strings.Replace(own, "00000-", "00007-", 1))); err != nil {
		t.Errorf("with KeepOrphans -1: %v, want that orphans stay", err)
	}
	mustCompact(t, open(t, folder, iceberg.Options{}))
	for name, stays := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: got %v, want that it stays: %t", name, err, stays)
		}
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("got %v, want the file, because a snapshot refers to it", err)
		}
	}
	tbl := load(t, target.Catalog(), "events")
	if got := scanned(t, tbl.Scan(table.WithSnapshotID(old))); got != 40 {
		t.Errorf("an old snapshot has %d rows, want 40", got)
	}
	expectIDs(t, target.Catalog(), "events", 40)
}

// lostOnce makes the first commit, and then fails to say so.
type lostOnce struct {
	catalog.Catalog
	n int
}

func (c *lostOnce) CommitTable(ctx context.Context, id table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	meta, location, err := c.Catalog.CommitTable(ctx, id, reqs, updates)
	if c.n++; c.n == 1 && err == nil {
		return nil, "", errAway
	}
	return meta, location, err
}
