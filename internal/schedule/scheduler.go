// Package schedule calls back when deadlines have come. Keys that wait cost a heap entry and nothing else, as there is
// no polling.
package schedule

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// Scheduler calls a function for each key when its deadline has come. One goroutine and one timer serve all keys.
//
// It is safe for concurrent use and must be stopped.
type Scheduler[K comparable] struct {
	fire  func(key K)
	base  time.Time // the zero of entry.at. Its monotonic reading makes every deadline immune to steps of the wall clock
	timer *time.Timer
	quit  chan struct{} // closed by the first Stop
	done  chan struct{} // closed when the goroutine has ended

	// mu guards the fields below. It is never held while fire runs. The timer is reset only under mu, so that it is
	// always armed for the first entry or for an earlier time.
	mu      sync.Mutex
	heap    entryHeap[K]
	entries map[K]*entry[K]
	seq     uint64
	stopped bool
}

// New starts a scheduler. It calls fire with each key whose deadline has come, in the order of the deadlines. Equal
// deadlines fire in the order of their calls of Set. The entry of the key is gone when fire is called.
//
// fire runs on the scheduler's goroutine, one call at a time and without a lock, so it may call Set and Remove. The other keys
// wait while it runs. It must not call Stop, which waits for it.
func New[K comparable](fire func(key K)) *Scheduler[K] {
	s := &Scheduler[K]{
		fire:    fire,
		base:    time.Now(),
		timer:   time.NewTimer(math.MaxInt64),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		entries: make(map[K]*entry[K]),
	}
	s.timer.Stop()
	go s.run()
	return s
}

// Set gives the key the deadline at and replaces an earlier one. A deadline that has passed fires soon. The zero time
// removes the entry. After Stop, Set does nothing.
//
// A deadline without a monotonic reading is compared with the wall clock once, during the call.
func (s *Scheduler[K]) Set(key K, at time.Time) {
	if at.IsZero() {
		s.Remove(key)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	// A past deadline becomes now, so a key that is always late takes its turn after keys that are due already.
	now := time.Now()
	elapsed := now.Sub(s.base)
	wait := max(0, at.Sub(now))
	due := elapsed + min(wait, math.MaxInt64-elapsed)

	s.seq++
	e := s.entries[key]
	if e == nil {
		e = &entry[K]{key: key, at: due, seq: s.seq}
		s.entries[key] = e
		heap.Push(&s.heap, e)
	} else {
		e.at, e.seq = due, s.seq
		heap.Fix(&s.heap, e.index)
	}
	// An entry that left the first place for a later one leaves the timer too early. The goroutine finds nothing due
	// and arms it again. That is cheaper than a reset at each of the many calls that postpone.
	if s.heap[0] == e {
		s.timer.Reset(wait)
	}
}

// Remove drops the entry of the key, if there is one. A call of fire with the key may still run when it returns.
func (s *Scheduler[K]) Remove(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e != nil {
		s.drop(e)
	}
}

// Stop ends the scheduler and waits for a running call of fire. None follows. It may be called several times, also at once.
func (s *Scheduler[K]) Stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		s.heap, s.entries = nil, nil
		s.timer.Stop()
		close(s.quit)
	}
	s.mu.Unlock()
	<-s.done
}

func (s *Scheduler[K]) run() {
	defer close(s.done)
	for {
		select {
		case <-s.quit:
			return
		case <-s.timer.C:
		}
		for {
			key, ok := s.next()
			if !ok {
				break
			}
			s.fire(key)
		}
	}
}

// next takes the first entry if it is due. Otherwise it arms the timer for it and returns false.
func (s *Scheduler[K]) next() (key K, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heap) == 0 {
		return key, false
	}
	first := s.heap[0]
	if wait := first.at - time.Since(s.base); wait > 0 {
		s.timer.Reset(wait)
		return key, false
	}
	s.drop(first)
	return first.key, true
}

// drop removes e. The caller holds mu.
func (s *Scheduler[K]) drop(e *entry[K]) {
	heap.Remove(&s.heap, e.index)
	delete(s.entries, e.key)
}

// entry is the deadline of one key.
type entry[K comparable] struct {
	key   K
	at    time.Duration // since Scheduler.base
	seq   uint64        // orders equal deadlines by the calls of Set, which keeps a busy key from starving others
	index int           // in the heap
}

// entryHeap is a [heap.Interface] with the earliest deadline first.
type entryHeap[K comparable] []*entry[K]

func (h entryHeap[K]) Len() int { return len(h) }

func (h entryHeap[K]) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h entryHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *entryHeap[K]) Push(x any) {
	e := x.(*entry[K])
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *entryHeap[K]) Pop() any {
	old := *h
	last := len(old) - 1
	e := old[last]
	old[last] = nil
	*h = old[:last]
	return e
}
