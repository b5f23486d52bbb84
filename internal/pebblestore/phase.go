package pebblestore

import (
	"sync"
	"sync/atomic"
)

// Phase is where a [Store] stands between Open and the end of Close:
//
//	              the disk fails             a caller sees it
//	 PhaseOpen ───────────────────▶ PhaseFailed ────────────────▶ PhaseReopening ─┐ an attempt
//	  ▲  │                            │                             │  │  ▲────────┘ fails
//	  └──┼────────────────────────────┼── an attempt succeeds ──────┘  │
//	     │ Stop                       │ Stop                           │ Stop
//	     ▼                            ▼                                ▼
//	 PhaseClosing ──────── accepted calls have ended ───────────▶ PhaseClosed
//
//	phase      the database
//	Open       works
//	Failed     is cut off from the disk
//	Reopening  was given up, and is opened again by one attempt at a time
//	Closing    works, or has failed
//	Closed     works, or has failed, until it is closed
//
// A store that fails during Closing or Closed is not reopened. The phase stays and the failure is what Close returns.
type Phase uint8

// The phases.
const (
	PhaseOpen Phase = iota
	PhaseFailed
	PhaseReopening
	PhaseClosing
	PhaseClosed
)

// Condition is the phase with what callers must know of the store. It is immutable.
type Condition struct {
	// Phase says whether the store accepts calls, and how a failed store is handled.
	Phase Phase
	// Failure is nil while the store works. It is set in Failed and Reopening, and never in Open.
	Failure error
	// Epoch counts the failures and the reopenings. If the epoch has changed, earlier reads from the store are worthless,
	// and pending writes may be lost.
	Epoch uint64
}

// life is the state machine. Its methods are the transitions. Each reports whether it was made. Its zero value is open.
//
// current is one atomic load, because every Append to a buffer asks. mu is held for a few instructions, never during I/O,
// because the database reports its failure with its own locks held.
type life struct {
	mu  sync.Mutex
	now atomic.Pointer[Condition] // written with mu held, nil for the zero condition
}

func (l *life) current() Condition {
	if c := l.now.Load(); c != nil {
		return *c
	}
	return Condition{}
}

// change makes a transition from the condition that next is given. next says whether there is one. It runs under mu.
func (l *life) change(next func(*Condition) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.current()
	if !next(&c) {
		return false
	}
	l.now.Store(&c)
	return true
}

// step goes from one of the phases up to last, from first on, to another. start runs before the next transition can begin.
func (l *life) step(first, last, to Phase, start func()) bool {
	return l.change(func(c *Condition) bool {
		if c.Phase < first || c.Phase > last {
			return false
		}
		c.Phase = to
		start()
		return true
	})
}

// fail notes the first failure since the store was opened. current says whether the failed opening is still in use. It is called under mu,
// so that a late failure of an old opening does not fail the next one.
func (l *life) fail(err error, current func() bool) bool {
	return l.change(func(c *Condition) bool {
		if c.Failure != nil || !current() {
			return false
		}
		c.Failure = err
		c.Epoch++
		if c.Phase == PhaseOpen {
			c.Phase = PhaseFailed
		}
		return true
	})
}

// reopen begins the reopening after a failure.
func (l *life) reopen(start func()) bool {
	return l.step(PhaseFailed, PhaseFailed, PhaseReopening, start)
}

func (l *life) reopened(start func()) bool {
	return l.change(func(c *Condition) bool {
		if c.Phase != PhaseReopening {
			return false
		}
		*c = Condition{Phase: PhaseOpen, Epoch: c.Epoch + 1}
		start()
		return true
	})
}

// stop begins Close. No reopening can begin or end afterwards.
func (l *life) stop(start func()) bool { return l.step(PhaseOpen, PhaseReopening, PhaseClosing, start) }

// drain ends the calls that were still accepted while the store was closing.
func (l *life) drain() bool { return l.step(PhaseClosing, PhaseClosing, PhaseClosed, func() {}) }
