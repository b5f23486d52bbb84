package buffer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// A store that cannot be opened because bytes of it are damaged is salvaged, so that the process starts and what is
// whole flows:
//
//  1. Every table and log of the store is read key by key, and what cannot be read is noted.
//  2. A new store is written from that, in the folder salvageFolder.
//  3. The files of the damaged store are moved, untouched, to a folder damagedPrefix + time, and those of the new store
//     to their place. A note on disk makes this step one that a crash does not tear.
//
// It rests on no order of versions, since what would give it (the list of tables, a part of a log) may be what is
// damaged. It need not: a number is never given twice, a chunk never changes, a record only moves on through its states,
// that of a sink through its lives, and what was deleted never comes back. So the version that is furthest counts, and a
// deletion above all.
//
// What is found may still be older than what was. Exactly once holds all the same:
//
//   - Everything keeps its id, and a target takes an id once. Nothing is written any more under an id that was found: all
//     that was open is sealed, and the instance gets a new name.
//   - A slice that may have been longer, or uploaded, is first looked for in staging, and counts from there; else what is
//     left of it is uploaded under a new id. See [Buffer.takeStaged].
//   - What cannot be attributed, such as chunks without the record of their slice, is not imported: it may be in its
//     table already. It is reported as damage, and stays in the folder that was set aside.
const (
	salvageFolder = "forebay-salvage"
	salvageNote   = "forebay-swap"
	damagedPrefix = "damaged-"
)

// reasonSalvaged is why files and slices that were open are closed.
const reasonSalvaged = "salvaged"

// StoreDamageError says that the store of a data directory is damaged where [Inspect], which changes nothing, would have
// to change it. An engine that opens the directory sets the damaged store aside and goes on with what is whole.
type StoreDamageError struct {
	// Dir is the directory.
	Dir string
	// Err says what was found.
	Err error
}

func (e *StoreDamageError) Error() string {
	return fmt.Sprintf("buffer: the store in %s is damaged: an engine that opens it sets it aside and salvages what is whole: %v",
		e.Dir, e.Err)
}

func (e *StoreDamageError) Unwrap() error { return e.Err }

// recordError says that the store can never be opened as it is. index: only what leads to the rows is damaged, so
// nothing need be lost.
type recordError struct {
	error
	index bool
}

func (e *recordError) Unwrap() error { return e.error }

func badRecord(format string, args ...any) error {
	return &recordError{fmt.Errorf(format, args...), false}
}

func badIndex(format string, args ...any) error {
	return &recordError{fmt.Errorf(format, args...), true}
}

// isStoreDamage reports whether the store can never be opened as it is. Errors of the disk itself may pass.
func isStoreDamage(err error) bool {
	var bad *recordError
	return pebble.IsCorruptionError(err) || errors.As(err, &bad) || errors.Is(err, record.ErrInvalidChunk) ||
		errors.Is(err, record.ErrZeroedChunk) || errors.Is(err, record.ErrUnexpectedEOF)
}

// openDamage marks errors of opening an existing store that mean damage and are not typed so: a file of it is missing, or
// is shorter than it was.
func openDamage(disk vfs.FS, dir string, err error) error {
	text := err.Error()
	index := errors.Is(err, pebble.ErrDBNotPristine) || strings.Contains(text, "not pristine") // a marker is missing
	if !index && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(text, "object size mismatch") {
		return err
	}
	names, e := disk.List(dir)
	if e != nil || !slices.ContainsFunc(names, func(name string) bool { _, kind := pebblestore.FileKind(name); return kind != "" }) {
		return err // the folder itself is not what it was
	}
	return &recordError{err, index}
}

// version is what a store has of a record: rank decides between versions of the same life, seq between those of the same
// rank.
type version[R any] struct {
	rec  R
	life int
	rank int64
	seq  uint64
}

func (v *version[R]) compare(o *version[R]) int {
	return cmp.Or(cmp.Compare(v.life, o.life), cmp.Compare(v.rank, o.rank), cmp.Compare(v.seq, o.seq))
}

// offer keeps the version that is furthest.
func offer[K comparable, R any](m map[K]*version[R], k K, v version[R]) {
	if old := m[k]; old == nil || v.compare(old) > 0 {
		m[k] = &v
	}
}

// chunks is what is left of the chunks of one slice.
type chunks struct {
	found map[uint32]bool // true: whole
	last  uint32
	tally format.Tally // running totals of the last that is whole
	at    uint32       // its number
	rows  int64        // of those that are whole
	raw   int64
}

// keyRange is a range of keys that were deleted; to is outside.
type keyRange struct{ from, to []byte }

// salvage reads a damaged store and writes what is whole of it.
type salvage struct {
	disk vfs.FS
	dir  string
	log  *slog.Logger
	now  time.Time
	// aside is the name of the folder that the damaged store is moved to.
	aside string

	instance            string
	lastFile, lastSlice uint64
	sinks               map[uint32]*version[format.Sink]
	files               map[uint64]*version[format.File]
	slices              map[uint64]*version[format.Slice]
	chunks              map[uint64]*chunks
	damage              map[string][]byte // records of earlier damage, by key
	gone                map[string]bool   // keys that were deleted
	ranges              []keyRange

	// found is the damage that is reported.
	found []format.Damage
	out   *pebble.Batch
}

// salvageStore replaces a damaged store. cause is why it could not be opened.
func salvageStore(dir string, opts Options, cause error) error {
	s := &salvage{
		disk: opts.fs, dir: dir, log: opts.Logger, now: time.Now().UTC(),
		sinks: map[uint32]*version[format.Sink]{}, files: map[uint64]*version[format.File]{}, slices: map[uint64]*version[format.Slice]{},
		chunks: map[uint64]*chunks{}, damage: map[string][]byte{}, gone: map[string]bool{},
	}
	s.aside = damagedPrefix + s.now.Format("20060102-150405.000000")
	s.log.Error("local level is damaged: what is whole of it is salvaged", "dir", dir, "aside", s.aside, "error", cause)
	if err := s.each(s.take, true); err != nil {
		return err
	}
	var bad *recordError
	if len(s.found) == 0 && !(errors.As(cause, &bad) && bad.index) {
		s.lose(format.Damage{
			FirstChunk: -1, LastChunk: -1, Uncounted: true,
			Reason: fmt.Sprintf("%v; everything else could be read, and what only stood there is not counted", cause),
		})
	}
	if err := s.write(opts); err != nil {
		return errors.Join(err, s.disk.RemoveAll(s.disk.PathJoin(dir, salvageFolder)))
	}
	if err := swapStores(s.disk, dir, s.aside); err != nil {
		return err
	}
	for _, d := range s.found {
		logDamage(s.log, d)
	}
	s.log.Warn("local level salvaged", "dir", dir, "aside", s.aside, "places", len(s.found))
	return nil
}

// each calls fn with what can be read of all files of the store.
func (s *salvage) each(fn func(entry) error, report bool) error {
	names, err := s.disk.List(s.dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		num, kind := pebblestore.FileKind(name)
		path := s.disk.PathJoin(s.dir, name)
		disk := &readWatch{FS: s.disk}
		lost := func(what string) {
			if report {
				s.lose(format.Damage{Reason: fmt.Sprintf("%s of the store: %s; rows that stood there and that no record speaks of are not counted",
					name, what), Uncounted: true, FirstChunk: -1, LastChunk: -1})
			}
		}
		switch kind {
		case "sst":
			err = eachTableEntry(disk, path, fn, func(err error) { lost(err.Error()) })
		case "log":
			var gaps []pebblestore.LogGap
			gaps, err = pebblestore.EachLogRecord(disk, path, uint32(num), func(record []byte) error { return eachBatchEntry(record, fn) })
			for _, g := range gaps {
				lost(fmt.Sprintf("byte %d to byte %d cannot be read", g.From, g.To))
			}
		}
		// What the disk does not give at all it may give later.
		if err := errors.Join(err, disk.failure()); err != nil {
			return fmt.Errorf("salvage %s: %w", path, err)
		}
	}
	return nil
}

func eachBatchEntry(repr []byte, fn func(entry) error) error {
	head, ok := batchrepr.ReadHeader(repr)
	if !ok {
		return nil
	}
	seq := uint64(head.SeqNum)
	for r := batchrepr.Read(repr); ; seq++ {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return nil // the checksum was right, so this is what was written
		}
		if err := fn(entry{kind, key, value, seq}); err != nil {
			return err
		}
	}
}

// take notes one version of a key.
func (s *salvage) take(e entry) error {
	switch e.kind {
	case pebble.InternalKeyKindRangeDelete:
		s.ranges = append(s.ranges, keyRange{bytes.Clone(e.key), bytes.Clone(e.value)})
		return nil
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindSingleDelete:
		s.gone[string(e.key)] = true
		return nil
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
	default:
		return nil
	}
	if len(e.key) == 0 {
		return nil
	}
	switch rest := e.key[1:]; {
	case string(e.key) == format.KeyInstance:
		s.instance = string(e.value)
	case string(e.key) == format.KeyCounters:
		file, slice, _ := format.ParseCounters(e.value)
		s.lastFile, s.lastSlice = max(s.lastFile, file), max(s.lastSlice, slice)
	case e.key[0] == format.PrefixSink && len(rest) == 4:
		var r format.Sink
		if format.Decode(e.value, &r) == nil && r.ID != "" {
			offer(s.sinks, binary.BigEndian.Uint32(rest), version[format.Sink]{r, r.Life, r.Sealed.Rows + r.Ended().Rows, e.seq})
		}
	case e.key[0] == format.PrefixFile && len(rest) == 8:
		var r format.File
		if format.Decode(e.value, &r) == nil && r.Def != nil {
			offer(s.files, binary.BigEndian.Uint64(rest), version[format.File]{r, 0, fileRank(r.State), e.seq})
		}
	case e.key[0] == format.PrefixSlice && len(rest) == 8:
		var r format.Slice
		if format.Decode(e.value, &r) == nil {
			offer(s.slices, binary.BigEndian.Uint64(rest), version[format.Slice]{r, 0, sliceRank(r.State)<<32 + int64(r.Revision), e.seq})
		}
	case e.key[0] == format.PrefixChunk && len(rest) == 12:
		s.takeChunk(binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:]), e.value)
	case e.key[0] == format.PrefixDamage:
		s.damage[string(e.key)] = bytes.Clone(e.value)
	}
	return nil
}

func (s *salvage) takeChunk(num uint64, seq uint32, value []byte) {
	c := s.chunks[num]
	if c == nil {
		c = &chunks{found: map[uint32]bool{}}
		s.chunks[num] = c
	}
	c.last = max(c.last, seq)
	h, _, err := format.ParseChunk(value)
	if c.found[seq] {
		return
	}
	if c.found[seq] = err == nil; err != nil {
		return
	}
	c.rows += h.Rows
	c.raw += h.Raw
	if c.tally.Rows == 0 || seq > c.at {
		c.tally, c.at = h.Slice, seq
	}
}

// fileRank orders the states as a file goes through them.
func fileRank(s format.FileState) int64 {
	return int64(slices.Index([]format.FileState{
		format.FileWriting, format.FileClosing, format.FileImporting, format.FileExpired, format.FileDiscarded, format.FileImported,
	}, s))
}

// sliceRank orders the states as a slice goes through them.
func sliceRank(s format.SliceState) int64 {
	return int64(slices.Index([]format.SliceState{
		format.SliceWriting, format.SliceUploading, format.SliceUploaded, format.SliceImported,
	}, s))
}

// wiped reports whether a key was deleted.
func (s *salvage) wiped(key []byte) bool {
	if s.gone[string(key)] {
		return true
	}
	i, _ := slices.BinarySearchFunc(s.ranges, key, func(r keyRange, k []byte) int {
		if bytes.Compare(r.from, k) <= 0 {
			return -1
		}
		return 1
	})
	return i > 0 && bytes.Compare(key, s.ranges[i-1].to) < 0
}

// join makes the ranges ascending and apart from each other.
func (s *salvage) join() {
	slices.SortFunc(s.ranges, func(a, b keyRange) int { return bytes.Compare(a.from, b.from) })
	joined := s.ranges[:0]
	for _, r := range s.ranges {
		if n := len(joined); n > 0 && bytes.Compare(r.from, joined[n-1].to) <= 0 {
			if bytes.Compare(r.to, joined[n-1].to) > 0 {
				joined[n-1].to = r.to
			}
			continue
		}
		joined = append(joined, r)
	}
	s.ranges = joined
}

func (s *salvage) lose(d format.Damage) {
	d.At, d.Store = s.now, s.aside
	s.found = append(s.found, d)
}

func logDamage(log *slog.Logger, d format.Damage) {
	log.Error("stored rows are damaged and set aside", "sink", d.SinkID, "file", d.FileID, "slice", d.SliceID,
		"first_chunk", d.FirstChunk, "last_chunk", d.LastChunk, "rows", d.Rows, "uncounted", d.Uncounted, "reason", d.Reason)
}

// readWatch is a file system that remembers the first error of reading.
type readWatch struct {
	vfs.FS
	err error
}

func (w *readWatch) failure() error { return w.err }

func (w *readWatch) note(err error) {
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
