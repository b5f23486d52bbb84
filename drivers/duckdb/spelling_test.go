package duckdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
)

// spellings makes a folder data and returns paths that lead to one file in it, which is not made.
func spellings(t *testing.T) []string {
	base := t.TempDir()
	t.Chdir(base)
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", "link"); err != nil {
		t.Fatal(err)
	}
	return []string{filepath.Join(base, "data", "a.duckdb"), "data/a.duckdb", filepath.Join(base, "link", "a.duckdb"), "./link/../data/a.duckdb", "link/a.duckdb"}
}

// Targets of one process that spell the path of a file differently add columns and rows at once, and no row is lost.
func TestOneDatabaseForEachSpelling(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			paths := spellings(t)
			const files = 6
			var targets sync.WaitGroup
			for e, path := range paths {
				target := open(t, path, duckdb.Options{Threads: 1, Shared: shared})
				targets.Go(func() {
					for i := range files {
						table := driver.Table{ID: "t", Extend: true, Columns: append(columns(datatype.String), datatype.Column{Name: fmt.Sprint("extra", e, i%5), Type: datatype.String})}
						id := fmt.Sprintf("file-%d-%d", e, i)
						if err := target.Import(t.Context(), file(id, table, []string{id, "x"})); err != nil {
							t.Errorf("%s through %s: got %v, want no error", id, path, err)
						}
					}
					if err := target.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			targets.Wait()
			if got := len(rows(t, open(t, paths[0], duckdb.Options{}).DB(), "t")); got != len(paths)*files {
				t.Errorf("the table has %d rows, want %d", got, len(paths)*files)
			}
		})
	}
}

// A symbolic link and a bind mount are spellings of the path too. The target finds an open file by its identity.
func TestLinkToTheFile(t *testing.T) {
	path := spellings(t)[0]
	first := open(t, path, duckdb.Options{})
	table := driver.Table{ID: "t", Columns: columns(datatype.String)}
	if err := os.Symlink(path, "b.duckdb"); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, "c.duckdb"); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"b.duckdb", "c.duckdb"} {
		if err := open(t, other, duckdb.Options{}).Import(t.Context(), file(other, table, []string{other})); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(rows(t, first.DB(), "t")); got != 2 {
		t.Errorf("the first target sees %d rows of the two others, want 2", got)
	}
}

// A second target does not use the open database of the first target if the path leads to a different file by now.
func TestReplacedFile(t *testing.T) {
	path := spellings(t)[0]
	open(t, path, duckdb.Options{})
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if target, err := duckdb.Open(path, duckdb.Options{}); !driver.IsPermanent(err) {
		t.Errorf("Open while the file of a target is moved away = %v, %v, want a permanent error", target, err)
	}
}
