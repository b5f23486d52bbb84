package callspans

import (
	"iter"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

const (
	// maxCalls limits the sampled calls of a sink that uploads and imports can be linked to. Older calls are forgotten.
	maxCalls = 256
	// maxLinks bounds the links of a span. With more calls, the links are spread evenly over them.
	maxLinks = 32
)

// recentCalls are the last sampled calls that have put rows into a sink. The zero value has none. It is safe for concurrent use.
type recentCalls struct {
	mu    sync.Mutex
	calls []recentCall // a ring once it is full
	next  int
}

type recentCall struct {
	at   int64 // when its rows were accepted, in Unix milliseconds
	span trace.SpanContext
}

// add adds a call whose rows were accepted at a time.
func (r *recentCalls) add(at time.Time, span trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := recentCall{at.UnixMilli(), span}
	if len(r.calls) < maxCalls {
		r.calls = append(r.calls, c)
		return
	}
	r.calls[r.next] = c
	r.next = (r.next + 1) % maxCalls
}

// links returns links to calls whose rows were accepted between two times, at most maxLinks, and how many calls there are.
func (r *recentCalls) links(first, last time.Time) (links []trace.Link, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.calls {
		c := &r.calls[(r.next+i)%len(r.calls)]
		if c.at < first.UnixMilli() || c.at > last.UnixMilli() {
			continue
		}
		if calls++; calls <= maxCalls {
			links = append(links, trace.Link{SpanContext: c.span})
		}
	}
	if len(links) > maxLinks {
		for i := range maxLinks {
			links[i] = links[i*len(links)/maxLinks]
		}
		links = links[:maxLinks]
	}
	return links, calls
}

// all returns the calls and when their rows were accepted, in milliseconds, oldest first.
func (r *recentCalls) all() iter.Seq2[time.Time, trace.SpanContext] {
	r.mu.Lock()
	list := make([]recentCall, 0, len(r.calls))
	for i := range r.calls {
		list = append(list, r.calls[(r.next+i)%len(r.calls)])
	}
	r.mu.Unlock()
	return func(yield func(time.Time, trace.SpanContext) bool) {
		for _, c := range list {
			if !yield(time.UnixMilli(c.at), c.span) {
				return
			}
		}
	}
}
