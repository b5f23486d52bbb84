package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/internal/pebblestore"
)

// checkpointer makes checkpoints of an instance and trims its log. One goroutine uses it.
type checkpointer struct {
	*Instance
	store *checkpoint.Store
	// last is the checkpoint that the record names, nil if it names none. Until known is set that was not looked up.
	last  *checkpoint.Manifest
	known bool
}

// run makes a checkpoint whenever one is due, until ctx ends.
func (c *checkpointer) run(ctx context.Context) {
	defer c.log.room.unbound()                       // no other code makes room
	_ = c.folder.disk.RemoveAll(c.folder.snapshot()) // of an earlier process, whose tables keep room that the local level gives back
	if err := c.tidy(ctx); err != nil && ctx.Err() == nil {
		c.opts.Logger.Warn("objects of an earlier owner left", "cause", err, "next", "none; the next checkpoint removes them")
	}
	for {
		select {
		case <-c.log.room.due:
		case <-ctx.Done():
			return
		}
		// All files of a snapshot are read for each attempt.
		_ = retryWithin(ctx, c.opts, 30*time.Second, "no checkpoint can be made, and the log grows", func() error {
			if due, err := c.due(ctx, false); err != nil || !due {
				return err
			}
			return c.make(ctx)
		})
	}
}

// tidy removes what earlier owners have left, once. An instance with little traffic makes no checkpoint for a long time.
func (c *checkpointer) tidy(ctx context.Context) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	return c.store.Tidy(ctx, c.keeper.Instance(), c.keeper.Owner().Epoch, c.last)
}

// due asks the log how much it has, and reports whether a checkpoint is due.
func (c *checkpointer) due(ctx context.Context, trimmed bool) (bool, error) {
	stat, err := c.opts.Log.Stat(ctx, c.log.name())
	if err != nil {
		return false, err
	}
	return c.log.room.correct(stat, c.log.waiting(), trimmed), nil
}

// make makes a checkpoint and trims the log. The order of the steps is what keeps rows safe, whichever of them is the last one of
// this process:
//
//	snapshot     has batch n
//	release of n an adopter must not find batches that callers may repeat
//	save         objects that only the note of package checkpoint lists yet
//	update       the record names the checkpoint. This fails for a fenced owner, which has trimmed nothing by then
//	note         a record of the log says so: no other owner had opened the log when the record was written
//	trim         up to the batch from which the log is read after the checkpoint
//	tidy         removes the previous checkpoint, and the objects of failed attempts
//
// After a failure all begins again, with another snapshot.
func (c *checkpointer) make(ctx context.Context) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	dir, began := c.folder.snapshot(), time.Now()
	made := began.Round(0).UTC()
	if err := c.folder.disk.RemoveAll(dir); err != nil {
		return err
	}
	at, err := c.engine.Snapshot(ctx, dir)
	if err != nil {
		c.log.room.passOne()
		return err
	}
	defer func() { _ = c.folder.disk.RemoveAll(dir) }() // or the next one does
	mark, err := c.log.at(at)
	if err != nil {
		return err
	}
	if err := c.log.await(ctx, at.Number); err != nil {
		return err
	}
	name, owner := c.keeper.Instance(), c.keeper.Owner()
	m, ref, err := c.store.Save(ctx, dir, checkpoint.Manifest{
		Instance: name, Epoch: owner.Epoch, Log: owner.Log, Number: at.Number, Trim: mark.Released.Position,
		Made: made, Unchecked: c.counts,
	}, c.last)
	if damage, ok := errors.AsType[*pebblestore.DamageError](err); ok {
		c.onDamage(&buffer.StoreDamageError{Dir: dir, Err: damage})
	}
	if err != nil {
		return err
	}
	if err := c.keeper.Update(ctx, func(o *changelog.Owner) { o.Checkpoint, o.CheckpointPosition = ref, m.Trim }); err != nil {
		return err
	}
	before := c.last
	c.last, c.known = &m, true
	c.checkpointed.Store(&made)
	// A full log accepts no note of the checkpoint before it is trimmed. The record alone suffices, because a node that adopts the instance
	// replaces the record, and so knows the checkpoint.
	if err := c.log.checkpointed(ctx, at.Number); err != nil && !errors.Is(err, changelog.ErrFull) {
		return fmt.Errorf("note the checkpoint in the log: %w", err)
	}
	if err := c.opts.Log.Trim(ctx, c.log.name(), m.Trim); err != nil {
		return fmt.Errorf("trim the log: %w", err)
	}
	if _, err := c.due(ctx, true); err != nil {
		return err
	}
	if err := c.store.Tidy(ctx, name, c.keeper.Owner().Epoch, &m, before); err != nil {
		c.opts.Logger.Warn("previous checkpoint not removed", "cause", err, "next", "none; the next checkpoint removes it")
	}
	c.opts.Logger.Info("log trimmed after a checkpoint", "instance", name, "batch", at.Number, "position", m.Trim, "took", time.Since(began))
	return nil
}

// load reads the checkpoint that the record names when this process has the instance.
func (c *checkpointer) load(ctx context.Context) error {
	ref := c.keeper.Owner().Checkpoint
	if c.known || ref == "" {
		return nil
	}
	m, err := c.store.Load(ctx, c.keeper.Instance(), ref)
	switch damage := (*checkpoint.DamageError)(nil); {
	case err == nil:
		c.last = &m
		if !m.Made.IsZero() { // a release before has made it
			c.checkpointed.Store(&m.Made)
		}
	case errors.As(err, &damage):
		// The next one does without it. What is left of it stays in staging.
		c.opts.Logger.Warn("last checkpoint damaged", "instance", c.keeper.Instance(), "cause", err, "next", "find out what deletes or changes objects in staging")
	default:
		return err
	}
	c.known = true
	return nil
}
