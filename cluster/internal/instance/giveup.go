package instance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/changelog"
)

// isUnreadable reports whether an error says that something of log or checkpoint cannot be read, for all that can be known now.
func isUnreadable(err error) bool { return isDamage(err) || errors.Is(err, changelog.ErrUnasked) }

// giveUp goes on without what cannot be read, after an operator has decided that nothing brings it back. It is [Instance.beginLog] for an
// adopter: what can be read up to the damage becomes the checkpoint in front of a log of the next generation, and the record gets both in
// one step. So nothing is given up twice, and whoever adopts the instance in between begins again with everything that is there.
//
// It gives up nothing until what can be read has been the same for a lease: servers that have just come back may not know their streams yet,
// and another replica may lead. If more or less can be read after that, it returns cause, and the next attempt begins with all that is there.
func (d *drainage) giveUp(ctx context.Context, cause error) error {
	i := &Instance{opts: d.opts, keeper: d.k, folder: &folder{disk: d.disk(), dir: d.dir}}
	before, _, err := d.readAgain(ctx, i)
	if err != nil {
		return err
	}
	select {
	case <-time.After(d.opts.Lease):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	number, whole, err := d.readAgain(ctx, i)
	switch {
	case err != nil:
		return err
	case number != before:
		return cause
	}
	owner := d.k.Owner()
	lost := max(owner.Released, number) - number
	also := func(o *changelog.Owner) {
		o.GivenUp, o.Lost, o.Released = false, owner.Lost+lost, min(o.Released, number)
	}
	if owner.Log, err = i.createLog(ctx, &owner); err != nil {
		return err
	}
	d.log.Error("the instance is given up: what cannot be read is lost, and the rest goes on with a new log", "batch", number,
		"lost_batches_at_least", lost, "generation", owner.Generation, "error", cause)
	if number > 0 {
		return i.nameLog(ctx, owner, number, cause, whole, also)
	}
	return d.k.Update(ctx, func(o *changelog.Owner) {
		o.Generation, o.Start, o.Log, o.Checkpoint, o.CheckpointPosition = owner.Generation, 0, owner.Log, "", 0
		also(o)
	})
}

// readAgain is restoreReadable into an empty folder.
func (d *drainage) readAgain(ctx context.Context, i *Instance) (number uint64, whole bool, err error) {
	if err := d.disk().RemoveAll(d.dir); err != nil {
		return 0, false, err
	}
	if number, whole, err = i.restoreReadable(ctx); err != nil {
		return 0, false, fmt.Errorf("restore what can be read of instance %s: %w", d.k.Instance(), err)
	}
	return number, whole, nil
}

// restoreReadable is [restore] up to what cannot be read. It returns the number of the last batch that the folder has; without one
// there is no folder. whole: the checkpoint cannot be read.
func (i *Instance) restoreReadable(ctx context.Context) (number uint64, whole bool, err error) {
	name, owner, disk := i.keeper.Instance(), i.keeper.Owner(), i.folder.disk
	dir, from := i.folder.data(name), ""
	var at buffer.LogPosition
	if owner.Checkpoint != "" {
		from = dir + ".checkpoint"
		defer func() { err = errors.Join(err, disk.RemoveAll(dir+".checkpoint")) }()
		switch at, i.counts, err = fetch(ctx, from, name, owner, i.opts); {
		case isDamage(err):
			i.opts.Logger.Error("the checkpoint of the instance that is given up cannot be read", "instance", name, "error", err)
			whole, from, at, i.counts = true, "", buffer.LogPosition{}, false
		case err != nil:
			return 0, false, err
		}
	}
	log := newLog(i.opts.Log, i.keeper, i.opts.Node, i.opts.Logger)
	defer log.close()
	batches := log.readable(ctx, at, &number)
	if from == "" { // without a batch there is nothing to make
		next, stop := iter.Pull2(batches)
		defer stop()
		first, err, some := next()
		if !some || err != nil {
			return 0, whole, err
		}
		batches = func(yield func(buffer.LogBatch, error) bool) {
			for b, err, more := first, error(nil), true; more && yield(b, err); b, err, more = next() {
			}
		}
	}
	number = max(number, at.Number)
	err = forebay.RestoreIncomplete(dir, from, batches, i.opts.Engine.Buffer)
	return number, whole, err
}

// readable is [batchLog.Begin] up to what cannot be read, and notes the last number that it yields.
func (l *batchLog) readable(ctx context.Context, at buffer.LogPosition, number *uint64) iter.Seq2[buffer.LogBatch, error] {
	return func(yield func(buffer.LogBatch, error) bool) {
		stat, err := l.log.Stat(ctx, l.name())
		switch {
		case isDamage(err), err == nil && l.owner.Log != "" && stat.ID != l.owner.Log:
			return // it is not the log of this instance
		case err != nil:
			yield(buffer.LogBatch{}, err)
			return
		}
		for b, err := range l.Begin(ctx, at) {
			if isUnreadable(err) {
				return
			}
			if err == nil {
				*number = max(*number, b.Number)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}
