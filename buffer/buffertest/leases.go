package buffertest

import (
	"context"
	"sync"

	"github.com/forebay/forebay/driver"
)

// Leases are the leases of several processes, in memory, for tests of work with [driver.Exclusive] targets. A lease never ends by itself.
// It is safe for concurrent use.
type Leases struct {
	mu      sync.Mutex
	held    map[string]*heldLease
	changed chan struct{} // closed when a lease was given back or lost
}

type heldLease struct {
	process string
	users   int
	lost    chan struct{}
}

// NewLeases returns leases that no process holds.
func NewLeases() *Leases {
	return &Leases{held: make(map[string]*heldLease), changed: make(chan struct{})}
}

// Process returns the leases as the process of a name sees them.
func (l *Leases) Process(name string) driver.Leases { return processLeases{l, name} }

// Lose ends the lease of a name for its holder, as if it could not be renewed. Another process can take it at once.
func (l *Leases) Lose(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[name]; h != nil {
		close(h.lost)
		l.end(name)
	}
}

// Holder returns the process that has the lease of a name, "" if there is none.
func (l *Leases) Holder(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[name]; h != nil {
		return h.process
	}
	return ""
}

// end forgets a lease. Called with mu held.
func (l *Leases) end(name string) {
	delete(l.held, name)
	close(l.changed)
	l.changed = make(chan struct{})
}

type processLeases struct {
	*Leases
	process string
}

// Take implements [driver.Leases].
func (p processLeases) Take(ctx context.Context, name string) (lost <-chan struct{}, release func(), err error) {
	for {
		h, changed := p.try(name)
		if h != nil {
			return h.lost, sync.OnceFunc(func() { p.release(name, h) }), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, &driver.LeasedError{Name: name, Holder: p.Holder(name)}
		}
	}
}

func (p processLeases) try(name string) (h *heldLease, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h = p.held[name]
	switch {
	case h == nil:
		h = &heldLease{process: p.process, lost: make(chan struct{})}
		p.held[name] = h
	case h.process != p.process:
		return nil, p.changed
	}
	h.users++
	return h, nil
}

func (p processLeases) release(name string, h *heldLease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.users--; h.users == 0 && p.held[name] == h {
		p.end(name)
	}
}
