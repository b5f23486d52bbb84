package changelog

import (
	"context"
	"errors"
	"fmt"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// final reports whether opening the log again cannot help.
func final(err error) bool {
	return errors.Is(err, ErrFenced) || errors.Is(err, ErrWentBack) || errors.Is(err, ErrTrimmed)
}

// run appends until the appender ends, with one writer after the other.
func (a *Appender) run(ctx context.Context, w Writer) {
	defer close(a.done)
	pause := ctxio.Pause{First: a.opts.RetryMin, Last: a.opts.RetryMax}
	for {
		before := a.State().Released
		err := a.session(ctx, w)
		if a.State().Released != before {
			pause.Reset()
		}
		// Nothing was sent again inside of the session. A new epoch, and the log's records before its marker, decide.
		for w = nil; w == nil; {
			if final(err) {
				a.end(err)
				a.opts.Logger.Error("log closed for appends", "cause", err, "next", "read the cause; the node reopens automatically")
				return
			}
			if ctx.Err() == nil && a.setState(Suspect, err) {
				a.opts.Logger.Warn("log failed", "cause", err, "next", "check that a majority of the servers is running")
			}
			if pause.Wait(ctx) != nil {
				a.end(fmt.Errorf("the appender was closed: %w", ErrUnknown))
				return
			}
			if !errors.Is(err, ErrFull) || a.hasRoom(ctx) {
				w, err = a.open(ctx, nil)
			}
		}
		a.setState(Running, nil)
		a.opts.Logger.Info("log works again", "epoch", a.State().Epoch)
	}
}

// room is more than the fields of a record and the markers of a driver take.
const room = 16 << 10

// hasRoom reports whether the next batch may fit into a log that was full. To find out by opening it would fill it with markers.
func (a *Appender) hasRoom(ctx context.Context) bool {
	a.mu.Lock()
	need := int64(room)
	if all := a.queue.all(); len(all) > 0 {
		need = int64(all[0].bytes + room*len(all[0].parts))
	}
	a.mu.Unlock()
	stat, err := a.opts.Log.Stat(ctx, a.opts.Instance)
	return err != nil || stat.Bytes+need <= stat.MaxBytes // open gets that error too
}

// open opens the log under a new epoch and settles which batches it has. apply is nil when the appender has been open before.
func (a *Appender) open(ctx context.Context, apply func(context.Context, StoredBatch) error) (Writer, error) {
	epoch, err := a.opts.NextEpoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a new epoch: %w", err)
	}
	if !a.opts.Valid() {
		return nil, errLease
	}
	w, err := a.opts.Log.Open(ctx, a.opts.Instance, Record{Kind: Opened, Epoch: epoch, Node: a.opts.Node})
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	if err := withAnyLeader(ctx, a.opts.Log, a.opts.Instance, a.opts.Logger, func() error {
		return a.catchUp(ctx, w.Marker(), epoch, apply)
	}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	a.mu.Lock()
	a.state.Epoch, a.sent = epoch, 0
	a.mu.Unlock()
	return w, nil
}

// catchUp reads from the last batch that was released up to the marker. A batch that counts there counts permanently, so it is released at once.
// Missing batches are certain only at the marker. Everything before it stays, and records of older writers after it are void.
func (a *Appender) catchUp(ctx context.Context, marker Position, epoch uint64, apply func(context.Context, StoredBatch) error) error {
	at := a.State().Released
	if marker <= at.Position {
		return fmt.Errorf("%w: a new record has position %d, batch %d had %d", ErrWentBack, marker, at.Number, at.Position)
	}
	r := newReader(at)
	for e, err := range entriesBehind(ctx, a.opts.Log, a.opts.Instance, at, marker) {
		if err != nil {
			return err
		}
		b, complete, err := r.add(e)
		if err != nil {
			return err
		}
		if complete {
			if err := a.settle(ctx, b, apply); err != nil {
				return err
			}
		}
		if e.Position < marker {
			continue
		}
		if r.epoch != epoch || r.node != a.opts.Node {
			return fmt.Errorf("%w: epoch %d belongs to node %s", ErrFenced, r.epoch, r.node)
		}
		if r.at.Number < a.opts.Released {
			return fmt.Errorf("%w: it ends with batch %d, and batch %d was released", ErrWentBack, r.at.Number, a.opts.Released)
		}
		if a.Mark().Number <= a.opts.Store.Number {
			return fmt.Errorf("%w: it ends with batch %d, the store with batch %d", ErrAhead, r.at.Number, a.opts.Store.Number)
		}
		return nil
	}
	return fmt.Errorf("the log was read up to batch %d and not to its marker at position %d: %w", r.at.Number, marker, ErrUnknown)
}

// settle takes the next batch that the log has. A batch that waits for it is released, and one that the store lacks is applied.
func (a *Appender) settle(ctx context.Context, b StoredBatch, apply func(context.Context, StoredBatch) error) error {
	a.mu.Lock()
	var p *Pending
	if all := a.queue.all(); len(all) > 0 {
		p = all[0]
	}
	a.mu.Unlock()
	switch {
	case p != nil && p.chain() == b.Chain:
		return a.release(b.Point)
	case p != nil || apply == nil || b.Number+1 == a.opts.Store.Number && b.Chain != a.opts.Store.Before:
		return fmt.Errorf("%w: batch %d of node %s, epoch %d, is not the batch of this store", ErrFenced, b.Number, b.Node, b.Epoch)
	case b.Number <= a.opts.Store.Number:
		// The store has it, and Local does not yield it.
	default:
		if err := apply(ctx, b); err != nil {
			return fmt.Errorf("apply batch %d of the log: %w", b.Number, err)
		}
	}
	a.mu.Lock()
	a.last, a.chain, a.state.Released = b.Number, b.Chain, b.Point
	a.mu.Unlock()
	return nil
}

// flight is a part on its way.
type flight struct {
	ticket Ticket
	kind   Kind
	batch  Point // its position arrives with the response
	ends   bool  // the part is the last of its batch
}

// session appends the queued batches and releases them in order, until the first error. Nothing is released after an error, even
// where a later append succeeds, because the log may have stored it after the marker of another owner.
func (a *Appender) session(ctx context.Context, w Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, a.wake)()
	flights := make(chan flight, Window)
	go a.send(ctx, w, flights)
	err := a.collect(ctx, flights)
	cancel()
	if closed := w.Close(); closed != nil {
		a.opts.Logger.Debug("writer not closed", "cause", closed)
	}
	for range flights { // until send has ended
	}
	return err
}

// send hands the parts of the queue to the writer, and closes flights when ctx has ended.
func (a *Appender) send(ctx context.Context, w Writer, flights chan<- flight) {
	defer close(flights)
	epoch := a.State().Epoch
	for p := a.next(ctx); p != nil; p = a.next(ctx) {
		for _, r := range p.parts {
			r.Epoch, r.Node = epoch, a.opts.Node
			f := flight{w.Append(r), r.Kind, Point{Epoch: r.Epoch, Node: r.Node, Number: r.Number, Chain: r.Chain}, r.Part == r.Parts}
			select {
			case flights <- f:
			case <-ctx.Done():
				return
			}
		}
	}
}

// collect waits for one part after the other and releases the batches that they complete.
func (a *Appender) collect(ctx context.Context, flights <-chan flight) error {
	for f := range flights {
		position, err := f.ticket.Wait(ctx)
		if err != nil {
			what := "batch"
			if f.kind != Batch {
				what = fmt.Sprintf("a record of kind %c with batch", f.kind)
			}
			return fmt.Errorf("append %s %d: %w", what, f.batch.Number, err)
		}
		if f.ends {
			f.batch.Position = position
			if err := a.release(f.batch); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
