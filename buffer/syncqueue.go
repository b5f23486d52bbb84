package buffer

import (
	"sync"
	"sync/atomic"
)

// syncQueue brings commits from the committer to the syncer, in their order. The committer adds a commit before it gives the
// batch to the store, and hands it over afterwards:
//
//	committer             commit.stage              syncer (next)
//	add                   preparing
//	batch to the store    │      └─▶ awaited   ◀─── comes too early, waits for wake
//	hand                  └▶ handed ◀──┘       ───▶ takes it, waits for the sync of its batch
//
// The committer does not wake the syncer. The store does, after each sync of its log. A goroutine that is woken last runs
// first. If the committer woke the syncer, the store's writer of the log would run after all callers that can run, and the
// disk would be idle for as long. hand wakes it only if no more syncs will follow, or if the sync that was to wake it
// arrived too early and found the commit preparing (awaited).
type syncQueue struct {
	commits chan *commit  // in order, closed after the last
	token   chan struct{} // capacity 1, tells the syncer to look at its commits
	first   *commit       // of the syncer, the next one, which is not handed yet
	// underway counts the commits that were added and not finished, unsynced the commits that are not on disk either.
	underway, unsynced atomic.Int64
}

// The stages of a commit.
const (
	preparing int32 = iota
	awaited
	handed
)

func newSyncQueue() syncQueue {
	return syncQueue{commits: make(chan *commit, 2), token: make(chan struct{}, 1)}
}

// add gives a commit its place in the order. It waits while two others are on their way.
func (q *syncQueue) add(c *commit) {
	q.underway.Add(1)
	q.unsynced.Add(1)
	q.commits <- c
}

// hand lets the syncer have a commit. synced says that a sync of the log has woken it or will. The commit is the syncer's
// afterwards.
func (q *syncQueue) hand(c *commit, synced bool) {
	if c.stage.Swap(handed) == awaited || !synced {
		q.wake()
	}
}

// wake makes the syncer look at its commits. It never blocks.
func (q *syncQueue) wake() {
	select {
	case q.token <- struct{}{}:
	default:
	}
}

// close ends the queue after the last commit.
func (q *syncQueue) close() {
	close(q.commits)
	q.wake()
}

// next returns the next commit once it was handed, or false after the last. The syncer calls synced when it has waited for the disk.
// finished is called when all is done with it.
func (q *syncQueue) next() (*commit, bool) {
	for {
		if q.first == nil {
			select {
			case c, ok := <-q.commits:
				if !ok {
					return nil, false
				}
				q.first = c
			default:
			}
		}
		if c := q.first; c != nil {
			c.stage.CompareAndSwap(preparing, awaited)
			if c.stage.Load() == handed {
				q.first = nil
				return c, true
			}
		}
		<-q.token
	}
}

func (q *syncQueue) synced()   { q.unsynced.Add(-1) }
func (q *syncQueue) finished() { q.underway.Add(-1) }

// confirmQueue has the commits that are on disk and that the changelog may lack, in order. The syncer puts them there when callers are
// released before the changelog has their rows. The memory of their batches counts as pending, which bounds them.
type confirmQueue struct {
	mu      sync.Mutex
	changed sync.Cond
	commits []*commit
	closed  bool
}

func (q *confirmQueue) push(c *commit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commits = append(q.commits, c)
	q.changed.Signal()
}

// next waits for the next commit, or false after the last.
func (q *confirmQueue) next() (*commit, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.commits) == 0 && !q.closed {
		q.changed.Wait()
	}
	if len(q.commits) == 0 {
		return nil, false
	}
	c := q.commits[0]
	q.commits[0] = nil
	q.commits = q.commits[1:]
	return c, true
}

func (q *confirmQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
}
