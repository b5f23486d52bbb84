package pipebench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// EachSecond is how a user stores events where only files or commits can be written. It collects events and writes them once a second. A
// caller waits until its event is written. One goroutine calls write, and end is called after the last write.
func EachSecond(write func([]Event) error, end func() error) Own {
	c := &collector{open: &collected{done: make(chan struct{})}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		each := time.NewTicker(time.Second)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				c.flush(write)
			case <-stop:
				c.flush(write)
				return
			}
		}
	}()
	return Own{
		Insert:      func(ctx context.Context, e Event) error { return c.store(ctx, e) },
		InsertBatch: func(ctx context.Context, batch []Event) error { return c.store(ctx, batch...) },
		Close:       func() error { close(stop); <-stopped; return end() },
	}
}

type collector struct {
	mu   sync.Mutex
	open *collected
}

// collected is what one call of write gets.
type collected struct {
	events []Event
	done   chan struct{} // the events are written, or err is set
	err    error
}

func (c *collector) store(ctx context.Context, events ...Event) error {
	c.mu.Lock()
	in := c.open
	in.events = append(in.events, events...)
	c.mu.Unlock()
	select {
	case <-in.done:
		return in.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *collector) flush(write func([]Event) error) {
	c.mu.Lock()
	full := c.open
	c.open = &collected{done: make(chan struct{})}
	c.mu.Unlock()
	if len(full.events) > 0 {
		full.err = write(full.events)
	}
	close(full.done)
}

// batchedRows is how many events a batcher in memory writes at once.
const batchedRows = 1000

// InMemory is how services often store events: one goroutine collects them and writes 1,000 at once, or as many as there are after a second. A
// caller waits only while a write is slower than the events. The events in memory are lost with the process. write is called by one goroutine.
func InMemory(write func([]Event) error) (insert func(context.Context, Event) error, flush func(context.Context) error, end func()) {
	events, flushes, stop, stopped := make(chan Event, batchedRows), make(chan chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		each := time.NewTicker(time.Second)
		defer each.Stop()
		var kept []Event
		var failed error
		writeKept := func() {
			if len(kept) > 0 {
				failed = errors.Join(failed, write(kept))
				kept = kept[:0]
			}
		}
		add := func(e Event) {
			if kept = append(kept, e); len(kept) == batchedRows {
				writeKept()
			}
		}
		for {
			select {
			case e := <-events:
				add(e)
			case <-each.C:
				writeKept()
			case done := <-flushes:
				for len(events) > 0 {
					add(<-events)
				}
				writeKept()
				done <- failed
			case <-stop:
				return
			}
		}
	}()
	insert = func(ctx context.Context, e Event) error {
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	flush = func(context.Context) error {
		done := make(chan error)
		flushes <- done
		return <-done
	}
	return insert, flush, func() { close(stop); <-stopped }
}
