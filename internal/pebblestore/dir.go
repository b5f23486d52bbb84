package pebblestore

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncDir makes the names in a folder durable.
func SyncDir(fs vfs.FS, name string) error {
	dir, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// MakeDir creates a folder and its parents, durably. The store syncs the content of the folder. The names of the
// folders are in their parents. An existing folder is synced as well, because the process that made it may have crashed
// since.
func MakeDir(fs vfs.FS, dir string) error {
	missing := []string{dir}
	for parent := fs.PathDir(dir); parent != missing[len(missing)-1]; parent = fs.PathDir(parent) {
		if _, err := fs.Stat(parent); err == nil {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		missing = append(missing, parent)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, made := range missing {
		parent, err := fs.OpenDir(fs.PathDir(made))
		if errors.Is(err, os.ErrPermission) {
			return nil // not ours, because neither this process nor an earlier one has made a folder in it
		}
		if err != nil {
			return err
		}
		if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
			return err
		}
	}
	return nil
}
