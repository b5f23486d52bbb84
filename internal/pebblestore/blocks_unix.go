//go:build unix

package pebblestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// errQuota says that this user may have no more of the disk.
const errQuota = syscall.EDQUOT

// blocksOf returns the bytes that the file system has allocated for a file, or false when it does not say.
func blocksOf(info fs.FileInfo) (int64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st == nil {
		return 0, false
	}
	return st.Blocks * 512, true
}

// sameVolume reports whether two folders are on one file system. A folder that does not exist yet is where the one above it
// is.
func sameVolume(a, b string) bool {
	device := func(dir string) (uint64, bool) {
		info, err := os.Stat(dir)
		for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			info, err = os.Stat(dir)
		}
		if err != nil {
			return 0, false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		return uint64(st.Dev), ok //nolint:unconvert // of another type elsewhere
	}
	x, known := device(a)
	y, ok := device(b)
	return known && ok && x == y
}
