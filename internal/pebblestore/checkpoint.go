package pebblestore

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// copyStore copies a store into a folder that does not exist yet.
//
// The store rewrites the list of its tables with the first change after an opening, and until then copies an empty one,
// with which the copy cannot be opened. Where a log is read at the opening, that is a change; a power cut during an earlier
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
