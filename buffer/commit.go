package buffer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

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
	if c.stage.Swap(handed) == awaited || unwritten || b.failure() != nil {
		b.logSynced()
	}
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
	durable []func()
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
	if f := b.failure(); f != nil {
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
	c.changed, c.durable = t.changed, t.durable
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
	for _, fn := range t.afterApply {
		fn()
	}
	b.hand(c)
}

// finish waits until the commit is on disk and tells everybody.
func (b *Buffer) finish(c *commit) {
	if c.err == nil && c.batch != nil {
		if err := c.batch.SyncWait(); err != nil {
			c.err = b.fail(fmt.Errorf("commit: %w", err))
		} else if b.failure() == nil {
			_ = c.batch.Close() // gives its memory back to the store
		}
	}
	// An operation that had nothing to write may rest on a commit before it that failed.
	if f := b.failure(); c.err == nil && f != nil {
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
	for _, fn := range c.durable {
		fn()
	}
	b.gate.ended(c.group, nil)
}
