package buffer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
)

// DamageError says that stored rows cannot be read back. It names where they were.
type DamageError struct {
	// SinkID and SliceID name the slice; Chunk is the number of the chunk in it, from 0; -1: not known.
	SinkID, SliceID string
	Chunk           int
	// Rows are the rows that are affected, as far as known.
	Rows int64
	// Err is the cause.
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("sink %q: slice %s, chunk %d: %d rows cannot be read: %v", e.SinkID, e.SliceID, e.Chunk, e.Rows, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Damage is one place of a slice whose rows were lost because the disk gave back other bytes than it got. The rest of
// the slice went on its way.
type Damage struct {
	// ID names the record for [Buffer.ForgetDamage].
	ID string `json:"-"`
	// SinkID, FileID and SliceID say where the rows were.
	SinkID string `json:"sink"`
	FileID string `json:"file"`
	// SliceID is the id of the slice before the damage was set aside.
	SliceID string `json:"slice"`
	// FirstChunk and LastChunk are numbers of chunks in the slice, from 0.
	FirstChunk int `json:"firstChunk"`
	LastChunk  int `json:"lastChunk"`
	// Rows is how many rows were there, Bytes their size before compression.
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// At is when the damage was found.
	At time.Time `json:"at"`
	// Reason says what was found.
	Reason string `json:"reason"`
	// Uncounted is set when more rows may be lost in this place than Rows says, because what counted them is lost too.
	Uncounted bool `json:"uncounted,omitempty"`
	// Store is the name of the folder, in that of the local level, that a damaged store was set aside in; empty where
	// only rows of a store that is in use were set aside.
	Store string `json:"store,omitempty"`
	// Data is what could be read of the first chunk, for an expert; nil when nothing could.
	Data []byte `json:"data,omitempty"`
}

// damageOf returns err as a DamageError of a chunk when the bytes are wrong for good. Other errors of reading may pass.
func damageOf(chunk int, err error) error {
	if errors.Is(err, format.ErrChunk) || pebble.IsCorruptionError(err) {
		return &DamageError{Chunk: chunk, Err: err}
	}
	return &readError{chunk, err}
}

// readError says that the disk did not give back a chunk at all. It may later.
type readError struct {
	chunk int
	err   error
}

func (e *readError) Error() string { return fmt.Sprintf("read chunk %d: %v", e.chunk, e.err) }
func (e *readError) Unwrap() error { return e.err }

// lostOf returns err as the cause of damage, nil when it is not: with giveUp also what the disk does not give back counts
// as damaged.
func lostOf(err error, giveUp bool) error {
	var damage *DamageError
	var unreadable *readError
	switch {
	case errors.As(err, &damage):
		return damage.Err
	case giveUp && errors.As(err, &unreadable):
		return unreadable
	}
	return nil
}

// examination is what can be read of a slice.
type examination struct {
	good format.Tally
	bad  []format.Damage
}

// examine reads a sealed slice and finds what cannot be read. An error says that the reading itself failed; with giveUp
// that is damage too.
func (b *Buffer) examine(num uint64, chunks uint32, known []format.ChunkRange, all format.Tally, giveUp bool) (x examination, err error) {
	st := b.store.Load()
	if err := st.Read(); err != nil {
		return x, err
	}
	defer st.Release()
	from, to := format.ChunkBounds(num)
	it, err := st.DB.NewIter(iterBounds(from, to))
	if err != nil {
		return x, err
	}
	defer it.Close()

	var before format.Tally // running totals after the last chunk that was good
	open := -1              // the damage that the next good chunk ends
	bad := func(chunk int, reason error, data []byte) {
		if open >= 0 && x.bad[open].LastChunk == chunk-1 {
			x.bad[open].LastChunk = chunk
			return
		}
		x.bad = append(x.bad, format.Damage{FirstChunk: chunk, LastChunk: chunk, Reason: reason.Error(), Data: append([]byte(nil), data...)})
		open = len(x.bad) - 1
	}
	closeGap := func(rows, raw int64) {
		if open >= 0 {
			x.bad[open].Rows, x.bad[open].Bytes = rows-before.Rows, raw-before.Raw
			open = -1
		}
	}
	good := func(value []byte) error {
		h, _, err := format.ParseChunk(value)
		if err != nil {
			return err
		}
		closeGap(h.Slice.Rows-h.Rows, h.Slice.Raw-h.Raw)
		before = h.Slice
		x.good.Add(format.Tally{Rows: h.Rows, Raw: h.Raw, Stored: int64(len(value) - format.ChunkHeaderSize), First: h.Last, Last: h.Last})
		return nil
	}
	var key [format.ChunkKeySize]byte
	isLost := func(seq uint32) bool {
		first, _ := format.Extent{Lost: known}.Next(seq)
		return first != seq
	}
	skip := func(next uint32) uint32 {
		for _, r := range known {
			if r.First <= next && next <= r.Last {
				next = r.Last + 1
				before.Rows += r.Rows
				before.Raw += r.Bytes
			}
		}
		return next
	}
	for next := skip(0); next < chunks; next = skip(next) {
		format.PutChunkKey(key[:], num, next)
		it.SetBounds(key[:], to)
		ok := it.First()
		for ; ok; ok = !isLost(next) && it.Next() {
			seq := binary.BigEndian.Uint32(it.Key()[9:])
			next = seq + 1
			value, err := it.ValueAndErr()
			if err == nil {
				err = good(value)
			}
			if err == nil {
				continue
			}
			err = damageOf(int(seq), err)
			cause := lostOf(err, giveUp)
			if cause == nil {
				return x, err
			}
			bad(int(seq), cause, value)
		}
		err := it.Error()
		if err == nil {
			if !it.Valid() {
				break
			}
			continue // at what was set aside before
		}
		// The block that holds the chunk is damaged.
		err = damageOf(int(next), err)
		cause := lostOf(err, giveUp)
		if cause == nil {
			return x, err
		}
		end, err := passDamage(it, num, next, chunks, giveUp)
		if err != nil {
			return x, err
		}
		for ; next < end; next++ {
			if value := storedChunk(st.DB, num, next); value == nil || good(value) != nil {
				bad(int(next), cause, value)
			}
		}
	}
	closeGap(all.Rows, all.Raw)
	return x, nil
}

// setAside takes what is damaged out of a slice that waits for its upload, so that the rest flows: the damage is
// counted, logged and kept as a record, and the slice gets another id, because an earlier attempt may have stored all
// of its rows under the old one.
func (b *Buffer) setAside(ctx context.Context, sl *slice, giveUp bool) error {
	b.mu.RLock()
	obj, file := b.object(sl), b.fileID(sl.file)
	// The totals in the chunks are those before anything was set aside.
	whole, chunks := sl.Tally, sl.rec.Chunks
	whole.Rows += sl.rec.Lost.Rows
	whole.Raw += sl.rec.Lost.Bytes
	known, here, uncounted := sl.rec.LostChunks, sl.Tally, sl.rec.Uncounted
	b.mu.RUnlock()
	x, err := b.examine(sl.num, chunks, known, whole, giveUp)
	if err != nil {
		return err
	}
	if lost := here.Rows - x.good.Rows; lost > 0 && len(x.bad) == 0 {
		x.bad = append(x.bad, format.Damage{FirstChunk: -1, LastChunk: -1, Rows: lost, Bytes: here.Raw - x.good.Raw, Reason: "chunks are missing"})
	}
	if len(x.bad) == 0 {
		return errors.New("damage was met, and cannot be found any more")
	}
	x.bad[len(x.bad)-1].Uncounted = uncounted
	if err := b.opts.Staging.Delete(ctx, obj); err != nil {
		return fmt.Errorf("delete what an earlier attempt may have left: %w", err)
	}
	return b.do(ctx, func(t *txn) {
		if b.mu.slices[sl.num] != sl || sl.rec.State != format.SliceUploading || b.sliceID(sl) != obj.ID {
			return // a later attempt was first
		}
		for i := range x.bad {
			d := &x.bad[i]
			d.SinkID, d.FileID, d.SliceID, d.At = obj.SinkID, file, obj.ID, t.now
		}
		t.onDurable(func() {
			for _, d := range x.bad {
				salvage.Log(b.log, d)
			}
		})
		t.lose(sl, x)
		t.onDurable(b.queueExpireDamage) // which sets its timer
	})
}

// lose records the damage of a slice and uploads the rest of it.
func (t *txn) lose(sl *slice, x examination) {
	b, s := t.b, sl.file.sink
	lost := format.Count{Rows: sl.Rows - x.good.Rows, Bytes: sl.Raw - x.good.Raw}
	s.rec.Damaged.Add(lost.Rows, lost.Bytes)
	sl.rec.Lost.Add(lost.Rows, lost.Bytes)
	t.freed += sl.Stored - x.good.Stored
	sl.Rows, sl.Raw, sl.Stored = x.good.Rows, x.good.Raw, x.good.Stored
	sl.rec.Tally = sl.Tally
	sl.rec.Revision++
	sl.rec.Instance = b.instance              // a copy of this engine may set aside something else
	ranges := slices.Clone(sl.rec.LostChunks) // the old one may be in use
	for _, d := range x.bad {
		if d.FirstChunk >= 0 {
			ranges = append(ranges, format.ChunkRange{
				First: uint32(d.FirstChunk), Last: uint32(d.LastChunk), Count: format.Count{Rows: d.Rows, Bytes: d.Bytes},
			})
		}
	}
	slices.SortFunc(ranges, func(a, b format.ChunkRange) int { return cmp.Compare(a.First, b.First) })
	sl.rec.LostChunks = ranges
	sl.rec.Uncounted, sl.rec.Unreadable = false, time.Time{}
	sl.rec.Retry = format.Retry{}
	t.touchSink(s)
	t.touchSlice(sl)
	t.touchFile(sl.file)
	num, revision := sl.num, sl.rec.Revision
	t.addToBatch(func(batch *pebble.Batch) {
		b.damages.Add(int64(len(x.bad)))
		for i, d := range x.bad {
			_ = batch.Set(format.DamageKey(num, revision, uint32(i)), format.Encode(&d), nil)
			for c := max(0, d.FirstChunk); c <= d.LastChunk; c++ {
				var key [format.ChunkKeySize]byte
				format.PutChunkKey(key[:], num, uint32(c))
				_ = batch.Delete(key[:], nil)
			}
		}
	})
	if sl.Rows > 0 {
		t.onDurable(func() { b.queueUpload(sl) })
		return
	}
	// Nothing is left of the slice. Another attempt of its upload may be queued.
	f := sl.file
	sl.rec.State = format.SliceImported
	t.wipe = append(t.wipe, sl.num)
	t.drop = append(t.drop, sl)
	delete(b.mu.slices, sl.num)
	for i, o := range f.slices {
		if o == sl {
			f.slices = append(f.slices[:i:i], f.slices[i+1:]...)
			break
		}
	}
	t.checkUploaded(f)
}

// farChunk is above the numbers of the chunks of any slice.
const farChunk = 1 << 30

// passDamage returns the number of the first chunk, up to limit, from which on a slice can be read again. first stands in
// a block of the store that cannot be read. Reading fails in all of the block and goes on behind it, so the steps may
// grow until it does, and then close in on its end.
func passDamage(it *pebble.Iterator, num uint64, first, limit uint32, giveUp bool) (uint32, error) {
	_, to := format.ChunkBounds(num)
	readable := func(seq uint32) (bool, error) {
		var key [format.ChunkKeySize]byte
		format.PutChunkKey(key[:], num, seq)
		it.SetBounds(key[:], to)
		it.First()
		err := it.Error()
		if err == nil {
			return true, nil
		}
		if err = damageOf(int(seq), err); lostOf(err, giveUp) != nil {
			return false, nil
		}
		return false, err
	}
	low, high := first, limit // low cannot be read, high is taken for readable
	for step := uint32(1); step < limit-low; step *= 2 {
		ok, err := readable(low + step)
		if err != nil {
			return 0, err
		}
		if ok {
			high = low + step
			break
		}
		low += step
	}
	for high-low > 1 {
		mid := low + (high-low)/2
		ok, err := readable(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			high = mid
		} else {
			low = mid
		}
	}
	return high, nil
}

// recoverDamaged finds the running totals of an open slice whose last chunk cannot be read. Its rows stay in the totals
// until the upload finds what is damaged, and counts it.
func (sl *slice) recoverDamaged(it *pebble.Iterator) error {
	var (
		key    [format.ChunkKeySize]byte
		hidden bool // a part of the store cannot be read at all after the last chunk that can
		tail   []format.ChunkHeader
		lost   bool
	)
	_, to := format.ChunkBounds(sl.num)
	defer it.SetBounds([]byte{format.PrefixChunk}, []byte{format.PrefixChunk + 1}) // as the caller has them
	for next := uint32(0); next < farChunk; {
		format.PutChunkKey(key[:], sl.num, next)
		it.SetBounds(key[:], to)
		for ok := it.First(); ok; ok = it.Next() {
			next = binary.BigEndian.Uint32(it.Key()[9:]) + 1
			sl.chunks = next
			hidden = false
			value, err := it.ValueAndErr()
			var h format.ChunkHeader
			if err == nil {
				h, _, err = format.ParseChunk(value)
			}
			if err == nil {
				sl.Tally, tail, lost = h.Slice, nil, false
				continue
			}
			var damage *DamageError
			if err = damageOf(int(next-1), err); !errors.As(err, &damage) {
				return err
			}
			lost = true
			if len(value) >= format.ChunkHeaderSize {
				tail = append(tail, format.ParseChunkHeader(value))
			}
		}
		err := it.Error()
		if err == nil {
			break
		}
		var damage *DamageError
		if err = damageOf(int(next), err); !errors.As(err, &damage) {
			return err
		}
		hidden, lost = true, true
		if next, err = passDamage(it, sl.num, next, max(farChunk, next), false); err != nil {
			return err
		}
	}
	sl.cut = true
	if hidden {
		sl.chunks++ // there is at least one in what is hidden
	}
	// The head of a damaged chunk is believed where it fits to what stands before it.
	known := false
	for _, h := range tail {
		if known = h.Rows > 0 && h.Slice.Rows-h.Rows == sl.Rows && h.Slice.Raw-h.Raw == sl.Raw && h.Slice.Stored > sl.Stored; known {
			sl.Tally = h.Slice
		}
	}
	if lost && (hidden || !known) {
		sl.Rows++ // how many there were stood only there: at least one
		sl.rec.Uncounted = true
	}
	return nil
}

// sealDamaged ends the writing of slices whose last chunk cannot be read: a new chunk would stand in the same part of the
// store, behind what cannot be passed.
func (r *recovery) sealDamaged() error {
	batch := r.db.NewBatch()
	for _, sl := range r.slices {
		if !sl.cut {
			continue
		}
		s := sl.file.sink
		s.slice = nil
		sl.rec.State, sl.rec.Closed, sl.rec.Reason = format.SliceUploading, r.now, format.ReasonSalvaged
		sl.rec.Tally = sl.Tally
		sl.rec.Chunks = sl.chunks
		s.rec.Sealed.Add(sl.Rows, sl.Raw)
		_ = batch.Set(format.SliceKey(sl.num), format.Encode(&sl.rec), nil) // a plain batch cannot fail
		_ = batch.Set(format.SinkKey(s.num), format.Encode(&s.rec), nil)
	}
	if batch.Empty() {
		return batch.Close()
	}
	return r.db.Apply(batch, pebble.Sync)
}
