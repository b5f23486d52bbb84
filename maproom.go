package forebay

import (
	"context"
	"runtime"
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
	head  chan struct{} // has room for one: the head of the line
	wait  time.Duration // how long a call waits that is not patient
	large chan *call    // calls with much memory, for the next calls of that size
}

func newMapRoom(t buffer.Tuning) *mapRoom {
	pending, wait := t.MaxPendingBytes, t.AdmissionWait
	if pending == 0 {
		pending = 64 << 20
	}
	if wait == 0 {
		wait = 250 * time.Millisecond
	}
	return &mapRoom{limit: pending / 8, head: make(chan struct{}, 1), wait: wait, large: make(chan *call, runtime.GOMAXPROCS(0))}
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
	select {
	case m.head <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return &buffer.OverloadError{Resource: "memory", Used: m.used.Load(), Limit: m.limit, RetryAfter: time.Second}
	}
}

// release gives back what r holds.
func (m *mapRoom) release(r *mapReserve) {
	m.used.Add(-r.held)
	if r.head {
		<-m.head
	}
	*r = mapReserve{}
}

var calls = sync.Pool{New: func() any { return new(call) }}

// call returns an idle call.
func (m *mapRoom) call(large bool) *call {
	if large {
		select {
		case c := <-m.large:
			return c
		default:
		}
	}
	return calls.Get().(*call)
}

// keep takes an idle call back.
func (m *mapRoom) keep(c *call) {
	if c.memory <= smallCall {
		calls.Put(c)
		return
	}
	if c.memory <= largeCall && int64(c.memory) <= m.limit {
		select {
		case m.large <- c:
		default:
		}
	}
}
