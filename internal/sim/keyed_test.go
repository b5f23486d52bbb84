package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// keyedCall is a call with a key. Its client repeats it, in later processes too, until the outcome of every row is known, and
// sends nothing else meanwhile. No repetition may double a row, unless the source was removed since.
type keyedCall struct {
	source, key string
	events      []event
	first       time.Time
	tries       int
	removals    int // of the source before the first try, as the next source with its id does not know the key
}

// A call is repeated so often and so long, because the engine forgets keys after 24 hours of the engine's clock.
const (
	keyedTries = 8
	keyedSpan  = 12 * time.Hour
)

func (c *client) ingestKeyed(ctx context.Context, l *engineLevel, source string, w work) {
	g := c.r.generation()
	call := &keyedCall{source: source, key: fmt.Sprintf("%d before %d", c.num, c.next), first: time.Now(), removals: c.r.timesRemoved(source)}
	for range w.count {
		call.events = append(call.events, c.event(g, source, w.size))
	}
	c.try(ctx, l, call)
}

// repeat repeats the open call, and reports whether the client can continue.
func (c *client) repeat(ctx context.Context, l *engineLevel) bool {
	call := c.open
	if age := time.Since(call.first); call.tries >= keyedTries || call.removals != c.r.timesRemoved(call.source) || age < 0 || age > keyedSpan {
		c.open = nil // its outcome stays unknown
		return true
	}
	c.r.sum.add("keys: repeated calls", 1)
	c.try(ctx, l, call)
	return c.open == nil
}

func (r *run) timesRemoved(source string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removals[source]
}

func (c *client) try(ctx context.Context, l *engineLevel, call *keyedCall) {
	r, g := c.r, c.r.generation()
	var recs []*mapping.Record
	r.mu.Lock()
	for _, e := range call.events {
		recs = append(recs, mapping.JSON(e.body))
		for _, x := range e.rows {
			x.to = -1
			if g.dead.Load() { // the call has no effect
				continue
			}
			if x.fate == accepted && r.mayLack(x) {
				x.fate = unknown // from now on it counts what this process says
			}
			x.gen, x.gone = g, time.Time{}
		}
	}
	r.mu.Unlock()
	call.tries++
	ingest := l.IngestOnce
	if r.patient(c) {
		ingest = l.WaitForRoom().IngestOnce
	}
	results, err := ingest(ctx, call.source, forebay.Once{Key: call.key, Content: []byte(call.key)}, recs)
	r.returned(call.events...)
	switch {
	case results != nil:
		for i, e := range call.events {
			r.repeated(g, call, e, results[i])
		}
	case call.tries == 1:
		r.nothing(g, call.events...)
	case errors.Is(err, forebay.ErrOtherContent):
		r.t.Errorf("call %q of source %s was repeated: %v", call.key, call.source, err)
	}
	c.open = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range call.events {
		for _, x := range e.rows {
			if x.fate == unknown {
				c.open = call
			}
		}
	}
}

// repeated notes the engine's result for one event. A refusal says nothing about earlier tries.
func (r *run) repeated(g *generation, call *keyedCall, e event, res forebay.Result) {
	if call.tries == 1 {
		r.result(g, call.source, e, res)
		return
	}
	for _, s := range res.Sinks {
		x := e.rows[call.source+"/"+s.Sink]
		if x == nil {
			continue // it was added since the first try
		}
		if s.Replayed {
			r.sum.add("keys: rows found stored", 1)
		}
		r.tellPlace(g, x, s.Status)
		switch s.Status {
		case forebay.Stored, forebay.Quarantined:
			r.told(g, acked, x)
		case forebay.Queued:
			r.told(g, accepted, x)
		}
	}
}
