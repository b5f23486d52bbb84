package stream

import (
	"context"
	"sync/atomic"
	"time"
)

// storeTimeout bounds the durable wait of one request. [Server] leaves time for it and for the answer.
const storeTimeout = 30 * time.Second

// deadlineStep is how much earlier than storeTimeout a durable wait may end.
const deadlineStep = 100 * time.Millisecond

// deadlines give requests the contexts of their durable waits. The requests of one deadlineStep share one: a context with
// a timer of its own for each costs a twentieth of all that the process does for a request.
//
// It is not the context of the request, which net/http cancels when the client sends no more. A client that has only
// closed its sending side still reads the answer, and the row may be stored already: the request is complete, so its
// context no longer counts.
type deadlines struct {
	current atomic.Pointer[deadline]
}

// deadline ends by itself. Its timer is all that is left of it when no request has it any more.
type deadline struct {
	context.Context
	cancel context.CancelFunc // never called
	until  time.Time          // requests from then on get the next one
}

// from returns a context that ends storeTimeout after now, or up to deadlineStep earlier.
func (d *deadlines) from(now time.Time) context.Context {
	if cur := d.current.Load(); cur != nil && now.Before(cur.until) {
		return cur.Context
	}
	next := &deadline{until: now.Add(deadlineStep)}
	next.Context, next.cancel = context.WithDeadline(context.Background(), now.Add(storeTimeout))
	d.current.Store(next)
	return next.Context
}
