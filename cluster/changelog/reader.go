package changelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
)

// Point is the end of a batch that counts. Whoever has applied the batches up to it continues there. The zero Point is the start
// of a log. A log that was begun after a checkpoint starts with the next batch. Its start has the Number and Chain of the
// checkpoint, and nothing else.
type Point struct {
	// Position of the last part of the batch.
	Position Position
	// Epoch and Node wrote it.
	Epoch uint64
	Node  string
	// Number of the batch, and its chain.
	Number, Chain uint64
}

// StoredBatch is a batch that counts, with the place where it ends. The data is the receiver's.
type StoredBatch struct {
	Point
	Data []byte // of all parts together
}

// Batches yields in order the batches after a point that count, up to the end of the log when it was called. It skips void records
// and nothing else (see the package comment for the rule). It ends with [ErrWentBack] if the log no longer has the batch of
// the point, with a [*HoleError] where an entry does not fit, and with the errors of [Log.Read]. It ends with [ErrHole] only when all
// replicas of an [Elector] have the hole.
//
// The last batches may still become void if an older writer is not fenced. See [OpenAppender] for an end that is certain.
func Batches(ctx context.Context, log Log, instance string, after Point) iter.Seq2[StoredBatch, error] {
	return func(yield func(StoredBatch, error) bool) {
		at := after
		err := withAnyLeader(ctx, log, instance, slog.New(slog.DiscardHandler), func() error {
			r := newReader(at)
			for e, err := range entriesBehind(ctx, log, instance, at, 0) {
				if err != nil {
					return err
				}
				b, complete, err := r.add(e)
				if err != nil {
					return err
				}
				if complete {
					if !yield(b, nil) {
						return nil
					}
					at = b.Point
				}
			}
			return nil
		})
		if err != nil {
			yield(StoredBatch{}, err)
		}
	}
}

// reader applies the rule of reading to one entry after the other.
type reader struct {
	at    Point  // the last batch that counts
	epoch uint64 // the highest so far
	node  string // whose it is
	// The parts so far of the batch that follows, and the chain after them.
	parts [][]byte
	of    int
	chain uint64
}

func newReader(after Point) *reader {
	return &reader{at: after, epoch: after.Epoch, node: after.Node, chain: after.Chain}
}

// add takes the next entry. It returns a batch when the entry completes one.
func (r *reader) add(e Entry) (b StoredBatch, complete bool, err error) {
	hole := func(reason string, args ...any) error {
		return &HoleError{Position: e.Position, Number: r.at.Number + 1, Reason: fmt.Sprintf(reason, args...)}
	}
	if e.Epoch > r.epoch {
		if e.Kind != Opened {
			return b, false, hole("no marker opens its epoch %d", e.Epoch)
		}
		r.epoch, r.node = e.Epoch, e.Node
		r.dropParts()
	}
	if e.Epoch < r.epoch || e.Node != r.node {
		return b, false, nil // void: a fenced writer, or the second writer of its epoch
	}
	switch e.Kind {
	case Opened: // drivers may append it more than once
		return b, false, nil
	case Checkpoint, Closed:
		if e.Number > r.at.Number || e.Kind == Closed && e.Number < r.at.Number {
			return b, false, hole("a record of kind %c names batch %d", e.Kind, e.Number)
		}
		return b, false, nil
	case Batch:
	default:
		return b, false, hole("unknown kind %q", e.Kind)
	}
	if e.Part == 1 {
		r.dropParts()
		r.of = e.Parts
	}
	if e.Number != r.at.Number+1 || e.Part != len(r.parts)+1 || e.Part > e.Parts || e.Parts != r.of {
		return b, false, hole("batch %d, part %d of %d, after %d parts", e.Number, e.Part, e.Parts, len(r.parts))
	}
	if Chain(r.chain, e.Record) != e.Chain {
		return b, false, hole("the chain of batch %d, part %d of %d, does not fit", e.Number, e.Part, e.Parts)
	}
	r.chain = e.Chain
	r.parts = append(r.parts, e.Data)
	if e.Part < e.Parts {
		return b, false, nil
	}
	b = StoredBatch{Point: Point{e.Position, e.Epoch, e.Node, e.Number, e.Chain}, Data: e.Data}
	if len(r.parts) > 1 {
		b.Data = slices.Concat(r.parts...)
	}
	r.at = b.Point
	r.dropParts()
	return b, true, nil
}

// dropParts makes an incomplete batch void.
func (r *reader) dropParts() {
	clear(r.parts)
	r.parts, r.chain = r.parts[:0], r.at.Chain
}

// entriesBehind yields the entries after a point. It reads the entry of the point as well, to see that the log still has it. A log
// that was trimmed up to there cannot show it, and the next batch must then fit its chain. The log is known to reach end. If end is
// after the point, a read that stops before the point proves nothing.
func entriesBehind(ctx context.Context, log Log, instance string, p Point, end Position) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		found, trimmed := p.Position == 0, false
		for e, err := range log.Read(ctx, instance, max(p.Position, 1)) {
			if !found && errors.Is(err, ErrTrimmed) {
				trimmed = true
				break
			}
			if !found && err == nil {
				at := Point{e.Position, e.Epoch, e.Node, e.Number, e.Chain}
				if at != p || e.Kind != Batch || e.Part != e.Parts {
					yield(Entry{}, fmt.Errorf("%w: position %d does not hold batch %d as it was", ErrWentBack, p.Position, p.Number))
					return
				}
				found = true
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		switch {
		case trimmed:
			for e, err := range log.Read(ctx, instance, p.Position+1) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		case !found && end <= p.Position:
			yield(Entry{}, fmt.Errorf("%w: it ends before position %d with batch %d", ErrWentBack, p.Position, p.Number))
		}
	}
}
