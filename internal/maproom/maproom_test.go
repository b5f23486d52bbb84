package maproom

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/synctest"
)

func testRoom(limit int64) *Room {
	return New(buffer.Tuning{MaxPendingBytes: 8 * limit, AdmissionWait: time.Second})
}

// A call that alone needs more than the limit gets it at once, and nothing is reserved once it has ended.
func TestOneCallMayPassTheLimit(t *testing.T) {
	m := testRoom(1 << 20)
	var r Reserve
	for _, n := range []int64{100 << 20, 200 << 20} {
		if err := m.Grow(t.Context(), &r, n, false); err != nil || r.held < n {
			t.Fatalf("a call that needs %d bytes holds %d: %v", n, r.held, err)
		}
	}
	m.Release(&r)
	if used := m.used.Load(); used != 0 || len(m.line) != 0 || len(m.extra) != 0 {
		t.Fatalf("%d bytes are reserved, %d calls are in the line, %d may pass the limit, want none", used, len(m.line), len(m.extra))
	}
}

// A call that finds no room waits until its context ends. A call that is not patient waits for AdmissionWait while the buffer refuses calls. Then it
// holds nothing.
func TestWaitForRoomToMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testRoom(1 << 20)
		var first Reserve
		if err := m.Grow(t.Context(), &first, 2<<20, false); err != nil {
			t.Fatal(err)
		}
		used := m.used.Load()
		left := errors.New("the caller has left")
		for _, c := range []struct {
			patient bool
			refuses bool          // the buffer refuses a call meanwhile
			ctx     time.Duration // when ctx ends
			wait    time.Duration // how long the call waits
			left    bool          // the error wraps the cause of ctx
			full    bool          // the error is or wraps an OverloadError
		}{
			{refuses: true, ctx: time.Hour, wait: time.Second, full: true},
			{ctx: time.Hour, wait: time.Hour, left: true},
			{refuses: true, ctx: time.Millisecond, wait: time.Millisecond, left: true},
			{patient: true, refuses: true, ctx: time.Minute, wait: time.Minute, left: true, full: true},
		} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.ctx, left)
			var r Reserve
			begin := time.Now()
			if c.refuses {
				time.AfterFunc(time.Microsecond, func() { m.NoteRefused(&buffer.OverloadError{Resource: "memory"}) })
			}
			err := m.Grow(ctx, &r, 1<<20, c.patient)
			cancel()
			if _, over := errors.AsType[*buffer.OverloadError](err); over != c.full || errors.Is(err, left) != c.left || time.Since(begin) != c.wait {
				t.Errorf("%+v: got %v after %s, want what the case says", c, err, time.Since(begin))
			}
			if r != (Reserve{}) || m.used.Load() != used {
				t.Errorf("%+v: the call holds %+v; %d bytes are reserved, want %d", c, r, m.used.Load(), used)
			}
		}
		m.Release(&first)
	})
}

// Calls that need more while they map do not wait for each other. Each gets it in the end.
func TestGrowingCallsEnd(t *testing.T) {
	const limit, calls = 1 << 20, 50
	m := testRoom(limit)
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			var r Reserve
			for n := int64(limit / 8); n <= 2*limit; n += limit / 8 {
				if err := m.Grow(t.Context(), &r, n, true); err != nil {
					t.Error(err)
				}
				if used, most := m.used.Load(), int64(limit+calls*limit/8+2*limit); used > most { // calls in grow have added their share
					t.Errorf("%d bytes are reserved, want at most %d", used, most)
				}
			}
			m.Release(&r)
		})
	}
	all.Wait()
	if used := m.used.Load(); used != 0 || len(m.line) != 0 || len(m.extra) != 0 {
		t.Fatalf("%d bytes are reserved, %d calls are in the line, %d may pass the limit, want none", used, len(m.line), len(m.extra))
	}
}

// Batches that wait for room in the buffer have an eighth of MaxPendingBytes together.
func TestParkedBatches(t *testing.T) {
	m := testRoom(1 << 20)
	first, second, third := m.Park(1<<19), m.Park(1<<19), m.Park(1)
	if !first || !second || third {
		t.Fatalf("%d bytes are parked, want a megabyte and no byte more", m.parked.Load())
	}
	m.Unpark(1 << 19)
	if !m.Park(1) {
		t.Fatalf("a byte has no room next to %d", m.parked.Load())
	}
}

// A call that waits continues as soon as calls within the limit end, although a different call has passed the limit.
func TestRoomThatIsFreedServesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testRoom(1 << 20)
		var small, large, waits Reserve
		if err := errors.Join(m.Grow(t.Context(), &small, 1<<19, false), m.Grow(t.Context(), &large, 1<<20, false)); err != nil || small.extra || !large.extra {
			t.Fatalf("got %v, the small call %+v, the large call %+v, want no error, and only the large call above the limit", err, small, large)
		}
		done := make(chan error)
		go func() { done <- m.Grow(t.Context(), &waits, 1<<13, true) }()
		synctest.Wait()
		m.used.Add(-1 << 19) // the large call has less than the limit now
		m.Release(&small)
		if err := <-done; err != nil || waits.extra {
			t.Fatalf("got %v, the call that waited %+v, want no error, a call below the limit", err, waits)
		}
	})
}
