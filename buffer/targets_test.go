package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// inLake puts the table of a sink into the target "lake".
func inLake(c *buffer.SinkConfig) { c.Table.Target = "lake" }

// The name of a lease identifies the same database in all processes, even if each process gives the target a different name.
func TestLeaseOfANamedTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExclusive("a")
		opts := exclusiveOptions(t, e)
		opts.Target, opts.Targets = e.Memory, map[string]driver.Target{"lake": e}
		opts.TargetOf = func(id string) driver.Target {
			if id == "" {
				t.Error("TargetOf is asked about a sink without a name")
			}
			return nil
		}
		b := openAt(t, "data", opts)
		put(t, b, define(t, b, "k", inLake), 0, 5)
		flush(t, b, "k")
		if n := e.beside.Load(); n > 0 {
			t.Errorf("%d calls without the lease that a different process needs for the same file, want 0", n)
		}
		wantIDs(t, e.Memory, "in.c-test.k", 0, 5)
		closeBuffer(t, b)
	})
}

// Measurements of a file name the target of the file, even after its sink has moved.
func TestMeasurementsAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, meter := buffertest.NewMemory(), metertest.New()
		down := errors.New("the database is down")
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				return down
			}
			return nil
		}
		opts := memoryOptions(t, mem)
		opts.Meter, opts.Targets = meter, map[string]driver.Target{"lake": buffertest.NewMemory()}
		b := openAt(t, "data", opts)
		put(t, b, define(t, b, "a"), 0, 5)
		put(t, b, define(t, b, "a", inLake), 5, 10)
		time.Sleep(time.Minute)
		synctest.Wait()
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait()
		got := meter.Collect()
		for name, want := range map[string]bool{
			"forebay.driver.duration{outcome=retry,sink=a,step=import}":             true,
			"forebay.driver.duration{outcome=retry,sink=a,step=import,target=lake}": false,
			"forebay.driver.duration{outcome=ok,sink=a,step=import,target=lake}":    true,
			"forebay.delivery.duration{sink=a,target=lake}":                         true,
		} {
			if n, ok := got[name]; ok != want {
				t.Errorf("%s is %v, want that it is there: %t", name, n, want)
			}
		}
		closeBuffer(t, b)
	})
}

// A table is compacted every hour after its sink has moved to it, even if no row arrives.
func TestCompactorAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		lake := &compacting{buffertest.NewMemory(), make(chan string, 100), nil}
		opts := memoryOptions(t, mem)
		opts.Targets = map[string]driver.Target{"lake": lake}
		b := open(t, opts)
		define(t, b, "a")
		define(t, b, "a", inLake)
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if n := len(lake.calls); n != 1 {
			t.Errorf("the table was compacted %d times in an hour, want once", n)
		}
	})
}

// A discard waits for the import that runs. If this import hangs, uploads of sinks with other targets continue.
func TestDiscardInATargetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, lake := buffertest.NewMemory(), buffertest.NewMemory()
		proceed := make(chan struct{})
		lake.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				<-proceed
			}
			return nil
		}
		opts := memoryOptions(t, mem)
		opts.Targets, opts.Uploads = map[string]driver.Target{"lake": lake}, 1
		b := open(t, opts)
		put(t, b, define(t, b, "a", inLake), 0, 5)
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait()
		discarded := make(chan error)
		go func() { discarded <- b.Sink("a").Discard(t.Context(), waitingFile(t, b)) }()
		synctest.Wait()
		put(t, b, define(t, b, "b"), 0, 5)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := b.Sink("b").Flush(ctx); err != nil {
			t.Errorf("a sink of the working target waits for the target that hangs: %v", err)
		}
		close(proceed)
		if err := <-discarded; !errors.Is(err, buffer.ErrUnknownFile) {
			t.Errorf("discard of a file that was being imported: %v", err)
		}
		flush(t, b, "b")
		wantIDs(t, mem, "in.c-test.b", 0, 5)
	})
}

// The reason of a split file whose target is missing, and the errors of decisions about it, name the target. The file continues when it is back.
func TestSplitFileWhoseTargetIsMissing(t *testing.T) {
	withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		lake := opts.Target
		opts.Targets = map[string]driver.Target{"lake": lake}
		void := errors.New("the connection is lost")
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpVoid {
				return void
			}
			return nil
		}
		refused := func(i int) bool { return i == 2 }
		b := openAt(t, "data", opts)
		putRows(t, b, define(t, b, "a", inLake), 6, refused)
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait()
		closeBuffer(t, b)

		const want = `there is no target "lake": add it to the targets`
		opts.Targets = nil
		b = openAt(t, "data", opts)
		time.Sleep(time.Hour)
		synctest.Wait()
		st, _ := b.Sink("a").Stats()
		f := st.Files[0]
		if f.State != buffer.FileImporting || !strings.Contains(f.RetryReason, want) {
			t.Errorf("the file is %s: %s", f.State, f.RetryReason)
		}
		for _, err := range []error{b.Sink("a").SplitFile(t.Context(), f.ID), b.Sink("a").QuarantineFile(t.Context(), f.ID)} {
			if !errors.Is(err, buffer.ErrNotHeld) || !strings.Contains(err.Error(), want) {
				t.Errorf("a decision without the target: %v", err)
			}
		}
		closeBuffer(t, b)

		opts.Targets, mem.Before = map[string]driver.Target{"lake": lake}, nil
		b = openAt(t, "data", opts)
		flush(t, b, "a")
		wantSplit(t, b, mem, 6, refused)
		closeBuffer(t, b)
	})
}

// Rows whose target is missing from the options wait for it without an end. The retention begins when the target is back and fails.
func TestRowsWhoseTargetIsMissingDoNotExpire(t *testing.T) {
	for _, failedBefore := range []bool{false, true} {
		t.Run(fmt.Sprint("failed before: ", failedBefore), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lake := buffertest.NewMemory()
				opts := memoryOptions(t, buffertest.NewMemory())
				opts.Retention = time.Hour
				opts.Retry.Max = 6 * time.Hour // few attempts in a month
				failing := errors.New("the lake is frozen")
				lake.Before = func(_ context.Context, c buffertest.Call) error {
					if c.Op == buffertest.OpImport {
						return failing
					}
					return nil
				}
				reopen := func(b *buffer.Buffer, targets map[string]driver.Target) *buffer.Buffer {
					if b != nil {
						closeBuffer(t, b)
					}
					opts.Targets = targets
					return openAt(t, "data", opts)
				}
				with := map[string]driver.Target{"lake": lake}
				b := reopen(nil, with)
				put(t, b, define(t, b, "a", inLake), 0, 5)
				if failedBefore {
					must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
					time.Sleep(50 * time.Minute)
				}
				for range 2 { // the second time after a restart without the target
					b = reopen(b, nil)
					if err := b.Sink("a").Flush(t.Context()); err == nil || !strings.Contains(err.Error(), `there is no target "lake"`) {
						t.Errorf("flush without the target: %v", err)
					}
					time.Sleep(30 * 24 * time.Hour)
					synctest.Wait()
					st, _ := b.Sink("a").Stats()
					if st.Expired.Rows > 0 || len(st.Files) != 1 || st.Files[0].Level.Rows != 5 {
						t.Fatalf("rows that wait for a target are gone: %s", state(b, "a"))
					}
					if f := st.Files[0]; !f.Permanent || !f.FirstFailed.IsZero() || !strings.Contains(f.RetryReason, `there is no target "lake"`) {
						t.Errorf("the file says %+v", f)
					}
				}
				b = reopen(b, with)
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				if st, _ := b.Sink("a").Stats(); st.Expired.Rows > 0 || st.Files[0].RetryReason != failing.Error() {
					t.Fatalf("the target is back and fails for less than the retention: %s", state(b, "a"))
				}
				lake.Before = nil
				flush(t, b, "a")
				wantIDs(t, lake, "in.c-test.a", 0, 5)
				verify(t, b)

				// The operator may still give them up.
				put(t, b, define(t, b, "a", inLake), 5, 6)
				b = reopen(b, nil)
				if err := b.Sink("a").Flush(t.Context()); err == nil {
					t.Error("flush without the target has no error")
				}
				st, _ := b.Sink("a").Stats()
				if err := b.Sink("a").Discard(t.Context(), st.Files[len(st.Files)-1].ID); err != nil {
					t.Error(err)
				}
				verify(t, b)
				closeBuffer(t, b)
			})
		})
	}
}
