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

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// counting is a target that cannot rule out an import, and can count the rows of a file.
type counting struct {
	driver.Target
	count func(ctx context.Context, t driver.Table, fileID string) (int64, error)
}

func (c *counting) CountFile(ctx context.Context, t driver.Table, fileID string) (int64, error) {
	return c.count(ctx, t, fileID)
}

func counts(mem *buffertest.Memory) *counting {
	return &counting{struct{ driver.Target }{mem}, mem.CountFile}
}

// of selects the rows with a value.
func of(value string) func(driver.Table, [][]byte) bool {
	return func(_ driver.Table, cells [][]byte) bool { return string(cells[1]) == value }
}

// markedFirst opens a buffer with four rows, of which a call of EraseRows that ends early has marked the two with "first".
func markedFirst(t *testing.T, opts buffer.Options) *buffer.Buffer {
	t.Helper()
	b := openAt(t, "data", opts)
	s := define(t, b, "a")
	for i, value := range []string{"first", "second", "first", "other"} {
		put1(t, b, s, i, value)
	}
	res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Second), of("first"))
	if err != nil || res.Marked != 2 {
		t.Fatalf("the first call: %+v, %v, want 2 marked rows", res, err)
	}
	return b
}

// ofPerson selects the rows of a person.
func ofPerson(_ driver.Table, cells [][]byte) bool { return string(cells[1]) == bad }

const erasedOf = 12 // rows of a file, every third is of the person

func third(i int) bool { return i%3 == 0 }

// wantErasedRows checks that the rows of other people are in the table once, that the rows of the person are there once or not at all, and that the ledger agrees.
func wantErasedRows(t *testing.T, b *buffer.Buffer, mem *buffertest.Memory, discarded int) {
	t.Helper()
	got := ids(mem, tableA)
	slices.Sort(got)
	if n := len(slices.Compact(slices.Clone(got))); n != len(got) || n != erasedOf-discarded {
		t.Errorf("the table has %v, want %d rows", got, erasedOf-discarded)
	}
	person := 0
	for _, r := range mem.Rows(tableA) {
		if r[1] == bad {
			person++
		}
	}
	if person != erasedOf/3-discarded {
		t.Errorf("the table has %d rows of the person, want %d", person, erasedOf/3-discarded)
	}
	st, _ := b.Sink("a").Stats()
	if st.Discarded.Rows != int64(discarded) || st.Poison.Rows != 0 || st.Quarantine.Added != 0 || st.Staging.Rows != 0 {
		t.Errorf("discarded %d, refused %d, in the quarantine %d, waiting %d; want %d and none", st.Discarded.Rows, st.Poison.Rows, st.Quarantine.Added, st.Staging.Rows, discarded)
	}
	verify(t, b)
}

// An import has begun and its outcome is unknown when rows of its file are erased. The target counts no rows, all rows, or no rows
// while the first import is on its way and stores everything afterwards.
func TestEraseRowsAfterAnImportHasBegun(t *testing.T) {
	for name, c := range map[string]struct {
		plain  bool // the target cannot count
		stored string
		moved  bool
	}{
		"the target has nothing":                           {stored: "never"},
		"the target has the file":                          {stored: "before", moved: true},
		"the first import is late":                         {stored: "late", moved: true},
		"the first import is late, and the second refused": {stored: "late, refused", moved: true},
		"the target cannot count, and has nothing":         {plain: true, stored: "never", moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				opts := memoryOptions(t, mem)
				var mu sync.Mutex
				var first *driver.File
				away, landed := true, false
				land := func() { // the first import takes effect
					mu.Lock()
					do := !landed
					landed = true
					mu.Unlock()
					if do {
						if err := mem.Import(context.Background(), first); err != nil {
							t.Error(err)
						}
					}
				}
				target := counts(mem)
				target.Target = importFunc{mem, func(ctx context.Context, f *driver.File) error {
					mu.Lock()
					down := away
					if first == nil {
						first = f
					}
					mu.Unlock()
					switch {
					case down && c.stored == "before":
						land()
						return errors.New("the response is lost")
					case down:
						return errors.New("the target is down")
					case strings.HasPrefix(c.stored, "late") && f != first:
						land()
						if c.stored == "late, refused" {
							return driver.Permanent(errors.New("the table has other rows under this id"))
						}
					}
					return mem.Import(ctx, f)
				}}
				target.count = func(ctx context.Context, table driver.Table, id string) (int64, error) {
					mu.Lock()
					defer mu.Unlock()
					if away {
						return 0, errors.New("the target is down")
					}
					return mem.CountFile(ctx, table, id)
				}
				opts.Target = target
				if c.plain {
					opts.Target = struct{ driver.Target }{target}
				}
				b := openAt(t, "data", opts)
				putRows(t, b, define(t, b, "a"), erasedOf, third)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = b.Sink("a").Flush(ctx) // its import fails
				cancel()
				res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(10*time.Second), ofPerson)
				if err != nil || res.Found != erasedOf/3 || res.Marked != 0 || res.Erased != 0 || res.Why == nil {
					t.Errorf("while the target is down: %+v, %v", res, err)
				}
				mu.Lock()
				away = false
				mu.Unlock()
				res, err = b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Hour), ofPerson)
				discarded := erasedOf / 3
				if c.moved {
					discarded = 0
				}
				if err != nil || res.Moved != int64(erasedOf/3-discarded) || res.Erased != int64(discarded) {
					t.Errorf("got %+v, %v, want %d erased", res, err, discarded)
				}
				wantErasedRows(t, b, mem, discarded)
				closeBuffer(t, b)
			})
		})
	}
}

// importFunc is a target with another Import.
type importFunc struct {
	driver.Target
	run func(ctx context.Context, f *driver.File) error
}

func (i importFunc) Import(ctx context.Context, f *driver.File) error { return i.run(ctx, f) }

// The power is cut at each call to the outside during and after an erasure. Rows that it has reported as marked or erased never arrive in the table, and
// the others come once. So it is for each kind of target.
func TestPowerCutsDuringEraseRows(t *testing.T) {
	for name, kind := range map[string]func(*buffertest.Memory) driver.Target{
		"Voider":  func(mem *buffertest.Memory) driver.Target { return mem },
		"Counter": func(mem *buffertest.Memory) driver.Target { return counts(mem) },
		"plain":   func(mem *buffertest.Memory) driver.Target { return struct{ driver.Target }{mem} },
	} {
		for at, more := 1, true; more && !t.Failed(); at++ {
			synctest.Test(t, func(t *testing.T) {
				mem, disk := buffertest.NewMemory(), disktest.New(t)
				opts := localdisk.On(memoryOptions(t, mem), disk)
				opts.Target = kind(mem)
				b := openAt(t, "data", opts)
				long := func(c *buffer.SinkConfig) { c.Upload.Interval, c.Import.Interval = 30*time.Minute, 30*time.Minute }
				putRows(t, b, define(t, b, "a", smallSlices, long), erasedOf, third)
				var mu sync.Mutex
				var cut *disktest.Disk
				calls, down := 0, true
				off := func(_ context.Context, c buffertest.Call) error {
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls == at {
						cut = disk.Cut(vfs.CrashCloneCfg{})
					}
					switch {
					case cut != nil:
						return errors.New("the power is off")
					case down && (c.Op == buffertest.OpImport || c.Op == buffertest.OpVoid):
						return errors.New("the target is down")
					}
					return nil
				}
				synctest.Wait()
				mem.Before, mem.After = off, off
				res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Second), ofPerson)
				mu.Lock()
				down = false
				told := cut == nil // the caller has got the result
				mu.Unlock()
				if told && err != nil {
					t.Fatal(err)
				}
				if st, _ := b.Sink("a").Stats(); told && (res.Marked != erasedOf/3 || st.Files[0].Poison != 0) {
					t.Errorf("while the target is down: %+v, and %d rows count as refused", res, st.Files[0].Poison)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_ = b.Sink("a").Flush(ctx)
				cancel()
				closeBuffer(t, b)
				synctest.Wait()
				if more = cut != nil; !more {
					return // all is done before this call
				}
				mem.Before, mem.After = nil, nil
				b = openAt(t, "data", localdisk.On(opts, cut))
				define(t, b, "a", smallSlices, long)
				if !told {
					if _, err = b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Minute), ofPerson); err != nil {
						t.Fatal(err)
					}
				}
				flush(t, b, "a")
				st, _ := b.Sink("a").Stats()
				if told && st.Discarded.Rows != erasedOf/3 {
					t.Errorf("%+v: got %d rows discarded, want %d", res, st.Discarded.Rows, erasedOf/3)
				}
				wantErasedRows(t, b, mem, int(st.Discarded.Rows))
				closeBuffer(t, b)
				if t.Failed() {
					t.Fatal(name, fmt.Sprintf("the power is off at call %d", at))
				}
			})
		}
	}
}

// Two people are erased one after the other. The rows of the first are left out before any import, the rows of the second arrive in the table, because
// an import had begun. Each call tells its own rows.
func TestEraseRowsTellsApartTheRowsOfTwoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		var away, lost atomic.Bool
		away.Store(true)
		lost.Store(true)
		mem.Before = failWhile(away.Load, errors.New("the target is down"), buffertest.OpImport)
		mem.After = func(_ context.Context, c buffertest.Call) error { // the response of the import is lost
			if lost.Load() && c.Op == buffertest.OpImport {
				return errors.New("the response is lost")
			}
			if lost.Load() && c.Op == buffertest.OpVoid {
				return errors.New("the target is down")
			}
			return nil
		}
		b := markedFirst(t, opts)
		away.Store(false)
		must(t, b.Sink("a").Retry(t.Context()))
		time.Sleep(time.Second)
		done := make(chan buffer.ErasedRows)
		go func() {
			res, err := b.Sink("a").EraseRows(context.Background(), time.Now().Add(time.Hour), of("second"))
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		time.Sleep(time.Second)
		lost.Store(false)
		if res := <-done; res.Found != 1 || res.Erased != 0 || res.Moved != 1 {
			t.Errorf("the second call: %+v, want 1 row that has moved: it is in the table", res)
		}
		got := ids(mem, tableA)
		if slices.Sort(got); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("the table has %v, want 1 and 3", got)
		}
		verify(t, b)
		closeBuffer(t, b)
	})
}

// Rows of a file that moves to another engine are not marked in the engine that it leaves, because the copy would not have the marks.
func TestEraseRowsOfAFileThatBeginsToMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses refusing
		refuses.Store(true)
		mem := buffertest.NewMemory()
		mem.Before = refuses.before
		first, second := openAt(t, "data", memoryOptions(t, mem)), openAt(t, "data", memoryOptions(t, mem))
		holdFiles(t, first, "a", 0, 1)
		moved := false
		selects := func(driver.Table, [][]byte) bool {
			if !moved {
				moved = true
				moveFiles(t, second, first, "1st", 1)
			}
			return true
		}
		res, err := first.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Second), selects)
		if err != nil || res.Found != 2 || res.Marked != 0 || !errors.Is(res.Why, buffer.ErrFileMoves) {
			t.Errorf("got %+v, %v, want 2 rows that are not marked, and ErrFileMoves", res, err)
		}
		decideMove(t, second, first, "1st", true)
		refuses.Store(false)
		flush(t, second, "a")
		wantAll(t, mem, tableA, 0, 2)
		verify(t, first)
		verify(t, second)
		closeBuffer(t, first)
		closeBuffer(t, second)
	})
}

// An import that has begun before the erasure gives up a slice while the rows are read, so the rows after it get different numbers. The rows of other
// people still arrive in the table.
func TestSliceIsLostDuringEraseRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.Tuning.UnreadableAfter = 1
		var mu sync.Mutex
		begun, end := make(chan struct{}), make(chan struct{})
		missing, away, imports := "", true, 0
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			mu.Lock()
			if c.Op == buffertest.OpImport {
				imports++
			}
			second, gone := c.Op == buffertest.OpImport && imports == 2, away && c.Op == buffertest.OpOpen && c.ID == missing
			mu.Unlock()
			if second {
				close(begun)
				<-end
			}
			if gone {
				return fs.ErrNotExist
			}
			return nil
		}
		b := openAt(t, "data", opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 4 })
		putRows(t, b, s, erasedOf, func(i int) bool { return i == 4 || i == 8 })
		synctest.Wait()
		mu.Lock()
		missing = b.Sink("a").Slices()[0].ID
		mu.Unlock()
		must(t, b.Sink("a").CloseFile(t.Context(), 1))
		<-begun
		mu.Lock()
		away = false
		mu.Unlock()
		selects := func(_ driver.Table, cells [][]byte) bool {
			if string(cells[0]) == "11" { // all have been read
				mu.Lock()
				away = true
				mu.Unlock()
				close(end)
				time.Sleep(time.Millisecond)
			}
			return string(cells[1]) == bad
		}
		res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Minute), selects)
		if err != nil || res.Found != 2 || res.Erased != 0 || res.Why == nil {
			t.Errorf("got %+v, %v, want 2 rows that were not erased, and why", res, err)
		}
		flush(t, b, "a")
		got := ids(mem, tableA)
		if len(got) != erasedOf-4 {
			t.Errorf("the table has %v, want the rows of two slices", got)
		}
		verify(t, b)
		closeBuffer(t, b)
	})
}

// A target that can only count gets a file without the rows of a first person, and later without the rows of a second person too. The import without the
// first rows was on its way, and stores the rows of the second person. The ledger agrees with the table.
func TestEraseRowsAfterAnImportWithoutOtherRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		var mu sync.Mutex
		var first *driver.File
		away := true
		target := counts(mem)
		target.Target = importFunc{mem, func(ctx context.Context, f *driver.File) error {
			mu.Lock()
			defer mu.Unlock()
			if away {
				first = f
				return errors.New("the connection is lost")
			}
			if err := mem.Import(context.Background(), first); err != nil {
				t.Error(err)
			}
			return mem.Import(ctx, f)
		}}
		opts.Target = target
		b := markedFirst(t, opts)
		mu.Lock()
		away = false
		mu.Unlock()
		res, err := b.Sink("a").EraseRows(t.Context(), time.Now().Add(time.Hour), of("second"))
		if err != nil || res.Found != 1 || res.Erased != 0 || res.Moved != 1 {
			t.Errorf("the second call: %+v, %v, want 1 row that has moved: it is in the table", res, err)
		}
		if got := ids(mem, tableA); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("the table has %v, want 1 and 3", got)
		}
		if st, _ := b.Sink("a").Stats(); st.Target.Rows != 2 || st.Discarded.Rows != 2 {
			t.Errorf("the ledger has %d imported and %d discarded rows, want 2 and 2", st.Target.Rows, st.Discarded.Rows)
		}
		verify(t, b)
		closeBuffer(t, b)
	})
}

// A call whose context ends leaves no hold on the files.
func TestEraseRowsThatEndsEarlyHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a")
		for i := range 20 {
			put(t, b, s, i, i+1)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := b.Sink("a").EraseRows(ctx, time.Now().Add(time.Minute), func(driver.Table, [][]byte) bool { return true }); !errors.Is(err, context.Canceled) {
				t.Errorf("EraseRows = %v, want the end of its context", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := b.Sink("a").Flush(ctx); err != nil {
			t.Error(err)
		}
		wantAll(t, mem, tableA, 0, 20)
		verify(t, b)
	})
}
