package instance

import (
	"sync"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// room is the free space in the stream of an instance. It says when a checkpoint is due, so that the log can be trimmed, and holds up
// batches when only the reserve is left.
//
// Holding up is done before the local level makes a batch, so that a checkpoint never has one for which the log has no room. If the log
// were filled to its bound, the local level would have batches that cannot be released. No checkpoint with them may be named,
// because an adopter could not know whether they were acknowledged, and without a checkpoint there is nothing to trim.
//
// It counts appended bytes, on the safe side. The loop that makes checkpoints corrects the count with the log's size.
// Until it is bounded it counts nothing and holds up nothing. Its methods may be called concurrently.
type room struct {
	due chan struct{} // gets a value when a checkpoint may be due

	mu      sync.Mutex
	changed sync.Cond
	size    int64     // of the stream
	trimmed int64     // the size after the last trim
	every   int64     // bytes from one checkpoint to the next
	max     int64     // of the stream; 0 if not bounded
	limit   int64     // where batches are held up. The rest is for batches on their way
	pass    bool      // one batch may pass nevertheless
	since   time.Time // when a checkpoint became due that is not made yet
}

// recordBytes is more than a record takes in addition to its data.
const recordBytes = 512

func newRoom() *room {
	r := &room{due: make(chan struct{}, 1)}
	r.changed.L = &r.mu
	return r
}

// bound begins to count. A checkpoint is due every so many bytes.
func (r *room) bound(stat changelog.Stat, every int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.every = every
	r.set(stat.Bytes, stat.MaxBytes)
	r.signal()
}

func (r *room) set(size, most int64) {
	r.size, r.max, r.limit = size, most, most/4*3
	r.changed.Broadcast()
}

// unbound lets everything pass again.
func (r *room) unbound() { r.bound(changelog.Stat{}, 0) }

// isDue reports whether enough was appended for a checkpoint. Near the bound less is enough, but not nothing, because the log would not get
// shorter.
func (r *room) isDue() bool {
	grown := r.size - r.trimmed
	return r.max > 0 && (grown >= r.every || r.size >= r.max*6/10 && grown >= r.max/20)
}

// signal wakes the loop that makes checkpoints.
func (r *room) signal() {
	if !r.isDue() {
		r.since = time.Time{}
		return
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// hold waits for room. It is called before a batch is made.
func (r *room) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.size >= r.limit && r.isDue() && !r.pass {
		r.changed.Wait()
	}
	r.pass = false
}

// add counts a batch that is appended.
func (r *room) add(data int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.max > 0 {
		r.size += int64(data) + recordBytes*int64(1+data/changelog.PartBytes)
		r.signal()
	}
}

// correct replaces the count by the log's size, with the bytes that wait for it, and reports whether a checkpoint is due. trimmed says that the
// log was trimmed just now.
func (r *room) correct(stat changelog.Stat, waiting int64, trimmed bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if trimmed {
		r.trimmed = stat.Bytes
	}
	r.set(stat.Bytes+waiting, stat.MaxBytes)
	due := r.isDue()
	if trimmed || !due {
		r.since = time.Time{}
	}
	return due
}

// dueSince is since when a checkpoint is due and not made, or zero if none is.
func (r *room) dueSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// passOne lets one batch pass. A committer that is held up cannot see that the local level has failed, and open it again.
func (r *room) passOne() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pass = true
	r.changed.Broadcast()
}
