package dir

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/forebay/forebay/driverkit/parts"
)

// faultyDisk is the real file system that fails one operation or all from one operation on, and records the operations.
// It serves one goroutine.
type faultyDisk struct {
	parts.Disk
	root  string
	trace []string
	fail  int  // the operation that fails, counted from 0, negative for none
	crash bool // all later operations fail too, as if the process had died
}

// op counts one operation and returns its fault.
func (d *faultyDisk) op(name string, paths ...string) error {
	for i, p := range paths {
		rel, err := filepath.Rel(d.root, p)
		if err != nil {
			return err
		}
		// The random end of a temporary name.
		if dir, name, ok := strings.Cut(rel, parts.TempDir+"/"); ok {
			base, below, _ := strings.Cut(name, "/")
			base, _, _ = strings.Cut(base, ".")
			rel = filepath.Join(dir+parts.TempDir, base+".*", below)
		}
		paths[i] = rel
	}
	n := len(d.trace)
	d.trace = append(d.trace, name+" "+strings.Join(paths, " "))
	switch {
	case d.fail < 0 || n < d.fail:
		return nil
	case d.crash:
		return errCrash
	case n == d.fail:
		return syscall.ENOSPC
	}
	return nil
}

func (d *faultyDisk) Create(path string) (parts.File, error) {
	if err := d.op("create", path); err != nil {
		return nil, err
	}
	f, err := d.Disk.Create(path)
	return &faultyFile{f, d, path}, err
}

func (d *faultyDisk) Open(path string) (io.ReadCloser, error) {
	if err := d.op("open", path); err != nil {
		return nil, err
	}
	return d.Disk.Open(path)
}

func (d *faultyDisk) Stat(path string) (fs.FileInfo, error) {
	if err := d.op("stat", path); err != nil {
		return nil, err
	}
	return d.Disk.Stat(path)
}

func (d *faultyDisk) MkdirAll(path string) error {
	if err := d.op("mkdir", path); err != nil {
		return err
	}
	return d.Disk.MkdirAll(path)
}

func (d *faultyDisk) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := d.op("readdir", path); err != nil {
		return nil, err
	}
	return d.Disk.ReadDir(path)
}

func (d *faultyDisk) Rename(from, to string) error {
	if err := d.op("rename", from, to); err != nil {
		return err
	}
	return d.Disk.Rename(from, to)
}

func (d *faultyDisk) Remove(path string) error {
	if err := d.op("remove", path); err != nil {
		return err
	}
	return d.Disk.Remove(path)
}

func (d *faultyDisk) Append(path string) (parts.File, error) {
	if err := d.op("append", path); err != nil {
		return nil, err
	}
	f, err := d.Disk.Append(path)
	return &faultyFile{f, d, path}, err
}

func (d *faultyDisk) Link(from, to string) error {
	if err := d.op("link", from, to); err != nil {
		return err
	}
	return d.Disk.Link(from, to)
}

func (d *faultyDisk) Symlink(target, path string) error {
	if err := d.op("symlink", path); err != nil {
		return err
	}
	return d.Disk.Symlink(target, path)
}

func (d *faultyDisk) Readlink(path string) (string, error) {
	if err := d.op("readlink", path); err != nil {
		return "", err
	}
	return d.Disk.Readlink(path)
}

func (d *faultyDisk) Exchange(a, b string) error {
	if err := d.op("exchange", a, b); err != nil {
		return err
	}
	return d.Disk.Exchange(a, b)
}

func (d *faultyDisk) Lock(path string, exclusive bool) (io.Closer, bool, error) {
	if err := d.op("lock", path); err != nil {
		return nil, false, err
	}
	return d.Disk.Lock(path, exclusive)
}

func (d *faultyDisk) SyncDir(path string) error {
	if err := d.op("syncdir", path); err != nil {
		return err
	}
	return d.Disk.SyncDir(path)
}

type faultyFile struct {
	parts.File
	d    *faultyDisk
	path string
}

// Write stores half of the bytes before it fails, as a full disk does.
func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.d.op("write", f.path); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if err := f.d.op("sync", f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	err := f.d.op("close", f.path)
	return errors.Join(err, f.File.Close())
}
