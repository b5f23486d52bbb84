package buffer

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The path of a group, from the first row to the acknowledgement:
//
//	caller                     committer                              syncer                      store
//	Append: row into a chunk
//	of the gathering group ──▶ (kick)
//	Wait ────────────────────▶ take: the group gathers no more,
//	                           the next one begins
//	                           prepare: compress, change the state,
//	                           encode one batch ─────────────────────────────────────────────▶ log, memory table
//	                           hand ────────────────────────────────▶ next                     sync ──▶ (wake)
//	                           takes the next group                   SyncWait ◀────────────── done
//	                                                                  wait for the changelog, if there is one
//	                                                                  finish: counters, what follows
//
// Where some sinks do not wait for the changelog (SinkConfig.AckLocal), a third goroutine waits for it and finishes, and the syncer
// continues: its commits end the wait of the callers of those sinks.
//
//	Wait returns ◀─────────────────────────────────────────────────── group.end
//	                           (kick) ◀────────────────────────────── finished
//
// What wakes whom:
//
//	kick wakes the committer     the first rows of a group, its first waiter, an operation, a size that was reached, probe, a commit
//	                             that is finished, a failure of the store, Close, callers that wait for room
//	timer wakes the committer    the end of Tuning.SyncInterval, for rows without a waiter
//	wake wakes the syncer        a sync of the log; see syncQueue
//	done wakes the callers       the end of their group; see grace
//
// A group is due (gate.take) when a caller waits for it, when it holds commitBytes, or when SyncInterval has passed. It may be taken when
// no commit is underway, or when it is so heavy that preparing it takes the time of a sync. A group with rows that do not wait for the
// changelog may be taken when all commits are on disk. gate.gathered holds a group back for callers that are about to come.

// commitLoop is the committer. It ends after the group that gathered when the buffer was drained.
func (b *Buffer) commitLoop() {
	defer b.syncs.close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for b.mayCommit() && b.gate.gathered() {
			g, rest := b.gate.take(b.opts.SyncInterval)
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

// mayCommit reports whether the gathering group may be taken.
func (b *Buffer) mayCommit() bool {
	underway := b.syncs.underway.Load()
	if underway == 0 {
		return true
	}
	if !b.early.Load() {
		return b.gate.heavy()
	}
	// The committer must not wait for commits that the changelog lacks.
	return underway < mostUnderway && b.gate.heavy() || b.syncs.unsynced.Load() == 0 && b.gate.hasLocal()
}

// mostUnderway is how many commits without rows of SinkConfig.AckLocal run at most.
const mostUnderway = 3

// syncLoop is the syncer. It waits for the disk and lets the callers go. It is apart from the committer so that the next
// group is compressed and encoded while this one is being written.
func (b *Buffer) syncLoop() {
	defer b.confirms.close()
	for {
		c, ok := b.syncs.next()
		if !ok {
			return
		}
		b.synced(c)
		b.syncs.synced()
		if b.early.Load() {
			b.confirms.push(c)
		} else {
			b.finish(c)
			b.syncs.finished()
		}
		b.gate.kick()
	}
}

// confirmLoop waits for the changelog in place of the syncer, once there are callers who do not.
func (b *Buffer) confirmLoop() {
	defer close(b.closed)
	for {
		c, ok := b.confirms.next()
		if !ok {
			b.tellVoid(b.instance)
			return
		}
		b.finish(c)
		b.syncs.finished()
		b.gate.kick()
	}
}

// hand lets the syncer finish a commit.
func (b *Buffer) hand(c *commit) {
	b.syncs.hand(c, c.batch != nil && c.err == nil && b.failure() == nil)
}

// commit is a group on its way to the disk.
type commit struct {
	group *group
	stage atomic.Int32
	batch *pebble.Batch // nil when there is nothing to write
	// closed is set when the store has the memory of the batch back, which is then no longer read.
	closed bool
	// confirmed waits until the changelog has the batch. It is nil without a changelog. The memory of the batch is its as long, unless it has a
	// copy (see early.copied).
	confirmed func(context.Context) error
	err       error  // nothing was written
	raw       int64  // bytes that leave memory
	local     int64  // payload bytes added to the local level, less the bytes that leave it
	staged    int64  // likewise of staging
	changed   bool   // a file has changed
	copied    []byte // lines of the copy of the records
	notes     []note // the receipts of its rows
	early     early
	durable   []func()
	began     time.Time
}

// early is the part of a commit for callers that do not wait for the changelog.
type early struct {
	notes []note // the receipts of their rows
	rows  int64
	size  int64 // memory of the batch until the changelog has it
	// copied is the first of the batches up to this one that all have a copy in the store. 0 means that this one has none.
	copied uint64
	acked  bool // the callers were told that the rows are stored
}

// recordBytes is how many bytes the records of a slice and its file take in a batch, about. A batch that grows is copied, and is in memory twice.
const recordBytes = 512

// prepare makes one batch of a group and hands it to the store, without waiting for the disk.
func (b *Buffer) prepare(g *group) {
	c := &commit{group: g, began: time.Now()}
	// From here on no chunk of the group takes more rows.
	for _, ch := range g.chunks {
		ch.sink.mu.Lock()
		if ch.sink.open == ch {
			ch.sink.open = nil
		}
		ch.sink.mu.Unlock()
		c.raw += ch.raw + ch.rejectBytes + ch.noteBytes
	}
	defer b.gate.recycle(g)
	if f := b.failure(); f != nil {
		for _, ch := range g.chunks {
			ch.sink.unstored.Add(ch.rows)
			ch.release()
			c.notes = append(c.notes, ch.notes...)
		}
		c.err = f
		b.syncs.add(c)
		b.hand(c)
		return
	}

	b.dropLost(g)
	b.order.sort(g.chunks)
	payloads := b.pack.pack(g.chunks)
	if payloads.spread != b.gate.spread.Load() { // all callers read it, so it is written only when it changes
		b.gate.spread.Store(payloads.spread)
	}
	c.batch = b.db.NewBatchWithSize(payloads.size + 1024 + min(recordBytes*len(g.chunks), payloads.size/8))
	t := &txn{b: b, now: b.now(), batch: c.batch}
	t.deleteForgotten(c.batch)
	b.mu.Lock()
	for i, ch := range g.chunks {
		if ch.rows > 0 {
			c.local += t.addChunk(c.batch, ch, payloads.at(i))
		}
		if len(ch.rejects) > 0 {
			c.local += t.addRejects(c.batch, ch)
		}
		t.addPositions(ch)
		ch.release()
		if ch.local {
			c.early.rows += ch.rows + int64(len(ch.rejects))
		}
		if len(ch.notes) > 0 {
			t.addNotes(c.batch, ch)
			if ch.local {
				c.early.notes = append(c.early.notes, ch.notes...)
			} else {
				c.notes = append(c.notes, ch.notes...)
			}
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
	c.changed, c.durable, c.copied = t.changed, t.durable, t.copied
	if c.batch.Empty() {
		c.batch = nil
	}
	var repr []byte // kept, because a large batch has none after it was applied
	if c.batch != nil && b.opts.Changelog != nil {
		b.confirm.number++
		b.dropTail(c.batch)
		repr = putPosition(c.batch, b.confirm.number, b.nextMark())
		if b.early.Load() {
			repr = b.copyBatch(c, repr)
		}
	}
	b.syncs.add(c)
	if c.batch != nil { // else the operations had nothing to write
		size := c.batch.Len()
		if err := b.db.ApplyNoSyncWait(c.batch, pebble.Sync); err != nil {
			c.err = b.fail(fmt.Errorf("commit: %w", err))
		} else if repr != nil {
			c.confirmed = b.replicate(repr)
		}
		b.store.Opening().Stored(size)
	}
	for _, fn := range t.afterApply {
		fn()
	}
	b.hand(c)
}

// dropLost removes the rows of sinks that are gone, because other sinks may have their numbers now.
func (b *Buffer) dropLost(g *group) {
	g.chunks = slices.DeleteFunc(g.chunks, func(ch *chunk) bool {
		gone := ch.sink.gone.Load()
		if gone {
			g.incomplete = true
			ch.release()
			b.receipts.finish(ch.notes, false)
			b.log.Error("rows in memory lost with their sink", "sink", ch.sink.id, "rows", ch.rows,
				"rejected", len(ch.rejects), "next", "define the sink again and resend the rows")
		}
		return gone
	})
}

// synced waits until the commit is on disk, and notifies the callers that wait for nothing else.
func (b *Buffer) synced(c *commit) {
	if c.err == nil && c.batch != nil {
		if err := c.batch.SyncWait(); err != nil {
			c.err = b.fail(fmt.Errorf("commit: %w", err))
		}
	}
	// After a failure the store may have lost the batch or one before. Without a copy of all batches that the changelog lacks, the next
	// opening could not append this one.
	e := &c.early
	if e.copied != 0 && b.failure() == nil { // the changelog has a copy of the bytes, and may lag for a long time
		c.close()
	}
	if c.err != nil || b.failure() != nil || e.copied == 0 || e.copied > b.confirm.confirmed.Load()+1 {
		return
	}
	b.admission.onDisk(c.raw, e.size)
	c.raw = e.size
	b.receipts.finish(e.notes, true)
	e.notes, e.acked = nil, true
	b.gate.endedLocal(c.group, nil)
}

// close gives the memory of a batch that is on disk back to the store. Called by the syncer, or by who finishes the commit after it.
func (c *commit) close() {
	if c.err == nil && c.batch != nil && !c.closed {
		_ = c.batch.Close()
		c.closed = true
	}
}

// finish waits until a commit that is on disk is in the changelog as well, if there is one, and notifies all waiters.
func (b *Buffer) finish(c *commit) {
	if c.err == nil && c.batch != nil {
		if c.confirmed != nil && b.fenced.Load() == nil {
			if c.err = b.awaitChangelog(c); c.err == nil {
				b.confirm.confirmed.Add(1)
			}
		}
		if b.failure() == nil {
			c.close()
		}
	}
	// An operation without a write still depends on earlier commits. It fails if one of them failed.
	if f := b.failure(); c.err == nil && f != nil {
		c.err = f
	}
	b.countVoid(c)
	if c.err != nil {
		c.local, c.staged = 0, 0
	}
	b.admission.committed(c.raw, c.local, c.staged)
	if c.batch != nil {
		took := time.Since(c.began)
		b.tookCommits.add(took)
		b.metrics.committed(took)
		b.opts.Hooks.committed(CommitEvent{took, c.raw, c.err})
	}
	b.receipts.finish(append(c.notes, c.early.notes...), c.err == nil)
	if c.err != nil {
		b.gate.ended(c.group, c.err)
		return
	}
	if c.changed {
		b.mu.Lock()
		b.signalChange()
		b.mu.Unlock()
	}
	if len(c.copied) > 0 {
		b.copy.add(c.copied)
	}
	for _, fn := range c.durable {
		fn()
	}
	b.gate.ended(c.group, nil)
}
