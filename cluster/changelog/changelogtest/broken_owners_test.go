package changelogtest

import (
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"slices"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/suitetest"
)

// brokenOwners is an Owners whose operations a test replaces.
type brokenOwners struct {
	*Owners
	get    func(ctx context.Context, o *Owners, key string) (changelog.Versioned, error)
	set    func(ctx context.Context, o *Owners, key string, old changelog.Version, value []byte) (changelog.Version, error)
	watch  func(ctx context.Context, o *Owners, prefix string) iter.Seq2[changelog.Versioned, error]
	remove func(ctx context.Context, o *Owners, key string, old changelog.Version) error
	// outlives, if it is set, is the context of all watches.
	outlives context.Context
}

func (b *brokenOwners) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	if b.get != nil {
		return b.get(ctx, b.Owners, key)
	}
	return b.Owners.Get(ctx, key)
}

func (b *brokenOwners) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	if b.set != nil {
		return b.set(ctx, b.Owners, key, old, value)
	}
	return b.Owners.CompareAndSet(ctx, key, old, value)
}

func (b *brokenOwners) Delete(ctx context.Context, key string, old changelog.Version) error {
	if b.remove != nil {
		return b.remove(ctx, b.Owners, key, old)
	}
	return b.Owners.Delete(ctx, key, old)
}

func (b *brokenOwners) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	if b.outlives != nil {
		ctx = b.outlives
	}
	if b.watch != nil {
		return b.watch(ctx, b.Owners, prefix)
	}
	return b.Owners.Watch(ctx, prefix)
}

// watchWith replaces what watches yield. It gets the number of values before, and leaves one out if none is true.
func watchWith(change func(n int, v *changelog.Versioned) (none, end bool)) brokenOwners {
	return brokenOwners{watch: func(ctx context.Context, o *Owners, prefix string) iter.Seq2[changelog.Versioned, error] {
		return func(yield func(changelog.Versioned, error) bool) {
			n := 0
			for v, err := range o.Watch(ctx, prefix) {
				none, end := change(n, &v)
				n++
				if end || !none && !yield(v, err) {
					return
				}
			}
		}
	}}
}

// setAnyway writes a value whatever version there is.
func setAnyway(ctx context.Context, o *Owners, key string, value []byte) (changelog.Version, error) {
	for {
		have, err := o.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		if v, err := o.CompareAndSet(ctx, key, have.Version, value); !errors.Is(err, changelog.ErrLost) {
			return v, err
		}
	}
}

func TestBrokenOwnersAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("the sound store is enough for the race detector")
	}
	for name, tc := range map[string]struct {
		caughtBy, says string
		faults         Faults
		owners         brokenOwners
	}{
		"it does not compare": {caughtBy: "CompareAndSet", says: "want changelog.ErrLost", owners: brokenOwners{
			set: func(ctx context.Context, o *Owners, key string, _ changelog.Version, value []byte) (changelog.Version, error) {
				return setAnyway(ctx, o, key, value)
			},
		}},
		"it compares with what it has read": {caughtBy: "Race", says: "in one step of the store", faults: slowly, owners: brokenOwners{
			set: func(ctx context.Context, o *Owners, key string, old changelog.Version, value []byte) (changelog.Version, error) {
				if v, err := o.Get(ctx, key); err != nil || v.Version != old {
					return 0, errors.Join(err, changelog.ErrLost)
				}
				return setAnyway(ctx, o, key, value)
			},
		}},
		"a lost race has another error": {caughtBy: "Race", says: "more than one code", owners: brokenOwners{
			set: func(ctx context.Context, o *Owners, key string, old changelog.Version, value []byte) (changelog.Version, error) {
				v, err := o.CompareAndSet(ctx, key, old, value)
				if err != nil {
					err = errors.New("wrong last sequence")
				}
				return v, err
			},
		}},
		"a refused change is made": {caughtBy: "Count", says: "a change that was refused", owners: brokenOwners{
			set: func(ctx context.Context, o *Owners, key string, old changelog.Version, value []byte) (changelog.Version, error) {
				v, err := o.CompareAndSet(ctx, key, old, value)
				if err == nil && len(value) == 10 {
					_, _ = o.CompareAndSet(ctx, key, v, append(slices.Clone(value), '+'))
				}
				return v, err
			},
		}},
		"versions return": {caughtBy: "CompareAndSet", says: "want a new version", owners: brokenOwners{
			set: func(ctx context.Context, o *Owners, key string, old changelog.Version, value []byte) (changelog.Version, error) {
				v, err := o.Get(ctx, key)
				if sum := changelog.Version(crc32.ChecksumIEEE(v.Value)); err != nil || (v.Version == 0) != (old == 0) || v.Version != 0 && sum != old {
					return 0, errors.Join(err, changelog.ErrLost)
				}
				_, err = o.CompareAndSet(ctx, key, v.Version, value)
				return changelog.Version(crc32.ChecksumIEEE(value)), err
			},
		}},
		"it deletes whatever version there is": {caughtBy: "Delete", says: "want changelog.ErrLost", owners: brokenOwners{
			remove: func(ctx context.Context, o *Owners, key string, _ changelog.Version) error {
				have, err := o.Get(ctx, key)
				if err != nil {
					return err
				}
				return o.Delete(ctx, key, have.Version)
			},
		}},
		"it deletes nothing": {caughtBy: "Delete", says: "was deleted", owners: brokenOwners{
			remove: func(ctx context.Context, o *Owners, key string, old changelog.Version) error {
				if have, err := o.Get(ctx, key); err != nil || have.Version != old {
					return errors.Join(err, changelog.ErrLost)
				}
				return nil
			},
		}},
		"what was deleted cannot be set again": {caughtBy: "Delete", says: "sets it again", owners: brokenOwners{
			remove: func(ctx context.Context, o *Owners, key string, old changelog.Version) error {
				_, err := o.CompareAndSet(ctx, key, old, []byte("deleted"))
				return err
			},
			get: func(ctx context.Context, o *Owners, key string) (changelog.Versioned, error) {
				v, err := o.Get(ctx, key)
				if string(v.Value) == "deleted" {
					v = changelog.Versioned{Key: key}
				}
				return v, err
			},
		}},
		"a key without a value is an error": {caughtBy: "CompareAndSet", says: "if it has no value", owners: brokenOwners{
			get: func(ctx context.Context, o *Owners, key string) (changelog.Versioned, error) {
				v, err := o.Get(ctx, key)
				if err == nil && v.Version == 0 {
					err = errors.New("key not found")
				}
				return v, err
			},
		}},
		"every key is taken": {caughtBy: "Keys", says: "at once", owners: brokenOwners{
			set: func(ctx context.Context, o *Owners, key string, old changelog.Version, value []byte) (changelog.Version, error) {
				return o.CompareAndSet(ctx, "k", old, value)
			},
		}},
		"a bad key is no answer": {caughtBy: "Keys", says: "at once", owners: brokenOwners{
			get: func(ctx context.Context, o *Owners, key string) (changelog.Versioned, error) {
				v, err := o.Get(ctx, key)
				if err != nil {
					err = changelog.ErrUnknown
				}
				return v, err
			},
		}},
		"an empty value is none": {caughtBy: "Values", says: "keeps returning version 0", owners: brokenOwners{
			get: func(ctx context.Context, o *Owners, key string) (changelog.Versioned, error) {
				v, err := o.Get(ctx, key)
				if len(v.Value) == 0 {
					v.Version = 0
				}
				return v, err
			},
		}},
		"the context is ignored": {caughtBy: "EndedContexts", says: "Get with a context that has ended", owners: brokenOwners{
			get: func(_ context.Context, o *Owners, key string) (changelog.Versioned, error) {
				return o.Get(context.Background(), key)
			},
		}},
		"a watch has no values at first": {caughtBy: "Watch", says: "before the zero value", owners: watchWith(func(n int, _ *changelog.Versioned) (bool, bool) {
			return n < 2, false
		})},
		"a watch has no zero value": {caughtBy: "WatchNothing", says: "then a zero Versioned", owners: watchWith(func(_ int, v *changelog.Versioned) (bool, bool) {
			return v.Version == 0, false
		})},
		"a watch yields older values": {caughtBy: "Watch", says: "behind version", owners: func() brokenOwners {
			var last changelog.Versioned
			return watchWith(func(_ int, v *changelog.Versioned) (bool, bool) {
				if v.Version != 0 && v.Key == last.Key {
					v.Version, v.Value = last.Version, last.Value
				} else if v.Version != 0 {
					last = *v
				}
				return false, false
			})
		}()},
		"a watch yields all keys": {caughtBy: "Watch", says: "with its prefix", owners: brokenOwners{
			watch: func(ctx context.Context, o *Owners, prefix string) iter.Seq2[changelog.Versioned, error] {
				return o.Watch(ctx, prefix[:len(prefix)-2])
			},
		}},
		"a watch ends": {caughtBy: "SlowWatch", says: "its context has not", owners: watchWith(func(n int, _ *changelog.Versioned) (bool, bool) {
			return false, n == 3
		})},
		"a watch outlives its context": {caughtBy: "Watch", says: "when its context has ended", owners: brokenOwners{outlives: t.Context()}},
		"watches leave a goroutine": {caughtBy: "Goroutines", says: "end them when a watcher", owners: brokenOwners{
			watch: func(ctx context.Context, o *Owners, prefix string) iter.Seq2[changelog.Versioned, error] {
				go func() { <-ctx.Done() }()
				return o.Watch(ctx, prefix)
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(ownerChecks, func(c ownerCheck) bool { return c.name == tc.caughtBy })
			expectCaught(t, tc.says, func(r suitetest.T, seed uint64) {
				driver := tc.owners
				driver.Owners = NewOwners(seed, tc.faults)
				if driver.outlives != nil {
					driver.outlives = r.Context()
				}
				ownerChecks[i].play(r, [2]changelog.Owners{&driver, &driver})
			})
		})
	}
}
