package changelogtest

import (
	"errors"

	"github.com/forebay/forebay/cluster/changelog"
)

// A refused owner must not disturb the winning owner.
func refusedOwners(b *logBench) {
	b.create()
	o := owner{3, "node-1"}
	w := b.open(o)
	records := o.batches(1, 4)
	p := b.append(w, records[:2]...)
	for _, late := range []owner{{3, "node-2"}, {2, "node-1"}, {1, "node-2"}} {
		if _, err := b.other.Open(b.ctx, b.instance, late.marker()); !errors.Is(err, changelog.ErrFenced) {
			b.t.Fatalf("Open with epoch %d of %s = %v when the stream holds epoch %d of %s, want changelog.ErrFenced: an epoch belongs to the node of its "+
				"first record of the kind Opened, and a higher one to whoever raised it", late.epoch, late.node, err, o.epoch, o.node)
		}
	}
	tickets := []changelog.Ticket{w.Append(records[2]), w.Append(records[3])}
	for _, t := range tickets {
		if _, err := t.Wait(b.ctx); err != nil {
			b.t.Fatalf("Wait after an Open of others was refused = %v, want a position: look for higher epochs before you append the marker", err)
		}
	}
	b.expectRead(p[0], records...)
}

// fencePipeline lets one owner after the other open the stream while the one before appends as fast as it can. One opens it
// twice with the same epoch. Its first writer's records are not void by their epoch, and so none may follow the second marker.
func fencePipeline(b *logBench) {
	b.create()
	var old *pipeline
	number := uint64(0)
	for _, o := range []owner{first, {2, "node-2"}, {2, "node-2"}, {3, "node-1"}, {4, "node-2"}} {
		w := b.open(o)
		if old != nil {
			number = old.judge(o, w)
		}
		old = b.pipeline(o, w, number)
		defer old.stop()
	}
}

// enough is how many records a pipeline appends before the next owner has opened.
const enough = 2000

// pipeline appends as fast as its writer lets it.
type pipeline struct {
	b       *logBench
	owner   owner
	writer  changelog.Writer
	number  uint64 // of the last batch before
	records []changelog.Record
	tickets []changelog.Ticket
	opened  chan struct{} // closed when the next owner has opened
	done    chan struct{} // closed when it has appended a few more, which all fail if they are refused as they must be
}

// pipeline returns one at full speed.
func (b *logBench) pipeline(o owner, w changelog.Writer, number uint64) *pipeline {
	p := &pipeline{b: b, owner: o, writer: w, number: number, opened: make(chan struct{}), done: make(chan struct{})}
	running := make(chan struct{})
	go p.run(running)
	<-running
	return p
}

func (p *pipeline) run(running chan struct{}) {
	defer close(p.done)
	left := -1
	for i := 0; left != 0; i++ {
		if i == enough {
			<-p.opened
		}
		select {
		case <-p.opened:
			if left < 0 {
				left = 4 * changelog.Window
			}
			left--
		default:
		}
		r := p.owner.batches(p.number+uint64(i)+1, 1)[0]
		p.records = append(p.records, r)
		p.tickets = append(p.tickets, p.writer.Append(r))
		if i == 4*changelog.Window {
			close(running)
		}
	}
}

func (p *pipeline) stop() {
	select {
	case <-p.opened:
	default:
		close(p.opened)
	}
	select {
	case <-p.done:
	case <-p.b.ctx.Done():
		p.b.t.Fatalf("Append does not return though its writer is closed or refused: end all tickets then, and Append with a ticket that fails")
	}
}

const gapAdvice = "leave a gap of changelog.Window positions in Open, so that everything that the writer before has under way expects a position " +
	"inside it, and is refused"

// judge reads what became of the records when the next owner has opened the stream. It returns the number of the last one that counts.
func (p *pipeline) judge(next owner, w changelog.Writer) uint64 {
	p.stop()
	b := p.b
	acknowledged := 0
	for i, t := range p.tickets {
		at, err := t.Wait(b.ctx)
		switch {
		case err == nil && at > w.Marker():
			b.t.Fatalf("a record was acknowledged at %d, behind the marker at %d of the owner who has opened the stream since: its adopter does not read it. "+
				"Let no append succeed unless it stands directly behind the one before, and never look for a new end", at, w.Marker())
		case err == nil && i > acknowledged:
			b.t.Fatalf("record %d of a pipeline was acknowledged, and record %d was not: after the first ticket that fails the writer is dead", i+1, acknowledged+1)
		case err == nil && at != p.writer.Marker()+changelog.Position(i)+1:
			b.t.Fatalf("record %d behind the marker at %d was acknowledged at %d", i+1, p.writer.Marker(), at)
		case err == nil:
			acknowledged++
		case !errors.Is(err, changelog.ErrFenced) && !errors.Is(err, changelog.ErrUnknown):
			b.t.Fatalf("Wait for a record after another owner has opened the stream = %v, want changelog.ErrFenced or changelog.ErrUnknown", err)
		}
	}
	if acknowledged < 3*changelog.Window {
		_, err := p.tickets[acknowledged].Wait(b.ctx)
		b.t.Fatalf("a writer got %d records in, and then %v, before another owner opened the stream: %s", acknowledged, err, gapAdvice)
	}
	counted := 0
	for _, e := range b.read(p.writer.Marker() + 1) {
		switch {
		case e.Kind == changelog.Opened:
		case e.Position < w.Marker() && counted == len(p.records):
			b.t.Fatalf("the log has more records in front of the marker at %d than the %d that were appended", w.Marker(), counted)
		case e.Position < w.Marker():
			b.expectRecord(e, p.records[counted])
			counted++
		case next.epoch == p.owner.epoch:
			b.t.Fatalf("a record of the writer before is at %d, behind the marker at %d of the same epoch: whoever reads takes it for one that counts: %s",
				e.Position, w.Marker(), gapAdvice)
		}
	}
	return p.number + uint64(counted)
}
