package main

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A watchedFS reports every file that is opened for writing, and every write to it.
type watchedFS struct {
	vfs.FS
	// open receives the name of a file, how it was opened, and its size, and returns the watcher of the file.
	open func(name string, how opening, size int64) watcher
}

// opening is how a file came to be written.
type opening int

const (
	created opening = iota
	reopened
	reused // an old file, written over
)

// A watcher observes one file. Its writer is one goroutine, its syncer may be another.
type watcher interface {
	wrote(from, to int64)
	// sync runs a sync of the file.
	sync(real func() error) error
}

func (s *watchedFS) watch(name string, how opening) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			_ = f.Close() // the first error counts
			return nil, err
		}
		return &watchedFile{File: f, watcher: s.open(name, how, info.Size())}, nil
	}
}

// Create implements [vfs.FS].
func (s *watchedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.watch(name, created)(s.FS.Create(name, c))
}

// OpenReadWrite implements [vfs.FS].
func (s *watchedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.watch(name, reopened)(s.FS.OpenReadWrite(name, c, opts...))
}

// ReuseForWrite implements [vfs.FS].
func (s *watchedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.watch(name, reused)(s.FS.ReuseForWrite(old, name, c))
}

// OpenDir implements [vfs.FS].
func (s *watchedFS) OpenDir(name string) (vfs.File, error) {
	return s.watch(name, reopened)(s.FS.OpenDir(name))
}

// Unwrap implements [vfs.FS].
func (s *watchedFS) Unwrap() vfs.FS { return s.FS }

type watchedFile struct {
	vfs.File
	watcher watcher
	pos     atomic.Int64 // where the next write goes
}

// Write implements [vfs.File].
func (f *watchedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	to := f.pos.Add(int64(n))
	f.watcher.wrote(to-int64(n), to)
	return n, err
}

// WriteAt implements [vfs.File].
func (f *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.watcher.wrote(off, off+int64(n))
	return n, err
}

// Sync implements [vfs.File].
func (f *watchedFile) Sync() error { return f.watcher.sync(f.File.Sync) }

// SyncData implements [vfs.File].
func (f *watchedFile) SyncData() error { return f.watcher.sync(f.File.SyncData) }
