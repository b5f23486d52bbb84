package changelogtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/suitetest"
)

// patience ends the waits of a check, so that a driver that hangs fails with a sentence. It demands no speed.
const patience = 2 * time.Minute

// LogHarness is what [TestLog] needs to know about a driver.
type LogHarness struct {
	// Open connects to the log as one node does. Each check calls it twice, for two nodes, and creates its own streams, so that one cluster can
	// serve all. Connect to another server each time if there are several. Open registers cleanup with t.Cleanup.
	Open func(t *testing.T) changelog.Log
	// MaxBytes is the bound of a stream that the log makes, at least 16 MB. Two checks append as much or more; 0 leaves them out.
	MaxBytes int64
}

// TestLog checks a driver against the contract of [changelog.Log]. Each check is a subtest. One of them counts goroutines, so that no
// test should run in parallel.
func TestLog(t *testing.T, h LogHarness) {
	t.Helper()
	for _, c := range logChecks {
		t.Run(c.name, func(t *testing.T) { c.play(t, [2]changelog.Log{h.Open(t), h.Open(t)}, h.MaxBytes) })
	}
}

type logCheck struct {
	name string
	run  func(b *logBench)
}

var logChecks = []logCheck{
	{"CreateTwice", createTwice},
	{"MissingStream", missingStream},
	{"EmptyStream", emptyStream},
	{"Marker", markerIsTheEnd},
	{"TicketsInOrder", ticketsInOrder},
	{"Window", windowBlocks},
	{"EndedContexts", endedContexts},
	{"FencePipeline", fencePipeline},
	{"RefusedOwners", refusedOwners},
	{"FullStream", fullStream},
	{"TrimInTime", trimInTime},
	{"Trim", trimThenRead},
	{"ReadFromMiddle", readFromMiddle},
	{"ReadWhileAppending", readWhileAppending},
	{"Records", recordsReturn},
	{"Stat", statFollows},
	{"TwoStreams", twoStreams},
	{"Leaders", leadersFollow},
	{"Delete", deleteThenCreate},
	{"Close", closeWriter},
	{"Goroutines", logGoroutines},
}

// logBench is what one check works with.
type logBench struct {
	t        suitetest.T
	log      changelog.Log // of node-1
	other    changelog.Log // of node-2
	ctx      context.Context
	instance string
	maxBytes int64
	writers  []changelog.Writer
}

// play runs a check on a stream that does not exist before and after.
func (c logCheck) play(t suitetest.T, logs [2]changelog.Log, maxBytes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := &logBench{t: t, log: logs[0], other: logs[1], ctx: ctx, instance: newName(), maxBytes: maxBytes}
	defer func() {
		for _, w := range b.writers {
			_ = w.Close()
		}
		_ = b.log.Delete(ctx, b.instance)
	}()
	c.run(b)
}

func newName() string { return "suite-" + strings.ToLower(rand.Text()) }

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// eventually waits for a condition, and returns false if ctx ends first.
func eventually(ctx context.Context, condition func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// owner is who opens a stream.
type owner struct {
	epoch uint64
	node  string
}

func (o owner) marker() changelog.Record {
	return changelog.Record{Kind: changelog.Opened, Epoch: o.epoch, Node: o.node}
}

func (o owner) batch(number uint64, data string) changelog.Record {
	return changelog.Record{
		Kind: changelog.Batch, Epoch: o.epoch, Number: number, Part: 1, Parts: 1, Chain: number * 0x9e3779b97f4a7c15, Node: o.node, Data: []byte(data),
	}
}

// batches returns n batches from a number on.
func (o owner) batches(number uint64, n int) []changelog.Record {
	records := make([]changelog.Record, n)
	for i := range records {
		k := number + uint64(i)
		records[i] = o.batch(k, fmt.Sprintf("batch %d of epoch %d", k, o.epoch))
	}
	return records
}

var first = owner{1, "node-1"}

func (b *logBench) create() {
	b.t.Helper()
	if err := b.log.Create(b.ctx, b.instance); err != nil {
		b.t.Fatalf("Create = %v, want nil: does the cluster have as many servers as the stream has replicas?", err)
	}
}

// open opens the stream from the owner's node, whose server may not know yet that there is one.
func (b *logBench) open(o owner) (w changelog.Writer) {
	b.t.Helper()
	log := b.log
	if o.node == "node-2" {
		log = b.other
	}
	err := changelog.ErrUnknown
	for i := 0; i < 5 && errors.Is(err, changelog.ErrUnknown); i++ {
		w, err = log.Open(b.ctx, b.instance, o.marker())
	}
	if err != nil {
		b.t.Fatalf("Open with epoch %d of %s = %v, want nil: the stream holds no higher epoch, and none of another node", o.epoch, o.node, err)
	}
	b.writers = append(b.writers, w)
	return w
}

// created returns a writer of a new stream.
func (b *logBench) created() changelog.Writer {
	b.t.Helper()
	b.create()
	return b.open(first)
}

// append appends records one after the other and returns their positions.
func (b *logBench) append(w changelog.Writer, records ...changelog.Record) []changelog.Position {
	b.t.Helper()
	tickets := make([]changelog.Ticket, len(records))
	for i, r := range records {
		tickets[i] = w.Append(r)
	}
	positions := make([]changelog.Position, len(records))
	for i, t := range tickets {
		p, err := t.Wait(b.ctx)
		if err != nil {
			b.t.Fatalf("Wait for record %d of %d = %v, want its position: nothing is wrong with the cluster, and nobody else has opened the stream",
				i+1, len(records), err)
		}
		if i > 0 && p != positions[i-1]+1 {
			b.t.Fatalf("the position of record %d is %d, want %d: a ticket succeeds only if its record stands directly behind the one before",
				i+1, p, positions[i-1]+1)
		}
		positions[i] = p
	}
	return positions
}

// tryRead returns the entries from a position on.
func (b *logBench) tryRead(log changelog.Log, from changelog.Position) (entries []changelog.Entry, err error) {
	b.t.Helper()
	for e, err := range log.Read(b.ctx, b.instance, from) {
		if err != nil {
			return entries, err
		}
		if want := max(from, 1) + changelog.Position(len(entries)); e.Position != want {
			b.t.Fatalf("Read yields position %d where %d belongs: begin at the position that is asked for, compare all that follow, and end with "+
				"changelog.ErrHole if one is missing", e.Position, want)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// read returns the entries from a position on, as both nodes see them.
func (b *logBench) read(from changelog.Position) (entries []changelog.Entry) {
	b.t.Helper()
	for _, log := range []changelog.Log{b.log, b.other} {
		before := len(entries)
		var err error
		if entries, err = b.tryRead(log, from); err != nil {
			b.t.Fatalf("Read from %d = %v after %d entries, want all up to the committed end", from, err, len(entries))
		}
		if len(entries) < before {
			b.t.Fatalf("Read from %d yields %d entries to one node and then %d to the other: go up to the end that the leader knows", from, before, len(entries))
		}
	}
	return entries
}

// expectRead demands exactly these records from a position on.
func (b *logBench) expectRead(from changelog.Position, want ...changelog.Record) {
	b.t.Helper()
	got := b.read(from)
	if len(got) != len(want) {
		b.t.Fatalf("Read from %d yields %d entries, want %d: go up to the end that was committed when Read was called, as its leader knows it",
			from, len(got), len(want))
	}
	for i, e := range got {
		b.expectRecord(e, want[i])
	}
}

func (b *logBench) expectRecord(got changelog.Entry, want changelog.Record) {
	b.t.Helper()
	data := bytes.Equal(got.Data, want.Data)
	g, w := got.Record, want
	g.Data, w.Data = nil, nil
	if !data || !reflect.DeepEqual(g, w) {
		b.t.Fatalf("the entry at %d is %+v with %d bytes of data (the right ones: %v), want %+v with %d: keep all fields of a record, and its bytes as "+
			"they were when it was appended", got.Position, g, len(got.Data), data, w, len(want.Data))
	}
}

func (b *logBench) expectError(what string, err, want error, advice string) {
	b.t.Helper()
	if !errors.Is(err, want) {
		b.t.Errorf("%s = %v, want an error that matches %q: %s", what, err, want, advice)
	}
}

func (b *logBench) stat() changelog.Stat {
	b.t.Helper()
	s, err := b.log.Stat(b.ctx, b.instance)
	if err != nil {
		b.t.Fatalf("Stat = %v, want nil", err)
	}
	return s
}

// expectStat waits until Stat says where the stream begins and ends.
func (b *logBench) expectStat(first, last changelog.Position) (s changelog.Stat) {
	b.t.Helper()
	if !eventually(b.ctx, func() bool {
		s = b.stat()
		return s.First == first && s.Last == last
	}) {
		b.t.Fatalf("Stat says that the stream goes from %d to %d, want %d to %d, and it does not change: of an empty one First is Last + 1, "+
			"and trimming does not change Last", s.First, s.Last, first, last)
	}
	return s
}

func (b *logBench) trim(through changelog.Position) {
	b.t.Helper()
	if err := b.log.Trim(b.ctx, b.instance, through); err != nil {
		b.t.Fatalf("Trim up to %d = %v, want nil", through, err)
	}
}

func (b *logBench) expectTrimmed(from changelog.Position) {
	b.t.Helper()
	for e, err := range b.log.Read(b.ctx, b.instance, from) {
		if !errors.Is(err, changelog.ErrTrimmed) {
			b.t.Fatalf("Read of the trimmed position %d yields position %d, %v, want changelog.ErrTrimmed: compare it with the first one of the stream. "+
				"Whoever reads on from there would miss records", from, e.Position, err)
		}
		return
	}
	b.t.Fatalf("Read of the trimmed position %d yields nothing, want changelog.ErrTrimmed", from)
}
