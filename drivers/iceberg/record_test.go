package iceberg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/drivertest"
)

// rewrite compacts the data files of each partition into one, and expires all snapshots but the last.
func rewrite(t *testing.T, c catalog.Catalog) {
	t.Helper()
	tbl := load(t, c, "events")
	tasks, err := tbl.Scan().PlanFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var groups []table.CompactionTaskGroup
	places := make(map[string]int)
	for _, task := range tasks {
		partition := fmt.Sprint(task.File.Partition())
		at, known := places[partition]
		if !known {
			at = len(groups)
			places[partition] = at
			groups = append(groups, table.CompactionTaskGroup{PartitionKey: partition})
		}
		groups[at].Tasks = append(groups[at].Tasks, task)
	}
	tx := tbl.NewTransaction()
	if _, err := tx.RewriteDataFiles(t.Context(), groups, table.RewriteDataFilesOptions{}); err != nil {
		t.Fatal(err)
	}
	if tbl, err = tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = tbl.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithRetainLast(1), table.WithOlderThan(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestIDsSurviveExpiryAndCompaction(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	const files = 5
	for i := range files {
		mustImport(t, target, makeFile(fmt.Sprintf("engine-f%d", i), 10*i, 10))
	}
	rewrite(t, target.Catalog())
	tbl := load(t, target.Catalog(), "events")
	if n := len(tbl.Metadata().Snapshots()); n != 1 {
		t.Fatalf("got %d snapshots, want 1", n)
	}
	for i := range files {
		f := makeFile(fmt.Sprintf("engine-f%d", i), 10*i, 10)
		mustImport(t, target, f)
		if n, err := target.CountFile(t.Context(), f.Table, f.ID); n != 10 || err != nil {
			t.Errorf("CountFile = %d, %v, want 10", n, err)
		}
	}
	expectIDs(t, target.Catalog(), "events", 10*files)
}

// setProperty changes a property of the table.
func setProperty(t *testing.T, c catalog.Catalog, key, value string) {
	t.Helper()
	tx := load(t, c, "events").NewTransaction()
	if err := tx.SetProperties(iceberglib.Properties{key: value}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The ids of an engine are bounded. An attempt that may have committed before the oldest was dropped is looked up in the data files.
func TestDroppedIDs(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	c := target.Catalog()
	f := makeFile("engine-f1", 0, 10)
	mustImport(t, target, f) // f.Progress now has the note of its first attempt
	var b strings.Builder
	fmt.Fprintf(&b, "%s 100", time.Now().UTC().Format(time.RFC3339))
	for i := range 500 {
		fmt.Fprintf(&b, " x%d=1", i)
	}
	setProperty(t, c, "forebay.imported.engine", b.String())
	mustImport(t, target, makeFile("engine-f2", 10, 10)) // it was never attempted
	fields := strings.Fields(load(t, c, "events").Properties()["forebay.imported.engine"])
	if len(fields) != 2+500 || fields[1] != "101" || fields[len(fields)-1] != "f2=10" {
		t.Errorf("the property has %d fields: %.100q", len(fields), fields)
	}
	mustImport(t, target, f)
	expectIDs(t, c, "events", 20)
	if n, err := target.CountFile(t.Context(), f.Table, f.ID); n != 10 || err != nil {
		t.Errorf("CountFile = %d, %v, want 10 of the data files", n, err)
	}

	rewrite(t, c)
	if err := target.Import(t.Context(), f); !driver.IsPermanent(err) {
		t.Errorf("Import = %v, want a permanent error, because nothing shows whether the rows are in the table", err)
	}
	if gone, err := target.TakenAway(t.Context(), f.Table, f.ID); !gone || err != nil {
		t.Errorf("TakenAway = %t, %v, want true", gone, err)
	}
	expectIDs(t, c, "events", 20)
}

// Verify must show the rows of a table that was dropped, even if later imports have created it again.
func TestDroppedTableIsNotTakenAway(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	f := makeFile("engine-f1", 0, 10)
	mustImport(t, target, f)
	if err := target.Catalog().DropTable(t.Context(), []string{"forebay", "events"}); err != nil {
		t.Fatal(err)
	}
	expect := func(what string) {
		t.Helper()
		if n, err := target.CountFile(t.Context(), f.Table, f.ID); n != 0 || err != nil {
			t.Errorf("%s: got %d rows, %v from CountFile, want 0, no error", what, n, err)
		}
		if gone, err := target.TakenAway(t.Context(), f.Table, f.ID); gone || err != nil {
			t.Errorf("%s: TakenAway = %t, %v, want false", what, gone, err)
		}
	}
	expect("dropped")
	mustImport(t, target, makeFile("engine-f2", 10, 10))
	expect("created again")
}

func TestIDsOfOtherEnginesAreForgotten(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{KeepIDs: time.Hour})
	mustImport(t, target, makeFile("engine-f1", 0, 10))
	for engine, age := range map[string]time.Duration{"old": 2 * time.Hour, "young": time.Minute} {
		setProperty(t, target.Catalog(), "forebay.imported."+engine, time.Now().Add(-age).UTC().Format(time.RFC3339)+" 0 f1=1")
	}
	mustImport(t, target, makeFile("engine-f2", 10, 10))
	props := load(t, target.Catalog(), "events").Properties()
	if props["forebay.imported.old"] != "" || props["forebay.imported.young"] == "" || props["forebay.imported.engine"] == "" {
		t.Errorf("got %v, want props[\"forebay.imported.old\"] == \"\" and props[\"forebay.imported.young\"] != \"\" and props[\"forebay.imported.engine\"] != \"\"", props)
	}
}

// A damaged property does not make the driver forget an id.
func TestDamagedProperty(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	f := makeFile("engine-f1", 0, 10)
	mustImport(t, target, f)
	setProperty(t, target.Catalog(), "forebay.imported.engine", "yesterday 0 f1=10")
	if err := target.Import(t.Context(), f); err == nil {
		t.Error("a damaged property is taken for an empty one")
	}
	expectIDs(t, target.Catalog(), "events", 10)
}

func TestCompactExpires(t *testing.T) {
	folder := t.TempDir()
	target := open(t, folder, iceberg.Options{KeepSnapshots: time.Nanosecond, MergeTo: -1})
	const files = 61
	for i := range files {
		mustImport(t, target, makeFile(fmt.Sprintf("engine-f%d", i), i, 1))
	}
	before := countFiles(t, folder)
	drivertest.Compact(t, target, makeFile("engine-f0", 0, 1).Table)
	tbl := load(t, target.Catalog(), "events")
	if n := len(tbl.Metadata().Snapshots()); n != 10 {
		t.Errorf("got %d snapshots, want 10", n)
	}
	if after := countFiles(t, folder); after > before-40 {
		t.Errorf("%d files, %d before: files of expired snapshots stay, want at most %v", after, before, before-40)
	}
	mustImport(t, target, makeFile("engine-f0", 0, 1))
	expectIDs(t, target.Catalog(), "events", files)
}

// Compact is called after each import, and reads the table only when enough snapshots can be old.
func TestCompactReadsSeldom(t *testing.T) {
	local := open(t, t.TempDir(), iceberg.Options{})
	c := &loadingCatalog{Catalog: local.Catalog(), after: func(int) {}}
	target := iceberg.New(c, iceberg.Options{KeepSnapshots: time.Hour})
	f := makeFile("engine-f1", 0, 1)
	mustImport(t, local, f)
	for range 3 {
		drivertest.Compact(t, target, f.Table)
	}
	if c.n != 1 {
		t.Errorf("the table was read %d times, want once in an hour", c.n)
	}
}

func countFiles(t *testing.T, folder string) (n int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
