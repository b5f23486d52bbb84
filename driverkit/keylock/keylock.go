// Package keylock has locks by name, which a waiting caller can leave with its context.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks by name. Different names never wait for each other. The zero value is ready. It is safe for concurrent
// use, and stores nothing for a name that no goroutine holds or waits for.
type Locks struct {
	mu     sync.Mutex
	byName map[string]*lock
}

type lock struct {
	free   chan struct{} // buffered, and the holder occupies it
	users  int           // holder and waiting callers
	holder string
}

// Lock waits until no other goroutine holds the lock of name. [Locks.Holder] returns holder until unlock is called. The error is
// the cause of ctx. ctx wins a tie, so a caller that gave up never holds the lock.
func (l *Locks) Lock(ctx context.Context, name, holder string) (unlock func(), err error) {
	l.mu.Lock()
	k := l.byName[name]
	if k == nil {
		if l.byName == nil {
			l.byName = map[string]*lock{}
		}
		k = &lock{free: make(chan struct{}, 1)}
		l.byName[name] = k
	}
	k.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.byName, name)
		}
	}
	select {
	case k.free <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		<-k.free
		leave()
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	k.holder = holder
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		k.holder = ""
		l.mu.Unlock()
		<-k.free
		leave()
	}, nil
}

// Hold is Lock for a caller that never gives up.
func (l *Locks) Hold(name string) (unlock func()) {
	unlock, _ = l.Lock(context.Background(), name, "") // that context never ends
	return unlock
}

// Users counts the holder and the waiting callers of a lock.
func (l *Locks) Users(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byName[name]; k != nil {
		return k.users
	}
	return 0
}

// Holder returns the holder of a lock, or the empty string if the lock is free.
func (l *Locks) Holder(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byName[name]; k != nil {
		return k.holder
	}
	return ""
}
