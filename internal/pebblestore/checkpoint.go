package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/localdisk"
)

// Checkpoint writes a copy of the store, with everything that it has acknowledged, into a folder that does not exist yet, outside
// of the folder of the store (see [MakeFolder]). finish, if not nil, adds to the copy.
func (o *Opening) Checkpoint(dir string, finish func(partial string) error) error {
	if localdisk.Inside(dir, o.conf.Dir) {
		return fmt.Errorf("the folder is inside of %s, which belongs to the store: choose a folder outside of it", o.conf.Dir)
	}
	return MakeFolder(o.conf.FS, dir, func(partial string) error {
		before := o.fs.outside.Load()
		if err := copyStore(o.DB, o.conf.FS, partial); err != nil {
			return err
		}
		if failed := o.fs.outside.Load(); failed != before {
			return *failed
		}
		// After a failure the database continues in memory alone, and so would the copy.
		if err := o.fs.Failure(); err != nil || finish == nil {
			return err
		}
		return finish(partial)
	})
}

// MakeFolder makes a folder that does not exist yet. fill makes and fills it under another name. The folder gets its name when
// everything is in it, and that is durable. With an error there is no folder.
func MakeFolder(disk vfs.FS, dir string, fill func(partial string) error) (err error) {
	if err := localdisk.Named(dir); err != nil {
		return err
	}
	dir = filepath.Clean(dir)
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
	partial := dir + ".partial"
	if err := disk.RemoveAll(partial); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, disk.RemoveAll(partial))
		}
	}()
	if err := fill(partial); err != nil {
		return err
	}
	if err := disk.Rename(partial, dir); err != nil {
		return err
	}
	return SyncDir(disk, parent)
}

// copyStore copies a store into a folder that does not exist yet.
//
// The store rewrites the list of its tables with the first change after an opening, and until then copies an empty one,
// with which the copy cannot be opened. Where a log is read at the opening, that is a change, but a power cut during an earlier
// opening may have left none.
func copyStore(db *pebble.DB, disk vfs.FS, dir string) error {
	for attempt := 0; ; attempt++ {
		if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
			return err
		}
		listed, err := hasTableList(disk, dir)
		if listed || err != nil {
			return err
		}
		if attempt > 0 {
			return errors.New("the copy has no list of its tables")
		}
		if err := errors.Join(disk.RemoveAll(dir), db.Flush()); err != nil {
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
