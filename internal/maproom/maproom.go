// Package maproom bounds the memory in which all calls of an engine together map records.
package maproom

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer"
)

// Room is the bound of an engine. A call reserves the memory that it may need before it maps a
// record, and gives everything back once its rows are in the buffer. So the number of clients does not decide how much the engine uses.
//
// A call that finds no room joins a line. It is refused if it has waited for AdmissionWait and the buffer has refused other calls meanwhile. One call
// at a time may pass the limit by the memory that it needs, until it has given everything back. So a call that needs more while it maps, or more than
// the limit, gets it in the end, and two such calls cannot wait for each other. A call that fits does not queue after a larger one, because a slow
// template must not hold up the events of other sources.
type Room struct {
	limit int64
	used  atomic.Int64
	line  chan struct{} // capacity 1, held by the head of the line
	extra chan struct{} // capacity 1, held by the call that may pass the limit
	freed chan struct{} // capacity 1, says that the head of the line should look again
	wait  time.Duration // how long a call waits that is not patient, while the buffer refuses calls
	// refusal points to a channel that is closed when the buffer next refuses a call for its memory. Until then the calls in the line wait for the
	// processor alone.
	refusal atomic.Pointer[chan struct{}]
	// parked is the memory of batches that have given their reservation back and wait for room in the buffer.
	parked atomic.Int64
}

// New returns the room of an engine: an eighth of MaxPendingBytes. The tuning has its defaults.
func New(t buffer.Tuning) *Room {
	m := &Room{
		limit: t.MaxPendingBytes / 8, line: make(chan struct{}, 1), extra: make(chan struct{}, 1), freed: make(chan struct{}, 1), wait: max(t.AdmissionWait, 0),
	}
	refusal := make(chan struct{})
	m.refusal.Store(&refusal)
	return m
}

// Reserve is the memory that a call holds while it maps rows. Its zero value holds nothing.
type Reserve struct {
	held  int64
	extra bool // it may pass the limit
}

// Held returns how many bytes the call holds.
func (r *Reserve) Held() int64 { return r.held }

// unit is the smallest reservation. A call for a small record makes one.
const unit = 2 << 10

// Grow reserves memory until r holds n bytes.
func (m *Room) Grow(ctx context.Context, r *Reserve, n int64, patient bool) error {
	more := (n - r.held + unit - 1) / unit * unit
	switch {
	case r.extra:
		m.used.Add(more)
	case !m.take(more):
		if err := m.stand(ctx, r, more, patient); err != nil {
			return err
		}
	}
	r.held += more
	return nil
}

// take reserves memory below the limit.
func (m *Room) take(more int64) bool {
	if m.used.Add(more) <= m.limit {
		return true
	}
	m.used.Add(-more)
	return false
}

// stand waits in the line until the memory is reserved.
func (m *Room) stand(ctx context.Context, r *Reserve, more int64, patient bool) error {
	var expired <-chan time.Time
	if !patient {
		timer := time.NewTimer(m.wait)
		defer timer.Stop()
		expired = timer.C
	}
	refusal, refused := *m.refusal.Load(), (chan struct{})(nil)
	line, extra, freed := m.line, (chan struct{})(nil), (chan struct{})(nil)
	for line != nil || !m.take(more) {
		select {
		case line <- struct{}{}:
			defer func() { <-m.line }()
			line, extra, freed = nil, m.extra, m.freed
		case <-freed:
		case extra <- struct{}{}:
			m.used.Add(more)
			r.extra = true
			return nil
		case <-expired:
			refused = refusal
		case <-refused:
			return m.full()
		case <-ctx.Done():
			if patient {
				return fmt.Errorf("forebay: no room came: %w; %w", context.Cause(ctx), m.full())
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

// NoteRefused notes the error of a call that the buffer has refused.
func (m *Room) NoteRefused(err error) {
	if over, ok := errors.AsType[*buffer.OverloadError](err); ok && over.Resource == "memory" {
		next := make(chan struct{})
		close(*m.refusal.Swap(&next))
	}
}

func (m *Room) full() *buffer.OverloadError {
	return &buffer.OverloadError{Resource: "memory", Used: m.used.Load(), Limit: m.limit, RetryAfter: time.Second}
}

// Release gives back what r holds.
func (m *Room) Release(r *Reserve) {
	m.used.Add(-r.held)
	if r.extra {
		<-m.extra
	}
	select {
	case m.freed <- struct{}{}:
	default:
	}
	*r = Reserve{}
}

// Park reports whether a batch may wait for room in the buffer without a reservation for its n bytes. If so, the caller calls Unpark.
func (m *Room) Park(n int64) bool {
	if m.parked.Add(n) <= m.limit {
		return true
	}
	m.parked.Add(-n)
	return false
}

// Unpark ends the wait of a batch of n bytes.
func (m *Room) Unpark(n int64) { m.parked.Add(-n) }
