package buffer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/storefs"
	"github.com/forebay/forebay/trigger"
)

// Checkpoint writes a copy of the local level into a new folder while rows keep flowing. It holds every row whose Append
// was acknowledged before the call and that is not in staging yet, and the state of all sinks, files and slices. Where
// both folders are on one file system most bytes are shared by links.
//
// All writing files are closed for it, with the reason [trigger.Copied], in the same commit, and no other commit is made
// until the copy is complete: rows that are appended meanwhile wait, and are not in it. So everything in a checkpoint
// is sealed, and one id means the same rows in the copy and in the original.
//
// Open takes the copy up as an engine of its own: it finishes what it found under the old ids, and gives new ids to what
// it takes. A file that the original has imported meanwhile is not doubled, since the [Target] knows its id. The staged
// objects of such a file are gone: the target must look at the id before it opens them, or be a [Counter], which is
// then asked. Staging and the tables are not in the copy: it needs those of the original, or copies of them that were
// made later than the checkpoint.
//
// The folder must not exist. With an error there is no copy; with that of ctx it may come to be later. The copy is
// complete and durable when Checkpoint returns nil.
func (b *Buffer) Checkpoint(ctx context.Context, dir string) error {
	dir = filepath.Clean(dir)
	var failure error
	err := b.do(ctx, func(t *txn) {
		for _, s := range b.mu.sinks {
			if s.file != nil {
				t.closeFile(s.file, trigger.Copied)
			}
			for _, f := range s.files {
				if !f.done() && !f.rec.Copied {
					f.rec.Copied = true
					t.touchFile(f)
				}
			}
		}
		t.still = append(t.still, func() { failure = b.copyTo(dir) })
	})
	if err == nil {
		err = failure // was written before the commit ended
	}
	if err != nil {
		return fmt.Errorf("buffer: checkpoint %s: %w", dir, err)
	}
	b.log.Info("checkpoint made", "dir", dir)
	return nil
}

// copyTo runs on the committer.
func (b *Buffer) copyTo(dir string) (err error) {
	disk := b.opts.FS
	switch _, err := disk.Stat(dir); {
	case err == nil:
		return fmt.Errorf("the folder exists: %w", fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := disk.PathDir(dir)
	if err := disk.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	// The folder gets its name when everything is in it.
	partial := dir + ".partial"
	if err := disk.RemoveAll(partial); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, disk.RemoveAll(partial))
		}
	}()
	if err := b.copyStore(partial); err != nil {
		return err
	}
	// After a failure the store goes on in memory alone, and so would the copy.
	if err := b.store.Load().fs.Failure(); err != nil {
		return err
	}
	if err := writeFormat(disk, partial); err != nil {
		return err
	}
	if err := writeNote(disk, partial, copyFile, ""); err != nil {
		return err
	}
	if err := disk.Rename(partial, dir); err != nil {
		return err
	}
	return storefs.SyncDir(disk, parent)
}

// copyStore copies the store with the list of its tables. The store writes the list anew with the first change after an
// opening, and until then copies an empty one. Where a log is read at the opening, that is a change; a power cut during
// an earlier opening may have left none.
func (b *Buffer) copyStore(dir string) error {
	for attempt := 0; ; attempt++ {
		if err := b.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
			return err
		}
		listed, err := hasTableList(b.opts.FS, dir)
		if listed || err != nil {
			return err
		}
		if attempt > 0 {
			return errors.New("the copy has no list of its tables")
		}
		if err := errors.Join(b.opts.FS.RemoveAll(dir), b.db.Flush()); err != nil {
			return err
		}
	}
}

// hasTableList reports whether a store has a list of its tables with something in it.
func hasTableList(disk vfs.FS, dir string) (bool, error) {
	names, err := disk.List(dir)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "MANIFEST-") {
			continue
		}
		info, err := disk.Stat(disk.PathJoin(dir, name))
		if err != nil || info.Size() > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
