package changelogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/suitetest"
)

// TestOwners checks a driver against the contract of [changelog.Owners]. Each check is a subtest. It calls open twice, for two nodes, and uses
// its own keys, so that one cluster can serve all. open registers cleanup with t.Cleanup. One check counts goroutines, so that no
// test should run in parallel.
func TestOwners(t *testing.T, open func(t *testing.T) changelog.Owners) {
	t.Helper()
	for _, c := range ownerChecks {
		t.Run(c.name, func(t *testing.T) { c.play(t, [2]changelog.Owners{open(t), open(t)}) })
	}
}

type ownerCheck struct {
	name string
	run  func(b *ownerBench)
}

var ownerChecks = []ownerCheck{
	{"CompareAndSet", compareAndSet},
	{"Values", valuesReturn},
	{"Keys", keysAreChecked},
	{"Delete", deleteKey},
	{"Race", raceForVersion},
	{"Count", countTogether},
	{"EndedContexts", endedOwnerContexts},
	{"Watch", watchChanges},
	{"WatchNothing", watchNothing},
	{"SlowWatch", slowWatch},
	{"Goroutines", ownerGoroutines},
}

// ownerBench is what one check works with.
type ownerBench struct {
	t      suitetest.T
	owners changelog.Owners // of one node
	other  changelog.Owners // of another
	ctx    context.Context
	prefix string // of its keys
}

func (c ownerCheck) play(t suitetest.T, owners [2]changelog.Owners) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.run(&ownerBench{t: t, owners: owners[0], other: owners[1], ctx: ctx, prefix: "i." + newName() + "."})
}

func (b *ownerBench) node(i int) changelog.Owners { return []changelog.Owners{b.owners, b.other}[i%2] }

func (b *ownerBench) set(key string, old changelog.Version, value string) changelog.Version {
	b.t.Helper()
	v, err := b.owners.CompareAndSet(b.ctx, b.prefix+key, old, []byte(value))
	if err != nil || v == 0 || v == old {
		b.t.Fatalf("CompareAndSet of %q from its version %d = %d, %v, want a new version: zero stands for a key without a value", key, old, v, err)
	}
	return v
}

// lose demands that a change is refused.
func (b *ownerBench) lose(key string, old changelog.Version) {
	b.t.Helper()
	if v, err := b.other.CompareAndSet(b.ctx, b.prefix+key, old, []byte("too late")); !errors.Is(err, changelog.ErrLost) {
		b.t.Fatalf("CompareAndSet of %q from a version %d that it does not have = %d, %v, want changelog.ErrLost: every code of the store that says "+
			"so counts", key, old, v, err)
	}
}

func (b *ownerBench) get(key string) changelog.Versioned {
	b.t.Helper()
	v, err := b.owners.Get(b.ctx, b.prefix+key)
	if err != nil || v.Key != b.prefix+key {
		b.t.Fatalf("Get of %q = %+v, %v, want this key and no error, also if it has no value: then the version is 0", b.prefix+key, v, err)
	}
	return v
}

// expectValue waits until Get returns a value, since it may return an older one.
func (b *ownerBench) expectValue(key, value string, version changelog.Version) {
	b.t.Helper()
	var v changelog.Versioned
	if !eventually(b.ctx, func() bool {
		v = b.get(key)
		return v.Version == version
	}) {
		b.t.Fatalf("Get of %q keeps returning version %d, want %d", key, v.Version, version)
	}
	if !bytes.Equal(v.Value, []byte(value)) {
		b.t.Fatalf("Get of %q = %d bytes, want the %d bytes that were set with version %d", key, len(v.Value), len(value), version)
	}
}

func compareAndSet(b *ownerBench) {
	if v := b.get("a"); v.Version != 0 || len(v.Value) > 0 {
		b.t.Fatalf("Get of a key without a value = %+v, want the version 0", v)
	}
	b.lose("a", 7)
	one := b.set("a", 0, "one")
	b.lose("a", 0)
	two := b.set("a", one, "two")
	other := b.set("other", 0, "one")
	for _, old := range []changelog.Version{0, one, two + 1000} {
		b.lose("a", old)
	}
	three := b.set("a", two, "two") // the same value, and yet a change
	if three == one {
		b.t.Errorf("a version has returned")
	}
	b.expectValue("a", "two", three)
	b.expectValue("other", "one", other)
}

func valuesReturn(b *ownerBench) {
	for key, value := range map[string]string{
		"empty": "", "binary": "\x00\xff\r\n", "large": strings.Repeat("0123456789", 1600), "with.dots-and_more": "x",
	} {
		version := b.set(key, 0, value)
		b.expectValue(key, value, version)
		b.lose(key, 0)
	}
	reused := []byte("the first")
	version, err := b.owners.CompareAndSet(b.ctx, b.prefix+"reused", 0, reused)
	if err != nil {
		b.t.Fatalf("CompareAndSet = %v, want nil", err)
	}
	clear(reused)
	b.expectValue("reused", "the first", version)
}

func deleteKey(b *ownerBench) {
	refuse := func(old changelog.Version) {
		b.t.Helper()
		if err := b.other.Delete(b.ctx, b.prefix+"a", old); !errors.Is(err, changelog.ErrLost) {
			b.t.Fatalf("Delete of a key from a version %d that it does not have = %v, want changelog.ErrLost", old, err)
		}
	}
	refuse(7)
	one := b.set("a", 0, "one")
	two := b.set("a", one, "two")
	stays := b.set("stays", 0, "x")
	refuse(one)
	b.expectValue("a", "two", two)
	if err := b.owners.Delete(b.ctx, b.prefix+"a", two); err != nil {
		b.t.Fatalf("Delete = %v, want nil", err)
	}
	var v changelog.Versioned
	if !eventually(b.ctx, func() bool { v = b.get("a"); return v.Version == 0 }) {
		b.t.Fatalf("Get keeps returning version %d of a key that was deleted, want the version 0", v.Version)
	}
	refuse(two)
	b.lose("a", two)
	if values, _ := b.watch(b.ctx, b.prefix); len(values) != 1 {
		b.t.Errorf("Watch has the values %v, want the one that was not deleted", values)
	}
	three, err := b.owners.CompareAndSet(b.ctx, b.prefix+"a", 0, []byte("three"))
	if err != nil || three == 0 || three == one || three == two {
		b.t.Fatalf("CompareAndSet of a key that was deleted = %d, %v, want a version that it never had: the version 0 sets it again", three, err)
	}
	b.expectValue("a", "three", three)
	b.expectValue("stays", "x", stays)
}

// A caller that repeats unknown outcomes would do so forever.
func keysAreChecked(b *ownerBench) {
	for _, key := range []string{"", ".", "a.", ".a", "a..b", "a b", "a*", ">", "a/b", "ä", "a\x00", strings.Repeat("a", 257)} {
		_, err := b.owners.Get(b.ctx, key)
		_, setErr := b.owners.CompareAndSet(b.ctx, key, 0, nil)
		deleteErr := b.owners.Delete(b.ctx, key, 1)
		for _, err := range []error{err, setErr, deleteErr} {
			if err == nil || errors.Is(err, changelog.ErrUnknown) || errors.Is(err, changelog.ErrLost) || b.ctx.Err() != nil {
				b.t.Errorf("a call with the key %.20q = %v, want an error at once that says what is wrong with it: see changelog.CheckKey", key, err)
			}
		}
	}
	b.set(strings.Repeat("k", 256-len(b.prefix)), 0, "the longest")
}

// Of all that compare with one version, one wins.
func raceForVersion(b *ownerBench) {
	old := changelog.Version(0)
	for round := range 20 {
		versions := make([]changelog.Version, 8)
		errs := suitetest.Together(len(versions), func(i int) (err error) {
			versions[i], err = b.node(i).CompareAndSet(b.ctx, b.prefix+"raced", old, fmt.Append(nil, round, i))
			return err
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				b.t.Fatalf("two of %d calls at once have replaced version %d: compare and set in one step of the store", len(errs), old)
			case err == nil:
				winner = i
			case !errors.Is(err, changelog.ErrLost):
				b.t.Errorf("a call that lost a race says %v, want changelog.ErrLost: the store may have more than one code for it", err)
			}
		}
		if winner < 0 {
			b.t.Fatalf("none of %d calls at once has replaced version %d, want one", len(errs), old)
		}
		old = versions[winner]
		b.expectValue("raced", fmt.Sprint(round, winner), old)
	}
}

// A number that all nodes raise by one loses no increment.
func countTogether(b *ownerBench) {
	const nodes, times = 8, 5
	errs := suitetest.Together(nodes, func(i int) error {
		for done := 0; done < times; {
			v, err := b.node(i).Get(b.ctx, b.prefix+"count")
			if err != nil {
				return err
			}
			_, err = b.node(i).CompareAndSet(b.ctx, b.prefix+"count", v.Version, append(v.Value, '+'))
			if err == nil {
				done++
			} else if !errors.Is(err, changelog.ErrLost) {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		b.t.Fatalf("Get and CompareAndSet in turns = %v, want nil or changelog.ErrLost", err)
	}
	if !eventually(b.ctx, func() bool { return len(b.get("count").Value) >= nodes*times }) {
		b.t.Fatalf("%d changes left %d, want each of them: Get returns a value with its own version", nodes*times, len(b.get("count").Value))
	}
	if n := len(b.get("count").Value); n > nodes*times {
		b.t.Errorf("%d changes left %d: a change that was refused has been made", nodes*times, n)
	}
}

func endedOwnerContexts(b *ownerBench) {
	const advice = "wrap the error of the context, and return at once"
	if _, err := b.owners.Get(ended(), b.prefix+"a"); !errors.Is(err, context.Canceled) {
		b.t.Errorf("Get with a context that has ended = %v, want context.Canceled: %s", err, advice)
	}
	if _, err := b.owners.CompareAndSet(ended(), b.prefix+"a", 0, nil); !errors.Is(err, context.Canceled) {
		b.t.Errorf("CompareAndSet with a context that has ended = %v, want context.Canceled: %s", err, advice)
	}
	if err := b.owners.Delete(ended(), b.prefix+"a", 1); !errors.Is(err, context.Canceled) {
		b.t.Errorf("Delete with a context that has ended = %v, want context.Canceled: %s", err, advice)
	}
	for v, err := range b.owners.Watch(ended(), b.prefix) {
		if err == nil && v.Version != 0 || err != nil && !errors.Is(err, context.Canceled) {
			b.t.Errorf("Watch with a context that has ended yields %+v, %v", v, err)
		}
	}
}

// watched is what one watch yields. The channel is closed when it ends.
type watched chan changelog.Versioned

// watch begins to watch the keys with a prefix, and yields the values before the zero value.
func (b *ownerBench) watch(ctx context.Context, prefix string) (values map[string]changelog.Versioned, changes watched) {
	b.t.Helper()
	changes = make(watched)
	go func() {
		defer close(changes)
		for v, err := range b.other.Watch(ctx, prefix) {
			if err != nil {
				if ctx.Err() == nil {
					b.t.Errorf("Watch ends with %v, and nothing is wrong with the cluster", err)
				}
				return
			}
			select {
			case changes <- v:
			case <-ctx.Done():
			}
		}
	}()
	values = make(map[string]changelog.Versioned)
	for {
		v := b.next(changes)
		if v.Version == 0 {
			return values, changes
		}
		if _, twice := values[v.Key]; twice {
			b.t.Errorf("Watch yields %q twice before the zero value: the newest is enough", v.Key)
		}
		values[v.Key] = v
	}
}

func (b *ownerBench) next(changes watched) changelog.Versioned {
	b.t.Helper()
	select {
	case v, more := <-changes:
		if !more {
			b.t.Fatalf("Watch has ended, and its context has not")
		}
		if v.Version != 0 && !strings.HasPrefix(v.Key, b.prefix) {
			b.t.Fatalf("Watch yields the key %q, whose prefix is not %q", v.Key, b.prefix)
		}
		return v
	case <-b.ctx.Done():
		b.t.Fatalf("Watch yields nothing more: first the values, then a zero Versioned even if there are none, then each change that is the last of its key")
	}
	panic("unreachable")
}

// expectChange takes changes until the newest of a key. There may be older ones before it, in their order, and others.
func (b *ownerBench) expectChange(changes watched, key, value string, version changelog.Version) {
	b.t.Helper()
	last := changelog.Version(0)
	for {
		v := b.next(changes)
		if v.Key != b.prefix+key {
			continue
		}
		if v.Version <= last {
			b.t.Fatalf("Watch yields version %d of %q behind version %d", v.Version, key, last)
		}
		if last = v.Version; last == version {
			if string(v.Value) != value {
				b.t.Fatalf("Watch yields %d bytes for version %d of %q, want the %d that were set", len(v.Value), version, key, len(value))
			}
			return
		}
	}
}

func watchChanges(b *ownerBench) {
	a := b.set("w.a", b.set("w.a", 0, "zero"), "one")
	c := b.set("w.c", 0, "one")
	other := b.set("other", 0, "one")
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	values, changes := b.watch(ctx, b.prefix+"w.")
	for key, version := range map[string]changelog.Version{"w.a": a, "w.c": c} {
		if v := values[b.prefix+key]; v.Version != version || string(v.Value) != "one" {
			b.t.Errorf("Watch yields version %d of %q before the zero value, want the newest, %d", v.Version, key, version)
		}
	}
	if len(values) != 2 {
		b.t.Errorf("Watch yields %d keys before the zero value, want the 2 with its prefix", len(values))
	}
	b.set("other", other, "two")
	a = b.set("w.a", a, "two")
	b.expectChange(changes, "w.a", "two", a)
	d := b.set("w.d", 0, "new")
	b.expectChange(changes, "w.d", "new", d)
	c = b.set("w.c", b.set("w.c", c, "two"), "three")
	b.expectChange(changes, "w.c", "three", c)

	cancel()
	if !eventually(b.ctx, func() bool {
		select {
		case _, more := <-changes:
			return !more
		default:
			return false
		}
	}) {
		b.t.Errorf("Watch goes on when its context has ended")
	}
}

func watchNothing(b *ownerBench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	values, changes := b.watch(ctx, b.prefix)
	if len(values) > 0 {
		b.t.Errorf("Watch yields %d values of a prefix that has none", len(values))
	}
	b.expectChange(changes, "a", "one", b.set("a", 0, "one"))
}

// A watch that is not read for a while blocks no other call, and continues with the newest values.
func slowWatch(b *ownerBench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	_, changes := b.watch(ctx, b.prefix)
	version := changelog.Version(0)
	for i := range 100 {
		version = b.set("a", version, fmt.Sprint(i))
	}
	b.expectChange(changes, "a", "99", version)
}

func ownerGoroutines(b *ownerBench) {
	version := changelog.Version(0)
	round := func() {
		version = b.set("a", version, "x")
		for range b.owners.Watch(b.ctx, b.prefix) {
			break
		}
		ctx, cancel := context.WithCancel(b.ctx)
		for range b.owners.Watch(ctx, b.prefix) {
			cancel()
		}
		cancel()
	}
	round() // goroutines that the driver starts once
	before, n := runtime.NumGoroutine(), 0
	for range rounds {
		round()
	}
	if !eventually(b.ctx, func() bool {
		n = runtime.NumGoroutine()
		return n < before+rounds/2
	}) {
		b.t.Errorf("%d rounds of CompareAndSet and Watch left %d goroutines: end them when a watcher breaks off or its context ends", rounds, n-before)
	}
}
