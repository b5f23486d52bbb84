package changelog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// appended is the changelog of a node.
type appended struct {
	log      changelog.Log
	node     string
	epoch    uint64 // the newest
	appender *changelog.Appender
}

// fenced returns an error of package changelog as the buffer's.
func fenced(err error) error {
	if errors.Is(err, changelog.ErrFenced) {
		return fmt.Errorf("%w: %w", buffer.ErrFenced, err)
	}
	return err
}

func (a *appended) Begin(ctx context.Context, at buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	return func(yield func(buffer.LogBatch, error) bool) {
		a.close()
		var lacks []buffer.LogBatch
		opts := changelog.AppenderOptions{
			Log: a.log, Instance: "one", Node: a.node, Valid: func() bool { return true },
			Apply: func(_ context.Context, b changelog.StoredBatch) error {
				lacks = append(lacks, buffer.LogBatch{Number: b.Number, Data: b.Data})
				return nil
			},
			NextEpoch: func(context.Context) (uint64, error) {
				a.epoch++
				return a.epoch, nil
			},
		}
		var err error
		if at.Number > 0 {
			err = json.Unmarshal(at.Mark, &opts.Store)
		}
		if err == nil {
			a.appender, err = changelog.OpenAppender(ctx, opts)
		}
		if err != nil {
			yield(buffer.LogBatch{}, fenced(err))
			return
		}
		for _, b := range lacks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (a *appended) Mark() []byte {
	mark, _ := json.Marshal(a.appender.Mark()) // numbers cannot fail
	return mark
}

func (a *appended) Append(_ uint64, data []byte) func(context.Context) error {
	p := a.appender.Append(data)
	return func(ctx context.Context) error { return fenced(p.Wait(ctx)) }
}

func (a *appended) close() {
	if a.appender != nil {
		a.appender.Close()
	}
}

// filled is a buffer with one sink, on a disk in memory, whose rows have a number each.
type filled struct {
	*buffer.Buffer
	sink *buffer.DefinedSink
}

func openFilled(t *testing.T, opts buffer.Options) filled {
	t.Helper()
	b, err := buffer.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // after a failure, so that the bubble ends
	table := driver.Table{ID: "in.c-test.a", Columns: datatype.UntypedColumns("id")}
	sink, err := b.Define(t.Context(), buffer.SinkConfig{ID: "a", Table: table, Encoding: driver.Gzip})
	if err != nil {
		t.Fatal(err)
	}
	return filled{b, sink}
}

// put appends rows from, from+1, …, to-1, one a call, and waits for the last.
func (f filled) put(t *testing.T, from, to int) (err error) {
	t.Helper()
	for i := from; i < to && err == nil; i++ {
		var ticket buffer.Ticket
		ticket, err = f.Append(t.Context(), time.Now(), buffer.Rows{Sink: f.sink, Data: fmt.Appendf(nil, "\"%d\"\n", i), Count: 1})
		if err == nil && i == to-1 {
			err = ticket.Wait(t.Context())
		}
	}
	return err
}

// A buffer writes to an appender. Its leader changes while rows arrive, the process restarts, and then another node
// opens the log with an empty disk and has every row.
func TestBufferOnAnAppender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		put := func(f filled, from, to int) {
			t.Helper()
			if err := f.put(t, from, to); err != nil {
				t.Fatal(err)
			}
		}
		mem, log := buffertest.NewMemory(), changelogtest.NewLog(1, changelogtest.Faults{})
		if err := log.Create(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		onNewDisk := func(a *appended) buffer.Options {
			return localdisk.On(buffer.Options{Staging: mem, Target: mem, Tuning: buffer.Tuning{MemTableBytes: 1 << 20}, Changelog: a}, disktest.New(t))
		}
		first := &appended{log: log, node: "node-1"}
		defer first.close()
		opts := onNewDisk(first)
		b := openFilled(t, opts)
		put(b, 0, 10)
		log.Elect("one", 1)
		put(b, 10, 20)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = openFilled(t, opts)
		put(b, 20, 30)

		second := &appended{log: log, node: "node-2", epoch: first.epoch + 10}
		defer second.close()
		b2 := openFilled(t, onNewDisk(second))
		var stopped *buffer.FencedError
		if err := b.put(t, 30, 31); !errors.As(err, &stopped) {
			t.Errorf("a row for the earlier owner: got %v, want a FencedError", err)
		}
		put(b2, 30, 40)
		if err := b2.Sink("a").Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, row := range mem.Rows("in.c-test.a") {
			got[row[0]]++
		}
		for i := range 40 {
			if n := got[fmt.Sprint(i)]; n != 1 {
				t.Errorf("the table has row %d %d times, want once", i, n)
			}
		}
		if report, err := b2.Verify(t.Context()); err != nil || !report.OK() || len(got) != 40 {
			t.Errorf("got %d rows and the ledger %+v, %v, want 40 rows and a ledger that holds", len(got), report, err)
		}
		if err := b2.Close(); err != nil {
			t.Error(err)
		}
	})
}
