package changelogtest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/forebay/forebay/cluster/changelog"
)

func createTwice(b *logBench) {
	w := b.created()
	before := b.stat()
	records := first.batches(1, 3)
	b.append(w, records...)
	b.create()
	if after := b.stat(); after.ID != before.ID {
		b.t.Errorf("Create changed the ID of a stream that exists, from %q to %q: leave it alone", before.ID, after.ID)
	}
	b.expectRead(w.Marker()+1, records...)
}

// No caller may take a lost stream for a stream without records.
func missingStream(b *logBench) {
	const advice = "a stream that is not there was lost or never made. Do not make it, and do not take it for an empty one"
	entries, err := b.tryRead(b.log, 1)
	b.expectError("Read of a stream that does not exist", err, changelog.ErrMissing, advice)
	if len(entries) > 0 {
		b.t.Errorf("Read of a stream that does not exist yields %d entries", len(entries))
	}
	_, err = b.log.Open(b.ctx, b.instance, first.marker())
	b.expectError("Open of a stream that does not exist", err, changelog.ErrMissing, advice)
	_, err = b.log.Stat(b.ctx, b.instance)
	b.expectError("Stat of a stream that does not exist", err, changelog.ErrMissing, advice)
	if err := b.log.Delete(b.ctx, b.instance); err != nil {
		b.t.Errorf("Delete of a stream that does not exist = %v, want nil", err)
	}
}

func emptyStream(b *logBench) {
	b.create()
	b.expectRead(0)
	b.expectRead(1)
	if s := b.expectStat(1, 0); s.ID == "" || s.MaxBytes <= 0 {
		b.t.Errorf("Stat of a new stream = %+v, want an ID and MaxBytes", s)
	}
}

// Whoever opens a stream learns its certain end.
func markerIsTheEnd(b *logBench) {
	b.create()
	number, end := uint64(0), changelog.Position(0)
	for _, o := range []owner{first, {2, "node-2"}, {2, "node-2"}, {5, "node-1"}} {
		w := b.open(o)
		entries := b.read(end + 1)
		if n := len(entries); n == 0 || entries[n-1].Position != w.Marker() {
			b.t.Fatalf("after Open the stream ends at %d, and Marker is %d: return the position of the last record that Open has appended, when it "+
				"is committed", int(end)+n, w.Marker())
		}
		for _, e := range entries {
			b.expectRecord(e, o.marker())
		}
		positions := b.append(w, o.batches(number+1, 2)...)
		if positions[0] != w.Marker()+1 {
			b.t.Fatalf("the first record of a writer is at %d, want %d, directly behind its marker", positions[0], w.Marker()+1)
		}
		number, end = number+2, positions[1]
	}
}

func ticketsInOrder(b *logBench) {
	w := b.created()
	records := first.batches(1, 2*changelog.Window)
	for i, r := range records {
		p := b.append(w, r)[0]
		if want := w.Marker() + 1 + changelog.Position(i); p != want {
			b.t.Fatalf("record %d behind the marker at %d is at %d, want %d: store each record once", i+1, w.Marker(), p, want)
		}
		if len(b.read(p)) == 0 {
			b.t.Fatalf("the ticket of record %d has ended, and Read does not yield it: a ticket ends when a majority has stored the record, and Read "+
				"goes up to the end that the leader knows", i+1)
		}
	}
	b.expectRead(w.Marker()+1, records...)

	var tickets []changelog.Ticket
	more := first.batches(uint64(len(records))+1, 20*changelog.Window)
	for i, r := range more {
		tickets = append(tickets, w.Append(r))
		if i%changelog.Window != changelog.Window-1 {
			continue
		}
		if _, err := tickets[i].Wait(b.ctx); err != nil {
			b.t.Fatalf("Wait for record %d of a pipeline = %v, want its position", i+1, err)
		}
		for k, t := range tickets {
			if _, err := t.Wait(ended()); err != nil {
				b.t.Fatalf("Wait for record %d with a context that has ended = %v when the ticket of record %d has ended: end tickets in order, and give "+
					"the outcome of one that has ended whatever its context says", k+1, err, i+1)
			}
		}
	}
	b.expectRead(w.Marker()+1+changelog.Position(len(records)), more...)
}

// Append continues even if no caller waits for a ticket, and never has more than a window in flight.
func windowBlocks(b *logBench) {
	w := b.created()
	done := make(chan int, 1)
	go func() {
		var tickets []changelog.Ticket
		tooMany := 0
		for i, r := range first.batches(1, 10*changelog.Window) {
			tickets = append(tickets, w.Append(r))
			if i < changelog.Window {
				continue
			}
			if _, err := tickets[i-changelog.Window].Wait(ended()); errors.Is(err, context.Canceled) {
				tooMany++
			}
		}
		done <- tooMany
	}()
	select {
	case n := <-done:
		if n > 0 {
			b.t.Errorf("%d times Append returned with more than %d records under way: block until the oldest ticket has ended", n, changelog.Window)
		}
	case <-b.ctx.Done():
		b.t.Fatalf("Append blocks though nothing is wrong: tickets must end without anybody who waits for them")
	}
}

func endedContexts(b *logBench) {
	b.created()
	for what, call := range map[string]func(ctx context.Context) error{
		"Create": func(ctx context.Context) error { return b.log.Create(ctx, b.instance) },
		"Open": func(ctx context.Context) error {
			_, err := b.log.Open(ctx, b.instance, owner{2, "node-1"}.marker())
			return err
		},
		"Read": func(ctx context.Context) error {
			for _, err := range b.log.Read(ctx, b.instance, 1) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Trim": func(ctx context.Context) error { return b.log.Trim(ctx, b.instance, 1) },
		"Stat": func(ctx context.Context) error { _, err := b.log.Stat(ctx, b.instance); return err },
	} {
		b.expectError(what+" with a context that has ended", call(ended()), context.Canceled, "wrap the error of the context, and return at once")
	}
	w := b.open(owner{3, "node-1"})
	end := w.Marker()
	for _, r := range (owner{3, "node-1"}).batches(1, changelog.Window) {
		t := w.Append(r)
		_, _ = t.Wait(ended())
		p, err := t.Wait(b.ctx)
		if err != nil || p != end+1 {
			b.t.Fatalf("Wait after one whose context has ended = %d, %v, want %d: the end of a context ends the waiting, not the append", p, err, end+1)
		}
		end = p
	}
}

func readFromMiddle(b *logBench) {
	w := b.created()
	records := first.batches(1, 12)
	p := b.append(w, records...)
	for i := range p {
		b.expectRead(p[i], records[i:]...)
		for range b.log.Read(b.ctx, b.instance, p[i]) {
			break // the reader has enough
		}
	}
	b.expectRead(p[11] + 1)
}

// Each read has the records acknowledged before it began.
func readWhileAppending(b *logBench) {
	w := b.created()
	records := first.batches(1, 40*changelog.Window)
	var acknowledged atomic.Int64
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for _, log := range []changelog.Log{b.log, b.other, b.other} {
		readers.Go(func() {
			for {
				want := acknowledged.Load()
				got := int64(0)
				for e, err := range log.Read(b.ctx, b.instance, w.Marker()+1) {
					if err != nil || e.Number != uint64(got+1) {
						b.t.Errorf("Read beside appends yields batch %d (%v), want %d", e.Number, err, got+1)
						return
					}
					got++
				}
				if got < want {
					b.t.Errorf("Read yields %d records when %d had been acknowledged before it: read through the leader, up to its end", got, want)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var tickets []changelog.Ticket
	failed := error(nil)
	for i, r := range records {
		tickets = append(tickets, w.Append(r))
		if i >= changelog.Window/2 && failed == nil {
			_, failed = tickets[i-changelog.Window/2].Wait(b.ctx)
			if failed == nil {
				acknowledged.Add(1)
			}
		}
	}
	close(stop)
	readers.Wait()
	if failed != nil {
		b.t.Fatalf("Wait for a record while others read = %v, want its position", failed)
	}
}

// oddNode is a name that a driver may have to escape.
const oddNode = `host-1:4222/"a"=%41;~`

func recordsReturn(b *logBench) {
	b.create()
	w := b.open(owner{1, oddNode})
	part := make([]byte, changelog.PartBytes)
	for i := range part {
		part[i] = byte(i * 7)
	}
	records := []changelog.Record{
		{Kind: changelog.Batch, Epoch: 1, Number: 1, Part: 1, Parts: 3, Chain: ^uint64(0), Node: oddNode, Data: part},
		{Kind: changelog.Batch, Epoch: 1, Number: 1, Part: 2, Parts: 3, Node: oddNode, Data: []byte("\x00\r\n\xff")},
		{Kind: changelog.Batch, Epoch: 1, Number: 1, Part: 3, Parts: 3, Chain: 1, Node: oddNode, Data: part[:1]},
		{Kind: changelog.Checkpoint, Epoch: 1, Number: 1, Node: oddNode},
		{Kind: changelog.Batch, Epoch: 1, Number: 1<<63 + 1, Part: 1, Parts: 1, Chain: 2, Node: oddNode, Data: part},
		{Kind: changelog.Closed, Epoch: 1, Number: 1<<63 + 1, Node: oddNode},
	}
	p := b.append(w, records...)
	b.expectRead(p[0], records...)

	// The bytes are the caller's again when the ticket has ended.
	reused := []byte("the first batch")
	o := owner{1, oddNode}
	a, c := o.batch(2, "the first batch"), o.batch(3, "the other batch")
	for i, r := range []changelog.Record{a, c} {
		copy(reused, r.Data)
		r.Data = reused
		p[i] = b.append(w, r)[0]
	}
	clear(reused)
	b.expectRead(p[0], a, c)
}

func statFollows(b *logBench) {
	w := b.created()
	p := b.append(w, first.batch(1, strings.Repeat("x", 10_000)))
	if s := b.expectStat(1, p[0]); s.Bytes < 10_000 || s.Bytes > s.MaxBytes {
		b.t.Errorf("Stat says that 10,000 bytes of data take %d of %d bytes", s.Bytes, s.MaxBytes)
	}
}

func twoStreams(b *logBench) {
	one := b.created()
	records := first.batches(1, 5)
	b.append(one, records...)
	for _, name := range []string{b.instance + "-1", strings.ToUpper(b.instance)} {
		other := *b
		other.instance = name
		w := other.created()
		other.append(w, first.batches(1, 1)...)
		other.expectRead(w.Marker()+1, first.batches(1, 1)...)
		if other.stat().ID == b.stat().ID {
			b.t.Errorf("the streams of %q and %q have the same ID: draw one for each", b.instance, name)
		}
		if err := b.log.Delete(b.ctx, name); err != nil {
			b.t.Errorf("Delete = %v, want nil", err)
		}
	}
	b.expectRead(one.Marker()+1, records...)
}

// Of a driver that can make other replicas lead.
func leadersFollow(b *logBench) {
	elector, ok := b.log.(changelog.Elector)
	if !ok {
		b.t.Skipf("the log is no changelog.Elector")
	}
	var begin changelog.Position
	var records []changelog.Record
	leaders := func(ctx context.Context) (names []string, err error) {
		for name, err := range elector.Leaders(ctx, b.instance) {
			if err != nil {
				return names, err
			}
			if name == "" || slices.Contains(names, name) {
				b.t.Fatalf("Leaders yields %q after %q: name each of the other replicas, once", name, names)
			}
			names = append(names, name)
			b.expectRead(begin, records...)
		}
		return names, nil
	}
	_, err := leaders(b.ctx)
	b.expectError("Leaders of a stream that does not exist", err, changelog.ErrMissing, "nobody leads it")
	w := b.created()
	records = first.batches(1, 5)
	begin = b.append(w, records...)[0]
	_, err = leaders(ended())
	b.expectError("Leaders with a context that has ended", err, context.Canceled, "wrap the error of the context, and return at once")
	names, err := leaders(b.ctx)
	if err != nil {
		b.t.Fatalf("Leaders = %v after %q, want nil: nothing is wrong with the cluster", err, names)
	}
	for range elector.Leaders(b.ctx, b.instance) {
		break // it is found
	}
	again := owner{2, "node-2"}
	b.append(b.open(again), again.batches(6, 2)...)
}

func deleteThenCreate(b *logBench) {
	old := b.created()
	b.append(old, first.batches(1, 3)...)
	before := b.stat()
	for range 2 {
		if err := b.log.Delete(b.ctx, b.instance); err != nil {
			b.t.Fatalf("Delete = %v, want nil, also when there is no stream", err)
		}
	}
	_, err := b.tryRead(b.log, 1)
	b.expectError("Read after Delete", err, changelog.ErrMissing, "a stream that was deleted is not an empty one")

	b.create()
	b.expectRead(1)
	if after := b.stat(); after.ID == before.ID {
		b.t.Errorf("the stream that was made again has the ID %q of the one before: draw an ID for each stream, and keep it there", after.ID)
	}
	other := owner{2, "node-2"}
	w := b.open(other)
	records := other.batches(1, 3)
	p := b.append(w, records...)
	// The old writer expects the very position at which the new stream ends.
	if q, err := old.Append(first.batches(4, 1)[0]).Wait(b.ctx); err == nil {
		b.t.Errorf("a writer of the deleted stream has appended to the new one at %d: bind writers to the ID of their stream", q)
	}
	b.expectRead(p[0], records...)
}

// Close comes while another goroutine appends as fast as it can.
func closeWriter(b *logBench) {
	w := b.created()
	p := b.pipeline(first, w, 0)
	_ = w.Close()
	p.stop()
	_, err := w.Append(first.batch(1<<40, "")).Wait(b.ctx) // no duplicate
	b.expectError("Wait for a record that was appended after Close", err, changelog.ErrUnknown, "Close ends the writer and what is under way")
	_ = w.Close()
	next := owner{2, "node-1"}
	p.judge(next, b.open(next))
}

// rounds is how often a check of goroutines repeats calls that may leak one.
const rounds = 20

func logGoroutines(b *logBench) {
	b.create()
	number := uint64(0)
	round := func() {
		number++
		o := owner{number, "node-1"}
		w := b.open(o)
		p := b.append(w, o.batches(number, 1)...)
		for range b.log.Read(b.ctx, b.instance, 1) {
			break
		}
		ctx, cancel := context.WithCancel(b.ctx)
		for range b.log.Read(ctx, b.instance, p[0]) {
			cancel()
		}
		cancel()
		_ = w.Close()
	}
	round() // goroutines that the driver starts once
	before, n := runtime.NumGoroutine(), 0
	for range rounds {
		round()
	}
	if !eventually(b.ctx, func() bool {
		n = runtime.NumGoroutine()
		return n < before+rounds/2
	}) {
		b.t.Errorf("%d rounds of Open, Append, Read and Close left %d goroutines: end them in Close, and when a reader breaks off", rounds, n-before)
	}
}
