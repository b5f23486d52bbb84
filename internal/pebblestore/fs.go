package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system that pebble sees during one [Opening]. It is safe for concurrent use.
//
// Where pebble cannot write, it calls Logger.Fatalf or panics, on its own goroutines too. A library must not end its host, so
// pebble never sees such an error. The first operation that fails to change the disk ends the opening: the owner is notified,
// and nothing of this opening reaches the disk afterwards, as after a crash at that operation. Pebble continues in memory,
// where every change succeeds, until it is closed and another opening reads the disk. A failed fsync is therefore never
// repeated and believed. The writes it covered are not acknowledged, and the next opening writes the data it reads to new
// files.
//
// Errors of reading are passed on, because they end one iteration and not the process. Errors of removing files are passed on
// too, because the next opening removes them.
type FS struct {
	vfs.FS        // the disk
	dir    string // changes elsewhere, such as a checkpoint, are not watched
	failed func(error)
	synced atomic.Pointer[func()]

	fill    atomic.Int64          // see FillLogs
	outside atomic.Pointer[error] // of the last sync of an outsideDir that failed
	files   files
	reacher reacher

	mu      sync.Mutex
	err     error // what ended this opening, nil while it lives
	running sync.WaitGroup

	// after holds the files that pebble has made since the end.
	after *vfs.MemFS
}

// New returns the file system for one opening in a folder. failed is called once, with locks of pebble held, by the operation
// that ends the opening. It must neither block nor call pebble.
func New(fs vfs.FS, dir string, failed func(error)) *FS {
	s := &FS{FS: fs, dir: dir, failed: failed, after: vfs.NewMem()}
	s.files.init()
	return s
}

// OnSync sets fn to be called after each sync of a log, including after the end, when the sync reaches nothing.
func (s *FS) OnSync(fn func()) { s.synced.Store(&fn) }

// Failure returns the error that ended this opening, nil while it lives.
func (s *FS) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// End ends the opening. Nothing of it reaches the disk afterwards. The first error is kept.
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

// Cut is [FS.End] for an opening that is given up on purpose. The owner is not told.
func (s *FS) Cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Wait waits for the operations that began before the end. Afterwards another opening can have the folder.
func (s *FS) Wait() { s.running.Wait() }

// change runs an operation that changes the disk. It returns false when the opening had ended, or op has ended it. The caller
// then does the same in memory and reports success.
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
	var made *file
	var refused error
	if s.change(func() error {
		f, err := op()
		if rewrites(c) && isFull(err) {
			refused = err
			return nil
		}
		if err != nil {
			return err
		}
		made = &file{File: f, fs: s, name: s.FS.PathBase(name), kind: kindOf(name), rewrites: rewrites(c)}
		made.num, _ = FileKind(made.name)
		made.filler = made.newFiller()
		s.files.made(made) // within the change, so that sweep knows each file that was made
		return nil
	}) {
		if refused != nil {
			s.files.pause()
			return nil, refused
		}
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
		// A marker names the file that is valid from now on. Pebble creates the file, then the marker, and syncs the folder once.
		// A power cut could keep the marker without the file, and nothing could be opened again.
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
	if s.watched(name) && s.files.isSwept(name) { // checked after the open, which may have begun before the sweep
		return nil, errors.Join(fmt.Errorf("%s is no longer a table of this opening: %w", name, s.Failure()), f.Close())
	}
	if log := s.files.log(name); log != nil && s.watched(name) {
		return &logCopy{&file{File: f, fs: s}, log.length.Load()}, nil
	}
	return &file{File: f, fs: s}, nil
}

// logCopy reads what had been written to a log when it was opened for reading. Pebble copies a log into a checkpoint while it writes
// to it. Without the limit a copy could get the zeros of a filler, or the rest of an earlier log, and after them rows that were
// written meanwhile, which is damage.
type logCopy struct {
	*file
	rest int64
}

// Read implements [vfs.File].
func (f *logCopy) Read(p []byte) (n int, err error) {
	if f.rest == 0 {
		return 0, io.EOF
	}
	n, err = f.file.Read(p[:min(int64(len(p)), f.rest)])
	f.rest -= int64(n)
	return n, err
}

// OpenDir implements [vfs.FS].
func (s *FS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if !s.watched(name) {
		return &outsideDir{f, s}, nil
	}
	return &file{File: f, fs: s}, nil
}

// outsideDir is a folder of a checkpoint. Pebble panics where it cannot sync it, and the failure of another disk must not end the
// opening either. So pebble does not see it, and [Opening.Checkpoint] fails, even a concurrent one.
type outsideDir struct {
	vfs.File
	fs *FS
}

// Sync implements [vfs.File].
func (d *outsideDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.fs.outside.Store(&err)
	}
	return nil
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
func (s *FS) Remove(name string) error { return s.remove(name, s.FS.Remove, s.after.Remove) }

// RemoveAll implements [vfs.FS].
func (s *FS) RemoveAll(name string) error { return s.remove(name, s.FS.RemoveAll, s.after.RemoveAll) }

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

// List implements [vfs.FS]. It hides the OPTIONS files, because pebble would compare them with the options of this opening and refuse to
// open if a byte of them is wrong. Nothing depends on them, because the MANIFEST names the comparer.
func (s *FS) List(dir string) ([]string, error) {
	names, err := s.FS.List(dir)
	if s.watched(dir) {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, optionsPrefix) })
	}
	return names, err
}

// Lock implements [vfs.FS]. The real lock is held by the [Store], over all openings.
func (s *FS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements [vfs.FS].
func (s *FS) Unwrap() vfs.FS { return s.FS }

// file is an open file of the disk.
type file struct {
	vfs.File
	fs       *FS
	name     string
	kind     fileKind
	num      uint64       // of a log
	length   atomic.Int64 // the written bytes
	rewrites bool         // made by a compaction, which can be repeated
	filler   *filler      // of a log that is written, if it is filled
	purged   bool         // of a log, which is not kept as a spare. Guarded by files.mu
}

// readPause follows an error of reading. Pebble repeats a failed compaction at once, and would otherwise keep a core busy for
// as long as the disk cannot be read.
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
		length := f.length.Load()
		refused = f.fs.files.claim(allocated(length+int64(len(p))) - allocated(length))
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

// Preallocate implements [vfs.File]. It does nothing, because pebble would allocate more than a write buffer for each log, however short
// it stays. Syncs are cheap where blocks were written before. See filler and files.
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

// told calls the function of OnSync.
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

// Close implements [vfs.File]. It frees the descriptor, even after the end.
func (f *file) Close() error {
	if err := f.File.Close(); err != nil && !f.rewrites {
		f.fs.End(err)
	}
	f.fs.files.closed(f)
	return nil
}
