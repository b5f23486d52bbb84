package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// TestEveryOperationFailsOnce plays one short story again and again, with an error at the first, second, third …
// operation of the file system, until the story passes untouched. Whatever fails, the error surfaces or is absorbed,
// acknowledged rows are there afterwards, and the process continues. [casetest.Step] says which operations fail.
func TestEveryOperationFailsOnce(t *testing.T) {
	for _, kind := range []struct {
		name    string
		matches func(opKind) bool
		err     error
		// tear leaves half of a failing write on the disk.
		tear bool
		// cut ends each process by a cut of power, after which the disk has only synced data.
		cut bool
	}{
		{"changes", opKind.changes, errIO, false, false},
		{"torn changes", opKind.changes, errFull, true, false},
		{"changes, then a power cut", opKind.changes, errIO, false, true},
		{"reads", func(k opKind) bool { return k == opRead }, errIO, false, false},
	} {
		t.Run(kind.name, func(t *testing.T) {
			surfaced, absorbed := 0, 0
			for n := 0; ; n += casetest.Step() {
				var out outcome
				synctest.Test(t, func(t *testing.T) {
					out = failNth(t, n, kind.matches, fault{err: kind.err, half: kind.tear}, kind.cut)
				})
				if t.Failed() {
					t.Fatalf("with an error at operation %d", n)
				}
				if !out.injected {
					t.Logf("%d operations: %d errors surfaced, %d were absorbed", n, surfaced, absorbed)
					if n < 20 {
						t.Errorf("the story has only %d operations", n)
					}
					return
				}
				if out.surfaced {
					surfaced++
				} else {
					absorbed++
				}
			}
		})
	}
}

type outcome struct{ injected, surfaced bool }

// failNth plays the story with an error at the n-th matching operation.
func failNth(t *testing.T, n int, matches func(opKind) bool, inject fault, cut bool) (out outcome) {
	var count atomic.Int64
	nth := func(_ int, kind opKind, _ string) fault {
		if matches(kind) && count.Add(1) == int64(n)+1 {
			return inject
		}
		return fault{}
	}
	o := newOutside(1, newSummary())
	log := &problems{}
	opts := buffer.Options{Logger: slog.New(log), Tuning: buffer.Tuning{MemTableBytes: 1 << 20, Retry: buffer.Retry{Jitter: -1}}}
	var d *disk
	var g *generation
	start := func(on *disk) {
		d, g = on, &generation{ctx: t.Context()}
		d.setFault(nth)
		opts = localdisk.On(opts, d)
		opts.Staging, opts.Target = &drivers{o, g}, &drivers{o, g}
	}
	start(newDisk(vfsCrashable()))
	conf := buffer.SinkConfig{
		ID: "a", Table: driver.Table{ID: "in.c-sim.a", Columns: datatype.UntypedColumns("id", "value")}, Encoding: driver.Gzip,
		Upload: trigger.Conditions{Count: 40},
	}
	var acked, given []string
	errs := 0
	note := func(err error) bool {
		if err != nil {
			errs++
		}
		return err == nil
	}
	// again repeats a call until the disk is well again, as a client does.
	again := func(what string, call func() error) {
		for attempt := 0; ; attempt++ {
			if note(call()) {
				return
			}
			if attempt == 10 {
				t.Fatalf("%s: fails again and again", what)
			}
			time.Sleep(10 * time.Second)
		}
	}
	for session := range 2 {
		var b *buffer.Buffer
		again("open", func() (err error) { b, err = buffer.Open("data", opts); return err })
		for part := range 3 {
			var s *buffer.DefinedSink
			again("define", func() (err error) { s, err = b.Define(t.Context(), conf); return err })
			for i := range 15 {
				id := fmt.Sprintf("%d.%d.%02d", session, part, i)
				again("append", func() error {
					id += "x" // the outcome of an attempt that failed is unknown, so the same row is never used again
					given = append(given, id)
					data := fmt.Appendf(nil, "\"%s\",\"%s\"\n", id, strings.Repeat("v", 3000*(i%3)))
					ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: data, Count: 1})
					if err != nil {
						return err
					}
					if err := ticket.Wait(t.Context()); err != nil {
						return err
					}
					acked = append(acked, id)
					return nil
				})
			}
			if part == 1 {
				again("flush", func() error { return b.Sink("a").Flush(t.Context()) })
			}
		}
		if !cut {
			note(b.Close())
			continue
		}
		o.mu.Lock()
		g.dead.Store(true)
		found := d.crashed(0, nil)
		o.mu.Unlock()
		d.heal()
		_ = b.Close() // of the process that is dead. It frees the goroutines
		start(found)
	}
	out.injected = count.Load() > int64(n)
	out.surfaced = errs > 0 || log.n.Load() > 0
	d.heal()

	b, err := buffer.Open("data", opts)
	if err != nil {
		t.Fatalf("open on the healthy disk: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := b.Sink("a").Flush(ctx); err != nil {
		t.Errorf("flush on the healthy disk: %v", err)
	}
	synctest.Wait()
	if report, err := b.Verify(ctx); err != nil || !report.OK() {
		t.Errorf("verify: %v %+v", err, report)
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	seen := map[string]int{}
	for _, f := range o.files {
		for _, row := range f.rows {
			seen[row[0]]++
		}
	}
	for _, id := range acked {
		if seen[id] != 1 {
			t.Errorf("row %s was acknowledged and is %d times in the table", id, seen[id])
		}
	}
	for _, id := range given {
		if seen[id] > 1 {
			t.Errorf("row %s is %d times in the table", id, seen[id])
		}
	}
	for _, breach := range o.breach {
		t.Error(breach)
	}
	return out
}

// problems counts the messages logged at Warn and above.
type problems struct{ n atomic.Int64 }

func (p *problems) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (p *problems) Handle(context.Context, slog.Record) error    { p.n.Add(1); return nil }
func (p *problems) WithAttrs([]slog.Attr) slog.Handler           { return p }
func (p *problems) WithGroup(string) slog.Handler                { return p }

// Callers can recognise a full disk by their errors.
func TestFullDiskSurfacesAndPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(vfsCrashable())
		o := newOutside(1, newSummary())
		g := &generation{ctx: t.Context()}
		b, err := buffer.Open("data", localdisk.On(buffer.Options{
			Staging: &drivers{o, g}, Target: &drivers{o, g}, Tuning: buffer.Tuning{MemTableBytes: 1 << 20, Retry: buffer.Retry{Jitter: -1}},
		}, d))
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Define(t.Context(), buffer.SinkConfig{ID: "a", Table: driver.Table{ID: "t", Columns: datatype.UntypedColumns("id")}})
		if err != nil {
			t.Fatal(err)
		}
		put := func(id string) error {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: []byte(id + "\n"), Count: 1})
			if err != nil {
				return err
			}
			return ticket.Wait(t.Context())
		}
		if err := put("before"); err != nil {
			t.Fatal(err)
		}
		d.setFault(func(_ int, kind opKind, _ string) fault {
			if kind == opWrite || kind == opCreate {
				return fault{err: errFull}
			}
			return fault{}
		})
		for range 3 {
			var failed *buffer.FailedError
			if err := put("lost"); !errors.As(err, &failed) || !errors.Is(err, errFull) {
				t.Fatalf("append on a full disk: %v, want a FailedError that wraps %v", err, errFull)
			}
			time.Sleep(time.Minute)
		}
		d.heal()
		time.Sleep(5 * time.Minute) // the longest delay of the reopening
		synctest.Wait()
		if err := put("after"); err != nil {
			t.Fatalf("append after the disk has room again: %v", err)
		}
		if err := b.Sink("a").Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, id := range sortedKeys(o.files) {
			for _, row := range o.files[id].rows {
				ids = append(ids, row[0])
			}
		}
		if got := strings.Join(ids, " "); got != "before after" {
			t.Fatalf("the table has %q", got)
		}
	})
}
