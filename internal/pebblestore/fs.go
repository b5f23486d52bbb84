package pebblestore

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system as one opening of the store sees it. It is safe for concurrent use.
//
// The store is made for a process that may end itself: where it cannot write it calls Logger.Fatalf or panics, partly
// on goroutines of its own and partly in places where a deferred unlock would then end the process for good. A library
// must not end its host, so the store never sees such an error. The first operation that fails to change the disk ends
// this opening: the failure is reported to the owner, and from then on nothing of this opening reaches the disk, as
// after a crash at that very operation. The store itself lives on in memory, where every change succeeds, until it is
// closed and reopened from what the disk really has. So a failed fsync is never repeated and believed: what it
// covered is not acknowledged, and the next opening writes what it reads to new files.
//
// Errors of reading are passed on; they end one iteration and not the process. So are those of removing files: the
// store tries again when it is opened next.
type FS struct {
	vfs.FS        // the real one
	dir    string // changes outside of it (a checkpoint) are not watched
	failed func(error)
	synced atomic.Pointer[func()]

	fill    atomic.Int64 // see FillLogs
	files   files
	reacher reacher

	mu      sync.Mutex
	err     error // what ended this opening; nil while it lives
	running sync.WaitGroup

	// after holds the files that the store has made since.
	after *vfs.MemFS
}

// New returns the file system for one opening of the store in a folder. Changes elsewhere, as those of a checkpoint, are
// not watched. failed is called once, with locks of the store held, by what ends the opening: it must not block, nor call
// the store.
func New(fs vfs.FS, dir string, failed func(error)) *FS {
	s := &FS{FS: fs, dir: dir, failed: failed, after: vfs.NewMem()}
	s.files.init()
	return s
}

// OnSync has fn called, from then on, when a log was synced, or would have been after the end.
func (s *FS) OnSync(fn func()) { s.synced.Store(&fn) }

// Failure returns what ended this opening, nil while it lives.
func (s *FS) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// End keeps everything that this opening does from now on away from the disk. The first error is kept.
func (s *FS) End(err error) {
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

// Cut is [FS.End] for an opening that nobody uses any more: it is no failure.
func (s *FS) Cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Settle waits until the operations that had begun before the end are over: from then on the folder is the next opening's.
func (s *FS) Settle() { s.running.Wait() }

// change runs an operation that changes the disk. It returns false when the opening has ended, before or by it: the
// caller then reports success and leaves the disk alone.
func (s *FS) change(op func() error) bool {
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
		s.End(err)
		return false
	}
	return true
}

func (s *FS) watched(name string) bool {
	rest, ok := strings.CutPrefix(name, s.dir)
	return ok && (rest == "" || os.IsPathSeparator(rest[0]))
}

// create runs an operation that makes a file.
func (s *FS) create(name string, c vfs.DiskWriteCategory, op func() (vfs.File, error)) (vfs.File, error) {
	if !s.watched(name) {
		return op()
	}
	var f vfs.File
	var refused error
	if s.change(func() (err error) {
		f, err = op()
		if rewrites(c) && isFull(err) {
			refused, err = err, nil
		}
		return err
	}) {
		if refused != nil {
			s.files.pause()
			return nil, refused
		}
		restrict(f)
		made := &file{File: f, fs: s, name: s.FS.PathBase(name), kind: kindOf(name), rewrites: rewrites(c)}
		made.num, _ = FileKind(made.name)
		made.filler = made.newFiller()
		s.files.made(made)
		return made, nil
	}
	if err := s.after.MkdirAll(s.FS.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return s.after.Create(name, c)
}

// Create implements [vfs.FS].
func (s *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.create(name, c, func() (vfs.File, error) {
		// A marker names the file that counts from now on. The store makes that file and the marker with one sync of the
		// folder behind both, so a power cut in between could keep the marker alone, and nothing could be opened again.
		if strings.HasPrefix(s.FS.PathBase(name), "marker.") {
			if err := SyncDir(s.FS, s.FS.PathDir(name)); err != nil {
				return nil, err
			}
		}
		if kindOf(name) == kindLog {
			if spare := s.files.takeSpare(); spare != "" {
				return s.FS.ReuseForWrite(spare, name, c)
			}
		}
		return s.FS.Create(name, c)
	})
}

// OpenReadWrite implements [vfs.FS].
func (s *FS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return s.create(name, c, func() (vfs.File, error) { return s.FS.OpenReadWrite(name, c, opts...) })
}

// ReuseForWrite implements [vfs.FS].
func (s *FS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.create(name, c, func() (vfs.File, error) { return s.FS.ReuseForWrite(old, name, c) })
}

// Open implements [vfs.FS].
func (s *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if s.Failure() != nil {
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
	return &file{File: f, fs: s}, nil
}

// OpenDir implements [vfs.FS].
func (s *FS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, fs: s}, nil
}

// Stat implements [vfs.FS].
func (s *FS) Stat(name string) (vfs.FileInfo, error) {
	if s.Failure() != nil {
		if info, err := s.after.Stat(name); err == nil {
			return info, nil
		}
	}
	return s.FS.Stat(name)
}

// Link implements [vfs.FS].
func (s *FS) Link(old, name string) error {
	if !s.watched(name) {
		return s.FS.Link(old, name) // across disks it fails, and the store copies
	}
	if !s.change(func() error { return s.FS.Link(old, name) }) {
		_ = s.after.Link(old, name)
	}
	return nil
}

// Rename implements [vfs.FS].
func (s *FS) Rename(old, name string) error {
	if !s.watched(name) {
		return s.FS.Rename(old, name)
	}
	if !s.change(func() error { return s.FS.Rename(old, name) }) {
		_ = s.after.Rename(old, name)
	}
	return nil
}

// Remove implements [vfs.FS].
func (s *FS) Remove(name string) error {
	return s.remove(name, s.FS.Remove, s.after.Remove)
}

// RemoveAll implements [vfs.FS].
func (s *FS) RemoveAll(name string) error {
	return s.remove(name, s.FS.RemoveAll, s.after.RemoveAll)
}

func (s *FS) remove(name string, remove, after func(string) error) (err error) {
	if !s.watched(name) {
		return remove(name)
	}
	if !s.change(func() error {
		if !s.files.keepSpare(name) {
			err = remove(name)
		}
		return nil
	}) {
		_ = after(name)
	}
	return err
}

// MkdirAll implements [vfs.FS].
func (s *FS) MkdirAll(dir string, perm os.FileMode) error {
	if !s.watched(dir) {
		return s.FS.MkdirAll(dir, 0o700) // a checkpoint is as private as the original
	}
	s.change(func() error { return s.FS.MkdirAll(dir, perm) })
	return nil
}

// List implements [vfs.FS]. It leaves out the files in which the store notes its settings: it would compare them with those
// of this opening and refuse to open when a byte of them is wrong, while the list of tables names the order of the keys.
func (s *FS) List(dir string) ([]string, error) {
	names, err := s.FS.List(dir)
	if s.watched(dir) {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, optionsPrefix) })
	}
	return names, err
}

// Lock implements [vfs.FS]. Whoever opens the store holds the real lock over all openings.
func (s *FS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements [vfs.FS].
func (s *FS) Unwrap() vfs.FS { return s.FS }

// file is an open file of the real disk.
type file struct {
	vfs.File
	fs       *FS
	name     string
	kind     fileKind
	num      uint64       // of a log
	length   atomic.Int64 // of a log: what was written
	rewrites bool         // it is made by a compaction, which can be repeated
	filler   *filler      // of a log that is written, if it is filled
}

// readPause follows an error of reading. The store repeats a compaction that failed at once: without a pause it would
// keep a core busy for as long as the disk cannot be read.
const readPause = 10 * time.Millisecond

// Read implements [vfs.File].
func (f *file) Read(p []byte) (n int, err error) {
	n, err = f.File.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		time.Sleep(readPause)
	}
	return n, err
}

// ReadAt implements [vfs.File].
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = f.File.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		time.Sleep(readPause)
	}
	return n, err
}

// Write implements [vfs.File].
func (f *file) Write(p []byte) (n int, err error) {
	var refused error
	if f.rewrites {
		refused = f.fs.files.claim(len(p))
	}
	if refused == nil && !f.fs.change(func() error {
		f.fs.files.written(f)
		n, err = f.writeLog(p)
		f.length.Add(int64(n))
		if f.rewrites && isFull(err) {
			refused, err = err, nil
		}
		return err
	}) {
		return len(p), nil
	}
	if refused != nil {
		f.fs.files.pause()
	}
	return n, refused
}

// WriteAt implements [vfs.File].
func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	if !f.fs.change(func() error { n, err = f.File.WriteAt(p, off); return err }) {
		return len(p), nil
	}
	return n, nil
}

// Preallocate implements [vfs.File]. It does nothing: the store asks for a tenth more than its write buffer with the first
// byte of each log, whatever comes after it. What makes syncs cheap are blocks that were written before: see filler and
// files.
func (f *file) Preallocate(int64, int64) error { return nil }

// Sync implements [vfs.File].
func (f *file) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements [vfs.File].
func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

func (f *file) sync(sync func() error) error {
	defer f.told()
	length := f.length.Load()
	if f.fs.change(func() error {
		f.fill()
		return sync()
	}) && f.kind == kindLog {
		f.fs.reacher.synced(reach{f.num, length})
	}
	return nil
}

// told reports a sync of the log.
func (f *file) told() {
	if fn := f.fs.synced.Load(); f.kind == kindLog && fn != nil {
		(*fn)()
	}
}

// SyncTo implements [vfs.File].
func (f *file) SyncTo(length int64) (full bool, err error) {
	defer f.told()
	if !f.fs.change(func() error { full, err = f.File.SyncTo(length); return err }) {
		return true, nil
	}
	return full, nil
}

// Close implements [vfs.File]. It frees the descriptor also after the end.
func (f *file) Close() error {
	if err := f.File.Close(); err != nil && !f.rewrites {
		f.fs.End(err)
	}
	f.fs.files.closed(f)
	return nil
}
