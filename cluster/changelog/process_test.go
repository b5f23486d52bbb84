package changelog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// lease is the lease of all processes in tests, on a clock that runs at the right speed.
const lease = 12 * time.Second

var errAway = errors.New("the store of owners is away")

// link is the connection of one process to the store of owners.
type link struct {
	changelog.Owners
	// slow is how much longer a second of the process is. Every duration of ownership comes from the lease, so a process whose
	// clock runs slow is one with a longer lease that does not know it, and link translates the leases of records.
	slow float64

	mu      sync.Mutex
	away    bool          // calls fail at once
	stopped chan struct{} // while it is set calls wait for it to be closed, as when the process or its host stands still
	// before runs before each CompareAndSet, and after when it has succeeded.
	before, after func() error
}

func newLink(owners changelog.Owners) *link { return &link{Owners: owners, slow: 1} }

func (l *link) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// stop holds up all calls until the function that it returns is called.
func (l *link) stop() (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stopped := make(chan struct{})
	l.stopped = stopped
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(stopped)
		l.stopped = nil
	}
}

// lose lets further calls through. Calls that were held up never get a response.
func (l *link) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = nil
}

func (l *link) hook(before, after func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	away, stopped := l.away, l.stopped
	l.mu.Unlock()
	if away {
		return errAway
	}
	if stopped != nil {
		select {
		case <-stopped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// local is the lease of the process in the time of the test.
func (l *link) local() time.Duration { return time.Duration(float64(lease) * l.slow) }

// withLease returns a record with another lease.
func withLease(value []byte, old, now time.Duration) []byte {
	return bytes.Replace(value, fmt.Appendf(nil, `"lease_ns":%d`, old), fmt.Appendf(nil, `"lease_ns":%d`, now), 1)
}

func (l *link) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	if err := l.pass(ctx); err != nil {
		return changelog.Versioned{}, err
	}
	v, err := l.Owners.Get(ctx, key)
	v.Value = withLease(v.Value, lease, l.local())
	return v, err
}

func (l *link) Delete(ctx context.Context, key string, old changelog.Version) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Owners.Delete(ctx, key, old)
}

func (l *link) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	if err := l.pass(ctx); err != nil {
		return 0, err
	}
	value = withLease(value, l.local(), lease)
	l.mu.Lock()
	before, after := l.before, l.after
	l.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return 0, err
		}
	}
	version, err := l.Owners.CompareAndSet(ctx, key, old, value)
	if err == nil && after != nil {
		err = after()
	}
	if passErr := l.pass(ctx); passErr != nil {
		return 0, passErr
	}
	return version, err
}

func (l *link) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		for v, err := range l.Owners.Watch(ctx, prefix) {
			if passErr := l.pass(ctx); passErr != nil {
				yield(changelog.Versioned{}, passErr)
				return
			}
			v.Value = withLease(v.Value, lease, l.local())
			if !yield(v, err) {
				return
			}
		}
	}
}

func (l *link) options(node string) changelog.LeaseOptions {
	return changelog.LeaseOptions{Node: node, Lease: l.local()}
}

// take is changelog.Take, for a test in which it succeeds. The Keeper is closed when the test ends.
func take(t *testing.T, l *link, node, instance string, local uint64) *changelog.Keeper {
	t.Helper()
	k, err := changelog.Take(t.Context(), l, instance, local, l.options(node))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// ends waits until the Keeper has ended.
func ends(t *testing.T, k *changelog.Keeper) {
	t.Helper()
	select {
	case <-k.Done():
	case <-time.After(20 * lease):
		t.Fatal("the Keeper does not end")
	}
}

// record returns the record of an instance as it is, through a store without faults.
func record(t *testing.T, owners changelog.Owners, instance string) changelog.Owner {
	t.Helper()
	v, err := owners.Get(context.Background(), changelog.OwnerKey(instance))
	if err != nil {
		t.Fatal(err)
	}
	var o changelog.Owner
	if err := json.Unmarshal(v.Value, &o); err != nil {
		t.Fatal(err)
	}
	return o
}
