package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// replicated are options with a changelog.
func replicated(t testing.TB, mem *buffertest.Memory, log *fakeLog) buffer.Options {
	opts := memoryOptions(t, mem)
	opts.Changelog = log.open()
	return opts
}

// begin appends a row and returns its ticket.
func begin(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, id int) buffer.Ticket {
	t.Helper()
	ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, "v"), Count: 1})
	must(t, err)
	return ticket
}

// tryRow appends a row and waits for it.
func tryRow(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, id int) error {
	ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, "v"), Count: 1})
	if err == nil {
		err = ticket.Wait(t.Context())
	}
	return err
}

// waitShort waits for a ticket for a second.
func waitShort(t *testing.T, ticket buffer.Ticket) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return ticket.Wait(ctx)
}

// Nothing is acknowledged, uploaded or imported that the log does not have.
func TestChangelogIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		b := open(t, replicated(t, mem, log))
		s := define(t, b, "a")
		put(t, b, s, 0, 3)

		log.setAway(true)
		ticket := begin(t, b, s, 3)
		if err := waitShort(t, ticket); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("while the log is away: %v", err)
		}
		closed := make(chan error)
		go func() { closed <- b.Sink("a").CloseFile(t.Context(), trigger.Requested) }()
		time.Sleep(time.Hour)
		if n := len(mem.Objects()); n > 0 {
			t.Errorf("%d slices were uploaded, want 0", n)
		}
		log.setAway(false)
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 4)
		verify(t, b)
	})
}

// Batches are confirmed in order, and a store that was closed continues where it was.
func TestChangelogGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		for run := range 3 {
			b := openAt(t, "data", opts)
			put(t, b, define(t, b, "a"), 10*run, 10*run+10)
			closeBuffer(t, b)
		}
		i, err := buffer.Inspect("data", localdisk.On(buffer.InspectOptions{}, localdisk.Of(opts)))
		must(t, err)
		defer i.Close()
		if at := i.LogPosition(); int(at.Number) != log.len() || string(at.Mark) != string(mark(log.len())) {
			t.Errorf("the store is at %d %q, the log has %d batches", at.Number, at.Mark, log.len())
		}
	})
}

// fullLog is a changelog whose Mark waits for room.
type fullLog struct {
	buffer.Changelog
	room chan struct{} // taken from while Mark returns
}

func (l *fullLog) Mark() []byte {
	l.room <- <-l.room
	return l.Changelog.Mark()
}

// At the bound of memory the callers' error says since when the log takes nothing.
func TestOverloadWhileChangelogIsAway(t *testing.T) {
	for _, name := range []string{"no answer", "no room"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, log := buffertest.NewMemory(), newFakeLog(t)
				opts := replicated(t, mem, log)
				opts.MaxPendingBytes = 1 << 20
				full := &fullLog{opts.Changelog, make(chan struct{}, 1)}
				full.room <- struct{}{}
				opts.Changelog = full
				b := open(t, opts)
				s := define(t, b, "a")
				if name == "no room" {
					<-full.room
				} else {
					log.setAway(true)
				}
				away := time.Now()
				var err error
				for n := 0; err == nil && n < 100; n++ {
					_, err = b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(n, strings.Repeat("v", 100<<10)), Count: 1})
					time.Sleep(time.Second)
				}
				var over *buffer.OverloadError
				if !errors.As(err, &over) || over.Resource != "memory" || over.Silent.Sub(away).Abs() > 2*time.Second {
					t.Fatalf("away since %s: %v", away, err)
				}
				if want := "the changelog has not responded since " + over.Silent.Format(time.RFC3339); !strings.HasSuffix(err.Error(), want) {
					t.Errorf("the error is %q, it does not end with %q", err, want)
				}
				if name == "no room" {
					full.room <- struct{}{}
				} else {
					log.setAway(false)
				}
				put1(t, b, s, 1000, "v")
			})
		})
	}
}

// Close abandons a log that does not respond. Batches that it has not confirmed have failed, and the next opening adds them to
// the log.
func TestCloseGivesUpChangelog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		log.setAway(true)
		ticket := begin(t, b, s, 0)
		began := time.Now()
		var failed *buffer.FailedError
		if err := b.Close(); !errors.As(err, &failed) || !strings.Contains(err.Error(), "did not return within 20s of Close") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("Close took %s", took)
		}
		if err := ticket.Wait(t.Context()); !errors.As(err, &failed) {
			t.Errorf("a row that the log does not have: %v", err)
		}

		if _, err := buffer.Open("data", opts); !errors.Is(err, errLogDown) {
			t.Errorf("open while the log is away: %v", err)
		}
		log.setAway(false)
		b = openAt(t, "data", opts)
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 1)
		closeBuffer(t, b)
	})
}

// A log that fails is a failure of the local level. The outcome is unknown, and the buffer opens everything again.
func TestChangelogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		b := open(t, replicated(t, mem, log))
		s := define(t, b, "a")
		put(t, b, s, 0, 3)
		log.setError(errLogDown)
		var failed *buffer.FailedError
		if err := begin(t, b, s, 3).Wait(t.Context()); !errors.As(err, &failed) || !errors.Is(err, errLogDown) {
			t.Fatalf("a row: %v", err)
		}
		if err := b.Ready(); !errors.As(err, &failed) {
			t.Errorf("ready: %v", err)
		}
		before := log.calls()
		time.Sleep(10 * time.Minute)
		if n := log.calls() - before; n < 2 || n > 20 {
			t.Errorf("the log was tried %d times in 10 minutes", n)
		}
		log.setError(nil)
		time.Sleep(10 * time.Minute)
		must(t, b.Ready())
		put(t, b, s, 4, 6) // row 3 was on disk, and the log got it with the opening
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 6)
	})
}

// A fenced buffer stops permanently, whenever it learns it, and says whose instance it was.
func TestFencedBufferStops(t *testing.T) {
	stopped := func(t *testing.T, instance string, err error) {
		t.Helper()
		var f *buffer.FencedError
		if !errors.As(err, &f) || f.Instance != instance || !errors.Is(err, buffer.ErrFenced) {
			t.Errorf("error %v, want a FencedError of instance %s", err, instance)
		}
	}
	for name, local := range map[string]bool{"by an append": false, "while it is reopened": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, log := buffertest.NewMemory(), newFakeLog(t)
				gate := &gated{}
				mem.Before = gate.before
				opts := replicated(t, mem, log)
				var broken atomic.Bool
				disk := localdisk.Of(opts)
				opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
						return syscall.EIO
					}
					return nil
				})))
				b, err := buffer.Open("data", opts)
				must(t, err)
				s := define(t, b, "a")
				put(t, b, s, 0, 3)
				must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
				synctest.Wait() // the import fails again and again
				instance := strings.Split(b.Stats().Sinks[0].Files[0].ID, "-")[0]

				log.setError(fmt.Errorf("epoch 2 is another's: %w", buffer.ErrFenced))
				broken.Store(local)
				ticket := begin(t, b, s, 3)
				flushed := make(chan error)
				go func() { flushed <- b.Sink("a").Flush(t.Context()) }()
				if err := ticket.Wait(t.Context()); !local {
					stopped(t, instance, err)
				} else if err == nil {
					t.Error("a row was acknowledged by a broken disk")
				}
				if err := <-flushed; !local {
					stopped(t, instance, err)
				}
				broken.Store(false)
				time.Sleep(time.Hour)
				calls, begun := len(mem.Calls()), log.calls()
				gate.open.Store(true)
				time.Sleep(24 * time.Hour)
				if log.calls() != begun || len(mem.Calls()) != calls {
					t.Errorf("it goes on: %d calls of Begin, %d of drivers", log.calls()-begun, len(mem.Calls())-calls)
				}
				_, err = b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(4, "v"), Count: 1})
				stopped(t, instance, err)
				_, err = b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(4, "v"), Count: 1})
				stopped(t, instance, err)
				stopped(t, instance, b.Ready())
				stopped(t, instance, b.Close())
				_, err = buffer.Open("data", opts)
				stopped(t, instance, err)
			})
		})
	}
}

// A local disk that fails while the log works, or that lost its newest changes, gets the missing batches from the log.
func TestStoreBehindChangelog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		disk := disktest.New(t)
		opts := localdisk.On(replicated(t, mem, log), disk)
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 5)
		old := disk.Cut(vfs.CrashCloneCfg{})
		put(t, b, s, 5, 10)
		flush(t, b, "a")
		put(t, b, s, 10, 15)
		opts.Changelog = log.open()
		b2 := openAt(t, "data", localdisk.On(opts, old))
		flush(t, b2, "a")
		wantAll(t, mem, "in.c-test.a", 0, 15)
		verify(t, b2)
		var stopped *buffer.FencedError
		if err := tryRow(t, b, s, 15); !errors.As(err, &stopped) {
			t.Errorf("the owner before: %v", err)
		}
	})
}

// A folder that was open without its changelog no longer accepts batches from it.
func TestChangelogIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		with := replicated(t, mem, log)
		without := with
		without.Changelog = nil
		b := openAt(t, "data", with)
		put(t, b, define(t, b, "a"), 0, 5)
		closeBuffer(t, b)
		b = openAt(t, "data", without)
		put(t, b, define(t, b, "a"), 5, 10)
		closeBuffer(t, b)
		if _, ok := keys(t, localdisk.Of(with), "data")["m/log"]; ok {
			t.Error("the position is still there")
		}
		if _, err := buffer.Open("data", with); err == nil || !strings.Contains(err.Error(), "has changes that are not in the changelog") {
			t.Errorf("open with the old log: %v", err)
		}
		log = newFakeLog(t)
		with.Changelog = log.open()
		b = openAt(t, "data", with)
		put(t, b, define(t, b, "a"), 10, 11)
		if err := buffer.Restore("again", "", log.batches(0, log.len()), with.Tuning); err == nil {
			t.Error("a log without its first rows is restored")
		}
		must(t, b.Checkpoint(t.Context(), "copy"))
		put(t, b, define(t, b, "a"), 11, 15)
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 15)
		synctest.Wait() // until the staged slices are deleted
		closeBuffer(t, b)
		must(t, buffer.Restore("again", "copy", log.batches(0, log.len()), with.Tuning))
		if got, want := keys(t, localdisk.Of(with), "again"), keys(t, localdisk.Of(with), "data"); !maps.Equal(got, want) {
			t.Errorf("restored %d keys, want %d", len(got), len(want))
		}
	})
}

// A damaged store is not replaced by its undamaged part, because the log and a checkpoint have all of it.
func TestDamagedStoreWithChangelog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		b := openAt(t, "data", opts)
		put(t, b, define(t, b, "a"), 0, 5)
		closeBuffer(t, b)
		disk := localdisk.Of(opts)
		names, err := disk.List("data")
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST-") {
				rot(t, disk, "data/"+name, func(int) int { return 10 })
			}
		}
		before := log.len()
		var damage *buffer.StoreDamageError
		if _, err := buffer.Open("data", opts); !errors.As(err, &damage) || !strings.Contains(err.Error(), "restore it from its checkpoint") {
			t.Fatalf("open: %v", err)
		}
		if log.len() != before {
			t.Errorf("the log got %d batches", log.len()-before)
		}
		must(t, buffer.Restore("again", "", log.batches(0, log.len()), opts.Tuning))
		b = openAt(t, "again", opts)
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 5)
		closeBuffer(t, b)
	})
}
