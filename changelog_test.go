package forebay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// memoryLog is a changelog in memory. It belongs to whoever called Begin last.
type memoryLog struct {
	mu      sync.Mutex
	batches []buffer.LogBatch
	owner   *logOwner
}

type logOwner struct{ log *memoryLog }

func (o *logOwner) Begin(_ context.Context, at buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	l := o.log
	l.mu.Lock()
	l.owner = o
	l.mu.Unlock()
	return l.behind(at.Number)
}

// behind yields the batches after a number.
func (l *memoryLog) behind(number uint64) iter.Seq2[buffer.LogBatch, error] {
	l.mu.Lock()
	batches := l.batches[number:len(l.batches):len(l.batches)]
	l.mu.Unlock()
	return func(yield func(buffer.LogBatch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (o *logOwner) Mark() []byte { return nil }

func (o *logOwner) Append(number uint64, batch []byte) func(context.Context) error {
	return func(context.Context) error {
		o.log.mu.Lock()
		defer o.log.mu.Unlock()
		if o.log.owner != o {
			return fmt.Errorf("batch %d: %w", number, buffer.ErrFenced)
		}
		o.log.batches = append(o.log.batches, buffer.LogBatch{Number: number, Data: bytes.Clone(batch)})
		return nil
	}
}

// replicatedOptions makes an engine the owner of the log, on a separate disk.
func replicatedOptions(mem *buffertest.Memory, log *memoryLog) forebay.Options {
	return forebay.Options{
		Staging: mem, Target: mem, Changelog: &logOwner{log}, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem()),
	}
}

func mustOpen(t *testing.T, opts forebay.Options) *forebay.Engine {
	t.Helper()
	e, err := forebay.Open("data", opts)
	must(t, err)
	return e
}

// Every call of an engine whose changelog has another owner returns a FencedError, and nothing of it is taken.
func TestFencedEngine(t *testing.T) {
	rec := func() *mapping.Record { return mapping.JSON([]byte(`{"id":1,"user":{"name":"Ada"}}`)) }
	batch := func(o forebay.Once) forebay.Batch {
		return forebay.Batch{Records: slices.Values([]*mapping.Record{rec()}), Once: o}
	}
	intake := func(in interface {
		Ingest(context.Context, string, *mapping.Record) (forebay.Result, error)
		Submit(context.Context, string, *mapping.Record) (forebay.Pending, error)
		IngestBatch(context.Context, string, []*mapping.Record) ([]forebay.Result, error)
		IngestOnce(context.Context, string, forebay.Once, []*mapping.Record) ([]forebay.Result, error)
		IngestAtomic(context.Context, string, forebay.Batch) (forebay.BatchResult, error)
	},
	) map[string]func(ctx context.Context) error {
		return map[string]func(ctx context.Context) error{
			"Ingest": func(ctx context.Context) error { _, err := in.Ingest(ctx, "web", rec()); return err },
			"Submit": func(ctx context.Context) error {
				p, err := in.Submit(ctx, "web", rec())
				if err == nil {
					_, err = p.Wait(ctx)
				}
				return err
			},
			"IngestBatch": func(ctx context.Context) error {
				_, err := in.IngestBatch(ctx, "web", []*mapping.Record{rec()})
				return err
			},
			"IngestOnce": func(ctx context.Context) error {
				_, err := in.IngestOnce(ctx, "web", forebay.Once{Key: "k"}, []*mapping.Record{rec()})
				return err
			},
			"IngestAtomic": func(ctx context.Context) error {
				_, err := in.IngestAtomic(ctx, "web", batch(forebay.Once{}))
				return err
			},
			"IngestAtomic once": func(ctx context.Context) error {
				_, err := in.IngestAtomic(ctx, "web", batch(forebay.Once{Key: "k"}))
				return err
			},
		}
	}
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), &memoryLog{}
		e := mustOpen(t, replicatedOptions(mem, log))
		mustDefine(t, e, events())
		(&logOwner{log}).Begin(t.Context(), buffer.LogPosition{}) // another owner

		fenced := func(name string, err error) {
			t.Helper()
			if f := (*buffer.FencedError)(nil); !errors.As(err, &f) {
				t.Errorf("%s: error %v, want a FencedError", name, err)
			}
		}
		_, err := e.Ingest(t.Context(), "web", rec())
		fenced("the first to know", err)
		for name, bring := range intake(e) {
			fenced(name, bring(t.Context()))
		}
		for name, bring := range intake(e.WaitForRoom()) {
			fenced("waiting, "+name, bring(t.Context()))
		}
		fenced("Ready", e.Ready())
		fenced("Define", e.Define(t.Context(), events(func(s *forebay.Source) { s.ID = "other" })))
		fenced("FlushAll", e.FlushAll(t.Context()))
		_, err = e.Snapshot(t.Context(), "copy")
		fenced("Snapshot", err)
		time.Sleep(24 * time.Hour)
		if calls := mem.Calls(); slices.ContainsFunc(calls, func(c buffertest.Call) bool { return c.Op != buffertest.OpEnsure }) {
			t.Errorf("the fenced engine has moved rows: %v", calls)
		}
		fenced("Close", e.Close())
	})
}

// An engine that was lost with rows on their way, on each level, and with sinks that were removed, is restored from a snapshot and
// the batches after it. Without definitions it brings all rows to their tables, once, and leaves nothing in staging, so it is drained.
func TestDrainRestoredEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), &memoryLog{}
		var away atomic.Bool
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if away.Load() && (c.Op == buffertest.OpImport || c.Op == buffertest.OpDelete) {
				return driver.Permanent(errors.New("the table is locked"))
			}
			return nil
		}
		opts := replicatedOptions(mem, log)
		e := mustOpen(t, opts)
		const rows = 100
		sent := 0
		send := func(sources ...string) {
			t.Helper()
			for range rows {
				for _, source := range sources {
					mustIngest(t, e, source, mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"Ada"}}`, sent)))
				}
				sent++
			}
		}
		for _, source := range []string{"web", "removed"} {
			mustDefine(t, e, events(func(s *forebay.Source) {
				s.ID = source
				for i := range s.Sinks {
					s.Sinks[i].Table.ID = "in." + source + "." + s.Sinks[i].ID
				}
				s.Settings.Upload, s.Settings.Import = trigger.Conditions{Count: 30}, trigger.Conditions{Count: 75}
			}))
		}
		send("web", "removed") // some of them are imported
		time.Sleep(time.Second)
		away.Store(true)
		send("web", "removed")
		must(t, e.Remove(t.Context(), "removed"))
		if _, err := e.Snapshot(t.Context(), "copy"); err != nil {
			t.Fatal(err)
		}
		send("web") // some are in staging, some local
		time.Sleep(time.Hour)

		must(t, forebay.Restore("restored", "copy", log.behind(0), opts.Buffer))
		opts.Changelog = &logOwner{log}
		r, err := forebay.Open("restored", opts)
		must(t, err)
		held := (*buffer.HeldError)(nil)
		if err := r.FlushAll(t.Context()); !errors.As(err, &held) {
			t.Errorf("while the tables are locked: %v", err)
		}
		away.Store(false)
		must(t, r.FlushAll(t.Context()))
		synctest.Wait()
		for _, s := range r.Stats().Sinks {
			if len(s.Slices) > 0 {
				t.Errorf("sink %s has slices: %v", s.ID, s.Slices)
			}
		}
		if objects := mem.Objects(); len(objects) > 0 {
			t.Errorf("objects are left in staging: %v", objects)
		}
		for table, want := range map[string]int{"in.web.users": 3 * rows, "in.removed.users": 2 * rows} {
			got := map[string]int{}
			for _, row := range mem.Rows(table) {
				got[row[0]]++
			}
			for i := range want {
				if n := got[strconv.Itoa(i)]; n != 1 {
					t.Errorf("%s: row %d is there %d times, want 1", table, i, n)
				}
			}
			if len(got) != want || len(mem.Rows(table[:len(table)-len("users")]+"raw")) != want {
				t.Errorf("%s has %d rows, want %d", table, len(got), want)
			}
		}
		if report, err := r.Verify(t.Context()); err != nil || !report.OK() {
			t.Errorf("verify: %+v %v", report, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_, err = e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"Ada"}}`)))
		if fenced := (*buffer.FencedError)(nil); !errors.As(err, &fenced) || !errors.As(e.Close(), &fenced) {
			t.Errorf("the engine before: %v", err)
		}
	})
}
