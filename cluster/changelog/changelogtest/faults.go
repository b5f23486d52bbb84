package changelogtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// Faults says how long messages take, and how often something goes wrong, as probabilities from 0 to 1. The zero value is a
// healthy cluster that responds at once.
type Faults struct {
	// Delay is the longest time that a message takes. Each draws its own. Messages from one end to another stay in order.
	Delay time.Duration
	// Timeout is how long a call waits for its response; 0 means 5 s. Then it fails with changelog.ErrUnknown.
	Timeout time.Duration
	// LostRequests never arrive.
	LostRequests float64
	// LateRequests arrive when their call has timed out. The append is stored then, or the trim removes entries.
	LateRequests float64
	// RepeatedRequests arrive a second time, out of order, within another Timeout. The second copy of a batch gets the position of
	// the first, if that is stored and not forgotten. Any other is refused, and the refusal may arrive first.
	RepeatedRequests float64
	// DuplicateWindow is how long a stream remembers the ids of batches; 0 means 2 minutes. A new leader has forgotten the ids of
	// trimmed batches.
	DuplicateWindow time.Duration
	// LostResponses belong to requests that took effect.
	LostResponses float64
	// NewLeaders is how often the leader of a stream fails when a request arrives. Proposals that the next leader does not have
	// are dropped. It commits the rest, and their callers get no response.
	NewLeaders float64
	// StaleReads is how often Stat and Get return an older state.
	StaleReads float64
	// SkippedVersions is how often a watch leaves out a version of a key that has a newer one.
	SkippedVersions float64
	// BrokenWatches is how often a watch ends with an error instead of continuing with changes.
	BrokenWatches float64
}

// network carries the messages between callers and replicas. Its lock guards everything that arriving messages reach.
type network struct {
	mu     sync.Mutex
	rng    *rand.Rand
	faults Faults
}

func newNetwork(seed uint64, f Faults) network {
	return network{rng: rand.New(rand.NewPCG(seed, 0)), faults: f}
}

func (n *network) setFaults(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

func (n *network) chance(p float64) bool { return p > 0 && n.rng.Float64() < p }

// upTo draws a duration that is longer than nothing, or returns 0 for 0.
func (n *network) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return 1 + time.Duration(n.rng.Int64N(int64(d)))
}

func (n *network) timeout() time.Duration { return cmp.Or(n.faults.Timeout, 5*time.Second) }

func (n *network) duplicateWindow() time.Duration {
	return cmp.Or(n.faults.DuplicateWindow, 2*time.Minute)
}

// link carries messages from one end to another, in order.
type link struct {
	queue []func()
	last  time.Time // when the last one of queue arrives
}

// send runs arrive after d, with the lock held, and after the messages already on the link. The caller holds the lock.
func (n *network) send(l *link, d time.Duration, arrive func()) {
	if d == 0 && len(l.queue) == 0 {
		arrive()
		return
	}
	if at := time.Now().Add(d); at.After(l.last) {
		l.last = at
	}
	l.queue = append(l.queue, arrive)
	time.AfterFunc(time.Until(l.last), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		next := l.queue[0] // timers of the same moment fire in any order, so that each takes the first message
		l.queue = l.queue[1:]
		next()
	})
}

// request sends the request of a caller. The caller holds the lock.
func (n *network) request(l *link, arrive func()) {
	if n.chance(n.faults.RepeatedRequests) {
		n.send(&link{}, n.upTo(n.timeout()), arrive)
	}
	d := n.upTo(n.faults.Delay)
	switch {
	case n.chance(n.faults.LostRequests):
		return
	case n.chance(n.faults.LateRequests):
		d += n.timeout() + n.upTo(n.timeout())
	}
	n.send(l, d, arrive)
}

// respond sends the response to a waiting caller. The caller holds the lock.
func (n *network) respond(l *link, arrive func()) {
	if !n.chance(n.faults.LostResponses) {
		n.send(l, n.upTo(n.faults.Delay), arrive)
	}
}

// call sends a request and waits for its response. When the request arrives do runs with the lock held. It may respond later.
func call[A any](ctx context.Context, n *network, do func(respond func(A, error))) (value A, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	type reply struct {
		value A
		err   error
	}
	var out, back link
	replies := make(chan reply, 1)
	respond := func(value A, err error) {
		n.respond(&back, func() {
			select {
			case replies <- reply{value, err}:
			default: // the request was repeated
			}
		})
	}
	n.mu.Lock()
	n.request(&out, func() { do(respond) })
	timeout := n.timeout()
	n.mu.Unlock()
	select {
	case r := <-replies: // without a delay, so that a caller who stands still here misses nothing
		return r.value, r.err
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-timer.C:
		return value, noResponse(timeout)
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func noResponse(timeout time.Duration) error {
	return fmt.Errorf("%w: no response after %v", changelog.ErrUnknown, timeout)
}
