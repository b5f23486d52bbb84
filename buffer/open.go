package buffer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/trigger"
)

// Open opens the local level in a folder, creating it if need be, and takes up what an earlier process left. Rows of
// open slices stay open, sealed slices are uploaded, closed files are imported. Only one process can have it open.
func Open(dir string, opts Options) (*Buffer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if err := localdisk.Named(dir); err != nil {
		return nil, fmt.Errorf("buffer: %w", err)
	}
	opts = opts.withDefaults()
	dir = filepath.Clean(dir)
	disk := localdisk.Of(opts)
	_, err := checkFormat(disk, dir, format.Newest)
	if err != nil {
		return nil, err
	}
	b := &Buffer{
		upgrading: make(chan struct{}, 1),
		opts:      opts, log: opts.Logger, fs: disk, dir: dir, closed: make(chan struct{}),
		pack: packer{gzipLevel: opts.GzipLevel, spare: int(min(spareBytes, opts.MaxPendingBytes/8))}, syncs: newSyncQueue(), reopened: make(chan *pebblestore.Opening),
		found: make(chan error, 1), unwatched: make(chan struct{}),
	}
	b.admission.b = b
	b.mu.changed = make(chan struct{})
	b.confirms.changed.L = &b.confirms.mu
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.confirm.all, b.confirm.end = context.WithCancelCause(context.Background())
	b.store = b.newStore()
	b.gate.init(b.store, opts.MaxPendingBytes)
	if err := b.store.Open(); err != nil {
		return nil, openError(dir, err)
	}
	b.takeUp(b.store.Opening())
	if b.metrics, err = newMetrics(b); err != nil {
		return nil, errors.Join(err, b.store.Close())
	}
	b.background = b.newBackground()
	go b.watchDamage()
	go b.commitLoop()
	go b.syncLoop()
	go b.confirmLoop()
	b.resume()
	return b, nil
}

// openError returns an error of opening the store as the buffer's.
func openError(dir string, err error) error {
	if inUse, ok := errors.AsType[*pebblestore.InUseError](err); ok {
		return &InUseError{Dir: dir, Err: inUse.Err}
	}
	if small, ok := errors.AsType[*pebblestore.RoomError](err); ok {
		err = &RoomError{Dir: small.Dir, Free: small.Free, Needed: small.Needed, For: small.For, err: err}
	}
	return fmt.Errorf("buffer: open %s: %w", dir, err)
}

func iterBounds(from, to []byte) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: from, UpperBound: to}
}

// recovery is the state as the store has it.
type recovery struct {
	buffer   *Buffer
	db       *pebble.DB
	number   uint64 // of the last batch in the changelog
	tail     uint64 // of the first batch that has a copy, 0 if none has
	now      time.Time
	instance string
	version  int // of the format
	receipts []*segment
	local    int64 // payload bytes on the local level
	staged   int64 // payload bytes in staging
	damages  int64 // records of damage
	// gathering are the payload bytes of the writing files.
	gathering int64
	state
}

// recoverState reads the state of a store that has number batches of the changelog. It changes nothing but the first records of a
// new folder, which get the version of its file.
func (b *Buffer) recoverState(db *pebble.DB, version int, number uint64) (*recovery, error) {
	r := &recovery{buffer: b, db: db, number: number, now: time.Now().UTC(), state: state{
		sinks: make(map[string]*sinkState), byNum: make(map[uint32]*sinkState),
		files: make(map[uint64]*file), slices: make(map[uint64]*slice),
	}}
	stored, err := pebblestore.Get(db, []byte(format.KeyFormat))
	if err != nil {
		return nil, err
	}
	if stored == nil {
		r.version = version
		return r, r.initStore()
	}
	if r.version, err = knownFormat(b.dir, string(stored), format.Newest); err != nil {
		return nil, err
	}
	instance, err := pebblestore.Get(db, []byte(format.KeyInstance))
	if err != nil {
		return nil, err
	}
	r.instance = string(instance)
	counters, err := pebblestore.Get(db, []byte(format.KeyCounters))
	if err != nil {
		return nil, err
	}
	r.lastFile, r.lastSlice, _ = format.ParseCounters(counters)
	for _, read := range []func() error{r.recoverSinks, r.recoverFiles, r.recoverSlices, r.recoverReceipts, r.recoverRejects, r.recoverArrivals, r.recoverTail} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for _, sink := range r.sinks {
		sink.recount(b.opts.MaxSinkBytes)
		if f := sink.file; f != nil {
			f.gathered = f.tally().Stored
			r.gathering += f.gathered
		}
	}
	list, err := listDamage(db)
	if err != nil {
		return nil, err
	}
	r.damages = int64(len(list))
	return r, nil
}

func (r *recovery) initStore() error {
	r.instance = newInstance()
	batch := r.db.NewBatch()
	_ = batch.Set([]byte(format.KeyFormat), []byte(strconv.Itoa(r.version)), nil)
	_ = batch.Set([]byte(format.KeyInstance), []byte(r.instance), nil)
	_ = batch.Set([]byte(format.KeyCounters), format.EncodeCounters(0, 0), nil)
	if err := r.write(batch); err != nil {
		return err
	}
	// Later logs say how much of them was synced, which tells damage from a write that a crash has torn. The first log of a new
	// database does not say it.
	return r.db.Flush()
}

// resumed moves a time of the records to the clock of this process. An age is kept, and a time that lies in the future,
// because the clock was set back meanwhile, becomes now. Otherwise rows would wait until the clock has caught up.
func (r *recovery) resumed(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return trigger.Load{Since: t}.Resume(r.now).Since
}

func (r *recovery) recoverSinks() error {
	return eachRecord(r.db, format.PrefixSink, func(key, value []byte) error {
		s := &sinkState{num: binary.BigEndian.Uint32(key)}
		if err := format.Decode(value, &s.rec); err != nil {
			return pebblestore.Damaged("sink record %d: %w", s.num, err)
		}
		s.id = s.rec.ID
		r.sinks[s.id] = s
		r.byNum[s.num] = s
		r.lastSink = max(r.lastSink, s.num)
		return nil
	})
}

func (r *recovery) recoverFiles() error {
	return eachRecord(r.db, format.PrefixFile, func(key, value []byte) error {
		f := &file{num: binary.BigEndian.Uint64(key)}
		if err := format.Decode(value, &f.rec); err != nil {
			return pebblestore.Damaged("file record %d: %w", f.num, err)
		}
		if f.sink = r.byNum[f.rec.Sink]; f.sink == nil {
			return pebblestore.Damaged("file record %d: sink %d is unknown", f.num, f.rec.Sink)
		}
		if f.rec.Def != nil {
			f.target = f.rec.Def.Table.Target
		}
		f.began.Store(f.rec.State == format.FileImporting)
		f.rec.Retry.FirstFailed = r.resumed(f.rec.Retry.FirstFailed)
		r.files[f.num] = f
		f.sink.files = append(f.sink.files, f)
		if f.rec.State == format.FileWriting {
			f.rec.Opened = r.resumed(f.rec.Opened)
			f.sink.file = f
		}
		return nil
	})
}

func (r *recovery) recoverSlices() error {
	it, err := r.db.NewIter(iterBounds([]byte{format.PrefixChunk}, []byte{format.PrefixChunk + 1}))
	if err != nil {
		return err
	}
	defer it.Close()
	return eachRecord(r.db, format.PrefixSlice, func(key, value []byte) error {
		sl := &slice{num: binary.BigEndian.Uint64(key)}
		if err := format.Decode(value, &sl.rec); err != nil {
			return pebblestore.Damaged("slice record %d: %w", sl.num, err)
		}
		if sl.file = r.files[sl.rec.File]; sl.file == nil {
			return pebblestore.Damaged("slice record %d: file %d is unknown", sl.num, sl.rec.File)
		}
		r.slices[sl.num] = sl
		sl.file.slices = append(sl.file.slices, sl)
		if sl.rec.State == format.SliceWriting {
			sl.rec.Opened = r.resumed(sl.rec.Opened)
			if err := sl.recoverWriting(r.db, it, r.buffer.opts.OnDamage != nil); err != nil {
				return fmt.Errorf("slice record %d: %w", sl.num, err)
			}
			sl.file.sink.slice = sl
		} else {
			sl.Tally = sl.rec.Tally
		}
		if sl.rec.State == format.SliceWriting || sl.rec.State == format.SliceUploading {
			r.local += sl.Stored
		} else {
			r.staged += sl.Stored
		}
		return nil
	})
}

// recoverWriting reads the running totals from the last chunk. One that is damaged is refused, or counted when the slice is uploaded.
func (sl *slice) recoverWriting(db *pebble.DB, it *pebble.Iterator, refuse bool) error {
	from, to := format.ChunkBounds(sl.num)
	ok := it.SeekLT(to) && bytes.Compare(it.Key(), from) >= 0
	err := it.Error()
	if !ok && err == nil {
		return nil // opened and lost its only chunk, which is impossible while both are one batch, harmless otherwise
	}
	var value []byte
	if err == nil {
		value, err = it.ValueAndErr()
	}
	var h format.ChunkHeader
	if err == nil {
		h, _, err = format.ParseChunk(value)
	}
	if err == nil {
		sl.Tally = h.Slice
		sl.chunks = binary.BigEndian.Uint32(it.Key()[9:]) + 1
		return nil
	}
	switch {
	case !salvage.IsLost(err):
		return err
	case refuse:
		return pebblestore.Damaged("the last chunk: %w", err)
	}
	return sl.recoverDamaged(db)
}

// eachRecord calls fn with the rest of the key and the value of all records of a kind, ascending.
func eachRecord(db *pebble.DB, prefix byte, fn func(key, value []byte) error) error {
	it, err := db.NewIter(iterBounds([]byte{prefix}, []byte{prefix + 1}))
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
	b.resumeReceipts()
	b.resumeRejects()
	b.resumeCompact()
	if b.damages.Load() > 0 {
		b.queueExpireDamage()
	}
	for _, num := range slices.Sorted(maps.Keys(b.mu.files)) {
		f := b.mu.files[num]
		switch f.rec.State {
		case format.FileWriting:
			b.timers.Set(timerKey{timerFile, f.num}, f.rec.Opened.Add(f.rec.Def.Import.Interval))
		case format.FileImporting:
			f.size.Store(f.tally().Raw)
			f.tried.Store(f.rec.Retry.Attempt > 0)
			b.queueImport(f)
		case format.FileImported, format.FileExpired, format.FileDiscarded:
			if len(f.slices) > 0 {
				b.queueCleanup(f)
			}
		}
		for _, sl := range f.slices {
			switch sl.rec.State {
			case format.SliceWriting:
				b.timers.Set(timerKey{timerSlice, sl.num}, sl.rec.Opened.Add(f.rec.Def.Upload.Interval))
			case format.SliceUploading:
				sl.small.Store(sl.Raw <= maxLightUpload)
				b.queueUpload(sl)
			}
		}
	}
	b.resumePressure()
}
