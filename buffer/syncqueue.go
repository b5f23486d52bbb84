package buffer

import "sync/atomic"

// syncQueue brings commits from the committer to the syncer, in their order. The committer adds a commit before it gives the
// batch to the store, and hands it over afterwards:
//
//	committer             commit.stage              syncer (next)
//	add                   preparing
//	batch to the store    │      └─▶ awaited   ◀─── comes too early, waits for wake
//	hand                  └▶ handed ◀──┘       ───▶ takes it, waits for the sync of its batch
//
// The committer does not wake the syncer; the store does, after each sync of its log. A goroutine that is woken last runs
// first: if the committer woke the syncer, the store's writer of the log would run after all callers that can run, and the
// disk would be idle for as long. hand wakes it only where no sync will come any more, or where the one that was to wake it
// came too early and found the commit preparing (awaited).
type syncQueue struct {
	commits chan *commit  // in order; closed after the last
	token   chan struct{} // capacity 1: the syncer should look at its commits
	first   *commit       // of the syncer: the next one, which is not handed yet
	// underway counts the commits that were added and not finished.
	underway atomic.Int64
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

// next returns the next commit once it was handed; false after the last. The syncer calls finished when it is done with it.
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

func (q *syncQueue) finished() { q.underway.Add(-1) }
