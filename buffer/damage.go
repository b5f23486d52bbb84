package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
)

// DamageError says that stored rows cannot be read back, and where they were.
type DamageError struct {
	// SinkID and SliceID name the slice; Chunk is the number of the chunk in it, from 0, or -1 if it is not known.
	SinkID, SliceID string
	Chunk           int
	// Rows is the number of affected rows, as far as known.
	Rows int64
	// Err is the cause.
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("sink %q: slice %s, chunk %d: %d rows cannot be read: %v", e.SinkID, e.SliceID, e.Chunk, e.Rows, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Damage is one place in a slice whose rows are lost because the disk returned other bytes than were written. The rest of the
// slice is uploaded as usual. With Options.OnDamage there is none of the local level.
//
// It is also a slice whose object in staging has other bytes than were uploaded, or is missing. The other slices of its file are imported, and
// the object stays in staging. FirstChunk and LastChunk are then -1.
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
	// Rows is the number of lost rows, Bytes their size before compression.
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// At is when the damage was found.
	At time.Time `json:"at"`
	// Reason describes the damage.
	Reason string `json:"reason"`
	// Uncounted says that Rows is a lower bound, because the counter of the rows is lost too.
	Uncounted bool `json:"uncounted,omitempty"`
	// Store is the folder, inside the directory of the local level, that holds a damaged store that was set aside as a whole.
	// It is empty when only rows were set aside.
	Store string `json:"store,omitempty"`
	// Data is what could be read of the first chunk, for an expert, or nil if nothing could be read.
	Data []byte `json:"data,omitempty"`
}

// damageOf converts the error of reading a chunk into a DamageError if the bytes are permanently wrong. Other errors may
// pass and stay as they are.
func damageOf(err error) error {
	if bad, ok := errors.AsType[*salvage.ChunkError](err); ok && salvage.IsLost(bad.Err) {
		return &DamageError{Chunk: int(bad.Seq), Err: bad.Err}
	}
	return err
}

// examination is the readable part of a slice.
type examination struct {
	good format.Tally
	bad  []format.Damage
}

// examine reads a sealed slice and finds the chunks that cannot be read. all are the totals before anything was set aside. An
// error means that the disk failed. With giveUp a failing disk counts as damage.
func (b *Buffer) examine(num uint64, ext format.Extent, all format.Tally, giveUp bool) (x examination, err error) {
	st := b.store.Opening()
	if err := st.Read(); err != nil {
		return x, err
	}
	defer st.Release()
	var before format.Tally // running totals after the last good chunk
	var open *format.Damage // the damage that the next good chunk ends
	known := ext.Lost
	// passed adds the chunks that were set aside earlier, up to a chunk.
	passed := func(seq uint32) {
		for ; len(known) > 0 && known[0].First <= seq; known = known[1:] {
			before.Rows += known[0].Rows
			before.Raw += known[0].Bytes
		}
	}
	closeGap := func(rows, raw int64) {
		if open != nil {
			open.Rows, open.Bytes = rows-before.Rows, raw-before.Raw
			open = nil
		}
	}
	err = salvage.Walk(st.DB, num, ext, func(err error) bool { return giveUp || salvage.IsLost(err) }, func(c salvage.Chunk) error {
		passed(c.Seq)
		seq, h := int(c.Seq), c.Header
		switch {
		case c.Err == nil:
			closeGap(h.Slice.Rows-h.Rows, h.Slice.Raw-h.Raw)
			before = h.Slice
			x.good.Add(format.Tally{Rows: h.Rows, Raw: h.Raw, Stored: int64(len(c.Payload)), First: h.Last, Last: h.Last})
		case open != nil && open.LastChunk == seq-1:
			open.LastChunk = seq
		default:
			x.bad = append(x.bad, format.Damage{FirstChunk: seq, LastChunk: seq, Reason: c.Err.Error(), Data: slices.Clone(c.Value)})
			open = &x.bad[len(x.bad)-1]
		}
		return nil
	})
	passed(math.MaxUint32)
	closeGap(all.Rows, all.Raw)
	return x, err
}

// setAside removes the damaged chunks from a slice that waits for its upload, so that the rest can be uploaded. The damage is
// counted, logged and recorded. The slice gets a new id, because an earlier attempt may have stored all of its rows under
// the old one.
func (b *Buffer) setAside(ctx context.Context, sl *slice, giveUp bool) error {
	b.mu.RLock()
	obj, file := b.object(sl), b.fileID(sl.file)
	// The running totals in the chunks include the rows that were set aside.
	whole, ext := sl.Tally, sl.rec.Extent()
	whole.Rows += sl.rec.Lost.Rows
	whole.Raw += sl.rec.Lost.Bytes
	here, uncounted := sl.Tally, sl.rec.Uncounted
	b.mu.RUnlock()
	x, err := b.examine(sl.num, ext, whole, giveUp)
	if err != nil {
		return err
	}
	if lost := here.Rows - x.good.Rows; lost > 0 && len(x.bad) == 0 {
		x.bad = append(x.bad, format.Damage{FirstChunk: -1, LastChunk: -1, Rows: lost, Bytes: here.Raw - x.good.Raw, Reason: "chunks are missing"})
	}
	if len(x.bad) == 0 {
		return errors.New("damage was met, and can no longer be found")
	}
	x.bad[len(x.bad)-1].Uncounted = uncounted
	if err := b.opts.Staging.Delete(ctx, obj); err != nil {
		return fmt.Errorf("delete what an earlier attempt may have left: %w", err)
	}
	return b.do(ctx, func(t *txn) {
		if b.mu.slices[sl.num] != sl || sl.rec.State != format.SliceUploading || b.sliceID(sl) != obj.ID {
			return // a later attempt was faster
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
	sl.rec.Instance = b.instance // a restored copy of this engine may set aside other chunks
	sl.rec.Number = 0
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
	// Nothing is left of the slice, but another attempt of its upload may be queued.
	f := sl.file
	t.wipe = append(t.wipe, sl.num)
	t.takeFromFile(sl)
	t.checkUploaded(f)
}

// recoverDamaged finds the running totals of an open slice whose last chunk cannot be read. The damaged rows stay in the
// totals until the upload finds and counts them.
func (sl *slice) recoverDamaged(db *pebble.DB) error {
	var (
		hidden bool // the store cannot be read at all after the last readable chunk
		lost   bool // chunks are damaged after the last good one
		tail   []format.ChunkHeader
	)
	err := salvage.Walk(db, sl.num, format.Extent{}, salvage.IsLost, func(c salvage.Chunk) error {
		if c.Hidden {
			hidden, lost = true, true
			return nil
		}
		sl.chunks, hidden, lost = c.Seq+1, false, c.Err != nil
		switch {
		case c.Err == nil:
			sl.Tally, tail = c.Header.Slice, nil
		case len(c.Value) >= format.ChunkHeaderSize:
			tail = append(tail, format.ParseChunkHeader(c.Value))
		}
		return nil
	})
	if err != nil {
		return err
	}
	sl.cut = true
	if hidden {
		sl.chunks++ // the hidden part holds at least one
	}
	// The header of a damaged chunk is trusted if it continues the totals before it.
	known := false
	for _, h := range tail {
		if known = h.Rows > 0 && h.Slice.Rows-h.Rows == sl.Rows && h.Slice.Raw-h.Raw == sl.Raw && h.Slice.Stored > sl.Stored; known {
			sl.Tally = h.Slice
		}
	}
	if lost && (hidden || !known) {
		sl.Rows++ // the only counter is lost, so at least one row
		sl.rec.Uncounted = true
	}
	return nil
}

// sealDamaged seals slices whose last chunk cannot be read, because an iterator could not pass the damage to reach a newer chunk.
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
		s.rec.Revision++
		_ = batch.Set(format.SliceKey(sl.num), format.Encode(&sl.rec), nil) // a plain batch cannot fail
		_ = batch.Set(format.SinkKey(s.num), format.Encode(&s.rec), nil)
	}
	if batch.Empty() {
		return batch.Close()
	}
	return r.write(batch)
}
