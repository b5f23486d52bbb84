package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
)

// errOwes says that a source was erased while records or files moved.
var errOwes = errors.New("a source was erased meanwhile")

// moveRest moves the rejected records of the adopted instance, the files that wait for their import and the positions of replays to the instance of this
// node. See the package comment. It returns true if the adopted instance has none left.
func (d *drainage) moveRest(ctx context.Context, e *forebay.Engine, adoption Adoption) (moved bool, err error) {
	if err := d.endArrivals(ctx, e, d.k.Instance(), nil); err != nil {
		return false, err
	}
	if n := len(e.Buffer().Moves().Arrivals()); n > 0 {
		return false, fmt.Errorf("records, files or positions of %d instances arrive in it, and it is not known yet whose they are", n)
	}
	own, to := d.own.engine.Buffer(), d.own.keeper.Instance()
	owner, name := d.k.Owner(), d.k.Instance()
	if owner.MovedTo != "" {
		return true, d.endMove(ctx, e, adoption)
	}
	if _, err := e.Buffer().Moves().BeginDeparture(ctx); err != nil {
		return false, errors.Join(err, e.Buffer().Moves().EndDeparture(ctx, false))
	}
	resumeRejects := adoption.PauseRejects()
	resume := func() error {
		resumeRejects()
		return e.Buffer().Moves().EndDeparture(ctx, false)
	}
	now := e.Stats()
	switch {
	case !staged(now): // the last replay has made rows, or an import has ended
		return false, resume()
	case settled(now) && rejected(now) == 0 && e.Buffer().Moves().Positions(buffer.RunPosition) == 0:
		return true, nil
	}
	by := buffer.Mover{Instance: name, Session: owner.Session, Epoch: owner.Epoch}
	n, err := own.Moves().ReceiveRejected(ctx, e.Buffer(), by)
	files := 0
	if err == nil {
		files, err = own.Moves().ReceiveFiles(ctx, e.Buffer(), by)
	}
	if err == nil && files != waiting(now) { // a replay has made rows since
		err = errMore
	}
	runs := 0
	if err == nil {
		runs, err = own.Moves().ReceivePositions(ctx, e.Buffer(), buffer.RunPosition, by)
	}
	if err == nil {
		var owes bool
		if owes, err = adoption.Owes(ctx); owes && err == nil {
			err = errOwes
		}
	}
	if err != nil {
		return false, errors.Join(err, own.Moves().EndArrival(ctx, name, false), resume())
	}
	if err := d.k.Update(ctx, func(o *changelog.Owner) { o.MovedTo = to }); err != nil {
		return false, err // it may have been written. The record decides, see endArrivals
	}
	d.log.Info("rest of the adopted instance moved", "records", n, "files", files, "runs", runs, "to", to)
	return true, d.endMove(ctx, e, adoption)
}

// errMore says that the instance has got another file while its files moved.
var errMore = errors.New("a file has closed meanwhile")

// waiting counts the files that wait for their import.
func waiting(s forebay.Stats) (files int) {
	for _, sink := range s.Sinks {
		for _, f := range sink.Files {
			if f.FinishedAt.IsZero() {
				files++
			}
		}
	}
	return files
}

// endMove lets the rejected records and files belong to the instance of this node, if that is where they have moved.
func (d *drainage) endMove(ctx context.Context, e *forebay.Engine, adoption Adoption) error {
	if d.k.Owner().MovedTo == d.own.keeper.Instance() {
		if err := d.own.engine.Buffer().Moves().EndArrival(ctx, d.k.Instance(), true); err != nil {
			return err
		}
		d.arrived = true
		d.forgetRuns(ctx)
	}
	adoption.RejectsMoved()
	return e.Buffer().Moves().EndDeparture(ctx, true)
}

// runsOfSink is how many replays a sink remembers. A commit of a replay writes the positions of all of them.
const runsOfSink = 16

// forgetRuns lets the sinks of this node's instance forget the replays that ended first, as a new replay does.
func (d *drainage) forgetRuns(ctx context.Context) {
	for _, s := range d.own.engine.Stats().Sinks {
		sink := d.own.engine.Sink(s.Source, s.Sink)
		runs, err := sink.Replays(ctx)
		more := len(runs) - runsOfSink
		runs = slices.DeleteFunc(runs, func(r forebay.ReplayProgress) bool { return !r.Done() })
		slices.SortFunc(runs, func(a, b forebay.ReplayProgress) int { return a.Ended.Compare(b.Ended) })
		for n := 0; n < min(more, len(runs)) && err == nil; n++ {
			err = sink.ForgetReplay(ctx, runs[n].Run)
		}
		if err != nil {
			d.log.Debug("old replays not forgotten", "sink", s.Sink, "cause", err) // the next adoption tries again
		}
	}
}

// endArrivals ends the moves to an instance that a crash interrupted, as the records of the other instances say. It skips undecided moves.
// retired are the retired instances, if they are known.
func (d *drainer) endArrivals(ctx context.Context, e *forebay.Engine, to string, retired map[string]changelog.Owner) error {
	pending := map[string]bool{}
	for _, a := range e.Buffer().Moves().Arrivals() {
		v, err := d.opts.Owners.Get(ctx, changelog.OwnerKey(a.Instance))
		if err != nil {
			return err
		}
		accept, decided, err := decideArrival(a, v, to)
		if err != nil {
			return err
		}
		if !decided {
			pending[a.Instance] = true
			continue
		}
		if err := e.Buffer().Moves().EndArrival(ctx, a.Instance, accept); err != nil {
			return err
		}
	}
	for name, o := range retired {
		if o.MovedTo != to || o.Arrived || pending[name] {
			continue
		}
		v, err := d.opts.Owners.Get(ctx, changelog.OwnerKey(name))
		if err != nil || v.Version == 0 || o.UnmarshalJSON(v.Value) != nil || o.State != changelog.Retired {
			continue // the next sweep looks again
		}
		o.Arrived = true
		value, err := o.MarshalJSON()
		if err == nil {
			_, err = d.opts.Owners.CompareAndSet(ctx, v.Key, v.Version, value)
		}
		if err != nil && !errors.Is(err, changelog.ErrLost) {
			return err
		}
	}
	return nil
}

// decideArrival says what becomes of records that arrive in an instance. v is the record of the instance that they come from, which may be older
// than the newest. Only facts that cannot change decide.
func decideArrival(a buffer.Arrival, v changelog.Versioned, to string) (accept, decided bool, err error) {
	if v.Version == 0 {
		return false, false, nil // the record stays as long as a node needs it
	}
	var o changelog.Owner
	if err := o.UnmarshalJSON(v.Value); err != nil {
		return false, false, fmt.Errorf("the record of instance %s: %w", a.Instance, err)
	}
	switch {
	case o.MovedTo == to:
		return true, true, nil
	case o.MovedTo != "", o.State == changelog.Drained, o.State == changelog.Retired:
		return false, true, nil
	}
	// Another process has the instance. The process that has copied the records can no longer write its record.
	return false, o.Session != a.Session && o.Epoch > a.Epoch, nil
}
