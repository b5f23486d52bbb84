//go:build unix

package dir

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// killed describes the work of the killed process, and the states that readers may find meanwhile.
type killed struct {
	options TablesOptions
	// plain, if not 0, is the number of files that a table gets as a plain folder. One more file follows, then the next table begins.
	plain int
	// retried says that a listed part may be gone when a reader opens it. The reader then begins again.
	retried bool
}

var killedBy = map[string]killed{
	"days":       {options: TablesOptions{PartitionBy: "at", Gzip: true}},
	"merges":     {options: TablesOptions{PartitionBy: "at", MergeTo: 1 << 20}},
	"retention":  {options: TablesOptions{PartitionBy: "at", MergeTo: 1 << 20, KeepFor: 36 * time.Hour}, retried: true},
	"conversion": {options: TablesOptions{MergeTo: 1 << 20}, plain: 10, retried: true},
}

const killRows = 10 // a file

// table is the table of a file.
func (k killed) table(n int) driver.Table {
	table := dayTable
	if k.plain > 0 {
		table.ID = fmt.Sprint(table.ID, n/(k.plain+1))
	}
	return table
}

// tables opens the tables that have file n. A table is plain until its last file comes.
func (k killed) tables(root string, n int) *TableDir {
	options := k.options
	if k.plain > 0 && n%(k.plain+1) < k.plain {
		options = TablesOptions{}
	}
	tables := lazyTables(root, options)
	tables.folder.Grace = 10 * time.Second
	return tables
}

// row returns row i, and whether it is too old to be kept.
func (k killed) row(i int) (row []string, old bool) {
	row = dayRows(i, 1)[0]
	if k.options.KeepFor > 0 && row[0] != null {
		days := [...]int{0, 0, 1, -5, -6}[i%5]
		row[0] = time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) + "T12:00:00.000000Z"
		old = days < 0
	}
	return row, old
}

func (k killed) file(n int) *driver.File {
	var rows [][]string
	for i := range killRows {
		row, _ := k.row(killRows*n + i)
		rows = append(rows, row)
	}
	return newFile(fmt.Sprintf("file-%06d", n), k.table(n), rows)
}

// importUntilKilled imports files from number n on, and merges them. It prints the number of each imported file.
func (k killed) importUntilKilled(root string, n int) error {
	for ; ; n++ {
		tables := k.tables(root, n)
		if err := tables.Import(context.Background(), k.file(n)); err != nil {
			return err
		}
		fmt.Println(n)
		if err := tables.Compact(context.Background(), k.table(n)); err != nil {
			return err
		}
	}
}

// read counts the rows of a table by their id, like a program that resolves the link once and then lists and reads the parts.
func read(root, table string) (map[string]int, error) {
	dir, err := filepath.EvalSymlinks(Tables(root).Path(table))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows := make(map[string]int)
	for _, pattern := range []string{"*.csv*", "dt=*/*.csv*", "imports/*/dt=*/*.csv*"} {
		parts, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range parts {
			if err := countRows(path, rows); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

func countRows(path string, rows map[string]int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.HasSuffix(path, ".gz") {
		zr, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return err
		}
		if data, err = io.ReadAll(zr); err != nil {
			return err
		}
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if i > 0 {
			rows[line[strings.IndexByte(line, ',')+1:]]++
		}
	}
	return nil
}

// check checks that a table has the rows of its files before number end, and perhaps rows of later ones, each once and each file
// whole. Rows that are too old may be gone. If clean is set, they must be gone.
func (k killed) check(rows map[string]int, table string, end int, clean bool) error {
	for row, n := range rows {
		if n != 1 {
			return fmt.Errorf("row %s is there %d times", row, n)
		}
	}
	left := len(rows)
	for n := 0; n < end || left > 0; n++ {
		if k.table(n).ID != table {
			if n > end+k.plain+1 {
				return fmt.Errorf("%d rows belong to no file", left)
			}
			continue
		}
		has, young := 0, 0
		for i := killRows * n; i < killRows*(n+1); i++ {
			_, old := k.row(i)
			there := rows[fmt.Sprintf("%q", strconv.Itoa(i))]
			if left -= there; !old {
				has, young = has+there, young+1
			} else if clean && there > 0 {
				return fmt.Errorf("row %d is too old, and is still there", i)
			}
		}
		if has != young && (n < end || has > 0) {
			return fmt.Errorf("file %d has %d rows, want %d; %d files were imported", n, has, young, end)
		}
		if n > end && has == 0 {
			return fmt.Errorf("%d rows belong to files that were not imported", left)
		}
	}
	return nil
}

// A process that imports files is killed again and again at any moment, while it splits them by day, merges their parts, removes old ones,
// or replaces plain folders by links. Concurrent readers see every file whole and every row once, always.
func TestKillsBesideReaders(t *testing.T) {
	for name, k := range killedBy {
		t.Run(name, func(t *testing.T) {
			if arg, ok := proctest.Child(); ok {
				n, root, _ := strings.Cut(arg, " ")
				from, _ := strconv.Atoi(n)
				t.Fatal(k.importUntilKilled(root, from))
			}
			if testing.Short() {
				t.Skip("starts processes")
			}
			t.Parallel()
			kills := proctest.Kills(t)
			rng := seedtest.Rand(t)
			root := filepath.Join(t.TempDir(), "tables")
			var imported, reads, retries atomic.Int64
			done := make(chan struct{})
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for {
						end := int(imported.Load())
						table := k.table(max(end-1, 0)).ID
						rows, err := read(root, table)
						if k.retried && errors.Is(err, fs.ErrNotExist) {
							retries.Add(1)
						} else if err == nil {
							reads.Add(1)
							err = k.check(rows, table, end, false)
						}
						if err != nil && !(k.retried && errors.Is(err, fs.ErrNotExist)) {
							t.Errorf("a reader: %v", err)
							return
						}
						select {
						case <-done:
							return
						case <-time.After(time.Millisecond):
						}
					}
				})
			}
			for range kills {
				// The last file may be there although the process did not say so. The next one imports it again.
				p := proctest.Start(t, t.Name(), fmt.Sprint(imported.Load(), " ", root))
				p.Lines(1+rng.IntN(20), time.Duration(rng.IntN(20_000))*time.Microsecond, func(line string) {
					n, err := strconv.Atoi(line)
					if err != nil {
						t.Errorf("the process says %q", line)
					}
					imported.Store(int64(n + 1))
				})
			}
			close(done)
			readers.Wait()
			t.Logf("%d kills, %d files, %d reads, %d begun again", kills, imported.Load(), reads.Load(), retries.Load())
			k.drain(t, root, int(imported.Load()))
		})
	}
}

// drain imports the first files again and checks the result.
func (k killed) drain(t *testing.T, root string, end int) {
	ids := map[string]bool{}
	for n := range end {
		table := k.table(n)
		ids[table.ID] = true
		must(t, lazyTables(root, k.options).Import(t.Context(), k.file(n)))
	}
	for id := range ids {
		table := dayTable
		table.ID = id
		tables := lazyTables(root, k.options)
		tables.folder.Grace = 0
		must(t, tables.Compact(t.Context(), table))
		rows, err := read(root, id)
		if err == nil {
			err = k.check(rows, id, end, true)
		}
		if err != nil {
			t.Errorf("table %s: %v", id, err)
		}
		if left, err := os.ReadDir(tables.folder.VersionsPath(id)); k.plain == 0 && (err != nil || len(left) != 1) {
			t.Errorf("table %s: versions %v, %v", id, left, err)
		}
	}
	for n := range end {
		if rows, err := Tables(root).CountFile(t.Context(), k.table(n), k.file(n).ID); err != nil || rows != killRows && k.options.KeepFor == 0 {
			t.Errorf("file %d has %d rows, %v", n, rows, err)
		}
	}
}
