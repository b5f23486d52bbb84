package checkpoint_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

var (
	seeds    = flag.Int("seeds", 80, "number of seeds that the simulation plays")
	fromSeed = flag.Int("from", 0, "the first seed")
)

// TestSimulation lets owners of one instance save checkpoints while calls of the staging fail, take effect although they failed, or
// take effect later. Owners die and restart on their disk without unsynced data, or without the disk, and in every second seed lose the instance in the
// middle of a call, without knowing, to a node that continues from the checkpoint. It checks:
//
//   - The checkpoint that the record names is whole at all times.
//   - In the end the staging has its objects and no others, except such that were stored late, or by an owner that had lost the instance.
//   - When the instance is drained, it has none of them.
func TestSimulation(t *testing.T) {
	for seed := *fromSeed; seed < *fromSeed+*seeds; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playSeed(t, uint64(seed)) })
		}) {
			t.Fatalf("repeat with: go test ./internal/checkpoint -run '^TestSimulation$' -from %d -seeds 1", seed)
		}
	}
}

// world is one seed. Everything happens in one goroutine at a time.
type world struct {
	*testing.T
	rng     *rand.Rand
	staging *buffertest.Memory
	adopt   bool // nodes adopt the instance
	trouble bool
	late    []func() // what calls that failed will still do

	owners *changelogtest.Owners // have the note

	// The owner's record.
	epoch uint64
	ref   string

	owner    *node
	number   uint64
	saved    map[string]files // by ref
	lateName map[string]bool  // of objects that were stored late, or by a fenced owner, perhaps after they were deleted
}

// node is one node with its disk, over several processes.
type node struct {
	world  *world
	disk   *vfs.MemFS
	files  files
	epochs []uint64 // the last is the present one
	store  *checkpoint.Store
	before *checkpoint.Manifest
	dead   bool
}

func playSeed(t *testing.T, seed uint64) {
	w := &world{
		T: t, rng: rand.New(rand.NewPCG(seed, 1)), staging: buffertest.NewMemory(), adopt: seed%2 == 1, trouble: true,
		owners: newOwners(), saved: map[string]files{}, lateName: map[string]bool{},
	}
	w.owner = w.start(files{})
	for range 15 {
		w.owner.save()
		w.check()
	}
	w.trouble = false
	for _, effect := range w.late {
		effect()
	}
	w.check()
	w.owner.save()
	if err := w.owner.store.Tidy(t.Context(), instance, w.epoch, w.owner.before); err != nil {
		t.Fatal(err)
	}
	w.check()
	kept := objectsOf(*w.owner.before, w.ref)
	for name := range objects(w.staging) {
		if !kept[name] && !w.lateName[name] {
			t.Errorf("object %s is left; the record names %s", name, w.ref)
		}
	}
	if err := w.owner.store.Clear(t.Context(), instance, w.epoch, w.ref); err != nil {
		t.Fatal(err)
	}
	for name := range objects(w.staging) {
		if !w.lateName[name] {
			t.Errorf("object %s of the drained instance is left", name)
		}
	}
}

func (w *world) chance(oneIn int) bool { return w.trouble && w.rng.IntN(oneIn) == 0 }

// start makes a node with a new disk the owner.
func (w *world) start(have files) *node {
	n := &node{world: w, disk: vfs.NewCrashableMem(), files: have}
	makeDurable(w, n.disk, "data")
	n.begin()
	return n
}

// begin starts a process that owns the instance.
func (n *node) begin() {
	w := n.world
	w.epoch++
	n.epochs = append(n.epochs, w.epoch)
	n.store = checkpoint.New(n, noteOf{n}, localdisk.On(checkpoint.Options{Parallel: 1}, vfs.FS(n.disk)))
	n.before, n.dead = nil, false
	if w.ref != "" {
		m, err := n.store.Load(w.Context(), instance, w.ref)
		if err != nil {
			w.Fatal(err)
		}
		n.before = &m
	}
	if w.rng.IntN(2) == 0 {
		_ = n.store.Tidy(w.Context(), instance, w.epoch, n.before)
	}
}

// save is what an owner does for one checkpoint.
func (n *node) save() {
	w := n.world
	if n.dead {
		n.disk = n.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * w.rng.IntN(2), RNG: w.rng})
		if w.rng.IntN(3) == 0 {
			n.disk = vfs.NewCrashableMem()
			makeDurable(w, n.disk, "data")
		}
		n.begin()
	}
	for range 1 + w.rng.IntN(3) {
		w.number++
		n.files[fmt.Sprintf("local/%06d.sst", w.number)] = fmt.Sprint("rows ", w.number)
	}
	for _, name := range slices.Sorted(maps.Keys(n.files)) {
		if w.rng.IntN(5) == 0 {
			delete(n.files, name)
		}
	}
	n.files["local/MANIFEST"], n.files["local/empty"] = fmt.Sprint("list ", w.number), ""
	n.files["local/switch"] = fmt.Sprint("one of two ", w.rng.IntN(2)) // the same bytes come again
	have := maps.Clone(n.files)
	write(w, n.disk, snapshot, have)
	epoch := n.epochs[len(n.epochs)-1]
	m, ref, err := n.store.Save(w.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: epoch, Number: w.number}, n.before)
	if err != nil || w.epoch != epoch {
		n.dead = n.dead || w.chance(3)
		return
	}
	w.ref, w.saved[ref] = ref, have
	if w.chance(8) {
		n.dead = true
		return
	}
	before := n.before
	n.before = &m
	if !w.chance(3) {
		_ = n.store.Tidy(w.Context(), instance, epoch, &m, before)
	}
}

// adoptFrom makes another node the owner in the middle of a call of n, which continues afterwards.
func (w *world) adoptFrom(n *node) {
	have := files{}
	maps.Copy(have, w.saved[w.ref])
	w.owner = w.start(have)
	for range w.rng.IntN(4) {
		w.owner.save()
		w.check()
	}
}

// check demands that the checkpoint is whole that the record names.
func (w *world) check() {
	w.Helper()
	if w.ref != "" {
		expect(w, w.Context(), w.staging, w.ref, w.saved[w.ref])
	}
}

// call makes a call of the staging for a node. late is the object that it stores.
func (n *node) call(late string, effect func() error) error {
	w := n.world
	if n.dead {
		return errInjected
	}
	for i := 0; i < len(w.late); i++ {
		if w.rng.IntN(10) == 0 {
			act := w.late[i]
			w.late = append(w.late[:i], w.late[i+1:]...)
			act()
		}
	}
	if w.adopt && n == w.owner && w.chance(40) {
		w.adoptFrom(n)
	}
	switch {
	case w.chance(40):
		return errInjected
	case w.chance(20):
		w.late = append(w.late, func() { _ = effect() })
		w.lateName[late] = true
		return errInjected
	case w.chance(40):
		n.dead = true
		return errInjected
	}
	if err := effect(); err != nil {
		return err
	}
	if n.dead = w.chance(40); n.dead || w.chance(40) {
		return errInjected
	}
	return nil
}

// Put implements [driver.Staging].
func (n *node) Put(_ context.Context, obj driver.Object, src driver.Content) error {
	var data bytes.Buffer
	if _, err := src.WriteTo(&data); err != nil {
		return err
	}
	return n.call(obj.ID, func() error {
		if n.epochs[len(n.epochs)-1] < n.world.epoch {
			n.world.lateName[obj.ID] = true
		}
		return n.world.staging.Put(n.world.Context(), obj, text(data.String()))
	})
}

// Open implements [driver.Staging].
func (n *node) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	return n.world.staging.Open(ctx, obj)
}

// Delete implements [driver.Staging].
func (n *node) Delete(_ context.Context, objs ...driver.Object) error {
	return n.call("", func() error { return n.world.staging.Delete(n.world.Context(), objs...) })
}

// noteOf is the store of owners as a node reaches it.
type noteOf struct{ *node }

// Get implements [changelog.Owners].
func (n noteOf) Get(ctx context.Context, key string) (v changelog.Versioned, err error) {
	if n.dead || n.world.chance(40) {
		return v, errInjected
	}
	return n.world.owners.Get(ctx, key)
}

// CompareAndSet implements [changelog.Owners].
func (n noteOf) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (v changelog.Version, err error) {
	err = n.call("", func() error {
		v, err = n.world.owners.CompareAndSet(context.WithoutCancel(ctx), key, old, value)
		return err
	})
	return v, err
}

// Delete implements [changelog.Owners].
func (n noteOf) Delete(ctx context.Context, key string, old changelog.Version) error {
	return n.call("", func() error { return n.world.owners.Delete(context.WithoutCancel(ctx), key, old) })
}

// Watch implements [changelog.Owners].
func (n noteOf) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return n.world.owners.Watch(ctx, prefix)
}

// text is a content.
type text string

// Open implements [driver.Content].
func (s text) Open() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(s))), nil }

// WriteTo implements [driver.Content].
func (s text) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(s))
	return int64(n), err
}
