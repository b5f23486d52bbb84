package buffer

import (
	"sync"
	"sync/atomic"
)

// phase is where a buffer stands between Open and the end of Close:
//
//	           the store fails          the committer sees it
//	 running ───────────────────▶ failed ───────────────────▶ reopening
//	  ▲  │                          │                          │     │
//	  └──┼──────────────────────────┼── the store is read back ┘     │
//	     │ Close                    │ Close                          │ Close
//	     ▼                          ▼                                ▼
//	  stopping ──── timers and driver calls have ended ────▶ draining
//
//	phase      rows     operations   timers, drivers   store
//	running    taken    taken        run               works
//	failed     refused  refused      run               is cut off from the disk
//	reopening  refused  refused      end               is closed and opened until that succeeds
//	stopping   refused  taken        end               works, or has failed
//	draining   refused  refused      have ended        works, or has failed; the last group is written
//
// A store that fails during stopping or draining is not reopened: the phase stays and the failure is what Close returns.
type phase uint8

const (
	running phase = iota
	failed
	reopening
	stopping
	draining
)

// condition is the phase with what callers must know of the store. It is immutable.
type condition struct {
	phase phase
	// failure is nil while the store works. It is set in failed and reopening, and never in running.
	failure *FailedError
	// epoch counts the failures and the reopenings: with another epoch than before, what was read from the state is worth
	// nothing, and what was on its way to the disk may be lost.
	epoch uint64
}

// life is the state machine. Its methods are the transitions; each reports whether it was made. Its zero value is running.
//
// current is one atomic load, because every Append asks. mu is held for a few instructions, never during I/O, because the
// store reports its failure with its own locks held.
type life struct {
	mu  sync.Mutex
	now atomic.Pointer[condition] // written with mu held; nil: the zero condition
}

func (l *life) current() condition {
	if c := l.now.Load(); c != nil {
		return *c
	}
	return condition{}
}

// change makes a transition from the condition that next is given. next says whether there is one; it runs under mu.
func (l *life) change(next func(*condition) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.current()
	if !next(&c) {
		return false
	}
	l.now.Store(&c)
	return true
}

// fail notes the first failure of the store since it was opened.
func (l *life) fail(f *FailedError) bool {
	return l.change(func(c *condition) bool {
		if c.failure != nil {
			return false
		}
		c.failure = f
		c.epoch++
		if c.phase == running {
			c.phase = failed
		}
		return true
	})
}

// reopen begins the reopening after a failure. start runs before Close can begin.
func (l *life) reopen(start func()) bool {
	return l.change(func(c *condition) bool {
		if c.phase != failed {
			return false
		}
		c.phase = reopening
		start()
		return true
	})
}

// reopened ends the reopening. start runs before Close can begin.
func (l *life) reopened(start func()) bool {
	return l.change(func(c *condition) bool {
		if c.phase != reopening {
			return false
		}
		*c = condition{phase: running, epoch: c.epoch + 1}
		start()
		return true
	})
}

// stop begins Close. last runs when no reopening can begin or end any more.
func (l *life) stop(last func()) bool {
	return l.change(func(c *condition) bool {
		if c.phase >= stopping {
			return false
		}
		c.phase = stopping
		last()
		return true
	})
}

// drain ends what was still taken while the buffer was stopping.
func (l *life) drain() bool {
	return l.change(func(c *condition) bool {
		was := c.phase
		c.phase = draining
		return was == stopping
	})
}
