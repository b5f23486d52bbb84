package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

const togetherSinks = 30

// openTogether opens a buffer with sinks whose files become due at the same time, and gives each a row of its number.
func openTogether(t *testing.T, mem *buffertest.Memory) (*buffer.Buffer, []*buffer.DefinedSink) {
	t.Helper()
	opts := memoryOptions(t, mem)
	opts.Target = buffertest.ManyMemory{Memory: mem}
	b := open(t, opts)
	var sinks []*buffer.DefinedSink
	for i := range togetherSinks {
		sinks = append(sinks, define(t, b, fmt.Sprint("s", i)))
	}
	putAll(t, b, sinks)
	return b, sinks
}

func putAll(t *testing.T, b *buffer.Buffer, sinks []*buffer.DefinedSink) {
	t.Helper()
	for i, s := range sinks {
		put1(t, b, s, i, "v")
	}
}

// calls returns the successful and failed calls of an operation.
func callsOf(mem *buffertest.Memory, op buffertest.Op) (good, bad []buffertest.Call) {
	for _, c := range mem.Calls() {
		switch {
		case c.Op != op:
		case c.Err == nil:
			good = append(good, c)
		default:
			bad = append(bad, c)
		}
	}
	return good, bad
}

// wantEach checks that each sink has imported n rows, and its table has them.
func wantEach(t *testing.T, b *buffer.Buffer, mem *buffertest.Memory, n int, except ...string) {
	t.Helper()
	for i := range togetherSinks {
		id := fmt.Sprint("s", i)
		if slices.Contains(except, id) {
			continue
		}
		if got := len(mem.Rows("in.c-test." + id)); got != n {
			t.Errorf("got %d rows in the table of %s, want %d", got, id, n)
		}
		if st, _ := b.Sink(id).Stats(); st.Target.Rows != int64(n) {
			t.Errorf("got %d imported rows of %s, want %d", st.Target.Rows, id, n)
		}
	}
}

// due lets time pass until the files of the default conditions are imported.
func due() {
	time.Sleep(trigger.Import().Default.Interval + 5*time.Second)
	synctest.Wait()
}

func TestSmallFilesAreImportedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b, _ := openTogether(t, mem)
		due()
		wantEach(t, b, mem, 1)
		many, failed := callsOf(mem, buffertest.OpImportMany)
		alone, _ := callsOf(mem, buffertest.OpImport)
		if len(many)+len(alone) > 3 || len(failed) > 0 {
			t.Errorf("got %d calls of ImportMany, %d that failed and %d of Import for %d files, want at most 3 in total", len(many), len(failed), len(alone), togetherSinks)
		}
		verify(t, b)
	})
}

// A file whose rows are refused goes its own way, and so do the next files of its sink. The others are imported.
func TestFileThatIsRefusedLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Refuse = func(_ string, row []string) driver.RowError {
			if row[0] == "7" {
				return driver.RowError{Reason: "seven"}
			}
			return driver.RowError{}
		}
		b, sinks := openTogether(t, mem)
		due()
		wantEach(t, b, mem, 1, "s7")
		if _, failed := callsOf(mem, buffertest.OpImportMany); len(failed) != 1 {
			t.Errorf("got %d failed calls of ImportMany, want 1", len(failed))
		}
		putAll(t, b, sinks)
		due()
		wantEach(t, b, mem, 2, "s7")
		if _, failed := callsOf(mem, buffertest.OpImportMany); len(failed) != 1 {
			t.Errorf("got %d failed calls of ImportMany after the next files, want 1: the sink is imported alone", len(failed))
		}
		if st, _ := b.Sink("s7").Stats(); st.Poison.Rows != 2 {
			t.Errorf("got %d refused rows, want 2", st.Poison.Rows)
		}
		verify(t, b)
	})
}

// The response of a call is lost after its commit, and before it. Each file is in its table once.
func TestOutcomeOfACallForManyIsUnknown(t *testing.T) {
	for _, stored := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mem := buffertest.NewMemory()
			lose := func(_ context.Context, c buffertest.Call) error {
				if c.Op == buffertest.OpImportMany {
					return errors.New("the connection is lost")
				}
				return nil
			}
			if stored {
				mem.After = lose
			} else {
				mem.Before = lose
			}
			b, _ := openTogether(t, mem)
			due()
			wantEach(t, b, mem, 1)
			if good, failed := callsOf(mem, buffertest.OpImportMany); len(failed) == 0 || len(good) > 0 {
				t.Errorf("got %d good and %d failed calls of ImportMany, want only failed ones", len(good), len(failed))
			}
			verify(t, b)
		})
	}
}

// A target is away for an hour. When it is back, the files that have failed meanwhile are imported together.
func TestFilesAreImportedTogetherAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var away atomic.Bool
		away.Store(true)
		mem.Before = failWhile(away.Load, errors.New("away"), buffertest.OpImportMany, buffertest.OpImport)
		b, sinks := openTogether(t, mem)
		for range 3 {
			due()
			putAll(t, b, sinks)
		}
		due()
		away.Store(false)
		before, _ := callsOf(mem, buffertest.OpImport)
		due()
		wantEach(t, b, mem, 4)
		alone, _ := callsOf(mem, buffertest.OpImport)
		if got := len(alone) - len(before); got > 4*togetherSinks/3 {
			t.Errorf("got %d calls of Import for %d files after the outage, want most of them together", got, 4*togetherSinks)
		}
		verify(t, b)
	})
}

// An object that staging does not return keeps only its own file.
func TestMissingObjectLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var gone atomic.Value // the id of the object
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpOpen && (gone.CompareAndSwap(nil, c.ID) || gone.Load() == c.ID) {
				return fs.ErrNotExist
			}
			return nil
		}
		opts := memoryOptions(t, mem)
		opts.Target = buffertest.ManyMemory{Memory: mem}
		opts.Imports = 1
		b := open(t, opts)
		var sinks []*buffer.DefinedSink
		for i := range togetherSinks {
			sinks = append(sinks, define(t, b, fmt.Sprint("s", i)))
		}
		putAll(t, b, sinks)
		due()
		held := 0
		for i := range togetherSinks {
			if st, _ := b.Sink(fmt.Sprint("s", i)).Stats(); st.Target.Rows == 0 {
				held++
			}
		}
		if held != 1 {
			t.Errorf("got %d sinks without imported rows, want the one whose object is missing", held)
		}
		if _, failed := callsOf(mem, buffertest.OpImportMany); len(failed) > 0 {
			t.Errorf("got %d failed calls of ImportMany, want 0: an object is read before the call", len(failed))
		}
	})
}

// A large file is imported alone.
func TestLargeFileIsImportedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b, sinks := openTogether(t, mem)
		put1(t, b, sinks[3], 3, strings.Repeat("x", 200<<10))
		due()
		wantEach(t, b, mem, 1, "s3")
		st, _ := b.Sink("s3").Stats()
		large := st.Files[0].ID
		many, _ := callsOf(mem, buffertest.OpImportMany)
		for _, c := range many {
			if slices.Contains(strings.Fields(c.ID), large) {
				t.Errorf("the file of 200 KiB was imported together with others: %s", c.ID)
			}
		}
		verify(t, b)
	})
}

// An operator retries failed files, and the call with all of them fails. Then each file is imported alone, without waiting for the next probe.
func TestRetriedFileKeepsItsTurnAfterACallThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var away atomic.Bool
		away.Store(true)
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImportMany || c.Op == buffertest.OpImport && (away.Load() || strings.HasSuffix(c.ID, "f000000000001")) {
				return errors.New("away")
			}
			return nil
		}
		b, _ := openTogether(t, mem)
		due()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		away.Store(false)
		first := ""
		for i := range togetherSinks {
			id := fmt.Sprint("s", i)
			if st, _ := b.Sink(id).Stats(); strings.HasSuffix(st.Files[0].ID, "f000000000001") {
				first = id
			}
		}
		retry := func(id string) {
			must(t, b.Sink(id).Retry(t.Context()))
		}
		retry(first) // it fails alone, so the others are gathered
		for i := range togetherSinks {
			if id := fmt.Sprint("s", i); id != first {
				retry(id)
			}
		}
		calls := len(mem.Calls())
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		wantEach(t, b, mem, 1, first)
		if n := len(mem.Calls()) - calls; n > 4*togetherSinks {
			t.Errorf("got %d calls for %d files", n, togetherSinks)
		}
		verify(t, b)
	})
}

// Rows are erased while a call for several files runs. It stores them or not, in time or late, and tells the outcome or not. Each row is in the
// table once or discarded, and the erasure says which.
func TestEraseRowsDuringACallForSeveralFiles(t *testing.T) {
	for name, c := range map[string]struct {
		stores, fails, late bool
	}{
		"it succeeds":                         {stores: true},
		"it fails":                            {fails: true},
		"it stores, and its response is lost": {stores: true, fails: true},
		"it succeeds late":                    {stores: true, late: true},
		"it fails late":                       {fails: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				var once sync.Once
				begun, end := make(chan struct{}), make(chan struct{})
				wait := func() { once.Do(func() { close(begun); <-end }) }
				mem.Before = func(_ context.Context, call buffertest.Call) error {
					if call.Op != buffertest.OpImportMany {
						return nil
					}
					if wait(); c.fails && !c.stores {
						return errors.New("away")
					}
					return nil
				}
				mem.After = func(_ context.Context, call buffertest.Call) error {
					if call.Op == buffertest.OpImportMany && c.fails && c.stores {
						return errors.New("the response is lost")
					}
					return nil
				}
				b, _ := openTogether(t, mem)
				<-begun
				before := int64(0) // the first file was imported alone
				results := make(chan buffer.ErasedRows, togetherSinks)
				for i := range togetherSinks {
					id := fmt.Sprint("s", i)
					st, _ := b.Sink(id).Stats()
					before += st.Target.Rows
					go func() {
						res, err := b.Sink(id).EraseRows(context.Background(), time.Now().Add(time.Hour), func(driver.Table, [][]byte) bool { return true })
						if err != nil {
							t.Error(err)
						}
						results <- res
					}()
				}
				if c.late {
					time.Sleep(30 * time.Minute)
				} else {
					time.Sleep(time.Second)
				}
				close(end)
				var erased, moved int64
				for range togetherSinks {
					res := <-results
					erased, moved = erased+res.Erased, moved+res.Moved
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				stored, discarded := int64(0), int64(0)
				for i := range togetherSinks {
					id := fmt.Sprint("s", i)
					stored += int64(len(mem.Rows("in.c-test." + id)))
					st, _ := b.Sink(id).Stats()
					discarded += st.Discarded.Rows
				}
				if stored+discarded != togetherSinks || erased != discarded || before+moved != stored {
					t.Errorf("the tables have %d rows, and %d are discarded; the calls say %d and %d, and %d were there before", stored, discarded, moved, erased, before)
				}
				verify(t, b)
			})
		})
	}
}
