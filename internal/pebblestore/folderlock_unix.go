//go:build unix && !solaris && !aix

package pebblestore

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFolder locks a folder whatever its path is spelled like, be it relative, through a symbolic link or through a bind mount. The lock belongs
// to the open folder, so a second call fails in the same process too. If another call has the folder, the error is an [*InUseError].
//
// The lock of pebble cannot do that. It compares the texts of paths within a process, and it is a POSIX lock, so a process that
// opens the lock file again and closes it gives its own lock away. So this lock is taken first.
// A disk in memory has no file descriptors, and pebble's lock is enough there.
//
// A file system of a network may refuse to lock folders. Then the lock of pebble keeps other processes out, and the list of openFolders other
// stores of this process.
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
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, &InUseError{errors.Join(err, f.Close())}
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	folder := openFolder{uint64(stat.Dev), stat.Ino} // the type of the device depends on the platform
	if _, taken := openFolders().LoadOrStore(folder, nil); taken {
		return nil, &InUseError{errors.Join(errTaken, f.Close())}
	}
	return closers{f, folder}, nil
}

var errTaken = errors.New("another store of this process has the folder open")

// openFolder is the identity of a folder whose file system refuses to lock it.
type openFolder struct{ device, inode uint64 }

// Close implements [io.Closer].
func (f openFolder) Close() error {
	openFolders().Delete(f)
	return nil
}

// openFolders is global to the process, like POSIX locks.
var openFolders = sync.OnceValue(func() *sync.Map { return new(sync.Map) })
