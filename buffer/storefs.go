package buffer

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// storeFS is the file system as one opening of the store sees it.
//
// The store is made for a process that may end itself: where it cannot write it calls Logger.Fatalf or panics, partly
// on goroutines of its own and partly in places where a deferred unlock would then end the process for good. A library
// must not end its host, so the store never sees such an error. The first operation that fails to change the disk ends
// this opening: the failure is reported to the buffer, and from then on nothing of this opening reaches the disk, as
// after a crash at that very operation. The store itself lives on in memory, where every change succeeds, until it is
// closed and opened anew from what the disk really has. So a failed fsync is never repeated and believed: what it
// covered is not acknowledged, and the next opening writes what it reads to new files.
//
// Errors of reading are passed on; they end one iteration and not the process. So are those of removing files: the
// store tries again when it is opened next.
type storeFS struct {
	vfs.FS        // the real one
	dir    string // changes outside of it (a checkpoint) are not watched
	failed func(error)
	// synced is called when a log was synced, or would have been after the end.
	synced atomic.Pointer[func()]

	skipped atomic.Int64 // of mutantSkipSync

	mu      sync.Mutex
	err     error // what ended this opening; nil while it lives
	running sync.WaitGroup

	// after holds the files that the store has made since.
	after *vfs.MemFS
}

func newStoreFS(fs vfs.FS, dir string, failed func(error)) *storeFS {
	return &storeFS{FS: fs, dir: dir, failed: failed, after: vfs.NewMem()}
}

// failure returns what ended this opening, nil while it lives.
func (s *storeFS) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// end keeps everything that this opening does from now on away from the disk.
func (s *storeFS) end(err error) {
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
	}
	s.mu.Unlock()
	if first {
		s.failed(err)
	}
}

// cut is end for an opening that nobody uses any more: it is no failure.
func (s *storeFS) cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// settle waits until the operations that had begun before the end are over.
func (s *storeFS) settle() { s.running.Wait() }

// change runs an operation that changes the disk. It returns false when the opening has ended, before or by it: the
// caller then reports success and leaves the disk alone.
func (s *storeFS) change(op func() error) bool {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return false
	}
	s.running.Add(1)
	s.mu.Unlock()
	err := op()
	s.running.Done()
	if err != nil {
		s.end(err)
		return false
	}
	return true
}

func (s *storeFS) watched(name string) bool {
	rest, ok := strings.CutPrefix(name, s.dir)
	return ok && (rest == "" || os.IsPathSeparator(rest[0]))
}

// create runs an operation that makes a file.
func (s *storeFS) create(name string, c vfs.DiskWriteCategory, op func() (vfs.File, error)) (vfs.File, error) {
	if !s.watched(name) {
		return op()
	}
	var f vfs.File
	if s.change(func() (err error) { f, err = op(); return err }) {
		return &storeFile{f, s, strings.HasSuffix(name, ".log")}, nil
	}
	if err := s.after.MkdirAll(s.FS.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return s.after.Create(name, c)
}

// Create implements [vfs.FS].
func (s *storeFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.create(name, c, func() (vfs.File, error) {
		// A marker names the file that counts from now on. The store makes that file and the marker with one sync of the
		// folder behind both, so a power cut in between could keep the marker alone, and nothing could be opened again.
		if strings.HasPrefix(s.FS.PathBase(name), "marker.") {
			if err := s.syncDir(s.FS.PathDir(name)); err != nil {
				return nil, err
			}
		}
		return s.FS.Create(name, c)
	})
}

func (s *storeFS) syncDir(name string) error {
	dir, err := s.FS.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// OpenReadWrite implements [vfs.FS].
func (s *storeFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.create(name, c, func() (vfs.File, error) { return s.FS.OpenReadWrite(name, c, opts...) })
}

// ReuseForWrite implements [vfs.FS].
func (s *storeFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.create(name, c, func() (vfs.File, error) { return s.FS.ReuseForWrite(old, name, c) })
}

// Open implements [vfs.FS].
func (s *storeFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if s.failure() != nil {
		if f, err := s.after.Open(name, opts...); err == nil {
			return f, nil
		}
	}
	f, err := s.FS.Open(name, opts...)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			time.Sleep(readPause)
		}
		return nil, err
	}
	return &storeFile{f, s, false}, nil
}

// OpenDir implements [vfs.FS].
func (s *storeFS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &storeFile{f, s, false}, nil
}

// Stat implements [vfs.FS].
func (s *storeFS) Stat(name string) (vfs.FileInfo, error) {
	if s.failure() != nil {
		if info, err := s.after.Stat(name); err == nil {
			return info, nil
		}
	}
	return s.FS.Stat(name)
}

// Link implements [vfs.FS].
func (s *storeFS) Link(old, name string) error {
	if !s.watched(name) {
		return s.FS.Link(old, name) // across disks it fails, and the store copies
	}
	if !s.change(func() error { return s.FS.Link(old, name) }) {
		_ = s.after.Link(old, name)
	}
	return nil
}

// Rename implements [vfs.FS].
func (s *storeFS) Rename(old, name string) error {
	if !s.watched(name) {
		return s.FS.Rename(old, name)
	}
	if !s.change(func() error { return s.FS.Rename(old, name) }) {
		_ = s.after.Rename(old, name)
	}
	return nil
}

// Remove implements [vfs.FS].
func (s *storeFS) Remove(name string) error {
	return s.remove(name, s.FS.Remove, s.after.Remove)
}

// RemoveAll implements [vfs.FS].
func (s *storeFS) RemoveAll(name string) error {
	return s.remove(name, s.FS.RemoveAll, s.after.RemoveAll)
}

func (s *storeFS) remove(name string, remove, after func(string) error) (err error) {
	if !s.watched(name) {
		return remove(name)
	}
	if !s.change(func() error { err = remove(name); return nil }) {
		_ = after(name)
	}
	return err
}

// MkdirAll implements [vfs.FS].
func (s *storeFS) MkdirAll(dir string, perm os.FileMode) error {
	if !s.watched(dir) {
		return s.FS.MkdirAll(dir, 0o700) // a checkpoint is as private as the original
	}
	s.change(func() error { return s.FS.MkdirAll(dir, perm) })
	return nil
}

// Lock implements [vfs.FS]. The buffer holds the real lock over all openings.
func (s *storeFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements [vfs.FS].
func (s *storeFS) Unwrap() vfs.FS { return s.FS }

// storeFile is an open file of the real disk.
type storeFile struct {
	vfs.File
	fs  *storeFS
	log bool // it is a write-ahead log
}

// readPause follows an error of reading. The store repeats a compaction that failed at once: without a pause it would
// keep a core busy for as long as the disk cannot be read.
const readPause = 10 * time.Millisecond

// Read implements [vfs.File].
func (f *storeFile) Read(p []byte) (n int, err error) {
	n, err = f.File.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		time.Sleep(readPause)
	}
	return n, err
}

// ReadAt implements [vfs.File].
func (f *storeFile) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = f.File.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		time.Sleep(readPause)
	}
	return n, err
}

// Write implements [vfs.File].
func (f *storeFile) Write(p []byte) (n int, err error) {
	if !f.fs.change(func() error { n, err = f.File.Write(p); return err }) {
		return len(p), nil
	}
	return n, nil
}

// WriteAt implements [vfs.File].
func (f *storeFile) WriteAt(p []byte, off int64) (n int, err error) {
	if !f.fs.change(func() error { n, err = f.File.WriteAt(p, off); return err }) {
		return len(p), nil
	}
	return n, nil
}

// Preallocate implements [vfs.File]. It is only advice: without room the writes will fail.
func (f *storeFile) Preallocate(off, length int64) error {
	f.fs.change(func() error { _ = f.File.Preallocate(off, length); return nil })
	return nil
}

// Sync implements [vfs.File].
func (f *storeFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements [vfs.File].
func (f *storeFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *storeFile) sync(sync func() error) error {
	defer f.told()
	if mutant == mutantSkipSync && f.log && f.fs.skipped.Add(1)%4 == 0 {
		return nil
	}
	if mutant == mutantBelieveSync && sync() == nil {
		return nil
	}
	f.fs.change(sync)
	return nil
}

// told reports a sync of the log.
func (f *storeFile) told() {
	if fn := f.fs.synced.Load(); f.log && fn != nil {
		(*fn)()
	}
}

// SyncTo implements [vfs.File].
func (f *storeFile) SyncTo(length int64) (full bool, err error) {
	defer f.told()
	if !f.fs.change(func() error { full, err = f.File.SyncTo(length); return err }) {
		return true, nil
	}
	return full, nil
}

// Close implements [vfs.File]. It frees the descriptor also after the end.
func (f *storeFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.fs.end(err)
	}
	return nil
}
