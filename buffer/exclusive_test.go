package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/internal/synctest"
)

const leaseName = "the file of all tables"

// exclusive is a target whose tables only one process may use. It counts calls of processes that overlap.
type exclusive struct {
	*buffertest.Memory
	leases  *buffertest.Leases
	process string
	beside  *atomic.Int64
	// during runs in the middle of each import.
	during func(ctx context.Context) error
}

func (e *exclusive) Alone(string) string { return leaseName }

func (e *exclusive) check() {
	if e.leases.Holder(leaseName) != e.process {
		e.beside.Add(1)
	}
}

func (e *exclusive) Import(ctx context.Context, f *driver.File) error {
	e.check()
	if e.during != nil {
		if err := e.during(ctx); err != nil {
			return err
		}
	}
	return e.Memory.Import(ctx, f)
}

func (e *exclusive) CountFile(ctx context.Context, t driver.Table, id string) (int64, error) {
	e.check()
	return e.Memory.CountFile(ctx, t, id)
}

func (e *exclusive) Compact(context.Context, driver.Table) error {
	e.check()
	return nil
}

// exclusiveOptions are the options of a process with its own local level.
func exclusiveOptions(t testing.TB, e *exclusive) buffer.Options {
	opts := memoryOptions(t, e.Memory)
	opts.Target, opts.Leases = e, e.leases.Process(e.process)
	return opts
}

func newExclusive(process string) *exclusive {
	return &exclusive{Memory: buffertest.NewMemory(), leases: buffertest.NewLeases(), process: process, beside: new(atomic.Int64)}
}

// While another process has the lease a file waits. That is no failed attempt, however long it takes, and one sees which node it waits for.
func TestImportWaitsForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExclusive("a")
		opts := exclusiveOptions(t, e)
		meter := metertest.New()
		opts.Meter, opts.Retention = meter, time.Hour
		b := openAt(t, "data", opts)
		s := define(t, b, "k")
		put(t, b, s, 0, 5)
		_, release, err := e.leases.Process("b").Take(t.Context(), leaseName)
		must(t, err)
		must(t, b.Sink("k").CloseFile(t.Context(), 1))
		time.Sleep(2 * time.Hour) // twice the retention
		synctest.Wait()
		f := b.Stats().Sinks[0].Files[0]
		if f.State != buffer.FileImporting || !f.Leased || f.Attempt != 0 || !strings.Contains(f.RetryReason, "another node imports: b has the lease") {
			t.Errorf("the file is shown as %+v", f)
		}
		got := meter.Collect()
		if n := got["forebay.files.leased{sink=k}"]; n != 1 {
			t.Errorf("%v files wait for a lease: %v, want 1", n, got)
		}
		if n := got["forebay.driver.duration{outcome=leased,sink=k,step=import}"]; n < 1000 || n > 7200 {
			t.Errorf("the lease was asked for %v times in two hours", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Sink("k").Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another node imports: b has the lease") {
			t.Errorf("Flush: %v", err)
		}
		put(t, b, s, 5, 6)
		if err := b.Sink("k").Discard(t.Context(), waitingFile(t, b)); err != nil { // of the first file
			t.Error(err)
		}
		release()
		flush(t, b, "k")
		if f := b.Stats().Sinks[0].Files; len(f) != 2 || f[0].Leased || f[1].Leased {
			t.Errorf("after the end of the lease: %+v", f)
		}
		wantIDs(t, e.Memory, "in.c-test.k", 5, 6)
		verify(t, b)
		synctest.Wait()
		if n, holder := e.beside.Load(), e.leases.Holder(leaseName); n != 0 || holder != "" {
			t.Errorf("got %d calls without the lease and the holder %q in the end, want 0 and none", n, holder)
		}
		closeBuffer(t, b)
	})
}

// Two processes import into tables that only one of them may use at a time.
func TestTwoProcessesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newExclusive("a")
		second := *first
		second.process = "b"
		second.during = func(context.Context) error { time.Sleep(300 * time.Millisecond); return nil }
		first.during = second.during
		var processes sync.WaitGroup
		for i, e := range []*exclusive{first, &second} {
			b := openAt(t, fmt.Sprint("data", i), exclusiveOptions(t, e))
			processes.Go(func() {
				for n := range 20 {
					for _, sink := range []string{"x", "y"} {
						s := define(t, b, sink, func(c *buffer.SinkConfig) { c.Table.ID = "t" })
						put(t, b, s, 1000*i+n, 1000*i+n+1)
					}
					flush(t, b, "x")
				}
				flush(t, b, "y")
				verify(t, b)
			})
		}
		processes.Wait()
		synctest.Wait()
		if n := len(ids(first.Memory, "t")); n != 80 {
			t.Errorf("got %d rows, want 80", n)
		}
		if n := first.beside.Load(); n > 0 {
			t.Errorf("got %d calls without the lease, want 0", n)
		}
	})
}

// An import whose lease is lost ends, and is repeated.
func TestLostLeaseEndsTheImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExclusive("a")
		var attempts atomic.Int64
		e.during = func(ctx context.Context) error {
			if attempts.Add(1) > 1 {
				return nil
			}
			e.leases.Lose(leaseName)
			<-ctx.Done()
			return ctx.Err()
		}
		b := open(t, exclusiveOptions(t, e))
		put(t, b, define(t, b, "k"), 0, 5)
		must(t, b.Sink("k").CloseFile(t.Context(), 1))
		synctest.Wait()
		if f := b.Stats().Sinks[0].Files[0]; f.Attempt != 1 || !strings.Contains(f.RetryReason, "the lease has ended") {
			t.Errorf("the file is shown as %+v", f)
		}
		flush(t, b, "k")
		wantIDs(t, e.Memory, "in.c-test.k", 0, 5)
	})
}

// A call that was left alone may still write, so its process keeps the lease until it returns.
func TestHangingCallKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExclusive("a")
		hang := make(chan struct{})
		var attempts atomic.Int64
		e.during = func(context.Context) error {
			if attempts.Add(1) == 1 {
				<-hang
			}
			return nil
		}
		opts := exclusiveOptions(t, e)
		opts.AttemptTimeout = time.Minute
		b := open(t, opts)
		put(t, b, define(t, b, "k"), 0, 5)
		flush(t, b, "k") // by the second attempt
		synctest.Wait()
		if holder := e.leases.Holder(leaseName); holder != "a" {
			t.Errorf("while a call of a hangs, %q has the lease", holder)
		}
		close(hang)
		synctest.Wait()
		if holder := e.leases.Holder(leaseName); holder != "" {
			t.Errorf("in the end %q has the lease", holder)
		}
		wantIDs(t, e.Memory, "in.c-test.k", 0, 5)
	})
}

// brokenLeases fail.
type brokenLeases struct{ err error }

func (l brokenLeases) Take(context.Context, string) (<-chan struct{}, func(), error) {
	return nil, nil, l.err
}

// A store of leases that fails counts as a failed attempt. A store that reports at once that another process has the lease is not asked without a
// pause.
func TestLeasesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExclusive("a")
		opts := exclusiveOptions(t, e)
		opts.Leases = brokenLeases{errors.New("no servers")}
		b := openAt(t, "data", opts)
		put(t, b, define(t, b, "k"), 0, 5)
		must(t, b.Sink("k").CloseFile(t.Context(), 1))
		time.Sleep(time.Minute)
		synctest.Wait()
		if f := b.Stats().Sinks[0].Files[0]; f.Attempt < 3 || f.Leased || f.RetryReason != "no servers" {
			t.Errorf("the file is shown as %+v", f)
		}
		closeBuffer(t, b)
		meter := metertest.New()
		opts.Meter, opts.Leases = meter, brokenLeases{&driver.LeasedError{Name: leaseName, Holder: "b"}}
		b = openAt(t, "data", opts)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := meter.Collect()["forebay.driver.duration{outcome=leased,sink=k,step=import}"]; n < 10 || n > 61 {
			t.Errorf("the lease was asked for %v times in a minute", n)
		}
		closeBuffer(t, b)
		opts.Meter, opts.Leases = nil, e.leases.Process("a")
		b = openAt(t, "data", opts)
		flush(t, b, "k")
		wantIDs(t, e.Memory, "in.c-test.k", 0, 5)
		closeBuffer(t, b)
	})
}
