package buffer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Ticket stands for rows that were accepted by one Append.
type Ticket struct {
	b *Buffer
	g *group // the last that holds rows of the Append
	// many is set when earlier groups hold rows, too. epoch is from the Append. Groups are written in order, so an
	// earlier one can have failed, and this one have dropped rows, only if the store has failed since.
	many  bool
	epoch uint64
	// local is set when all rows are for sinks with AckLocal.
	local bool
}

// Wait returns nil when the rows are on disk, and with a [Changelog] in that too, unless all of them are for sinks with
// SinkConfig.AckLocal. When ctx ends first the error is an [*UnknownError], because the rows may be stored.
// Other errors are [*FailedError], [*FencedError] and [ErrClosed]. That ctx has ended is noticed within 10 ms.
func (t Ticket) Wait(ctx context.Context) error {
	if t.g == nil {
		return nil
	}
	o := &t.g.ending
	waiters := o.waiters.Add(1)
	first := waiters == 1
	if t.local {
		o = t.g.local
		waiters = o.waiters.Add(1)
		first = first || waiters == 1
	}
	if first {
		t.b.gate.kick()
	}
	done := ctx.Done()
	if done == nil {
		<-o.done
		return t.outcome(o)
	}
	if waiters > graceWaiters {
		<-o.grace.wait()
		select {
		case <-o.done:
			return t.outcome(o)
		default:
		}
	}
	select {
	case <-o.done:
		return t.outcome(o)
	case <-done:
		if o.ended() {
			return t.outcome(o)
		}
		return &UnknownError{Err: context.Cause(ctx)}
	}
}

// ending is how a group ended for the callers that wait for it.
type ending struct {
	done    chan struct{} // closed after err is set
	err     error
	waiters atomic.Int64
	grace   grace
}

func newEnding() ending {
	return ending{done: make(chan struct{}), grace: grace{over: make(chan struct{})}}
}

// grace is the time for which most waiters of a group look at the group alone, before they look at their contexts as well.
//
// Waiting for two channels means entering and leaving both queues, each under its lock, and the context's channel is often
// shared by all callers. A commit is shorter than gracePeriod unless the disk stalls. The first graceWaiters of a group skip
// it, because so few would gain less than the timer costs.
type grace struct {
	over       chan struct{} // closed when the group or the period has ended
	start, end sync.Once
	timer      *time.Timer // set by start
}

const (
	graceWaiters = 16
	gracePeriod  = 10 * time.Millisecond
)

// wait returns a channel that is closed when the group has ended, or after gracePeriod.
func (g *grace) wait() <-chan struct{} {
	g.start.Do(func() { g.timer = time.AfterFunc(gracePeriod, g.finish) })
	return g.over
}

func (g *grace) finish() { g.end.Do(func() { close(g.over) }) }

// stop ends the grace with its group. No timer starts afterwards.
func (g *grace) stop() {
	g.start.Do(func() {})
	if g.timer != nil {
		g.timer.Stop()
	}
	g.finish()
}

// end tells everyone who waits how the group ended.
func (o *ending) end(err error) {
	o.err = err
	close(o.done)
	o.grace.stop()
}

// ended reports whether end was called.
func (o *ending) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// outcome is the joint outcome of all groups of the ticket, once the last of them has ended.
func (t Ticket) outcome(o *ending) error {
	if o.err == nil && (t.many || t.g.incomplete) && t.b.store.Now().Epoch != t.epoch {
		return errReopened
	}
	return o.err
}
