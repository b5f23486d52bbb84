package forebay

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer"
)

// mapRoom bounds the memory in which all calls together map records. A call reserves what it may need before it maps a record, and gives
// everything back once its rows are in the buffer. So the number of clients does not decide how much the engine uses.
//
// A call that finds no room stands in a line. The head of the line may pass the limit by what one call needs, and keeps its place until it has
// given everything back. So a call that needs more while it maps always gets it in the end, and two such calls cannot wait for each other.
type mapRoom struct {
	limit int64
	used  atomic.Int64
	head  chan struct{} // capacity 1: the head of the line
	wait  time.Duration // how long a call waits that is not patient
	// parked is the memory of batches that have given their reservation back and wait for room in the buffer.
	parked atomic.Int64
}

func newMapRoom(t buffer.Tuning) *mapRoom {
	pending, wait := t.MaxPendingBytes, t.AdmissionWait
	if pending == 0 {
		pending = 64 << 20
	}
	if wait == 0 {
		wait = 250 * time.Millisecond
	}
	return &mapRoom{limit: pending / 8, head: make(chan struct{}, 1), wait: wait}
}

// mapReserve is what a call holds while it waits in front of the buffer or maps rows. Its zero value holds nothing.
type mapReserve struct {
	held int64
	head bool // it is the head of the line
}

// grow reserves memory until r holds n bytes.
func (m *mapRoom) grow(ctx context.Context, r *mapReserve, n int64, patient bool) error {
	more := (n - r.held + mapUnit - 1) / mapUnit * mapUnit
	if m.used.Add(more) > m.limit && !r.head {
		m.used.Add(-more)
		if err := m.stand(ctx, patient); err != nil {
			return err
		}
		if r.head = m.used.Add(more) > m.limit; !r.head {
			<-m.head
		}
	}
	r.held += more
	return nil
}

// mapUnit is the smallest reservation. A call for a small record makes one.
const mapUnit = 8 << 10

// stand returns when the call is the head of the line.
func (m *mapRoom) stand(ctx context.Context, patient bool) error {
	select {
	case m.head <- struct{}{}:
		return nil
	default:
	}
	var over <-chan time.Time
	if !patient {
		timer := time.NewTimer(max(m.wait, 0))
		defer timer.Stop()
		over = timer.C
	}
	var err error
	select {
	case m.head <- struct{}{}:
		return nil
	case <-over:
	case <-ctx.Done():
		if err = context.Cause(ctx); !patient {
			return err
		}
	}
	full := &buffer.OverloadError{Resource: "memory", Used: m.used.Load(), Limit: m.limit, RetryAfter: time.Second}
	if err != nil {
		return fmt.Errorf("forebay: no room came: %w; %w", err, full)
	}
	return full
}

// release gives back what r holds.
func (m *mapRoom) release(r *mapReserve) {
	m.used.Add(-r.held)
	if r.head {
		<-m.head
	}
	*r = mapReserve{}
}

// park reports whether a batch may wait for room in the buffer without a reservation for its n bytes. The caller subtracts them from parked.
func (m *mapRoom) park(n int64) bool {
	if m.parked.Add(n) <= 2*m.limit {
		return true
	}
	m.parked.Add(-n)
	return false
}

// Idle calls. A large call would otherwise serve a small record, and each of a thousand callers would get a large one in the end.
var smallCalls, largeCalls sync.Pool

// idleCall returns an idle call.
func idleCall(large bool) *call {
	if large {
		if c, ok := largeCalls.Get().(*call); ok {
			return c
		}
	}
	if c, ok := smallCalls.Get().(*call); ok {
		return c
	}
	return new(call)
}

// keepIdle takes a call back.
func keepIdle(c *call) {
	switch {
	case c.memory <= smallCall:
		smallCalls.Put(c)
	case c.memory <= largeCall:
		largeCalls.Put(c)
	}
}
