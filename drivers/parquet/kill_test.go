package parquet_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

const (
	importers = 2  // processes that import into the table at once
	fileRows  = 10 // each has rows of several days
)

var killTable = driver.Table{ID: "events", Columns: []datatype.Column{idColumn, atColumn, textColumn}}

// killFile is file n of an importer.
func killFile(importer, n int) *driver.File {
	return fileOf(fmt.Sprintf("file-%d-%06d", importer, n), killTable, manyRows((n*importers+importer)*fileRows, fileRows)...)
}

// importUntilKilled imports files from number n on and merges parts. It prints the number of each imported file.
func importUntilKilled(target *parquet.Target, importer, n int) error {
	for ; ; n++ {
		if err := target.Import(context.Background(), killFile(importer, n)); err != nil {
			return err
		}
		fmt.Println(n)
		if err := target.Compact(context.Background(), killTable); err != nil {
			return err
		}
	}
}

// readIDs counts the rows by their id, like a program that resolves the link once and then lists and reads the parts.
func readIDs(target *parquet.Target) (map[string]int, error) {
	dir, err := filepath.EvalSymlinks(target.Path(killTable.ID))
	if err != nil {
		return nil, err
	}
	rows := make(map[string]int)
	for _, pattern := range []string{"*.parquet", "dt=*/*.parquet", "imports/*/dt=*/*.parquet"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			part, err := parquettest.ReadPart(path, killTable.Columns)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			for _, row := range part {
				rows[row[0]]++
			}
		}
	}
	return rows, nil
}

// checkIDs checks that each row is there once, each file whole, and all files that were imported.
func checkIDs(rows map[string]int, imported [importers]int) error {
	for id, n := range rows {
		if n != 1 {
			return fmt.Errorf("row %s is there %d times", id, n)
		}
	}
	left := len(rows)
	for importer, end := range imported {
		for n := 0; ; n++ {
			has := 0
			for i := range fileRows {
				has += rows[strconv.Itoa((n*importers+importer)*fileRows+i)]
			}
			if has != fileRows && (n < end || has > 0) {
				return fmt.Errorf("file %d of importer %d has %d rows, and %d of its files were imported", n, importer, has, end)
			}
			if left -= has; n >= end && has == 0 {
				break
			}
		}
	}
	if left != 0 {
		return fmt.Errorf("%d rows belong to no file", left)
	}
	return nil
}

// Two processes import into one table and merge its parts, and are killed again and again, half of the time while parts are merged.
// Concurrent readers see each file whole and each row once, always.
func TestKillsBesideReaders(t *testing.T) {
	for name, options := range map[string]parquet.Options{"days": {PartitionBy: "at"}, "flat": {}} {
		t.Run(name, func(t *testing.T) {
			if arg, ok := proctest.Child(); ok {
				var importer, n int
				var root string
				if _, err := fmt.Sscan(arg, &importer, &n, &root); err != nil {
					t.Fatal(err)
				}
				t.Fatal(importUntilKilled(mustTables(t, root, options), importer, n))
			}
			if testing.Short() {
				t.Skip("starts processes")
			}
			t.Parallel()
			kills := proctest.Kills(t)
			seed := seedtest.Of(t)
			root := filepath.Join(t.TempDir(), "lake")
			target := mustTables(t, root, options)
			var imported [importers]atomic.Int64
			now := func() (n [importers]int) {
				for i := range n {
					n[i] = int(imported[i].Load())
				}
				return n
			}
			var reads, again int
			done := make(chan struct{})
			var reader sync.WaitGroup
			reader.Go(func() {
				for {
					before := now()
					rows, err := readIDs(target)
					switch {
					// The first import makes the table, and the first merge of a table without days replaces its folder by a link.
					case errors.Is(err, fs.ErrNotExist) && (reads == 0 || options.PartitionBy == "" && again < 2):
						again++
					case err == nil:
						reads++
						err = checkIDs(rows, before)
						fallthrough
					default:
						if err != nil {
							t.Errorf("a reader: %v", err)
							return
						}
					}
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
			var engines sync.WaitGroup
			for importer := range importers {
				rng := rand.New(rand.NewPCG(seed, uint64(importer)))
				engines.Go(func() {
					for i := range (kills + 1) / importers {
						from := int(imported[importer].Load())
						lines := 1 + rng.IntN(12)
						if i%2 == 0 { // the next Compact merges eight parts, unless the other process did
							lines = 8 - from%8 + 8*rng.IntN(2)
						}
						// The last file may be there although the process did not say so. The next one imports it again.
						p := proctest.Start(t, t.Name(), fmt.Sprint(importer, from, root))
						p.Lines(lines, time.Duration(rng.IntN(10_000))*time.Microsecond, func(line string) {
							n, err := strconv.Atoi(line)
							if err != nil {
								t.Errorf("the process says %q", line)
							}
							imported[importer].Store(int64(n + 1))
						})
					}
				})
			}
			engines.Wait()
			close(done)
			reader.Wait()
			end := now()
			t.Logf("%d kills, %v files, %d reads, %d begun again", kills, end, reads, again)
			for importer, n := range end {
				for i := range n {
					drivertest.Import(t, target, killFile(importer, i))
				}
			}
			drivertest.Compact(t, target, killTable)
			rows, err := readIDs(target)
			if err == nil {
				err = checkIDs(rows, end)
			}
			if err != nil {
				t.Errorf("in the end: %v", err)
			}
			merged := 0
			for _, path := range partsOf(t, target, killTable.ID) {
				if strings.Contains(filepath.Base(path), "~") {
					merged++
				}
			}
			if merged == 0 && min(end[0], end[1]) > 8 {
				t.Errorf("of %v files no part was merged", end)
			}
			for importer, n := range end {
				for i := range n {
					f := killFile(importer, i)
					if rows, err := target.CountFile(t.Context(), killTable, f.ID); err != nil || rows != fileRows {
						t.Errorf("%s has %d rows, %v", f.ID, rows, err)
					}
				}
			}
		})
	}
}

// Days that are older than KeepFor are removed, and a repeated import of their rows does not bring them back.
func TestOldDaysAreRemoved(t *testing.T) {
	root := t.TempDir()
	target := mustTables(t, root, parquet.Options{PartitionBy: "at", KeepFor: 36 * time.Hour})
	today := time.Now().UTC()
	row := func(id string, days int) []string {
		return []string{id, today.AddDate(0, 0, -days).Format(time.DateOnly) + "T12:00:00.000000Z", ""}
	}
	f := fileOf("file-1", killTable, row("1", 0), row("2", 5), row("3", 0), row("4", 9))
	drivertest.Import(t, target, f)
	for range 2 {
		drivertest.Compact(t, target, killTable)
		expectRows(t, target, killTable.ID, [][]string{row("1", 0), row("3", 0)})
		drivertest.Import(t, target, f)
	}
	if days, err := os.ReadDir(target.Path(killTable.ID)); err != nil || len(days) != 2 { // table.json and the day
		t.Errorf("the table has %v, %v", days, err)
	}
}
