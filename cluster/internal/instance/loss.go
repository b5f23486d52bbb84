package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/localdisk"
)

// ErrUnknown says that there is no instance of a name.
var ErrUnknown = errors.New("there is no such instance")

// Loss is what [changelog.GiveUp] would lose of an instance, as its record, its checkpoint and its log are now.
type Loss struct {
	// Owner is the record of the instance. Released is the last batch that it knows as acknowledged. There may be more.
	Owner changelog.Owner
	// Checkpoint is the last batch of the checkpoint, 0 without one that can be read. Readable is the last batch of all.
	Checkpoint, Readable uint64
	// CheckpointError and LogError say why the checkpoint, and the log after Readable, cannot be read, or are nil if they can.
	CheckpointError, LogError error
}

// Batches is how many batches would be lost at least.
func (l Loss) Batches() uint64 { return max(l.Owner.Released, l.Readable) - l.Readable }

// Loss finds out what giving up an instance would lose. It fetches the checkpoint into a separate folder and reads the log, and changes nothing but which
// replica of a log with a hole leads. An instance that cannot be given up has its Owner only. The error is [ErrUnknown] for an unknown
// instance. Any other says that it is not known now.
func (i *Instance) Loss(ctx context.Context, instance string) (l Loss, err error) {
	v, err := i.opts.Owners.Get(ctx, changelog.OwnerKey(instance))
	switch {
	case err != nil:
		return l, err
	case v.Version == 0:
		return l, fmt.Errorf("%w: %q", ErrUnknown, instance)
	}
	if err := l.Owner.UnmarshalJSON(v.Value); err != nil || !l.Owner.CanGiveUp() {
		return l, err
	}
	disk := localdisk.Of(i.opts.Engine.Buffer)
	dir := disk.PathJoin(i.drainer.dir, "loss-"+rand.Text())
	defer func() { err = errors.Join(err, disk.RemoveAll(dir)) }()
	var at buffer.LogPosition
	if l.Owner.Checkpoint != "" {
		switch at, _, err = fetch(ctx, dir, instance, l.Owner, i.opts); {
		case isDamage(err):
			l.CheckpointError, at = err, buffer.LogPosition{}
		case err != nil:
			return l, fmt.Errorf("read the checkpoint of instance %s: %w", instance, err)
		}
	}
	l.Checkpoint, l.Readable = at.Number, at.Number
	if err = i.readLog(ctx, instance, at, &l); err != nil && isUnreadable(err) {
		l.LogError, err = err, nil
	}
	return l, err
}

// readLog notes the last batch of a log after a checkpoint.
func (i *Instance) readLog(ctx context.Context, instance string, at buffer.LogPosition, l *Loss) error {
	name := l.Owner.LogName(instance)
	stat, err := i.opts.Log.Stat(ctx, name)
	if err == nil && l.Owner.Log != "" && stat.ID != l.Owner.Log {
		err = &damageError{fmt.Errorf("the log is %s, and the instance had %s", stat.ID, l.Owner.Log)}
	}
	if err != nil {
		return err
	}
	mark, err := (&batchLog{owner: l.Owner}).at(at)
	if err != nil {
		return err
	}
	for b, err := range changelog.Batches(ctx, i.opts.Log, name, mark.Released) {
		if err != nil {
			return err
		}
		l.Readable = max(l.Readable, b.Number)
	}
	if l.Readable < l.Owner.Released {
		return fmt.Errorf("%w: it ends with batch %d, and batch %d was acknowledged", changelog.ErrWentBack, l.Readable, l.Owner.Released)
	}
	return nil
}
