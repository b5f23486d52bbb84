package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
)

// isUnreadable reports whether an error says that something of log or checkpoint cannot be read, for all that can be known now.
func isUnreadable(err error) bool { return isDamage(err) || errors.Is(err, changelog.ErrUnasked) }

// giveUp continues without the unreadable data, after an operator has decided that nothing restores it. It is [Instance.beginLog] for an
// adopter. The data before the damage becomes the first checkpoint of a log of the next generation, and the record gets both in
// one step. So nothing is given up twice, and an adopter in between begins again with everything that is there.
//
// cause is what an engine could not read, or nil. Without a cause, and when everything can be read, nothing is given up, because a log with a hole is
// slow to read, since each of its replicas must lead, and an engine would read it once more just to find that.
//
// It gives up nothing until the readable part has been the same for a lease, because servers that have just come back may not know their streams yet,
// and another replica may lead. If more or less can be read after that, it returns the read error, and the next attempt begins with everything there.
func (d *drainage) giveUp(ctx context.Context, cause error) error {
	i := &Instance{opts: d.opts, keeper: d.k, folder: &folder{disk: d.disk(), dir: d.dir}}
	before, _, unread, err := d.readAgain(ctx, i)
	if err != nil {
		return err
	}
	if cause = cmp.Or(cause, unread); cause == nil {
		return nil
	}
	select {
	case <-time.After(d.opts.Lease):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	number, whole, again, err := d.readAgain(ctx, i)
	switch {
	case err != nil:
		return err
	case number != before, unread != nil && again == nil:
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
	d.log.Error("instance given up", "batch", number,
		"lost_batches_at_least", lost, "generation", owner.Generation, "cause", cause, "next", "resend the lost rows if you can")
	if number > 0 {
		return i.nameLog(ctx, owner, number, cause, whole, also)
	}
	return d.k.Update(ctx, func(o *changelog.Owner) {
		o.Generation, o.Start, o.Log, o.Checkpoint, o.CheckpointPosition = owner.Generation, 0, owner.Log, "", 0
		also(o)
	})
}

// readAgain is restoreReadable into an empty folder.
func (d *drainage) readAgain(ctx context.Context, i *Instance) (number uint64, whole bool, unread, err error) {
	if err := d.disk().RemoveAll(d.dir); err != nil {
		return 0, false, nil, err
	}
	if number, whole, unread, err = i.restoreReadable(ctx); err != nil {
		return 0, false, nil, fmt.Errorf("restore the readable part of instance %s: %w", d.k.Instance(), err)
	}
	if released := d.k.Owner().Released; unread == nil && number < released {
		unread = fmt.Errorf("%w: it ends with batch %d, and batch %d was acknowledged", changelog.ErrWentBack, number, released)
	}
	return number, whole, unread, nil
}

// restoreReadable is [restore] up to the first unreadable part, which unread describes. It returns the number of the last batch that the
// folder has. Without one there is no folder. whole says that the checkpoint cannot be read.
func (i *Instance) restoreReadable(ctx context.Context) (number uint64, whole bool, unread, err error) {
	name, owner, disk := i.keeper.Instance(), i.keeper.Owner(), i.folder.disk
	dir, from := i.folder.data(name), ""
	var at buffer.LogPosition
	if owner.Checkpoint != "" {
		from = dir + ".checkpoint"
		defer func() { err = errors.Join(err, disk.RemoveAll(dir+".checkpoint")) }()
		switch at, i.counts, err = fetch(ctx, from, name, owner, i.opts); {
		case isDamage(err):
			i.opts.Logger.Error("checkpoint of the given up instance not readable", "instance", name, "cause", err, "next", "check staging")
			whole, from, at, i.counts, unread = true, "", buffer.LogPosition{}, false, err
		case err != nil:
			return 0, false, nil, err
		}
	}
	log := newLog(i.opts.Log, i.keeper, i.opts.Node, i.opts.Logger)
	defer log.close()
	batches := log.readable(ctx, at, &number, &unread)
	if from == "" { // without a batch there is nothing to make
		next, stop := iter.Pull2(batches)
		defer stop()
		first, err, some := next()
		if !some || err != nil {
			return 0, whole, unread, err
		}
		batches = func(yield func(buffer.LogBatch, error) bool) {
			for b, err, more := first, error(nil), true; more && yield(b, err); b, err, more = next() {
			}
		}
	}
	number = max(number, at.Number)
	err = forebay.RestoreIncomplete(dir, from, batches, i.opts.Engine.Buffer)
	return number, whole, unread, err
}

// readable is [batchLog.Begin] up to the first unreadable part. It notes that part and the last number that it yields.
func (l *batchLog) readable(ctx context.Context, at buffer.LogPosition, number *uint64, unread *error) iter.Seq2[buffer.LogBatch, error] {
	return func(yield func(buffer.LogBatch, error) bool) {
		stat, err := l.log.Stat(ctx, l.name())
		switch {
		case err == nil && l.owner.Log != "" && stat.ID != l.owner.Log:
			*unread = &damageError{fmt.Errorf("the log is %s, and the instance had %s", stat.ID, l.owner.Log)}
			return
		case isDamage(err):
			*unread = err
			return
		case err != nil:
			yield(buffer.LogBatch{}, err)
			return
		}
		for b, err := range l.Begin(ctx, at) {
			if isUnreadable(err) {
				*unread = err
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
