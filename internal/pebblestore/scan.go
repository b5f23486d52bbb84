package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Scan calls fn with every version of every key that can be read in the tables and logs of the store in dir, in no order of
// time, and lost with everything unreadable. An error of the disk ends it, because a later read may succeed.
func Scan(disk vfs.FS, dir string, fn func(Entry) error, lost func(file, what string)) error {
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		num, kind := FileKind(name)
		path := disk.PathJoin(dir, name)
		watched := &readWatch{FS: disk}
		var err error
		switch kind {
		case "sst":
			err = eachTableEntry(watched, path, fn, func(err error) { lost(name, err.Error()) })
		case "log":
			var gaps []LogGap
			gaps, err = EachLogRecord(watched, path, uint32(num), func(record []byte) error { return eachBatchEntry(record, fn) })
			for _, g := range gaps {
				lost(name, fmt.Sprintf("byte %d to byte %d cannot be read", g.From, g.To))
			}
		}
		if err := errors.Join(err, watched.err); err != nil {
			return fmt.Errorf("salvage %s: %w", path, err)
		}
	}
	return nil
}

func eachBatchEntry(repr []byte, fn func(Entry) error) error {
	head, ok := batchrepr.ReadHeader(repr)
	if !ok {
		return nil
	}
	seq := uint64(head.SeqNum)
	for r := batchrepr.Read(repr); ; seq++ {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return nil // the checksum was right, so these are the written bytes
		}
		if err := fn(Entry{kind, key, value, seq}); err != nil {
			return err
		}
	}
}

// readWatch is a file system that remembers the first error of reading.
type readWatch struct {
	vfs.FS
	err error
}

func (w *readWatch) note(err error) {
	// A store that was open for a moment has no note of how far its logs reach. That is a valid result, not a failure of the disk.
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if w.err == nil && err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.err = err
	}
}

// Open implements [vfs.FS].
func (w *readWatch) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := w.FS.Open(name, opts...)
	if err != nil {
		w.note(err)
		return nil, err
	}
	return &watchedFile{f, w}, nil
}

type watchedFile struct {
	vfs.File
	watch *readWatch
}

// Read implements [vfs.File].
func (f *watchedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.watch.note(err)
	return n, err
}

// ReadAt implements [vfs.File].
func (f *watchedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.watch.note(err)
	return n, err
}

// Entry is one version of a key in a file of a store.
type Entry struct {
	// Kind says whether the version is a value, the removal of a key, or that of a range. Key and Value are valid during the call.
	Kind pebble.InternalKeyKind
	// Key is the key, or the start of the range.
	Key []byte
	// Value is the end of the range if Kind says that a range was deleted.
	Value []byte
	// Seq orders the versions of a key. It is zero where the database no longer needs an order.
	Seq uint64
}
