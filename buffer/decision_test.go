package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

func everyRow(int) bool { return true }

// heldFiles are files that no retry imports, while the target does not change.
var heldFiles = map[string]struct {
	names, rows int
	refused     func(int) bool
	sink        func(*buffer.SinkConfig)
}{
	"HoldFiles":            {0, 3, func(i int) bool { return i == 1 }, quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true })},
	"all rows, named":      {0, 16, everyRow, quarantined()},
	"all rows, one named":  {1, 60, everyRow, quarantined()},
	"all rows, none named": {-1, 60, everyRow, quarantined()},
}

// holdFile brings rows into a file that is held, and returns its id.
func holdFile(t *testing.T, b *buffer.Buffer, rows int, refused func(int) bool, sink func(*buffer.SinkConfig)) string {
	t.Helper()
	putRows(t, b, define(t, b, "a", sink, smallSlicesOf(rows)), rows, refused)
	for range 2 { // a retry does not help
		var held *buffer.HeldError
		if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) {
			t.Fatalf("Flush = %v, want a file that is held", err)
		}
	}
	st, _ := b.Sink("a").Stats()
	if f := st.Files[0]; f.Refused == nil || f.Refused.Reason != "23514" || !f.Permanent {
		t.Errorf("the file is held for its rows: %+v", f)
	}
	return st.Files[0].ID
}

func smallSlicesOf(rows int) func(*buffer.SinkConfig) {
	return func(c *buffer.SinkConfig) { c.Upload.Count = int64(max(2, rows/7)) }
}

// A file that is held is split on request.
func TestHeldFileIsSplit(t *testing.T) {
	for name, c := range heldFiles {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := openAt(t, "data", opts)
				file := holdFile(t, b, c.rows, c.refused, c.sink)
				must(t, b.Sink("a").SplitFile(t.Context(), file))
				flush(t, b, "a")
				wantSplit(t, b, mem, c.rows, c.refused)
				closeBuffer(t, b)
			})
		})
	}
}

// A file that is held goes to the quarantine on request, except for the rows in the table.
func TestHeldFileGoesToTheQuarantine(t *testing.T) {
	for name, c := range heldFiles {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := openAt(t, "data", opts)
				file := holdFile(t, b, c.rows, c.refused, c.sink)
				for range 2 { // the second one finds nothing to do, or the file gone
					if err := b.Sink("a").QuarantineFile(t.Context(), file); err != nil && !errors.Is(err, buffer.ErrUnknownFile) {
						t.Fatal(err)
					}
				}
				if err := b.Sink("a").SplitFile(t.Context(), file); !errors.Is(err, buffer.ErrNotHeld) && !errors.Is(err, buffer.ErrUnknownFile) {
					t.Errorf("SplitFile = %v", err)
				}
				flush(t, b, "a")
				wantEachOnce(t, b, mem, c.rows, c.refused)
				for _, r := range list(t, b, "a") {
					if p := r.Poison; p.Reason != "23514" || p.Column != "value" || p.Message != "violates the check" && !strings.Contains(p.Message, "the file was held: ") {
						t.Errorf("the quarantine has %+v", p)
					}
				}
				closeBuffer(t, b)
			})
		})
	}
}

// wantEachOnce checks that each row is in the table or in the quarantine once, and no refused one in the table.
func wantEachOnce(t *testing.T, b *buffer.Buffer, mem *buffertest.Memory, rows int, refused func(int) bool) {
	t.Helper()
	var want, all []string
	for i := range rows {
		want = append(want, fmt.Sprintf("%06d", i))
	}
	imported := ids(mem, tableA)
	for _, id := range imported {
		var n int
		_, _ = fmt.Sscan(id, &n)
		if all = append(all, fmt.Sprintf("%06d", n)); refused(n) {
			t.Errorf("row %d is in the table", n)
		}
	}
	kept := list(t, b, "a")
	for _, r := range kept {
		_, record, _, err := b.Sink("a").RejectedRecord(t.Context(), r.ID)
		var n int
		if _, e := fmt.Sscanf(string(record), `"%d"`, &n); err != nil || e != nil || r.Poison.Row != int64(n) {
			t.Fatalf("%s: got %q, %+v, %v, want no error and e == nil and r.Poison.Row == int64(n)", r.ID, record, r.Poison, err)
		}
		all = append(all, fmt.Sprintf("%06d", n))
	}
	if slices.Sort(all); !slices.Equal(all, want) {
		t.Errorf("the table and the quarantine have %v, want each of %d rows once", all, rows)
	}
	st, _ := b.Sink("a").Stats()
	if st.Accepted != int64(rows) || st.Target.Rows != int64(len(imported)) || st.Poison.Rows != int64(len(kept)) || st.Quarantine.Added != int64(len(kept)) || st.Staging.Rows != 0 {
		t.Errorf("%d rows: got %d in the table, %d in the quarantine, want the statistics to count the same: %+v", rows, len(imported), len(kept), st)
	}
	verify(t, b)
}

// A power cut at any external call that follows a decision changes nothing, and the decision need not be repeated. The file is held whole, or
// in the middle of its parts.
func TestPowerCutsAfterADecision(t *testing.T) {
	const rows = 8
	refused := func(i int) bool { return i == 1 || i == 4 || i == 5 }
	hold := quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true })
	type decided struct {
		decision string
		names    int
		midway   bool
	}
	all := []decided{
		{"split", 0, false},
		{"split", 1, false},
		{"split", -1, false},
		{"quarantine", 0, false},
		{"quarantine", -1, false},
		{"quarantine", -1, true},
	}
	for _, c := range casetest.Sample(t, all, len(all), 1) {
		for at, more := 0, true; more; at++ {
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				disk := disktest.New(t)
				b := openAt(t, "data", localdisk.On(opts, disk))
				file := holdFile(t, b, rows, refused, hold)
				if c.midway {
					synctest.Wait()
					mem.Before = func(_ context.Context, c buffertest.Call) error {
						if c.Op == buffertest.OpImport && len(mem.Rows(tableA)) > 0 {
							return driver.Permanent(errors.New("no such table"))
						}
						return nil
					}
					if err := errors.Join(b.Sink("a").SplitFile(t.Context(), file)); err != nil || b.Sink("a").Flush(t.Context()) == nil {
						t.Fatal("not held midway", err)
					}
				}
				var mu sync.Mutex // an abandoned attempt may call while the test continues
				var cut *disktest.Disk
				calls := 0
				off := func(context.Context, buffertest.Call) error {
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls == at {
						cut = disk.Cut(vfs.CrashCloneCfg{})
					}
					if cut != nil {
						return errors.New("the power is off")
					}
					return nil
				}
				synctest.Wait()
				mem.Before, mem.After = off, off
				decide := b.Sink("a").SplitFile
				if c.decision == "quarantine" {
					decide = b.Sink("a").QuarantineFile
				}
				must(t, decide(t.Context(), file))
				if at == 0 {
					mu.Lock()
					cut = disk.Cut(vfs.CrashCloneCfg{})
					mu.Unlock()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = b.Sink("a").Flush(ctx)
				cancel()
				closeBuffer(t, b)
				synctest.Wait()
				if more = cut != nil; !more {
					return
				}
				mem.Before, mem.After = nil, nil
				b = openAt(t, "data", localdisk.On(opts, cut))
				define(t, b, "a", hold, smallSlicesOf(rows))
				flush(t, b, "a")
				if wantEachOnce(t, b, mem, rows, refused); c.decision == "split" {
					wantSplit(t, b, mem, rows, refused)
				} else if n := len(ids(mem, tableA)); !c.midway && n > 0 || c.midway && n == 0 {
					t.Errorf("%d rows are in the table", n)
				}
				closeBuffer(t, b)
				if t.Failed() {
					t.Fatalf("%+v, the power is off at call %d", c, at)
				}
			})
		}
	}
}

// What cannot be decided is refused, and says why.
func TestDecisionsThatAreRefused(t *testing.T) {
	bad := func(i int) bool { return i == 1 }
	withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		b := open(t, opts)
		for what, decide := range map[string]func(context.Context, string) error{"split": b.Sink("nobody").SplitFile, "quarantine": b.Sink("nobody").QuarantineFile} {
			if err := decide(t.Context(), "x"); !errors.Is(err, buffer.ErrUnknownSink) {
				t.Errorf("%s at an unknown sink: got %v, want %v", what, err, buffer.ErrUnknownSink)
			}
		}
		wait := func(c *buffer.SinkConfig) { c.Import.Interval = time.Hour }
		putRows(t, b, define(t, b, "a", wait), 3, bad)
		st, _ := b.Sink("a").Stats()
		file := st.Files[0].ID
		want := func(how string, what error, text string) {
			t.Helper()
			for name, decide := range map[string]func(context.Context, string) error{"split": b.Sink("a").SplitFile, "quarantine": b.Sink("a").QuarantineFile} {
				if err := decide(t.Context(), file); !strings.Contains(how, name) {
					continue
				} else if !errors.Is(err, what) || !strings.Contains(err.Error(), text) {
					t.Errorf("%s = %v, want %v %q", name, err, what, text)
				}
			}
		}
		want("split, quarantine", buffer.ErrNotHeld, "not in staging yet")
		define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles, q.MaxRecords = true, 2 }), wait)
		want("split, quarantine", buffer.ErrNotHeld, "not in staging yet")
		mem.Before = failWhile(nil, driver.Permanent(errors.New("no such table")), buffertest.OpImport)
		_ = b.Sink("a").Flush(t.Context())
		want("split", buffer.ErrNotHeld, "not failed because of its rows, so a split does not help: remove the cause and retry the file")
		var full *buffer.OverloadError
		if err := b.Sink("a").QuarantineFile(t.Context(), file); !errors.As(err, &full) || !strings.Contains(err.Error(), "3 rows") {
			t.Errorf("QuarantineFile without room = %v", err)
		}
		file = "x"
		want("split, quarantine", buffer.ErrUnknownFile, "")
		if len(list(t, b, "a")) > 0 {
			t.Error("a refused decision has an effect")
		}
		verify(t, b)
	})
}

// A refusal of which the target is not sure holds the file, until the caller decides that the row is the cause.
func TestUnsureRefusal(t *testing.T) {
	refused := func(i int) bool { return i == 2 }
	withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		mem.Alters = func(e *driver.RowsError) { e.Unsure = true }
		b := open(t, opts)
		file := holdFile(t, b, 5, refused, quarantined())
		if n := len(list(t, b, "a")); n > 0 {
			t.Errorf("%d rows are in the quarantine, want 0", n)
		}
		must(t, b.Sink("a").SplitFile(t.Context(), file))
		flush(t, b, "a")
		wantSplit(t, b, mem, 5, refused)
	})
}

// A refusal that may pass by itself holds the file for a time. Then the row leaves the file, in whatever part it is.
func TestPatience(t *testing.T) {
	refused := func(i int) bool { return i%20 == 2 }
	for _, passes := range []bool{true, false} {
		withRefusing(t, -1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
			mem.Alters = func(e *driver.RowsError) { e.Patience = 10 * time.Minute }
			parent := time.Now().Add(24 * time.Hour)
			if passes {
				parent = time.Now().Add(9 * time.Minute)
			}
			refuse := mem.Refuse
			mem.Refuse = func(table string, row []string) driver.RowError {
				if time.Now().After(parent) {
					return driver.RowError{}
				}
				return refuse(table, row)
			}
			b := open(t, opts)
			holdFile(t, b, 50, refused, quarantined())
			begin := time.Now()
			for st, _ := b.Sink("a").Stats(); st.Staging.Rows > 0; st, _ = b.Sink("a").Stats() {
				time.Sleep(time.Second)
			}
			if took := time.Since(begin); took < 8*time.Minute || took > 16*time.Minute {
				t.Errorf("it took %s", took)
			}
			if passes {
				wantSplit(t, b, mem, 50, func(int) bool { return false })
				return
			}
			wantSplit(t, b, mem, 50, refused)
		})
	}
}

// The response to the attempt that stored the rows is lost. When the caller sends the file to the quarantine, its rows stay in the table
// alone.
func TestLostAnswerBeforeADecision(t *testing.T) {
	drv := &twist{}
	drv.importer = func(ctx context.Context, f *driver.File) error {
		return errors.Join(driver.Permanent(errors.New("no answer")), drv.Memory.Import(ctx, f))
	}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		put(t, b, define(t, b, "a", quarantined()), 1, 3)
		var held *buffer.HeldError
		if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) {
			t.Fatalf("Flush = %v", err)
		}
		must(t, b.Sink("a").QuarantineFile(t.Context(), held.FileID))
		flush(t, b, "a")
		wantAll(t, drv.Memory, tableA, 0, 3)
		wantRecords(t, b, "a", "")
		verify(t, b)
	})
}

// noting saves a note before each import, and checks that an id that was attempted before has its note.
type noting struct {
	*buffertest.Memory
	t     *testing.T
	tried map[string]bool
}

func (n *noting) Import(ctx context.Context, f *driver.File) error {
	want := ""
	if n.tried[f.ID] {
		want = f.ID
	}
	if string(f.Progress) != want {
		n.t.Errorf("the import of %s has the note %q, want %q", f.ID, f.Progress, want)
	}
	n.tried[f.ID] = true
	if err := f.SaveProgress(ctx, []byte(f.ID)); err != nil {
		return err
	}
	return n.Memory.Import(ctx, f)
}

// A driver gets the note of an id with each later attempt, even after an operator splits the file or its retention ends, because it may have stored
// a part of the rows, and would store them again.
func TestNoteOfAnIdThatIsSplit(t *testing.T) {
	for name, c := range heldFiles {
		for _, how := range []string{"decided", "retention"} {
			if name == "HoldFiles" && how == "retention" {
				continue // it expires whole
			}
			t.Run(name+", "+how, func(t *testing.T) {
				withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
					opts.Target, opts.Retention = &noting{mem, t, map[string]bool{}}, time.Hour
					b := openAt(t, "data", opts)
					file := holdFile(t, b, c.rows, c.refused, c.sink)
					if how == "retention" {
						time.Sleep(2 * time.Hour)
						synctest.Wait()
					} else if err := b.Sink("a").SplitFile(t.Context(), file); err != nil {
						t.Fatal(err)
					}
					flush(t, b, "a")
					wantSplit(t, b, mem, c.rows, c.refused)
					closeBuffer(t, b)
				})
			})
		}
	}
}

// An id is ruled out only after the decision is on disk, because a target never accepts rows by that id again, so a crash in between would block
// the file.
func TestDecisionIsDurableBeforeAnIDIsRuledOut(t *testing.T) {
	mem := buffertest.NewMemory()
	var held atomic.Bool // the disk
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		switch {
		case c.Op == buffertest.OpImport:
			return driver.Permanent(errors.New("a column is missing"))
		case c.Op == buffertest.OpVoid && held.Load():
			t.Errorf("%s was ruled out before the decision was on disk", c.ID)
		}
		return nil
	}
	opts := memoryOptions(t, mem)
	disk := &heldDisk{FS: localdisk.Of(opts)}
	opts.Retry = buffer.Retry{Initial: time.Hour, Max: time.Hour, Probe: time.Hour}
	b := open(t, localdisk.On(opts, vfs.FS(disk)))
	waiting := func(sink string) string {
		t.Helper()
		put(t, b, define(t, b, sink, quarantined()), 0, 5)
		var why *buffer.HeldError
		if err := b.Sink(sink).Flush(t.Context()); !errors.As(err, &why) {
			t.Fatalf("Flush = %v", err)
		}
		return why.FileID
	}
	if err := b.Sink("b").QuarantineFile(t.Context(), waiting("b")); err != nil { // the first decision also upgrades the format
		t.Fatal(err)
	}
	flush(t, b, "b")
	file := waiting("a")
	disk.gate.Lock()
	held.Store(true)
	decided, imported := make(chan error, 1), make(chan struct{})
	go func() { decided <- b.Sink("a").QuarantineFile(t.Context(), file) }()
	for { // until the decision is in memory
		if st, _ := b.Sink("a").Stats(); st.Files[0].Attempt == 0 {
			break
		}
		runtime.Gosched()
	}
	go func() {
		buffer.ImportNow(t.Context(), b, "a")
		close(imported)
	}()
	select {
	case <-imported:
	case <-time.After(50 * time.Millisecond):
	}
	held.Store(false)
	disk.gate.Unlock()
	if err := <-decided; err != nil {
		t.Error(err)
	}
	<-imported
	flush(t, b, "a")
	wantAll(t, mem, tableA, 0, 0)
	verify(t, b)
}
