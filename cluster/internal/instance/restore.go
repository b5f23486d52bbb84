package instance

import (
	"context"
	"errors"
	"fmt"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// restore makes the data directory of the keeper's instance again, in a new folder, from the checkpoint that its record names, and from
// the log after it. It opens the log under a new epoch, which fences every earlier owner, and reads up to its own marker. So the
// folder has every batch that was ever acknowledged, and what an earlier owner still appends is void. The engine that opens the
// folder appends another marker.
//
// Without a checkpoint there is nothing to make, since an engine that opens an empty folder gets the whole log. It is made nevertheless
// with whole, which proves that the log has everything. With an error there is no folder. If the error [isDamage] a repetition helps only
// where another replica has the missing data. damaged says that the folder may have damage that cannot be repaired. begun, unless nil, receives
// the end of the log.
func restore(ctx context.Context, dir string, k *changelog.Keeper, o Options, whole bool, begun func(context.Context, changelog.LogEnd) error) (damaged bool, err error) {
	owner := k.Owner()
	if stat, err := o.Log.Stat(ctx, owner.LogName(k.Instance())); err != nil {
		return false, fmt.Errorf("look at the log: %w", err)
	} else if owner.Log != "" && stat.ID != owner.Log {
		return false, &damageError{fmt.Errorf("the log is %s, and the instance had %s", stat.ID, owner.Log)}
	}
	log := newLog(o.Log, k, o.Node, o.Logger)
	defer log.close()
	log.begun = begun
	if owner.Checkpoint == "" {
		if !whole {
			return false, nil
		}
		some := false
		err := forebay.Restore(dir, "", func(yield func(buffer.LogBatch, error) bool) {
			for b, err := range log.Begin(ctx, buffer.LogPosition{}) {
				if some = true; !yield(b, err) {
					return
				}
			}
		}, o.Engine.Buffer)
		if !some {
			err = nil // nor is there anything to make
		}
		return false, err
	}
	disk := localdisk.Of(o.Engine.Buffer)
	from := dir + ".checkpoint"
	if err := disk.RemoveAll(from); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, disk.RemoveAll(from)) }()
	at, damaged, err := fetch(ctx, from, k.Instance(), owner, o)
	if err != nil {
		return false, err
	}
	return damaged, forebay.Restore(dir, from, log.Begin(ctx, at), o.Engine.Buffer)
}

// fetch copies the checkpoint of an instance into a folder. damaged says that it was made of unchecked tables.
func fetch(ctx context.Context, dir, instance string, owner changelog.Owner, o Options) (at buffer.LogPosition, damaged bool, err error) {
	store := o.checkpoints()
	m, err := store.Load(ctx, instance, owner.Checkpoint)
	if err != nil {
		return at, false, err
	}
	if m.Log != owner.Log {
		return at, false, &damageError{fmt.Errorf("it is of log %s, and the instance had %s", m.Log, owner.Log)}
	}
	if err := store.Fetch(ctx, m, dir); err != nil {
		return at, false, err
	}
	i, err := forebay.Inspect(dir, localdisk.On(buffer.InspectOptions{}, localdisk.Of(o.Engine.Buffer)))
	if _, later := errors.AsType[*buffer.FormatError](err); later {
		return at, false, err // a later release has stored it
	}
	if err != nil {
		return at, false, &damageError{err} // its bytes are as the owner stored them
	}
	if at = i.LogPosition(); at.Number != m.Number {
		err = &damageError{fmt.Errorf("it has batch %d, and its manifest says %d", at.Number, m.Number)}
	}
	return at, m.Unchecked, errors.Join(err, i.Close())
}

func (o Options) checkpoints() *checkpoint.Store {
	return checkpoint.New(o.Checkpoints, o.Owners, localdisk.On(checkpoint.Options{Logger: o.Logger, Check: pebblestore.CheckTable}, localdisk.Of(o.Engine.Buffer)))
}

// damageError says that the log or the checkpoint of an instance is not what its record says.
type damageError struct{ error }

func (e *damageError) Unwrap() error { return e.error }

// isDamage reports whether log or checkpoint lack something that they had.
func isDamage(err error) bool {
	for _, lost := range []error{
		changelog.ErrMissing, changelog.ErrTrimmed, changelog.ErrHole, changelog.ErrWentBack, changelog.ErrAhead,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	_, record := errors.AsType[*damageError](err)
	_, stored := errors.AsType[*checkpoint.DamageError](err)
	return record || stored
}
