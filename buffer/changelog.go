package buffer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Changelog keeps the batches of a local level where they outlive the machine, so that another machine can continue with
// [Restore]. The buffer appends each batch side by side with its fsync. Rows are acknowledged, and uploads, imports and deletions
// begin, when their batch and all batches before it are on the local disk and in the changelog.
//
// While the changelog does not respond, callers wait, and new ones get an [*OverloadError] when memory is full. A batch that
// it has not confirmed 20 s after Close has begun gets a [*FailedError], because the outcome is unknown.
//
// The methods are not called concurrently, but Append may be called while the end of an earlier append is waited for.
type Changelog interface {
	// Begin is called with each opening of the local level, before anything else is done with it, by Open and after each
	// failure. at is the position of the local level. Begin yields the later batches of the log, in order, and the local level
	// applies them. Then the log is this buffer's, and Append continues after the last batch. Unfinished appends from before
	// are no longer waited for.
	//
	// If the log lacks batches, up to at, Begin appends them again, and returns when the log has them. It reads them from at.Tail if
	// it no longer has them. It fails if they are not there either. These batches were never acknowledged, and [Restore] makes the
	// local level without them. With an error that is [ErrFenced] the buffer stops permanently. With any other one Open fails, or the
	// buffer tries again with the backoff of Tuning.Retry.
	Begin(ctx context.Context, at LogPosition) iter.Seq2[LogBatch, error]

	// Mark returns the data that the next batch carries in addition to its number, for Begin to tell whether the local level and
	// the log have one history. It may be the id of the log and a hash over the batches before. The buffer keeps a copy.
	//
	// Mark may wait, for example for room in the log. No batch is made meanwhile, and Close waits for it.
	Mark() []byte

	// Append begins to append a batch. Numbers are 1, 2, … without gaps. It does not wait for the log. At most three batches are
	// in progress, and with sinks that have AckLocal as many as Tuning.MaxPendingBytes holds, which counts each with its bytes and 1.5 KiB.
	// So hold no more than 512 bytes for a batch in addition to its bytes. The bytes stay as they are until wait has returned nil, and
	// permanently if it returns an error.
	//
	// wait is called once, in the order of the numbers. It returns nil when the batch is in the log, an error that is [ErrFenced]
	// when the log belongs to another owner, and any other error, as when ctx ends, when the outcome is unknown. Then the buffer
	// closes the local level, opens it again, and calls Begin.
	Append(number uint64, batch []byte) (wait func(ctx context.Context) error)
}

// LogPosition is the place in a [Changelog] up to which a local level holds its batches.
type LogPosition struct {
	// Number of the last batch. Zero means none.
	Number uint64
	// Mark is what Changelog.Mark returned before that batch.
	Mark []byte
	// Tail yields the last batches up to Number that the local level has copies of, and perhaps older ones. It can be read until Begin
	// has ended. There are copies of all batches that the log may lack if one of them has rows of a sink with SinkConfig.AckLocal that were
	// acknowledged. Nil means none.
	Tail iter.Seq2[LogBatch, error]
}

// LogBatch is one batch of a [Changelog].
type LogBatch struct {
	// Number is the number that Changelog.Append got.
	Number uint64
	// Data are the bytes that Changelog.Append got. They are only read.
	Data []byte
}

// ErrFenced is part of errors of a [Changelog] whose log another owner has opened.
var ErrFenced = errors.New("another owner has opened the changelog")

// silentAfter is how long the changelog may take for a batch before an [*OverloadError] says that it does not respond.
const silentAfter = time.Second

// confirmation is the buffer's side of its changelog during one opening of the local level.
type confirmation struct {
	number uint64 // of the last batch, the committer's
	// confirmed is the number of the last batch that the changelog has.
	confirmed atomic.Uint64
	// copied is the first of the newest batches that all have a copy in the store, 0 if the last one has none. tail is the first batch
	// that may have a copy, 0 if none has. Both are the committer's.
	copied, tail uint64
	// ctx ends the waiting of the syncer. giveUp ends it when the local level has failed. It also ends with all, which end ends some time after
	// Close has begun.
	ctx, all context.Context
	giveUp   context.CancelFunc
	end      context.CancelCauseFunc
}

// changelogError is a failure of the changelog.
type changelogError struct{ err error }

func (e *changelogError) Error() string { return fmt.Sprintf("the changelog failed: %v", e.err) }
func (e *changelogError) Unwrap() error { return e.err }

// follow applies the batches that the store lacks, and returns the number of the last one.
func (b *Buffer) follow(db *pebble.DB) (number uint64, err error) {
	r, err := newReplay(db, b.fs, b.dir)
	if err != nil {
		return 0, err
	}
	if b.opts.Changelog == nil {
		if r.at.Number > 0 {
			// From now on the store has changes that the log has not.
			b.log.Warn("changelog of the local level not used", "dir", b.dir, "batch", r.at.Number, "next", "if this was not intended, open the directory as a node of its cluster")
			batch := db.NewBatch()
			_ = batch.Delete([]byte(format.KeyLog), nil) // a plain batch cannot fail
			_ = batch.DeleteRange([]byte{format.PrefixTail}, []byte{format.PrefixTail + 1}, nil)
			err = db.Apply(batch, pebble.Sync)
		}
		return 0, err
	}
	r.at.Tail = tailOf(db)
	for batch, err := range b.opts.Changelog.Begin(b.ctx, r.at) {
		if err == nil {
			err = r.apply(batch)
		}
		if err != nil {
			return 0, b.refused(db, err)
		}
	}
	return r.at.Number, r.sync()
}

// refused returns an error of the changelog from an opening.
func (b *Buffer) refused(db *pebble.DB, err error) error {
	if !errors.Is(err, ErrFenced) {
		return &changelogError{err}
	}
	instance, _ := pebblestore.Get(db, []byte(format.KeyInstance)) // for the text alone
	b.findVoid(db, string(instance))
	return b.stopFor(string(instance), err)
}

// write makes a change of recovery. The log has it first, so a crash in between leaves a store that lacks a batch, and not a
// log that does.
func (r *recovery) write(batch *pebble.Batch) error {
	if log := r.buffer.opts.Changelog; log != nil {
		r.number++
		if err := log.Append(r.number, putPosition(batch, r.number, log.Mark()))(r.buffer.ctx); err != nil {
			return r.buffer.refused(r.db, err)
		}
	}
	return r.db.Apply(batch, pebble.Sync)
}

// putPosition adds the position to a batch and returns its bytes. The store fills in their sequence number when the batch is
// applied. In the log it is zero.
func putPosition(batch *pebble.Batch, number uint64, mark []byte) []byte {
	_ = batch.Set([]byte(format.KeyLog), format.EncodeLogPosition(number, mark), nil) // a plain batch cannot fail
	return batch.Repr()
}

// nextMark returns the mark of the next batch. Called by the committer.
func (b *Buffer) nextMark() []byte {
	b.stopped.Store(time.Now().UnixNano())
	defer b.stopped.Store(0)
	return b.opts.Changelog.Mark()
}

// replicate appends a batch that was just applied. Called by the committer.
func (b *Buffer) replicate(repr []byte) (wait func(context.Context) error) {
	binary.LittleEndian.PutUint64(repr, 0) // the store has taken it
	return b.opts.Changelog.Append(b.confirm.number, repr)
}

// tailOf yields the copies of batches that a store has.
func tailOf(db *pebble.DB) iter.Seq2[LogBatch, error] {
	return func(yield func(LogBatch, error) bool) {
		it, err := db.NewIter(iterBounds([]byte{format.PrefixTail}, []byte{format.PrefixTail + 1}))
		if err != nil {
			yield(LogBatch{}, err)
			return
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			_, number, data, err := parseTail(it)
			if !yield(LogBatch{Number: number, Data: bytes.Clone(data)}, err) || err != nil {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(LogBatch{}, err)
		}
	}
}

// parseTail reads the copy at which an iterator stands.
func parseTail(it *pebble.Iterator) (rows int64, number uint64, batch []byte, err error) {
	key := it.Key()[1:]
	value, err := it.ValueAndErr()
	if err != nil {
		return 0, 0, nil, err
	}
	rows, batch, ok := format.ParseTail(value)
	if !ok || len(key) != 8 {
		return 0, 0, nil, pebblestore.Damaged("the copy %x of a batch cannot be read: %d bytes", key, len(value))
	}
	return rows, binary.BigEndian.Uint64(key), batch, nil
}

// ackedLocally counts the rows of sinks with AckLocal in a store's copies of the batches after a number.
func ackedLocally(db *pebble.DB, after uint64) (rows int64, err error) {
	it, err := db.NewIter(iterBounds([]byte{format.PrefixTail}, []byte{format.PrefixTail + 1}))
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n, number, _, err := parseTail(it)
		if err != nil {
			return rows, err
		}
		if number > after {
			rows += n
		}
	}
	return rows, it.Error()
}

// recoverTail finds the first copy of a batch.
func (r *recovery) recoverTail() error {
	it, err := r.db.NewIter(iterBounds([]byte{format.PrefixTail}, []byte{format.PrefixTail + 1}))
	if err != nil {
		return err
	}
	defer it.Close()
	if it.First() && len(it.Key()) == 9 {
		r.tail = binary.BigEndian.Uint64(it.Key()[1:])
	}
	return it.Error()
}

// dropTail deletes the copies of batches that the changelog has. The log gets the deletions, where they find nothing to delete. Called by
// the committer.
func (b *Buffer) dropTail(batch *pebble.Batch) {
	c := &b.confirm
	end := c.confirmed.Load() + 1
	switch {
	case c.tail == 0 || end <= c.tail:
		return
	case end-c.tail > wipeOneByOne:
		_ = batch.DeleteRange(format.TailKey(c.tail), format.TailKey(end), nil) // a plain batch cannot fail
	default:
		for n := c.tail; n < end; n++ {
			_ = batch.Delete(format.TailKey(n), nil)
		}
	}
	if c.tail = end; !b.early.Load() {
		c.tail = 0 // all were from before this opening, which has appended them
	}
}

// batchOverhead is more than buffer and changelog hold for a batch that the changelog lacks, in addition to its bytes. Batches of one small
// row are a tenth of it.
const batchOverhead = 1536

// copyBatch adds a copy of a batch to itself, for an opening that finds that the log lacks it, and returns the bytes for the log.
// Called by the committer.
func (b *Buffer) copyBatch(c *commit, repr []byte) []byte {
	data := bytes.Clone(repr)
	op := c.batch.SetDeferred(1+8, format.TailHeadSize+len(data))
	copy(op.Key, format.TailKey(b.confirm.number))
	format.PutTailHead(op.Value, c.early.rows)
	copy(op.Value[format.TailHeadSize:], data)
	if err := op.Finish(); err != nil {
		panic(fmt.Sprintf("buffer: build batch: %v", err)) // only an indexed batch can fail here
	}
	if b.confirm.copied == 0 {
		b.confirm.copied = b.confirm.number
		b.confirm.tail = cmp.Or(b.confirm.tail, b.confirm.number)
	}
	c.early.copied, c.early.size = b.confirm.copied, int64(len(data))+batchOverhead
	return data
}

// awaitChangelog waits until the changelog has a batch.
func (b *Buffer) awaitChangelog(c *commit) error {
	b.silent.Store(time.Now().UnixNano())
	err := c.confirmed(b.confirm.ctx)
	b.silent.Store(0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFenced):
		err = b.stopFor(b.instance, err)
		_ = b.fail(err)
		b.background.cancel()
		b.mu.Lock()
		b.signalChange()
		b.mu.Unlock()
		return err
	case b.confirm.ctx.Err() != nil:
		err = context.Cause(b.confirm.ctx)
	}
	return b.fail(&changelogError{err})
}

// stopFor notes that the instance belongs to another owner. The store is not opened again.
func (b *Buffer) stopFor(instance string, cause error) error {
	f := &FencedError{Instance: instance, Err: cause}
	b.fenced.Store(f)
	b.log.Error("instance has another owner", "instance", instance, "dir", b.dir, "cause", cause, "next", "none; the node reopens with a new instance")
	return f
}

// countVoid counts the rows of a commit that were acknowledged before the changelog, which another owner has opened, had them. It may have
// them nevertheless.
func (b *Buffer) countVoid(c *commit) {
	if c.err != nil && c.early.acked && b.fenced.Load() != nil && !b.voidFound.Load() {
		b.void.Add(c.early.rows)
	}
}

// findVoid counts and reports the same rows where an opening finds that another owner has opened the changelog. Their commits have ended,
// or are about to end, without that knowledge, or were made by a process before.
func (b *Buffer) findVoid(db *pebble.DB, instance string) {
	if b.fenced.Load() != nil || b.voidFound.Swap(true) {
		return
	}
	rows, err := ackedLocally(db, b.confirm.confirmed.Load())
	if err != nil {
		b.log.Error("locally acknowledged rows not counted", "instance", instance, "dir", b.dir, "cause", err, "next", "salvage the folder that was set aside (docs/cluster-failures.md)")
		return
	}
	b.void.Store(rows)
	b.tellVoid(instance)
}

// tellVoid reports the count once.
func (b *Buffer) tellVoid(instance string) {
	if n := b.void.Swap(0); n > 0 {
		b.log.Error("locally acknowledged rows missing from the changelog", "instance", instance, "dir", b.dir, "rows_at_most", n, "next", "salvage the folder that was set aside (docs/cluster-failures.md)")
	}
}

// silentSince returns since when the changelog has not responded, zero if it works.
func (b *Buffer) silentSince() time.Time {
	if at := time.Unix(0, cmp.Or(b.silent.Load(), b.stopped.Load())); at.Unix() > 0 && time.Since(at) >= silentAfter {
		return at.UTC()
	}
	return time.Time{}
}

// logPosition reads the position of a store.
func logPosition(db *pebble.DB) (at LogPosition, err error) {
	value, err := pebblestore.Get(db, []byte(format.KeyLog))
	if err != nil || value == nil {
		return at, err
	}
	var ok bool
	if at.Number, at.Mark, ok = format.ParseLogPosition(value); !ok {
		return at, pebblestore.Damaged("the position in the changelog has %d bytes", len(value))
	}
	return at, nil
}
