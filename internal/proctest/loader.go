package proctest

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Loader sends rows from several goroutines, and remembers which were acknowledged.
type Loader[K comparable] struct {
	failed   atomic.Int64
	progress chan struct{}
	stop     chan struct{}
	all      sync.WaitGroup

	mu    sync.Mutex
	calls int64 // that were acknowledged
	acked map[K]bool
}

// Load starts clients. Each calls send with its own number and the number of the call, both from 0. send returns the rows that were acknowledged, or
// an error.
func Load[K comparable](clients int, send func(client, call int) ([]K, error)) *Loader[K] {
	l := &Loader[K]{progress: make(chan struct{}, 1), stop: make(chan struct{}), acked: map[K]bool{}}
	for client := range clients {
		l.all.Go(func() {
			for call := 0; ; call++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if rows, err := send(client, call); err != nil {
					l.failed.Add(1)
				} else {
					l.acknowledge(rows)
				}
			}
		})
	}
	return l
}

func (l *Loader[K]) acknowledge(rows []K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	for _, row := range rows {
		l.acked[row] = true
	}
	select {
	case l.progress <- struct{}{}:
	default:
	}
}

// Acknowledged returns how many calls were acknowledged.
func (l *Loader[K]) Acknowledged() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// Wait returns when n more calls are acknowledged.
func (l *Loader[K]) Wait(n int64) {
	for want := l.Acknowledged() + n; l.Acknowledged() < want; {
		<-l.progress
	}
}

// Failed returns how many calls were not acknowledged.
func (l *Loader[K]) Failed() int64 { return l.failed.Load() }

// Stop ends the clients, and returns the rows that were acknowledged. It may be repeated.
func (l *Loader[K]) Stop() map[K]bool {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.all.Wait()
	return maps.Clone(l.acked)
}
