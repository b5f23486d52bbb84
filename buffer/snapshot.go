package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Snapshot writes a copy of the local level into a new folder, for [Restore] to begin with instead of batch 1 of the [Changelog].
// Unlike [Buffer.Checkpoint] it closes no file and holds up no commit. It returns which batches are in the copy. The copy has the
// batches whose rows were acknowledged before the call, and may have later ones. All of them are on the local disk, but the changelog may
// not have confirmed the last ones. Use the copy when it has, and remove it if the process ends before.
//
// Only Restore takes the copy, since rows of one id are still to come in the original: Open refuses it, [Inspect] does not. On one
// file system its tables are links. They keep room that the local level gives back, and that MaxDiskBytes does not count, until the
// folder is removed.
//
// The folder must not exist, and must not be inside of a folder that [Buffer.Checkpoint] refuses. The copy is complete and durable when Snapshot returns nil. With an error there is no copy. ctx is
// looked at before and after the files are copied. Without Options.Changelog there are no snapshots.
func (b *Buffer) Snapshot(ctx context.Context, dir string) (at LogPosition, err error) {
	if at, err = b.snapshot(ctx, dir); err != nil {
		return LogPosition{}, fmt.Errorf("buffer: snapshot %s: %w", dir, err)
	}
	b.log.Debug("snapshot made", "dir", dir, "batch", at.Number)
	return at, nil
}

func (b *Buffer) snapshot(ctx context.Context, dir string) (at LogPosition, err error) {
	if b.opts.Changelog == nil {
		return at, errors.New("the local level has no changelog")
	}
	if err := cmp.Or(b.Ready(), context.Cause(ctx)); err != nil {
		return at, err
	}
	if err := b.mayCopyTo(dir); err != nil {
		return at, err
	}
	dir = filepath.Clean(dir)
	o := b.store.Opening()
	if o.Read() != nil {
		return at, cmp.Or(b.Ready(), error(errReopened))
	}
	defer o.Release()
	err = o.Checkpoint(dir, func(partial string) error {
		// The copy may have batches whose sync is still running. If that failed, other batches would get their numbers.
		if err := cmp.Or(o.DB.LogData(nil, pebble.Sync), o.Failure()); err != nil {
			return err
		}
		var version int
		var err error
		if at, version, err = b.copied(partial); err != nil {
			return err
		}
		if err := writeFormat(b.fs, partial, version); err != nil {
			return err
		}
		if err := pebblestore.WriteNote(b.fs, partial, copyFile, unsealed); err != nil {
			return err
		}
		return context.Cause(ctx)
	})
	if pebblestore.IsDamage(err) { // the copy has the tables of the original
		b.reportDamage(err)
	}
	if err != nil && o.Failure() != nil {
		err = cmp.Or(b.failure(), error(&FailedError{Err: err}))
	}
	return at, err
}

// copied opens the copy of a store, and returns its position and the version of its format. While commits continue, only the copy
// says which of them are in it.
func (b *Buffer) copied(dir string) (at LogPosition, version int, err error) {
	o, err := pebblestore.OpenReadOnly(pebblestore.Config{Dir: dir, FS: b.fs, Log: b.log})
	if err != nil {
		return at, 0, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if at, err = logPosition(o.DB); err != nil {
		return at, 0, err
	}
	stored, err := pebblestore.Get(o.DB, []byte(format.KeyFormat))
	if err != nil {
		return at, 0, err
	}
	version, err = knownFormat(dir, string(stored), format.Newest)
	return at, version, err
}
