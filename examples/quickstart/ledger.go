package main

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// ledger is what the clients know: which deliveries each sink has acknowledged.
type ledger struct {
	// run is the prefix of all delivery ids.
	run string

	done   atomic.Int64
	marks  []int64
	marked chan struct{}

	mu       sync.Mutex
	acked    []map[delivery]struct{} // by sink
	rejected int64
}

func newLedger() *ledger {
	l := &ledger{run: strings.ToLower(rand.Text()[:8])}
	for range sinkIDs {
		l.acked = append(l.acked, make(map[delivery]struct{}))
	}
	return l
}

// notifyAt returns a channel that gets a value whenever the number of answered events reaches one of counts, which are
// sorted and unique. It must be called before the first event is sent.
func (l *ledger) notifyAt(counts []int64) <-chan struct{} {
	l.marks, l.marked = counts, make(chan struct{}, len(counts))
	return l.marked
}

func (l *ledger) acknowledge(sink int, d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[sink][d] = struct{}{}
}

func (l *ledger) reject() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rejected++
}

// answered counts an event with a final answer.
func (l *ledger) answered() {
	n := l.done.Add(1)
	if _, found := slices.BinarySearch(l.marks, n); found {
		l.marked <- struct{}{}
	}
}

func (l *ledger) received() int64 { return l.done.Load() }
