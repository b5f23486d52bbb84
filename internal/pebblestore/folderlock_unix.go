//go:build unix && !solaris && !aix

package pebblestore

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFolder locks a folder whatever its path is spelled like, be it relative, through a symbolic link or through a bind mount. The lock belongs
// to the open folder, so a second call fails in the same process too. If another call has the folder, the error is an [*InUseError].
//
// The lock of pebble cannot do that. It compares the texts of paths within a process, and it is a POSIX lock, so a process that
// opens the lock file again and closes it gives its own lock away. So this lock is taken first.
// A disk in memory has no file descriptors, and pebble's lock is enough there.
func lockFolder(disk vfs.FS, dir string) (io.Closer, error) {
	f, err := disk.OpenDir(dir)
	if err != nil || f.Fd() == vfs.InvalidFd {
		return f, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, &InUseError{errors.Join(err, f.Close())}
	}
	// A file system of a network may refuse to lock folders. The lock of pebble remains.
	return f, nil
}
