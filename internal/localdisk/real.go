package localdisk

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Real returns the file system of the operating system. Only the owner can read its new files, whatever the umask of the process is. They contain
// rows and secrets.
func Real() vfs.FS { return realFS{vfs.Default} }

// realFS sets the mode of a file when it creates the file. The design that lost changed the mode after the creation. Until
// then a different user could open the file, and could read later writes.
type realFS struct{ vfs.FS }

// Unwrap implements [vfs.FS].
func (r realFS) Unwrap() vfs.FS { return r.FS }

// Create implements [vfs.FS]. It removes an existing file instead of truncating it, as pebble requires. So hard links
// to that file keep its content.
func (r realFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	for {
		err := private(name)
		if err == nil {
			return r.FS.OpenReadWrite(name, c)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// OpenReadWrite implements [vfs.FS].
func (r realFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := private(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return r.FS.OpenReadWrite(name, c, opts...)
}

// Lock implements [vfs.FS]. The mode changes after the lock is taken, because the end of any other descriptor of the file would end the lock of
// this process. The file stays empty.
func (r realFS) Lock(name string) (io.Closer, error) {
	lock, err := r.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	_ = os.Chmod(name, 0o600) // some file systems have no permissions
	return lock, nil
}

// private makes an empty file, which must not exist.
func private(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}
