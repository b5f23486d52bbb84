package buffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/trigger"
)

// txn is one atomic change of the local level, made of chunks and the state changes that follow from them or were asked for.
// Its operations run in memory, under Buffer.mu, on the committer's goroutine.
type txn struct {
	b     *Buffer
	now   time.Time
	batch *pebble.Batch

	// Records to write at the end. A record may be touched many times. Most commits touch none, so the maps are made late.
	sinks    map[*sinkState]bool
	files    map[*file]bool
	slices   map[*slice]bool
	drop     []*slice // slices whose records go
	dropFile []*file
	wipe     []uint64 // slices whose chunks go
	extra    []func(*pebble.Batch)
	counters bool
	copied   []byte // lines of the copy of the records
	rejected bool   // a number was given to a rejected record
	changed  bool
	freed    int64 // payload bytes that leave the local level
	staged   int64 // payload bytes added to staging, less the bytes that leave it

	durable []func() // runs when the batch is on disk
	// afterApply runs on the committer, after the batch was applied and before the next one can start.
	afterApply []func()
}

func (t *txn) touchSink(s *sinkState) { touch(&t.sinks, s) }

func (t *txn) touchFile(f *file) {
	touch(&t.files, f)
	t.changed = true
}

func (t *txn) touchSlice(s *slice) { touch(&t.slices, s) }

func touch[T comparable](set *map[T]bool, element T) {
	if *set == nil {
		*set = make(map[T]bool)
	}
	(*set)[element] = true
}

// addToBatch adds data other than a record of a sink, file or slice to the batch.
func (t *txn) addToBatch(fn func(*pebble.Batch)) { t.extra = append(t.extra, fn) }

// onDurable runs fn when this change is on disk. Effects outside the store start here and nowhere else.
func (t *txn) onDurable(fn func()) { t.durable = append(t.durable, fn) }

// do runs op as part of the next commit and returns when it is on disk.
func (b *Buffer) do(ctx context.Context, op func(*txn)) error {
	o := &operation{run: op}
	ticket := Ticket{b: b, epoch: b.store.Now().Epoch}
	var err error
	if ticket.g, err = b.post(o); err != nil {
		return err
	}
	if err := ticket.Wait(ctx); err != nil {
		if unknown, ok := errors.AsType[*UnknownError](err); ok { // a change has no key for a retry
			return unknown.Err
		}
		return err
	}
	if o.dropped {
		return errReopened
	}
	return nil
}

// post runs an operation as part of the next commit.
func (b *Buffer) post(o *operation) (*group, error) {
	if f := b.failure(); f != nil {
		return nil, f
	}
	return b.gate.post(o)
}

// operation is a change of state that waits for its commit. It may hold the state that it found when it was
// requested, so it must not outlive that state.
type operation struct {
	run func(*txn)
	// dropped is set when the store was reopened before the operation could run. It counts when the group has ended.
	dropped bool
}

// addChunk puts one chunk into the batch, opening slice and file where there are none, and closing them when their
// conditions are met. It returns the bytes stored.
func (t *txn) addChunk(batch *pebble.Batch, c *chunk, p payload) int64 {
	s := c.sink
	def := s.found(c.def)
	if s.file != nil && s.file.rec.Def != def {
		t.closeFile(s.file, trigger.Changed)
	}
	if s.file == nil {
		t.openFile(s, def)
	}
	if s.slice == nil {
		t.openSlice(s)
	}
	sl := s.slice
	sl.Add(format.Tally{Rows: c.rows, Raw: c.raw, Stored: int64(len(p.data)), First: c.first, Last: c.last})

	op := batch.SetDeferred(format.ChunkKeySize, format.ChunkHeaderSize+len(p.data))
	format.PutChunkKey(op.Key, sl.num, sl.chunks)
	copy(op.Value[format.ChunkHeaderSize:], p.data)
	format.PutChunkHeader(op.Value, format.ChunkHeader{
		Encoding: p.encoding, Rows: c.rows, Raw: c.raw, Last: c.last, Slice: sl.Tally,
	})
	if err := op.Finish(); err != nil {
		panic(fmt.Sprintf("buffer: build batch: %v", err)) // only an indexed batch can fail here
	}
	sl.chunks++
	s.room.waiting.Add(int64(len(p.data)))
	s.file.gathered += int64(len(p.data))
	t.b.admission.gathering.Add(int64(len(p.data)))

	if r := c.def.Upload.Due(trigger.Load{Since: sl.rec.Opened, Size: sl.Stored, Count: sl.Rows}, t.now); r != trigger.None {
		t.sealSlice(sl, r)
	}
	t.checkFile(s, t.now)
	return int64(len(p.data))
}

// encode writes the touched records into the batch.
func (t *txn) encode(batch *pebble.Batch) {
	set := func(key []byte, value []byte) { _ = batch.Set(key, value, nil) } // a plain batch cannot fail
	t.copied = slices.Grow(t.copied, recordBytes*(len(t.sinks)+len(t.files)+len(t.slices)))
	for _, s := range t.drop {
		delete(t.slices, s)
		_ = batch.Delete(format.SliceKey(s.num), nil)
		t.copied = format.AppendCopyLine(t.copied, format.PrefixSlice, s.num, nil)
	}
	for _, f := range t.dropFile {
		delete(t.files, f)
		_ = batch.Delete(format.FileKey(f.num), nil)
		t.copied = format.AppendCopyLine(t.copied, format.PrefixFile, f.num, nil)
	}
	for s := range t.sinks {
		s.rec.Revision++
		record := format.Encode(&s.rec)
		set(format.SinkKey(s.num), record)
		t.copied = format.AppendCopyLine(t.copied, format.PrefixSink, uint64(s.num), record)
	}
	for f := range t.files {
		f.sink.recount(t.b.opts.MaxSinkBytes)
		record := format.Encode(&f.rec)
		set(format.FileKey(f.num), record)
		t.copied = format.AppendCopyLine(t.copied, format.PrefixFile, f.num, record)
	}
	for s := range t.slices {
		record := format.Encode(&s.rec)
		set(format.SliceKey(s.num), record)
		t.copied = format.AppendCopyLine(t.copied, format.PrefixSlice, s.num, record)
	}
	for _, fn := range t.extra {
		fn(batch)
	}
	for _, num := range t.wipe {
		wipeChunks(batch, num, t.b.mu.slices[num])
	}
	if t.rejected {
		set([]byte(format.KeyRejects), format.EncodeRejects(t.b.mu.lastReject))
	}
	if t.counters {
		set([]byte(format.KeyCounters), format.EncodeCounters(t.b.mu.lastFile, t.b.mu.lastSlice))
	}
}

// wipeOneByOne is up to how many chunks of a slice are deleted by their keys.
const wipeOneByOne = 64

// wipeChunks deletes the chunks of a slice. sl is nil when it is forgotten.
//
// A deleted range is one key, whatever lies in it, but the first reading after it puts all ranges in the write buffer in
// order once more. Where each of thousands of sinks has a slice of a few rows, every upload did that: 10,000 of them took
// 30 s of CPU. A slice with many chunks takes so much of the write buffer that few such ranges fit into it.
func wipeChunks(batch *pebble.Batch, num uint64, sl *slice) {
	// In a slice that was ever damaged, the number of the last chunk is unreliable.
	if sl != nil && sl.rec.Chunks > 0 && sl.rec.Chunks <= wipeOneByOne && sl.rec.Reason != format.ReasonSalvaged &&
		!sl.rec.Salvaged && !sl.rec.Uncounted && sl.rec.Revision == 0 {
		var key [format.ChunkKeySize]byte
		for seq := range sl.rec.Chunks {
			format.PutChunkKey(key[:], num, seq)
			_ = batch.Delete(key[:], nil)
		}
		return
	}
	from, to := format.ChunkBounds(num)
	_ = batch.DeleteRange(from, to, nil)
}
