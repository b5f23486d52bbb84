package buffer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/forebay/forebay/trigger"
)

// Open opens the local level in a folder, creating it if need be, and takes up what an earlier process left: rows of
// open slices stay open, sealed slices are uploaded, closed files are imported. Only one process can have it open.
func Open(dir string, opts Options) (*Buffer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if err := opts.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("buffer: create %s: %w", dir, err)
	}
	db, err := openStore(dir, opts)
	if err != nil {
		return nil, err
	}
	b := &Buffer{opts: opts, log: opts.Logger, db: db, closed: make(chan struct{}), syncs: make(chan *commit)}
	b.mu.sinks = make(map[string]*sinkState)
	b.mu.byNum = make(map[uint32]*sinkState)
	b.mu.files = make(map[uint64]*file)
	b.mu.slices = make(map[uint64]*slice)
	b.mu.changed = make(chan struct{})
	b.gate.init()
	if err := b.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("buffer: open %s: %w", dir, err), db.Close())
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.timers = trigger.NewScheduler(b.fire)
	b.uploads = newWorkers(b.ctx, opts.Uploads)
	b.imports = newWorkers(b.ctx, opts.Imports)
	b.cleanups = newWorkers(b.ctx, 2)
	go b.commitLoop()
	go b.syncLoop()
	b.resume()
	return b, nil
}

func openStore(dir string, opts Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(storeFailure)
			if !ok {
				panic(r)
			}
			db, err = nil, fmt.Errorf("buffer: open %s: %w", dir, f.err)
		}
	}()
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	db, err = pebble.Open(dir, &pebble.Options{
		FS:                          opts.FS,
		Cache:                       cache,
		Logger:                      storeLogger{opts.Logger},
		MemTableSize:                uint64(opts.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		FormatMajorVersion:          pebble.FormatNewest,
	})
	if err == nil {
		return db, nil
	}
	if isLocked(err) {
		return nil, fmt.Errorf("buffer: %s is in use by another engine; close that one or choose another folder: %w", dir, err)
	}
	return nil, fmt.Errorf("buffer: open %s: %w", dir, err)
}

func isLocked(err error) bool {
	s := err.Error()
	return strings.Contains(s, "resource temporarily unavailable") || strings.Contains(s, "lock held by current process")
}

func iterBounds(from, to []byte) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: from, UpperBound: to}
}

// get returns a copy of a value, nil when it is absent.
func (b *Buffer) get(key string) ([]byte, error) {
	v, closer, err := b.db.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return bytes.Clone(v), nil
}

// recover reads the state. It changes nothing but the first records of a new folder.
func (b *Buffer) recover() error {
	format, err := b.get(keyFormat)
	if err != nil {
		return err
	}
	if format == nil {
		return b.initStore()
	}
	if n, err := strconv.Atoi(string(format)); err != nil || n != formatVersion {
		return fmt.Errorf("the data has format %q, this version of the library reads format %d: use the version that wrote it",
			format, formatVersion)
	}
	instance, err := b.get(keyInstance)
	if err != nil {
		return err
	}
	b.instance = string(instance)
	counters, err := b.get(keyCounters)
	if err != nil {
		return err
	}
	if len(counters) == 16 {
		b.mu.lastFile = binary.BigEndian.Uint64(counters)
		b.mu.lastSlice = binary.BigEndian.Uint64(counters[8:])
	}
	if err := b.recoverSinks(); err != nil {
		return err
	}
	if err := b.recoverFiles(); err != nil {
		return err
	}
	return b.recoverSlices()
}

func (b *Buffer) initStore() error {
	var name [6]byte
	_, _ = rand.Read(name[:]) // never fails
	b.instance = hex.EncodeToString(name[:])
	batch := b.db.NewBatch()
	_ = batch.Set([]byte(keyFormat), []byte(strconv.Itoa(formatVersion)), nil)
	_ = batch.Set([]byte(keyInstance), []byte(b.instance), nil)
	_ = batch.Set([]byte(keyCounters), encodeCounters(0, 0), nil)
	return b.db.Apply(batch, pebble.Sync)
}

func (b *Buffer) recoverSinks() error {
	return b.eachRecord(prefixSink, func(key, value []byte) error {
		s := &sinkState{num: binary.BigEndian.Uint32(key)}
		if err := json.Unmarshal(value, &s.rec); err != nil {
			return fmt.Errorf("sink record %d: %w", s.num, err)
		}
		s.id = s.rec.ID
		b.mu.sinks[s.id] = s
		b.mu.byNum[s.num] = s
		b.mu.lastSink = max(b.mu.lastSink, s.num)
		return nil
	})
}

func (b *Buffer) recoverFiles() error {
	return b.eachRecord(prefixFile, func(key, value []byte) error {
		f := &file{num: binary.BigEndian.Uint64(key)}
		if err := json.Unmarshal(value, &f.rec); err != nil {
			return fmt.Errorf("file record %d: %w", f.num, err)
		}
		if f.sink = b.mu.byNum[f.rec.Sink]; f.sink == nil {
			return fmt.Errorf("file record %d: sink %d is unknown", f.num, f.rec.Sink)
		}
		b.mu.files[f.num] = f
		f.sink.files = append(f.sink.files, f)
		if f.rec.State == FileWriting {
			f.sink.file = f
		}
		return nil
	})
}

func (b *Buffer) recoverSlices() error {
	it, err := b.db.NewIter(iterBounds([]byte{prefixChunk}, []byte{prefixChunk + 1}))
	if err != nil {
		return err
	}
	defer it.Close()
	return b.eachRecord(prefixSlice, func(key, value []byte) error {
		sl := &slice{num: binary.BigEndian.Uint64(key)}
		if err := json.Unmarshal(value, &sl.rec); err != nil {
			return fmt.Errorf("slice record %d: %w", sl.num, err)
		}
		if sl.file = b.mu.files[sl.rec.File]; sl.file == nil {
			return fmt.Errorf("slice record %d: file %d is unknown", sl.num, sl.rec.File)
		}
		b.mu.slices[sl.num] = sl
		sl.file.slices = append(sl.file.slices, sl)
		if sl.rec.State == SliceWriting {
			if err := sl.recoverWriting(it); err != nil {
				return fmt.Errorf("slice record %d: %w", sl.num, err)
			}
			sl.file.sink.slice = sl
		} else {
			sl.tally = sl.rec.tally()
		}
		if sl.rec.State == SliceWriting || sl.rec.State == SliceUploading {
			b.local.Add(sl.stored)
		}
		return nil
	})
}

// recoverWriting reads the running totals from the last chunk.
func (sl *slice) recoverWriting(it *pebble.Iterator) error {
	from, to := chunkBounds(sl.num)
	if !it.SeekLT(to) || bytes.Compare(it.Key(), from) < 0 {
		if err := it.Error(); err != nil {
			return err
		}
		return nil // opened and lost its only chunk: impossible while both are one batch, harmless otherwise
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	h, _, err := parseChunk(value)
	if err != nil {
		return err
	}
	sl.tally = h.slice
	sl.chunks = binary.BigEndian.Uint32(it.Key()[9:]) + 1
	return nil
}

// eachRecord calls fn with the rest of the key and the value of all records of a kind, ascending.
func (b *Buffer) eachRecord(prefix byte, fn func(key, value []byte) error) error {
	it, err := b.db.NewIter(iterBounds([]byte{prefix}, []byte{prefix + 1}))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := fn(it.Key()[1:], value); err != nil {
			return err
		}
	}
	return it.Error()
}

// resume sets the timers and queues the calls that follow from the recovered state.
func (b *Buffer) resume() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	nums := make([]uint64, 0, len(b.mu.files))
	for num := range b.mu.files {
		nums = append(nums, num)
	}
	slices.Sort(nums)
	for _, num := range nums {
		f := b.mu.files[num]
		switch f.rec.State {
		case FileWriting:
			b.timers.Set(timerKey{timerFile, f.num}, f.rec.Opened.Add(f.rec.Def.Import.Interval))
		case FileImporting:
			b.queueImport(f)
		case FileImported, FileExpired:
			if len(f.slices) > 0 {
				b.queueCleanup(f)
			}
		}
		for _, sl := range f.slices {
			switch sl.rec.State {
			case SliceWriting:
				b.timers.Set(timerKey{timerSlice, sl.num}, sl.rec.Opened.Add(f.rec.Def.Upload.Interval))
			case SliceUploading:
				b.queueUpload(sl)
			}
		}
	}
}
