//go:build unix

package pebblestore

import (
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errQuota says that this user may have no more of the disk.
const errQuota = syscall.EDQUOT

// blocksOf returns the bytes that the file system has allocated for a file; false when it does not say.
func blocksOf(info fs.FileInfo) (int64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st == nil {
		return 0, false
	}
	return st.Blocks * 512, true
}

// restrict keeps other users from reading a file. Rows and secrets are in it, and the umask of the process is not ours.
func restrict(f vfs.File) {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		_ = syscall.Fchmod(int(fd), 0o600) // some file systems have no permissions
	}
}
