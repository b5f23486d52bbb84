package changelogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// Owners is a [changelog.Owners] in memory, for tests. It is safe for concurrent use.
type Owners struct {
	net       network
	history   []changelog.Versioned // all changes, in order, with a nil Value for a deletion, guarded by the lock of net, like the fields below
	places    map[string][]int      // of the changes of a key in history
	version   changelog.Version     // of the last change to any key
	changed   chan struct{}         // closed and replaced at each change
	rollbacks int
}

var _ changelog.Owners = (*Owners)(nil)

var errWatch = errors.New("the watch cannot go on")

// NewOwners returns a store without values. Equal seeds draw equal faults, if the calls happen in the same order.
func NewOwners(seed uint64, f Faults) *Owners {
	return &Owners{net: newNetwork(seed, f), places: map[string][]int{}, changed: make(chan struct{})}
}

// SetFaults replaces the faults. Messages in flight keep the faults drawn for them.
func (o *Owners) SetFaults(f Faults) { o.net.setFaults(f) }

// latest returns the value of a key that is skip changes older than the newest.
func (o *Owners) latest(key string, skip int) changelog.Versioned {
	at := len(o.places[key]) - 1 - skip
	if at < 0 {
		return changelog.Versioned{Key: key}
	}
	v := o.history[o.places[key][at]]
	if v.Value == nil { // it was deleted
		return changelog.Versioned{Key: key}
	}
	v.Value = bytes.Clone(v.Value)
	return v
}

// change adds a change of a key, and announces it. The caller holds the lock.
func (o *Owners) change(key string, value []byte) {
	o.version++
	o.places[key] = append(o.places[key], len(o.history))
	o.history = append(o.history, changelog.Versioned{Key: key, Value: value, Version: o.version})
	o.announce()
}

// Get implements [changelog.Owners].
func (o *Owners) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	if err := changelog.CheckKey(key); err != nil {
		return changelog.Versioned{}, err
	}
	return call(ctx, &o.net, func(respond func(changelog.Versioned, error)) {
		skip := 0
		for skip < 3 && o.net.chance(o.net.faults.StaleReads) {
			skip++
		}
		respond(o.latest(key, skip), nil)
	})
}

// CompareAndSet implements [changelog.Owners].
func (o *Owners) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	if err := changelog.CheckKey(key); err != nil {
		return 0, err
	}
	value = append([]byte{}, value...)
	return call(ctx, &o.net, func(respond func(changelog.Version, error)) {
		if have := o.latest(key, 0).Version; have != old {
			respond(0, fmt.Errorf("%w: it has version %d, not %d", changelog.ErrLost, have, old))
			return
		}
		o.change(key, value)
		respond(o.version, nil)
	})
}

// Delete implements [changelog.Owners].
func (o *Owners) Delete(ctx context.Context, key string, old changelog.Version) error {
	if err := changelog.CheckKey(key); err != nil {
		return err
	}
	_, err := call(ctx, &o.net, func(respond func(struct{}, error)) {
		if have := o.latest(key, 0).Version; have == 0 || have != old {
			respond(struct{}{}, fmt.Errorf("%w: it has version %d, not %d", changelog.ErrLost, have, old))
			return
		}
		o.change(key, nil)
		respond(struct{}{}, nil)
	})
	return err
}

// Watch implements [changelog.Owners].
func (o *Owners) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		w, err := call(ctx, &o.net, func(respond func(watch, error)) {
			respond(watch{o: o, prefix: prefix, rollbacks: o.rollbacks}, nil)
		})
		for first := true; err == nil && ctx.Err() == nil; first = false {
			var changes []changelog.Versioned
			var more <-chan struct{}
			if changes, more, err = w.next(first); err != nil {
				break
			}
			if first {
				changes = append(changes, changelog.Versioned{})
			}
			for _, v := range changes {
				if !yield(v, nil) {
					return
				}
			}
			w.wait(ctx, more)
		}
		if ctx.Err() == nil {
			yield(changelog.Versioned{}, err)
		}
	}
}

// Save remembers the values of now. The function that it returns puts them back, as when the files of an older backup are put
// back. Versions return then, and watches end with an error.
func (o *Owners) Save() (restore func()) {
	o.net.mu.Lock()
	defer o.net.mu.Unlock()
	history, version := slices.Clip(o.history), o.version
	return func() {
		o.net.mu.Lock()
		defer o.net.mu.Unlock()
		o.history, o.version = history, version
		for key, places := range o.places {
			o.places[key] = slices.DeleteFunc(places, func(at int) bool { return at >= len(history) })
		}
		o.rollbacks++
		o.announce()
	}
}

// announce wakes the watches. The caller holds the lock.
func (o *Owners) announce() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// watch is a running watch.
type watch struct {
	o         *Owners
	prefix    string
	rollbacks int // when it began
	seen      int // how many changes of the history it has looked at
}

// next returns the changes since the last call, at first only the newest value of each key, and a channel that is closed when there
// are more.
func (w *watch) next(first bool) (changes []changelog.Versioned, more <-chan struct{}, err error) {
	o := w.o
	o.net.mu.Lock()
	defer o.net.mu.Unlock()
	if w.rollbacks != o.rollbacks || !first && o.net.chance(o.net.faults.BrokenWatches) {
		return nil, nil, errWatch
	}
	for _, v := range o.history[w.seen:] {
		if !strings.HasPrefix(v.Key, w.prefix) || v.Value == nil {
			continue
		}
		if newest := o.latest(v.Key, 0); v.Version == newest.Version || !first && !o.net.chance(o.net.faults.SkippedVersions) {
			v.Value = bytes.Clone(v.Value)
			changes = append(changes, v)
		}
	}
	w.seen = len(o.history)
	return changes, o.changed, nil
}

// wait returns when a message about more changes has arrived, or ctx has ended.
func (w *watch) wait(ctx context.Context, more <-chan struct{}) {
	select {
	case <-more:
	case <-ctx.Done():
		return
	}
	w.o.net.mu.Lock()
	d := w.o.net.upTo(w.o.net.faults.Delay)
	w.o.net.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
