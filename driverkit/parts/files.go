package parts

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// FileSystem has every disk operation of a store, so that tests can fail each of them.
type FileSystem interface {
	// Create makes a new file with mode 0600. An existing one is an error.
	Create(path string) (File, error)
	Open(path string) (io.ReadCloser, error)
	Stat(path string) (fs.FileInfo, error)
	// MkdirAll makes a directory and its parents with mode 0700.
	MkdirAll(path string) error
	ReadDir(path string) ([]fs.DirEntry, error)
	Rename(from, to string) error
	Remove(path string) error
	// Append opens an existing file for writing at its end.
	Append(path string) (File, error)
	Link(from, to string) error
	// Symlink makes a link with the text target.
	Symlink(target, path string) error
	// Readlink returns the text of a link, and "" for anything else that exists.
	Readlink(path string) (string, error)
	Chtimes(path string, modified time.Time) error
	// Exchange swaps two names in one step.
	Exchange(a, b string) error
	// Lock locks a file or a folder until the closer is closed or the process ends. It creates a file if the path is missing. ok is false
	// when this or another process holds a conflicting lock.
	Lock(path string, exclusive bool) (unlock io.Closer, ok bool, err error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
}

// File is a file that is written.
type File interface {
	io.Writer
	// Sync makes all writes durable.
	Sync() error
	// Close closes the file.
	Close() error
}

// Disk is the real file system.
type Disk struct{}

// Create implements [FileSystem].
func (Disk) Create(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Open implements [FileSystem].
func (Disk) Open(path string) (io.ReadCloser, error) { return os.Open(path) }

// Stat implements [FileSystem].
func (Disk) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// MkdirAll implements [FileSystem].
func (Disk) MkdirAll(path string) error { return os.MkdirAll(path, 0o700) }

// ReadDir implements [FileSystem].
func (Disk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Rename implements [FileSystem].
func (Disk) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements [FileSystem].
func (Disk) Remove(path string) error { return os.Remove(path) }

// Link implements [FileSystem].
func (Disk) Link(from, to string) error { return os.Link(from, to) }

// Symlink implements [FileSystem].
func (Disk) Symlink(target, path string) error { return os.Symlink(target, path) }

// Chtimes implements [FileSystem].
func (Disk) Chtimes(path string, t time.Time) error { return os.Chtimes(path, t, t) }

// Append implements [FileSystem].
func (Disk) Append(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
}

// Readlink implements [FileSystem].
func (Disk) Readlink(path string) (string, error) {
	target, err := os.Readlink(path)
	if info, e := os.Lstat(path); err != nil && e == nil && info.Mode()&fs.ModeSymlink == 0 {
		return "", nil
	}
	return target, err
}

// SyncDir implements [FileSystem].
func (Disk) SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there; NTFS logs its renames
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
