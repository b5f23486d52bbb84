package buffer_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// An object in staging is damaged after rows of its file were marked for erasure. The file ends without the rows of the object, which count as damage,
// and without the erased rows. The other rows arrive once.
func TestDamagedObjectAfterEraseRows(t *testing.T) {
	harms := map[string]func(t *testing.T, path string){
		"flipped": func(t *testing.T, path string) { flipBit(t, path, seedtest.Rand(t)) },
		"missing": func(t *testing.T, path string) {
			must(t, os.Remove(path))
		},
	}
	targets := map[string]func(*buffertest.Memory) driver.Target{
		"Voider":  func(mem *buffertest.Memory) driver.Target { return mem },
		"Counter": func(mem *buffertest.Memory) driver.Target { return counts(mem) },
		"plain":   func(mem *buffertest.Memory) driver.Target { return struct{ driver.Target }{mem} },
	}
	erased := map[string]func(id int) bool{
		"some of each slice":    third,
		"the damaged slice":     func(id int) bool { return id/stagedRows == 1 },
		"all but the last":      func(id int) bool { return id < stagedSlices*stagedRows-1 },
		"the other slices":      func(id int) bool { return id/stagedRows != 1 },
		"all rows":              everyRow,
		"before the bad slice":  func(id int) bool { return id == 0 },
		"after the bad slice":   func(id int) bool { return id == stagedSlices*stagedRows-1 },
		"the first after it":    func(id int) bool { return id == 2*stagedRows },
		"the last in the slice": func(id int) bool { return id == 2*stagedRows-1 },
	}
	folder := stagedFolder(t, driver.None)
	for harm, do := range harms {
		for target, kind := range targets {
			for _, begun := range []bool{false, true} {
				if target == "plain" && begun {
					continue // no row of its file can be erased
				}
				for rows, is := range erased {
					name := harm + ", " + target + ", " + rows
					if begun {
						name += ", an import has begun"
					}
					t.Run(name, func(t *testing.T) {
						root, objects := stagedCopy(t, folder)
						erasedAndDamaged(t, root, kind, begun, is, func() { do(t, objects[1]) })
					})
				}
			}
		}
	}
}

// erasedAndDamaged erases rows while the target is down, damages the second of the slices when all rows were read, and imports.
func erasedAndDamaged(t *testing.T, root string, kind func(*buffertest.Memory) driver.Target, begun bool, is func(id int) bool, harm func()) {
	t.Helper()
	const rows, damaged = stagedSlices * stagedRows, 1
	var down atomic.Bool
	down.Store(true)
	mem := buffertest.NewMemory()
	mem.Before = failWhile(down.Load, errors.New("the target is down"), buffertest.OpImport, buffertest.OpVoid)
	opts := stagedOptions(root)
	opts.Staging, opts.Target = dir.Staging(filepath.Join(root, "staging")), kind(mem)
	b := openAt(t, filepath.Join(root, "data"), opts)
	define(t, b, "a", stagedSink(driver.None))
	if begun {
		must(t, b.Sink("a").CloseFile(t.Context(), 1))
		for b.Stats().Sinks[0].Files[0].Attempt < 1 {
			runtime.Gosched()
		}
	}
	want := 0
	res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(20*time.Millisecond), func(_ driver.Table, cells [][]byte) bool {
		id, err := strconv.Atoi(string(cells[0]))
		if err != nil {
			t.Error(err)
		}
		if id == rows-1 {
			harm()
		}
		return is(id)
	})
	for id := range rows {
		if is(id) {
			want++
		}
	}
	if err != nil || res.Found != int64(want) || res.Moved != 0 || res.Erased != 0 && want < rows {
		t.Fatalf("EraseRows = %+v, %v, want %d rows that wait", res, err, want)
	}
	down.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := b.Sink("a").Flush(ctx); err != nil {
		st, _ := b.Sink("a").Stats()
		t.Fatalf("Flush = %v, the file: %+v", err, st.Files)
	}
	seen := map[int]int{}
	for _, text := range ids(mem, tableA) {
		id, err := strconv.Atoi(text)
		must(t, err)
		if seen[id]++; is(id) || id/stagedRows == damaged || seen[id] > 1 {
			t.Errorf("row %d is in the table, %d times", id, seen[id])
		}
	}
	good := 0
	for id := range rows {
		if !is(id) && id/stagedRows != damaged {
			good++
		}
	}
	st, _ := b.Sink("a").Stats()
	if len(seen) != good || st.Target.Rows != int64(good) || st.Damaged.Rows+st.Discarded.Rows != int64(rows-good) || st.Expired.Rows+st.Poison.Rows != 0 {
		t.Errorf("the table has %d rows, want %d; imported %d, damaged %d, discarded %d, expired %d, refused %d", len(seen), good,
			st.Target.Rows, st.Damaged.Rows, st.Discarded.Rows, st.Expired.Rows, st.Poison.Rows)
	}
	verify(t, b)
	closeBuffer(t, b)
}

// A slice that cannot be read while rows are erased does not keep the other slices of its file from being searched. The error names it. So it is if the
// driver panics, or does not return.
func TestEraseRowsNextToAnUnreadableSlice(t *testing.T) {
	for name, harm := range map[string]func() error{
		"missing": func() error { return fs.ErrNotExist },
		"panics":  func() error { panic("staging") },
		"hangs":   func() error { time.Sleep(24 * time.Hour); return errors.New("late") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				var unreadable atomic.Value
				unreadable.Store("")
				var down atomic.Bool
				down.Store(true)
				mem.Before = func(_ context.Context, c buffertest.Call) error {
					switch {
					case c.Op == buffertest.OpImport && down.Load():
						return errors.New("the target is down")
					case c.Op == buffertest.OpOpen && c.ID == unreadable.Load():
						return harm()
					}
					return nil
				}
				b := openAt(t, "data", memoryOptions(t, mem))
				putRows(t, b, define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 4 }), erasedOf, third)
				synctest.Wait()
				slice := b.Sink("a").Slices()[1].ID
				unreadable.Store(slice)
				res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Hour), ofPerson)
				if err == nil || !strings.Contains(err.Error(), slice) || res.Found != 3 || res.Rows != 8 {
					t.Errorf("EraseRows = %+v, %v, want 3 of 8 rows, and an error with %s", res, err, slice)
				}
				unreadable.Store("")
				down.Store(false)
				flush(t, b, "a")
				if st, _ := b.Sink("a").Stats(); st.Discarded.Rows != 3 || st.Target.Rows != 9 {
					t.Errorf("%d rows are discarded and %d imported, want 3 and 9", st.Discarded.Rows, st.Target.Rows)
				}
				verify(t, b)
				time.Sleep(48 * time.Hour) // for the calls that hang
				closeBuffer(t, b)
			})
		})
	}
}

// Rows are counted as erased even if the file loses a slice before its import. The call waits meanwhile.
func TestSliceIsLostAfterEraseRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var missing atomic.Value // the id of a slice
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpOpen && c.ID == missing.Load() {
				return fs.ErrNotExist
			}
			return nil
		}
		opts := memoryOptions(t, mem)
		opts.Tuning.UnreadableAfter = 1
		b := openAt(t, "data", opts)
		putRows(t, b, define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 4 }), erasedOf, third)
		synctest.Wait()
		res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Hour), func(table driver.Table, cells [][]byte) bool {
			if string(cells[0]) == "11" { // all have been read
				missing.Store(b.Sink("a").Slices()[0].ID)
			}
			return ofPerson(table, cells)
		})
		if err != nil || res.Found != 4 || res.Erased != 4 || res.Moved != 0 {
			t.Errorf("EraseRows = %+v, %v, want 4 rows found and erased", res, err)
		}
		if st, _ := b.Sink("a").Stats(); st.Damaged.Rows != 4 || st.Discarded.Rows != 2 || st.Target.Rows != 6 {
			t.Errorf("%d rows are damaged, %d discarded and %d imported, want 4, 2 and 6", st.Damaged.Rows, st.Discarded.Rows, st.Target.Rows)
		}
		verify(t, b)
		closeBuffer(t, b)
	})
}

// Erased rows are not among the refused rows for which a file is held. Its only other row is refused, and goes to the quarantine.
func TestErasedRowsDoNotHoldAFile(t *testing.T) {
	withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		const rows = 40
		b := openAt(t, "data", opts)
		putRows(t, b, define(t, b, "a", quarantined()), rows, func(i int) bool { return i == 7 })
		res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Minute), func(_ driver.Table, cells [][]byte) bool { return string(cells[1]) != bad })
		if err != nil || res.Erased != rows-1 {
			t.Errorf("EraseRows = %+v, %v, want %d erased", res, err, rows-1)
		}
		if st, _ := b.Sink("a").Stats(); st.Discarded.Rows != rows-1 || st.Poison.Rows != 1 || st.Quarantine.Records != 1 {
			t.Errorf("%d rows are discarded, %d refused, %d in the quarantine; want %d, 1 and 1", st.Discarded.Rows, st.Poison.Rows, st.Quarantine.Records, rows-1)
		}
		verify(t, b)
		closeBuffer(t, b)
	})
}
