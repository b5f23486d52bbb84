package dir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// fileSystem has every disk operation of this package, so that tests can fail each of them.
type fileSystem interface {
	// Create makes a new file with mode 0600. An existing one is an error.
	Create(path string) (file, error)
	Open(path string) (io.ReadCloser, error)
	Stat(path string) (fs.FileInfo, error)
	// MkdirAll makes a directory and its parents with mode 0700.
	MkdirAll(path string) error
	ReadDir(path string) ([]fs.DirEntry, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
}

type file interface {
	io.Writer
	Sync() error
	Close() error
}

// disk is the real file system.
type disk struct{}

func (disk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
func (disk) Open(path string) (io.ReadCloser, error)    { return os.Open(path) }
func (disk) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (disk) MkdirAll(path string) error                 { return os.MkdirAll(path, 0o700) }
func (disk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (disk) Rename(from, to string) error               { return os.Rename(from, to) }
func (disk) Remove(path string) error                   { return os.Remove(path) }

func (disk) SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there; NTFS logs its renames
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
