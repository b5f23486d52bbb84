package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/internal/pebblestore"
)

// isLogLost reports whether an error says that a log is gone or lacks earlier entries, and not that another owner has continued it.
func isLogLost(err error) bool {
	return !errors.Is(err, changelog.ErrFenced) &&
		(errors.Is(err, changelog.ErrMissing) || errors.Is(err, changelog.ErrWentBack) || errors.Is(err, changelog.ErrHole))
}

// beginLog makes a log of the next generation, which begins after the last batch of the folder. Every acknowledged row is there, because it was
// acknowledged when it was on the disk and in the log, and only the log has lost it. The order of the steps keeps this so, whichever of
// them is the last one of this process:
//
//	new log     no record names it. The next process finds it empty and takes it
//	checkpoint  of the closed engine. The note of package checkpoint alone has it
//	record      has generation, log and checkpoint in one step. This fails for a fenced owner
//	old log     is deleted. It is no longer read
//
// Only the owner of the instance may do this, and only with a disk that has everything, because an adopter does not know which batches the log
// has lost. cause is the error of the log, and part of the error if the disk does not have everything either.
func (i *Instance) beginLog(ctx context.Context, have found, cause error) (err error) {
	owner := i.keeper.Owner()
	noted, err := i.folder.damage(i.keeper.Instance())
	switch {
	case err != nil || have.empty:
		return errors.Join(cause, err)
	case noted != nil:
		return fmt.Errorf("%w; its disk is damaged as well: %w", cause, noted)
	case have.unread != nil:
		return fmt.Errorf("%w; its disk cannot be read either: %w", cause, have.unread)
	case have.mark.Number < owner.Released:
		return fmt.Errorf("%w; its disk ends with batch %d, and batch %d was acknowledged", cause, have.mark.Number, owner.Released)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-i.keeper.Done():
			end(i.keeper.Err())
		case <-ctx.Done():
		}
	}()
	if err := i.keeper.Beat(ctx); err != nil { // an adopter that has drained the instance has deleted its log
		return err
	}
	defer func() {
		if errors.Is(i.keeper.Err(), changelog.ErrFenced) {
			withdrawLogs(i.keeper, i.opts)
		}
	}()
	owner.Generation = max(owner.Generation, have.mark.generation)
	if owner.Log, err = i.createLog(ctx, &owner); err != nil {
		return err
	}
	i.opts.Logger.Warn("log of the instance lost", "instance", i.keeper.Instance(),
		"generation", owner.Generation, "batch", have.mark.Number, "cause", cause, "next", "find out what deleted the stream or restored a server")
	return i.nameLog(ctx, owner, have.mark.Number, cause, false, nil)
}

// createLog creates the next log after the generation of owner, which it raises, and returns its ID.
func (i *Instance) createLog(ctx context.Context, owner *changelog.Owner) (id string, err error) {
	err = retry(ctx, i.opts, "a new log of the instance cannot be created", func() error {
		for { // one that has entries was used, and the record has lost that
			next := *owner
			next.Generation++
			name := next.LogName(i.keeper.Instance())
			if err := i.opts.Log.Create(ctx, name); err != nil {
				return err
			}
			stat, err := i.opts.Log.Stat(ctx, name)
			if err != nil {
				return err
			}
			owner.Generation, id = next.Generation, stat.ID
			if stat.First == 1 && stat.Last == 0 {
				return nil
			}
		}
	})
	return id, err
}

// nameLog stores a checkpoint of the folder, whose last batch has a number, and names it in the record together with the log of owner, in one
// step with what also changes. whole says that the checkpoint before is damaged, and no object of it is used again.
func (i *Instance) nameLog(ctx context.Context, owner changelog.Owner, number uint64, cause error, whole bool, also func(*changelog.Owner)) error {
	dir, name := i.folder.snapshot(), i.keeper.Instance()
	var ref string
	if err := retry(ctx, i.opts, "no checkpoint can be made for the new log of the instance", func() error {
		c := checkpointer{Instance: i, store: i.opts.checkpoints(), known: whole}
		if err := c.load(ctx); err != nil {
			return err
		}
		err := i.folder.copyTo(dir, name, i.opts)
		if err == nil {
			_, ref, err = c.store.Save(ctx, dir, checkpoint.Manifest{
				Instance: name, Epoch: owner.Epoch, Log: owner.Log, Number: number,
				Made: time.Now().UTC().Round(0), Unchecked: i.counts,
			}, c.last)
		}
		if pebblestore.IsDamage(err) {
			err = backoff.Permanent(fmt.Errorf("%w; its disk is damaged as well: %w", cause, err))
		}
		return err
	}); err != nil {
		return err
	}
	i.keeper.SetReleased(number)
	if err := i.keeper.Update(ctx, func(o *changelog.Owner) {
		o.Generation, o.Start, o.Log, o.Checkpoint, o.CheckpointPosition = owner.Generation, number, owner.Log, ref, 0
		if also != nil {
			also(o)
		}
	}); err != nil {
		return err
	}
	return i.folder.disk.RemoveAll(dir)
}

// withdrawLogs deletes the logs that a fenced owner may have created too late, when the logs of the drained instance had been deleted. As long
// as the instance is not drained, an owner after this one may use them, and they are deleted with it.
func withdrawLogs(k *changelog.Keeper, o Options) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Lease)
	defer cancel()
	fenced, forgotten := errors.AsType[*changelog.FencedError](k.Err())
	if forgotten = forgotten && fenced.Owner.Node == ""; forgotten {
		withdraw(k.Instance(), k.Owner(), o)
		return
	}
	owner, err := readOwner(ctx, o.Owners, k.Instance()) // may be an old one. Then the next start of a node deletes them
	if err == nil && (owner.State == changelog.Drained || owner.State == changelog.Retired) {
		err = deleteLogs(ctx, o.Log, k.Instance(), owner)
	}
	if err != nil && !errors.Is(err, ErrUnknown) {
		o.Logger.Warn("unused log left on the servers", "instance", k.Instance(), "cause", err, "next", "none; it is deleted when a node starts")
	}
}

// withdraw deletes the logs of an instance that is retired. If that fails, an unused log may stay on the servers.
func withdraw(instance string, owner changelog.Owner, o Options) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Lease)
	defer cancel()
	if err := deleteLogs(ctx, o.Log, instance, owner); err != nil {
		o.Logger.Warn("log of a retired instance left", "instance", instance, "cause", err, "next", "delete its stream on the servers")
	}
}

// renew recreates the folder if its last batch is the batch where the log begins. The ids that its engine gives from now on are
// new, because the disk may have lost the last ids, which cannot be known without the log, so no id is given twice.
func (i *Instance) renew(have found) error {
	name, owner := i.keeper.Instance(), i.keeper.Owner()
	if have.empty || have.unread != nil || have.mark.generation >= owner.Generation || have.mark.Number != owner.Start {
		return nil
	}
	if err := i.folder.copyTo(i.folder.restored(name), name, i.opts); err != nil {
		return err
	}
	return i.folder.replace(name)
}

// copyTo makes a copy of the closed engine of an instance in place of a folder. Tables are links.
func (f *folder) copyTo(dir, instance string, o Options) error {
	if err := f.disk.RemoveAll(dir); err != nil {
		return err
	}
	return forebay.Restore(dir, f.data(instance), func(func(buffer.LogBatch, error) bool) {}, o.Engine.Buffer)
}

// deleteLogBefore deletes the log of the generation before, which keeps room on the servers. What is left of it goes with the instance.
func (i *Instance) deleteLogBefore(ctx context.Context) {
	before := i.keeper.Owner()
	if before.Generation == 0 {
		return
	}
	before.Generation--
	if err := i.opts.Log.Delete(ctx, before.LogName(i.keeper.Instance())); err != nil && ctx.Err() == nil {
		i.opts.Logger.Warn("lost log of the instance not deleted", "instance", i.keeper.Instance(), "cause", err, "next", "none; it is deleted with the instance")
	}
}

// deleteLogs deletes all logs that a drained instance had. An owner that was fenced while it began a new log has left that one too. None of
// their names is used again.
func deleteLogs(ctx context.Context, log changelog.Log, instance string, o changelog.Owner) error {
	last := o.Generation + 1
	for o.Generation = 0; o.Generation <= last; o.Generation++ {
		if err := log.Delete(ctx, o.LogName(instance)); err != nil {
			return err
		}
	}
	return nil
}
