package pebblestore_test

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// unlocked returns a disk that refuses to lock folders with EBADF, as NFS does.
func unlocked() vfs.FS { return unlockedDisk{vfs.Default} }

type unlockedDisk struct{ vfs.FS }

// OpenDir implements [vfs.FS].
func (d unlockedDisk) OpenDir(dir string) (vfs.File, error) {
	f, err := d.FS.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	path, err := os.OpenFile(dir, unix.O_PATH, 0) // a descriptor that flock refuses
	if err != nil {
		f.Close()
		return nil, err
	}
	return unlockedFolder{f, path}, nil
}

type unlockedFolder struct {
	vfs.File
	path *os.File
}

// Fd implements [vfs.File].
func (f unlockedFolder) Fd() uintptr { return f.path.Fd() }

// Close implements [vfs.File].
func (f unlockedFolder) Close() error {
	f.path.Close()
	return f.File.Close()
}
