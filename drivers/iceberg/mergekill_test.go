package iceberg_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// mergeLine is the line that the killed process prints before it commits a merge.
const mergeLine = "merge"

// importAndMerge imports files of two rows from number n on, and merges them. It prints the number of each imported file.
func importAndMerge(t *testing.T, folder string, n int) error {
	c := &faultyCatalog{Catalog: open(t, folder, iceberg.Options{PartitionBy: "at"}).Catalog()}
	c.before = func(int) error {
		if c.leader == mergeLine {
			fmt.Println(mergeLine)
		}
		return nil
	}
	target := iceberg.New(c, iceberg.Options{PartitionBy: "at"})
	merging := context.WithValue(t.Context(), fileKey{}, mergeLine)
	for ; ; n++ {
		f := makeFile(fmt.Sprintf("engine-f%d", n), 2*n, 2)
		if err := target.Import(t.Context(), f); err != nil {
			return err
		}
		fmt.Println(n)
		if err := target.Compact(merging, f.Table); err != nil {
			return err
		}
	}
}

// A process that imports and merges is killed again and again, while it writes merged files, and around the commit of a merge. No row is
// lost or doubled. The data files that it leaves are removed once they are old.
func TestKillsOfMerges(t *testing.T) {
	if arg, ok := proctest.Child(); ok {
		var n int
		var folder string
		if _, err := fmt.Sscan(arg, &n, &folder); err != nil {
			t.Fatal(err)
		}
		t.Fatal(importAndMerge(t, folder, n))
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	kills, rng := max(proctest.Kills(t), 2), seedtest.Rand(t)
	folder := filepath.Join(t.TempDir(), "lake")
	target := open(t, folder, iceberg.Options{PartitionBy: "at"})
	next := 0
	for i := range kills {
		killWhileMerging(t, folder, &next, i%2 == 0, time.Duration(rng.IntN(15_000))*time.Microsecond)
		rows := ids(t, target.Catalog(), "events")
		if len(rows) < 2*next || len(rows)%2 != 0 { // more files may be there than the process was heard to say
			t.Fatalf("kill %d: the table has %d rows, and %d files of two rows were imported", i, len(rows), next)
		}
		expectIDs(t, target.Catalog(), "events", len(rows))
	}
	next = len(ids(t, target.Catalog(), "events")) / 2
	for n := range next {
		mustImport(t, target, makeFile(fmt.Sprintf("engine-f%d", n), 2*n, 2))
	}
	expectIDs(t, target.Catalog(), "events", 2*next)

	left := unused(t, folder, target.Target)
	old := time.Now().Add(-7 * 24 * time.Hour)
	for _, path := range dataFiles(t, folder) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	mustCompact(t, target)
	if still := unused(t, folder, target.Target); len(still) > 0 {
		t.Errorf("orphans stay: %q", still)
	}
	expectIDs(t, target.Catalog(), "events", 2*next)
	t.Logf("%d kills, %d files imported, %d orphans removed, %d data files in the end", kills, next, len(left), len(liveFiles(t, target.Target)))
}

// killWhileMerging starts a process, and kills it a moment after it is about to commit a merge, or after it begins to write merged files. next
// is the number of the first file that was not imported.
func killWhileMerging(t *testing.T, folder string, next *int, commits bool, moment time.Duration) {
	t.Helper()
	p := proctest.Start(t, t.Name(), fmt.Sprint(*next, " ", folder))
	for {
		line := p.Line()
		if line == mergeLine && commits {
			break
		}
		if line == mergeLine {
			continue
		}
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("the process says %q", line)
		}
		if *next = n + 1; !commits && *next%8 == 0 { // eight files of two partitions each were added
			break
		}
	}
	killed := make(chan struct{})
	time.AfterFunc(moment, func() {
		p.Kill()
		close(killed)
	})
	<-killed
}

// unused lists the data files in a folder to which no snapshot refers.
func unused(t *testing.T, folder string, target *iceberg.Target) (paths []string) {
	t.Helper()
	tbl := load(t, target.Catalog(), "events")
	used := make(map[string]bool)
	for _, s := range tbl.Metadata().Snapshots() {
		tasks, err := tbl.Scan(table.WithSnapshotID(s.SnapshotID)).PlanFiles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			used[filepath.Base(task.File.FilePath())] = true
		}
	}
	for _, path := range dataFiles(t, folder) {
		if !used[filepath.Base(path)] {
			paths = append(paths, path)
		}
	}
	return paths
}
