package buffer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// compacting is a Memory that is a Compactor.
type compacting struct {
	*buffertest.Memory
	calls chan string
	fail  error
}

func (c *compacting) Compact(_ context.Context, t driver.Table) error {
	c.calls <- t.ID
	return c.fail
}

// Tables are compacted after an import, and every hour without one, whatever the call returns and even after the store was reopened.
func TestCompactor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		target := &compacting{mem, make(chan string, 100), errors.New("the disk is full")}
		var breaks atomic.Bool
		opts := localdisk.On(memoryOptions(t, mem), disktest.Wrap(disktest.New(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") && breaks.Swap(false) {
				return syscall.EIO
			}
			return nil
		})))
		opts.Target = target
		b := open(t, opts)
		a := define(t, b, "a")
		define(t, b, "b")
		calls := func() (ids []string) {
			synctest.Wait()
			for len(target.calls) > 0 {
				ids = append(ids, <-target.calls)
			}
			slices.Sort(ids)
			return ids
		}
		if got := calls(); got != nil {
			t.Errorf("before any import: %q", got)
		}
		put(t, b, a, 0, 3)
		must(t, b.Sink("a").Flush(t.Context()))
		if got := calls(); !slices.Equal(got, []string{"in.c-test.a"}) {
			t.Errorf("after an import: %q", got)
		}
		everyHour := func() {
			for range 2 {
				time.Sleep(time.Hour)
				if got := calls(); !slices.Equal(got, []string{"in.c-test.a", "in.c-test.b"}) {
					t.Errorf("an hour later: %q", got)
				}
			}
		}
		everyHour()

		breaks.Store(true)
		var failed *buffer.FailedError
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: a, Data: row(3, "v"), Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if !errors.As(err, &failed) {
			t.Fatalf("a row on a broken disk: %v", err)
		}
		if got := calls(); got != nil || b.Ready() != nil {
			t.Errorf("reopened: %q, %v", got, b.Ready())
		}
		everyHour()
	})
}

// The table of a sink with its own target is compacted until the sink is forgotten, whether it is defined or not.
func TestCompactorOfADroppedSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		target := &compacting{mem, make(chan string, 100), nil}
		opts := memoryOptions(t, mem)
		opts.Target = target
		opts.TargetOf = func(id string) driver.Target {
			if id == "own" {
				return target
			}
			return nil
		}
		b := open(t, opts)
		wantHourly := func(when string, want ...string) {
			t.Helper()
			for len(target.calls) > 0 {
				<-target.calls
			}
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			var got []string
			for len(target.calls) > 0 {
				got = append(got, <-target.calls)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", when, got, want)
			}
		}
		define(t, b, "own")
		define(t, b, "s")
		wantHourly("defined", "in.c-test.own", "in.c-test.s")
		for _, id := range []string{"own", "s"} {
			must(t, b.Sink(id).Drop(t.Context()))
		}
		must(t, b.Close())
		b = open(t, opts)
		wantHourly("dropped, and opened again", "in.c-test.own")
		define(t, b, "own")
		wantHourly("defined again", "in.c-test.own")
		must(t, errors.Join(b.Sink("own").Drop(t.Context()), b.Sink("own").Forget(t.Context())))
		wantHourly("forgotten")
		define(t, b, "own")
		wantHourly("defined after that", "in.c-test.own")
	})
}

// partly is a Memory of which some rows of each file were taken away.
type partly struct {
	*buffertest.Memory
	taken bool
}

func (p partly) CountFile(ctx context.Context, t driver.Table, id string) (int64, error) {
	n, err := p.Memory.CountFile(ctx, t, id)
	return n - 1, err
}

func (p partly) TakenAway(context.Context, driver.Table, string) (bool, error) { return p.taken, nil }

func TestRowsThatWereTakenAwayInPart(t *testing.T) {
	for _, taken := range []bool{false, true} {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.Target = partly{mem, taken}
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 3)
		must(t, b.Sink("a").Flush(t.Context()))
		report, err := b.Verify(t.Context())
		if err != nil || report.OK() != taken || (report.Sinks[0].TakenAway == 1) != taken {
			t.Errorf("taken away %t: %+v, %v", taken, report, err)
		}
	}
}
