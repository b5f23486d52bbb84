package pipebench

import (
	"context"
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
