// Package deadline bounds the durable waits of requests.
package deadline

import (
	"context"
	"sync/atomic"
	"time"
)

// Timeout bounds the durable wait of one request.
const Timeout = 30 * time.Second

// Step is how much earlier than Timeout a durable wait may end.
const Step = 100 * time.Millisecond

// Shared gives requests the contexts of their durable waits. The requests of one Step share one, because a separate context with
// a timer for each request costs a twentieth of the process's work for a request of one event. The zero value is ready
// to use, by many goroutines at once.
//
// It is not the context of the request, which ends when the client sends no more. A client that has only closed its
// sending side still reads the response, and the row may be stored already. The request is complete, so its context
// no longer counts.
type Shared struct {
	current atomic.Pointer[deadline]
}

// deadline ends by itself. Only its timer remains when no request uses it any longer.
type deadline struct {
	context.Context
	cancel context.CancelFunc // never called
	until  time.Time          // requests from then on get the next one
}

// From returns a context that ends Timeout after now, or up to Step earlier.
func (s *Shared) From(now time.Time) context.Context {
	if cur := s.current.Load(); cur != nil && now.Before(cur.until) {
		return cur.Context
	}
	next := &deadline{until: now.Add(Step)}
	next.Context, next.cancel = context.WithDeadline(context.Background(), now.Add(Timeout))
	s.current.Store(next)
	return next.Context
}
