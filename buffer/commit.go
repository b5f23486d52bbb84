package buffer

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/forebay/forebay/trigger"
)

// txn is one atomic change of the local level: chunks and the state changes that follow from them or were asked for.
// Its operations run in memory, under Buffer.mu, on the committer's goroutine.
type txn struct {
	b   *Buffer
	now time.Time

	// Records to write at the end; a record may be touched many times. Most commits touch none, so the maps are made late.
	sinks    map[*sinkState]bool
	files    map[*file]bool
	slices   map[*slice]bool
	drop     []*slice // slices whose records go
	dropFile []*file
	wipe     []uint64 // slices whose chunks go
	extra    []func(*pebble.Batch)
	counters bool
	changed  bool
	freed    int64 // payload bytes that leave the local level
	staged   int64 // payload bytes that come to staging, less those that leave it

	after []func() // runs when the batch is durable
	// still runs on the committer when the batch was handed to the store, and before anything else is.
	still []func()
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

// also adds to the batch what is not a record of a sink, file or slice.
func (t *txn) also(fn func(*pebble.Batch)) { t.extra = append(t.extra, fn) }

// then runs fn when this change is on disk. Effects outside the store start here and nowhere else.
func (t *txn) then(fn func()) { t.after = append(t.after, fn) }

// do runs op as part of the next commit and returns when it is on disk.
func (b *Buffer) do(ctx context.Context, op func(*txn)) error {
	o := &operation{run: op}
	g, err := b.post(o)
	if err != nil {
		return err
	}
	if err := (Ticket{b: b, g: g}).Wait(ctx); err != nil {
		return err
	}
	if o.dropped {
		return errReopened
	}
	return nil
}

// post runs an operation as part of the next commit.
func (b *Buffer) post(o *operation) (*group, error) {
	if f := b.failed.Load(); f != nil {
		return nil, f
	}
	return b.gate.post(o)
}

// operation is a change of state that waits for its commit. It may hold what it found in the state when it was asked
// for, so it must not outlive that state.
type operation struct {
	run func(*txn)
	// dropped is set when the store was reopened before the operation could run. It counts when the group has ended.
	dropped bool
}

// commitLoop is the committer. It ends after the group that gathered when the gate was finished.
func (b *Buffer) commitLoop() {
	defer b.logSynced()
	defer close(b.syncs)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for b.writing.Load() == 0 || b.gate.heavy() {
			if !b.gate.gathered() {
				break
			}
			g, rest := b.gate.take(b.syncInterval())
			if g == nil {
				if rest >= 0 {
					timer.Reset(rest)
				}
				break
			}
			b.prepare(g)
		}
		if b.gate.drained() {
			return
		}
		b.watch()
		select {
		case <-b.gate.signal:
		case <-timer.C:
		case o := <-b.reopened:
			b.install(o)
		}
	}
}

func (b *Buffer) syncInterval() time.Duration {
	if mutant == mutantLateSync {
		return 20 * b.opts.SyncInterval
	}
	return b.opts.SyncInterval
}

// syncLoop finishes commits in their order: it waits for the disk and lets the waiters go. It is apart from the
// committer so that the next group is compressed and encoded while this one is being written.
//
// The committer does not wake it, but the sync of the log does. A goroutine that is woken last runs first: were it the
// syncer, the store's writer of the log would stand behind all callers that can run, and the disk would be idle for as
// long as they take.
func (b *Buffer) syncLoop() {
	defer close(b.closed)
	for range b.synced {
		for {
			c, ok := b.nextSynced()
			if !ok {
				return
			}
			if c == nil {
				break
			}
			b.finish(c)
			b.writing.Add(-1)
			b.gate.kick()
		}
	}
}

// nextSynced returns the commit that is to be finished next, nil while there is none; false at the end.
func (b *Buffer) nextSynced() (*commit, bool) {
	if b.first == nil {
		select {
		case c, ok := <-b.syncs:
			if !ok {
				return nil, false
			}
			b.first = c
		default:
			return nil, true
		}
	}
	c := b.first
	c.stage.CompareAndSwap(preparing, awaited)
	if c.stage.Load() != handed {
		return nil, true
	}
	b.first = nil
	return c, true
}

// logSynced wakes the syncer. It never blocks.
func (b *Buffer) logSynced() {
	select {
	case b.synced <- struct{}{}:
	default:
	}
}

// The stages of a commit. The syncer that comes too early marks it as awaited, and is woken when it is handed.
const (
	preparing int32 = iota
	awaited
	handed
)

// enqueue gives a commit its place in the order, before it goes to the store.
func (b *Buffer) enqueue(c *commit) {
	b.writing.Add(1)
	b.syncs <- c
}

// hand lets the syncer finish a commit. The sync of the log has woken it or will, unless there is none.
func (b *Buffer) hand(c *commit) {
	unwritten := c.batch == nil || c.err != nil // read before the commit is the syncer's
	if c.stage.Swap(handed) == awaited || unwritten || b.failed.Load() != nil {
		b.logSynced()
	}
}

// drained reports whether nothing can come any more.
func (g *gate) drained() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.finished && len(g.cur.chunks) == 0 && len(g.cur.ops) == 0
}

// commit is a group on its way to the disk.
type commit struct {
	group   *group
	stage   atomic.Int32
	batch   *pebble.Batch // nil when there is nothing to write
	err     error         // nothing was written
	raw     int64         // row bytes that leave memory
	local   int64         // payload bytes that come to the local level, less those that leave it
	staged  int64         // likewise of staging
	changed bool          // a file has changed
	notes   []note        // the receipts of its rows
	after   []func()
	began   time.Time // set when commits are measured
}

// prepare makes one batch of a group and hands it to the store, without waiting for the disk.
func (b *Buffer) prepare(g *group) {
	c := &commit{group: g}
	if b.metrics != nil {
		c.began = time.Now()
	}
	// From here on no chunk of the group takes rows any more.
	for _, ch := range g.chunks {
		ch.sink.mu.Lock()
		if ch.sink.open == ch {
			ch.sink.open = nil
		}
		ch.sink.mu.Unlock()
		c.raw += ch.raw
	}
	defer b.gate.recycle(g)
	if f := b.failed.Load(); f != nil {
		for _, ch := range g.chunks {
			ch.sink.unstored.Add(ch.rows)
			ch.sink.pending.Add(-ch.raw)
			c.notes = append(c.notes, ch.notes...)
		}
		c.err = f
		b.enqueue(c)
		b.hand(c)
		return
	}

	b.order.sort(g.chunks)
	payloads := b.pack.pack(g.chunks)
	if payloads.spread != b.gate.spread.Load() { // all callers read it, so it is written only when it changes
		b.gate.spread.Store(payloads.spread)
	}
	c.batch = b.db.NewBatchWithSize(payloads.size + 1024)
	t := &txn{b: b, now: b.now()}
	b.mu.Lock()
	for i, ch := range g.chunks {
		c.local += t.addChunk(c.batch, ch, payloads.at(i))
		ch.sink.pending.Add(-ch.raw)
		if len(ch.notes) > 0 {
			t.addNotes(c.batch, ch)
			c.notes = append(c.notes, ch.notes...)
		}
	}
	for _, op := range g.ops {
		if !op.dropped {
			op.run(t)
		}
	}
	t.relieve(g.chunks)
	t.encode(c.batch)
	b.mu.Unlock()
	b.pack.reset()

	c.local -= t.freed
	c.staged = t.staged
	c.changed, c.after = t.changed, t.after
	if c.batch.Empty() {
		c.batch = nil
	}
	b.enqueue(c)
	if c.batch == nil {
		// An operation that had nothing to write.
	} else {
		size := c.batch.Len()
		if err := b.db.ApplyNoSyncWait(c.batch, pebble.Sync); err != nil {
			c.err = b.fail(fmt.Errorf("commit: %w", err))
		}
		b.store.Load().Stored(size)
	}
	for _, fn := range t.still {
		fn()
	}
	b.hand(c)
}

// finish waits until the commit is on disk and tells everybody.
func (b *Buffer) finish(c *commit) {
	if mutant == mutantEarlyEffect {
		for _, fn := range c.after {
			fn()
		}
		c.after = nil
	}
	if c.err == nil && c.batch != nil {
		if err := c.batch.SyncWait(); err != nil {
			c.err = b.fail(fmt.Errorf("commit: %w", err))
		} else if b.failed.Load() == nil {
			_ = c.batch.Close() // gives its memory back to the store
		}
	}
	// An operation that had nothing to write may rest on a commit before it that failed.
	if f := b.failed.Load(); c.err == nil && f != nil {
		c.err = f
	}
	// What goes from one level to another is added there first: see reserve.
	if c.err == nil {
		b.staged.Add(c.staged)
		b.local.Add(c.local)
	}
	b.pending.Add(-c.raw)
	b.serveRoom()
	if c.batch != nil && b.metrics != nil {
		b.metrics.committed(time.Since(c.began))
	}
	b.receipts.finish(c.notes, c.err == nil)
	if c.err != nil {
		b.gate.ended(c.group, c.err)
		return
	}
	if c.changed {
		b.mu.Lock()
		b.signalChange()
		b.mu.Unlock()
	}
	for _, fn := range c.after {
		fn()
	}
	b.gate.ended(c.group, nil)
}

// addChunk puts one chunk into the batch, opening slice and file where there are none, and closing them when their
// conditions are met. It returns the bytes stored.
func (t *txn) addChunk(batch *pebble.Batch, c *chunk, p payload) int64 {
	s := c.sink
	if s.file != nil && s.file.rec.Def != c.def && mutant != mutantWrongColumns {
		t.closeFile(s.file, trigger.Changed)
	}
	if s.file == nil {
		t.openFile(s, c.def)
	}
	if s.slice == nil {
		t.openSlice(s)
	}
	sl := s.slice
	sl.add(tally{rows: c.rows, raw: c.raw, stored: int64(len(p.data)), first: c.first, last: c.last})

	op := batch.SetDeferred(chunkKeySize, chunkHeaderSize+len(p.data))
	putChunkKey(op.Key, sl.num, sl.chunks)
	copy(op.Value[chunkHeaderSize:], p.data)
	putChunkHeader(op.Value, chunkHeader{
		encoding: p.encoding, rows: c.rows, raw: c.raw, last: c.last, slice: sl.tally,
	})
	if err := op.Finish(); err != nil {
		panic(fmt.Sprintf("buffer: build batch: %v", err)) // only an indexed batch can fail here
	}
	sl.chunks++
	s.waiting.Add(int64(len(p.data)))
	s.file.gathered += int64(len(p.data))
	t.b.gathering.Add(int64(len(p.data)))

	if r := c.def.Upload.Due(trigger.Load{Since: sl.rec.Opened, Size: sl.stored, Count: sl.rows}, t.now); r != trigger.None {
		t.sealSlice(sl, r)
	}
	t.checkFile(s, t.now)
	return int64(len(p.data))
}

// encode writes the touched records into the batch.
func (t *txn) encode(batch *pebble.Batch) {
	set := func(key []byte, value []byte) { _ = batch.Set(key, value, nil) } // a plain batch cannot fail
	for _, s := range t.drop {
		delete(t.slices, s)
		_ = batch.Delete(sliceKey(s.num), nil)
	}
	for _, f := range t.dropFile {
		delete(t.files, f)
		_ = batch.Delete(fileKey(f.num), nil)
	}
	for s := range t.sinks {
		set(sinkKey(s.num), encodeRecord(&s.rec))
	}
	for f := range t.files {
		f.sink.recount()
		set(fileKey(f.num), encodeRecord(&f.rec))
	}
	for s := range t.slices {
		set(sliceKey(s.num), encodeRecord(&s.rec))
	}
	for _, fn := range t.extra {
		fn(batch)
	}
	for _, num := range t.wipe {
		wipeChunks(batch, num, t.b.mu.slices[num])
	}
	if t.counters && mutant != mutantReuseID {
		set([]byte(keyCounters), encodeCounters(t.b.mu.lastFile, t.b.mu.lastSlice))
	}
}

// wipeOneByOne is up to how many chunks of a slice are deleted by their keys.
const wipeOneByOne = 64

// wipeChunks deletes the chunks of a slice; sl is nil when it is forgotten.
//
// A deleted range is one key, whatever lies in it, but the first reading after it puts all ranges in the write buffer in
// order once more. Where each of thousands of sinks has a slice of a few rows, every upload did that: 10,000 of them took
// 30 s of CPU. A slice with many chunks takes so much of the write buffer that few such ranges fit into it.
func wipeChunks(batch *pebble.Batch, num uint64, sl *slice) {
	// Of what was damaged once, the number of the last chunk is not sure.
	if sl != nil && sl.rec.Chunks > 0 && sl.rec.Chunks <= wipeOneByOne && sl.rec.Reason != reasonSalvaged &&
		!sl.rec.Salvaged && !sl.rec.Uncounted && sl.rec.Revision == 0 {
		var key [chunkKeySize]byte
		for seq := range sl.rec.Chunks {
			putChunkKey(key[:], num, seq)
			_ = batch.Delete(key[:], nil)
		}
		return
	}
	from, to := chunkBounds(num)
	_ = batch.DeleteRange(from, to, nil)
}

func encodeCounters(file, slice uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, file)
	return binary.BigEndian.AppendUint64(b, slice)
}
