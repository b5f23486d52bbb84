// Package placetest plays several targets on one folder whose path is spelled differently.
package placetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Spellings makes a folder and returns paths that lead to it, absolute, relative, through a symbolic link, and through a bind mount where the test
// may make one. The test then runs in the folder above.
func Spellings(t *testing.T) []string {
	t.Helper()
	base := t.TempDir()
	t.Chdir(base)
	if err := errors.Join(os.Mkdir("data", 0o700), os.Mkdir("bind", 0o700), os.Symlink("data", "link")); err != nil {
		t.Skip("needs symbolic links: ", err)
	}
	paths := []string{filepath.Join(base, "data"), "data", filepath.Join(base, "link"), "./link/../data"}
	if out, err := exec.Command("mount", "--bind", "data", "bind").CombinedOutput(); err != nil {
		t.Logf("without a bind mount, which needs root on Linux: %v: %s", err, bytes.TrimSpace(out))
		return paths
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", filepath.Join(base, "bind")).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	return append(paths, filepath.Join(base, "bind"))
}

const (
	tables = 12 // that all targets create at once
	files  = 8  // that each target imports into one table
)

// Play opens a target for each spelling of a folder. All targets use the same tables at once. Of several definitions of a new table with different
// columns, one wins. Each row whose import succeeded is stored once, with its cells. Play calls Close of the targets, if they have one.
func Play(t *testing.T, open func(t *testing.T, folder string) driver.Target, rows func(t *testing.T, target driver.Target, table string) [][]string) {
	t.Helper()
	var targets []driver.Target
	for _, path := range Spellings(t) {
		target := open(t, path)
		if c, ok := target.(io.Closer); ok {
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		targets = append(targets, target)
	}
	for i := range tables {
		playDefinitions(t, targets, fmt.Sprint("new", i))
	}
	playRows(t, targets, rows)
}

func text(names ...string) (columns []datatype.Column) {
	for _, name := range names {
		columns = append(columns, datatype.Column{Name: name, Type: datatype.String})
	}
	return columns
}

// playDefinitions creates a table with different columns through each target.
func playDefinitions(t *testing.T, targets []driver.Target, table string) {
	t.Helper()
	var won atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i, target := range targets {
		wg.Go(func() {
			<-begin
			if err := target.Ensure(t.Context(), driver.Table{ID: table, Columns: text(fmt.Sprint("own", i))}); err == nil {
				won.Add(1)
			}
		})
	}
	close(begin)
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("table %s: %d of %d definitions with different columns succeeded, want 1", table, won.Load(), len(targets))
	}
}

// playRows imports files with other columns through each target, and merges between them.
func playRows(t *testing.T, targets []driver.Target, rows func(*testing.T, driver.Target, string) [][]string) {
	t.Helper()
	const table = "rows"
	var want []string
	var wg sync.WaitGroup
	for i, target := range targets {
		for n := range files {
			want = append(want, fmt.Sprintf("file-%d-%d", i, n))
		}
		wg.Go(func() {
			for n := range files {
				id := fmt.Sprintf("file-%d-%d", i, n)
				if err := target.Import(t.Context(), file(id, driver.Table{ID: table, Extend: true, Columns: text("id", fmt.Sprint("own", i, n/2))})); err != nil {
					t.Errorf("import of %s: %v", id, err)
				}
				if c, ok := target.(driver.Compactor); ok {
					if err := c.Compact(t.Context(), driver.Table{ID: table}); err != nil {
						t.Errorf("compact after %s: %v", id, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i, target := range targets {
		var got []string
		for _, row := range rows(t, target, table) {
			if !slices.Contains(row[1:], "own "+row[0]) {
				t.Errorf("target %d: the row of %s is %q, want its own cell in it", i, row[0], row)
			}
			got = append(got, row[0])
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("target %d: the table has %d rows: %s, want %d: %s", i, len(got), strings.Join(got, " "), len(want), strings.Join(want, " "))
		}
	}
}

// file returns a file with one row.
func file(id string, table driver.Table) *driver.File {
	csv := fmt.Appendf(nil, "\"%s\",\"own %s\"\n", id, id)
	f := &driver.File{
		ID: id, SinkID: "source/sink", Table: table, Rows: 1, RawBytes: int64(len(csv)),
		Slices: []driver.Object{{ID: id + "-s", FileID: id, SinkID: "source/sink", Rows: 1, RawBytes: int64(len(csv))}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(csv)), nil
		},
	}
	f.SaveProgress = func(_ context.Context, progress []byte) error {
		f.Progress = bytes.Clone(progress)
		return nil
	}
	return f
}
