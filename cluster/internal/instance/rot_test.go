package instance

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

var errDown = errors.New("down")

// holdSlices keeps slices, but not checkpoints, out of staging, until the result is called.
func (p *worldProcess) holdSlices() (release func()) {
	var held atomic.Bool
	held.Store(true)
	p.setHooks(func(call string) error {
		if held.Load() && strings.HasPrefix(call, "put ") && !strings.HasPrefix(call, "put ckpt-") {
			return errDown
		}
		return nil
	}, nil)
	return func() { held.Store(false) }
}

// corrupt changes bytes everywhere in the tables of a store.
func corrupt(t *testing.T, disk vfs.FS, dir string) {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := disk.OpenReadWrite(disk.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
		if errors.Is(err, fs.ErrNotExist) { // the store has deleted it meanwhile
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		for at := int64(50); err == nil && at < info.Size(); at += 100 {
			_, err = f.WriteAt([]byte("#"), at)
		}
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// withTables runs a test with a node whose process has acknowledged rows that wait in tables of its local level.
func withTables(t *testing.T, checkpointBytes int64, rows int, play func(w *world, n *worldNode, i *Instance, release func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.story = testing.Verbose()
		w.size, w.checkpointBytes = 4<<10, checkpointBytes
		n := w.node("a")
		p := n.start()
		release := p.holdSlices()
		i := p.opened()
		for range 8 {
			w.clients.Go(func() { p.put(i, rows/8) })
		}
		w.clients.Wait()
		if w.sent != len(w.acked) {
			t.Fatalf("%d of %d rows are acknowledged, want %v", len(w.acked), w.sent, len(w.acked))
		}
		play(w, n, i, release)
	})
}

// restored waits until an instance has ended because of damage and continues in the same process, flushes it, and compares.
func (n *worldNode) restored(before *Instance) {
	n.w.Helper()
	n.w.await("the instance ends", func() bool { return before.Err() != nil })
	if !errors.As(before.Err(), new(*buffer.StoreDamageError)) {
		n.w.Errorf("it ends with %v", before.Err())
	}
	n.w.await("the instance opens again", func() bool { i := n.runs.open(); return i != nil && i != before })
	if name := n.instance(); name != before.Keeper().Instance() {
		n.w.Errorf("instance %s goes on as %s", before.Keeper().Instance(), name)
	}
	if err := n.runs.opened().Engine().FlushAll(n.w.Context()); err != nil {
		n.w.Error(err)
	}
	n.w.check()
	if len(n.aside()) != 1 {
		n.w.Errorf("set aside: %v", n.aside())
	}
	for _, s := range n.runs.opened().Engine().Stats().Sinks {
		if s.Damaged.Rows > 0 {
			n.w.Errorf("%d rows are counted as damaged", s.Damaged.Rows)
		}
	}
}

// Tables of a running node rot while rows wait in them. Whoever finds that, the node restores its local level from checkpoint and log, and
// no row is lost.
func TestRotOfTables(t *testing.T) {
	for name, c := range map[string]struct {
		checkpointBytes int64
		find            func(n *worldNode, i *Instance, release func())
	}{
		"found by an upload, without a checkpoint": {1 << 30, func(_ *worldNode, _ *Instance, release func()) { release() }},
		"found by an upload, behind a checkpoint":  {1 << 20, func(_ *worldNode, _ *Instance, release func()) { release() }},
		"found by Verify": {1 << 30, func(n *worldNode, i *Instance, release func()) {
			if _, err := i.Engine().Verify(n.w.Context()); !errors.As(err, new(*buffer.StoreDamageError)) {
				n.w.Errorf("verify: %v", err)
			}
			release()
		}},
		"found by a checkpoint": {3 << 20, func(n *worldNode, i *Instance, release func()) {
			n.w.clients.Go(func() { n.runs.put(i, 1000) }) // until one is due
			n.w.await("the instance ends", func() bool { return i.Err() != nil })
			n.w.clients.Wait()
			release()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withTables(t, c.checkpointBytes, 800, func(w *world, n *worldNode, i *Instance, release func()) {
				corrupt(t, n.disk, "node/data/"+n.instance()+"/local")
				c.find(n, i, release)
				n.restored(i)
			})
		})
	}
}

// The log of the store rots while the process is down and rows wait in it.
func TestRotOfTheStoresLog(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, percent := range []int64{5, 50, 95} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				n := w.node("a")
				p := n.start()
				release := p.holdSlices()
				p.put(p.opened(), 50)
				name := n.instance()
				if killed {
					n.kill(nil, false)
				} else {
					n.stop()
					w.processes.Wait()
				}
				release()
				dir, rotten := "node/data/"+name+"/local", 0
				names, err := n.disk.List(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					data, err := n.disk.UnsafeGetFileDataBuffer(dir + "/" + name)
					end := int64(len(strings.TrimRight(string(data), "\x00"))) // logs are filled with zeros ahead
					if err == nil && strings.HasSuffix(name, ".log") && end > 100 {
						data[end*percent/100] ^= 4
						rotten++
					}
				}
				if rotten == 0 {
					t.Fatal("no log has rows")
				}
				n.goesOn(name)
			})
		}
	}
}

// The same with tables that are files of a real disk, and a process that is a program's. It opens the folder again after Done.
func TestRotOfRealFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.size = 4 << 10
		n, dir := w.node("a"), t.TempDir()
		p := &worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}
		o := p.options()
		o.Engine.Buffer = localdisk.On(o.Engine.Buffer, vfs.Default)
		release := p.holdSlices()
		open := func() *Instance {
			t.Helper()
			i, err := Open(w.Context(), dir, o)
			if err == nil {
				err = i.Engine().Define(w.Context(), worldSource)
			}
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
		i := open()
		for range 8 {
			w.clients.Go(func() { p.put(i, 100) })
		}
		w.clients.Wait()
		corrupt(t, vfs.Default, filepath.Join(dir, "data", i.Keeper().Instance(), "local"))
		release()
		w.await("the instance ends", func() bool { return i.Err() != nil })
		_ = i.Close() // its disk is damaged
		again := open()
		if a, b := again.Keeper().Instance(), i.Keeper().Instance(); a != b {
			t.Errorf("%s goes on as %s, want %v", b, a, b)
		}
		if err := again.Engine().FlushAll(w.Context()); err != nil {
			t.Error(err)
		}
		if w.check(); len(w.acked) != 800 {
			t.Errorf("%d of 800 rows are acknowledged, want 800", len(w.acked))
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// editChunks opens the store of a process that has ended, and changes a byte of every fifth chunk. The blocks of its tables stay whole, so
// that only who reads the rows finds that.
func editChunks(t *testing.T, disk vfs.FS, dir string) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("c"), UpperBound: []byte("d")})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%5 == 0 {
			value := bytes.Clone(it.Value())
			value[len(value)-1] ^= 4
			if err := db.Set(it.Key(), value, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(it.Close(), db.Close()); err != nil || n < 5 {
		t.Fatal(n, err)
	}
}

// The disk rots, and the checkpoint is gone too. Unreadable rows are counted, the rest gets to its table, and the next checkpoint says
// that it may have damage. A node that restores it counts as well, and does not restart forever.
func TestRotThatNothingMakesGood(t *testing.T) {
	withTables(t, 512<<10, 480, func(w *world, n *worldNode, i *Instance, release func()) {
		name := n.instance()
		w.await("a checkpoint", func() bool { return w.records()[name].Checkpoint != "" })
		n.stop()
		w.processes.Wait()
		release()
		for _, o := range w.mem.Objects() {
			if strings.HasPrefix(o.ID, "ckpt-") {
				if err := w.mem.Delete(w.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
		}
		editChunks(t, n.disk, "node/data/"+name+"/local")
		before := w.records()[name].Checkpoint
		n.start()
		w.await("the damage is counted", func() bool {
			i := n.runs.open()
			return i != nil && len(i.Engine().Stats().Sinks) > 0 && i.Engine().Stats().Sinks[0].Damaged.Rows > 0
		})
		again := n.runs.opened()
		if err := again.Engine().FlushAll(w.Context()); err != nil {
			t.Error(err)
		}
		if len(n.aside()) > 0 || n.instance() != name {
			t.Errorf("got instance %s, set aside: %v, want %s, nothing set aside", n.instance(), n.aside(), name)
		}
		damaged := again.Engine().Stats().Sinks[0].Damaged.Rows
		if got := int64(len(w.mem.Rows(worldTable))); got == 0 || got+damaged != int64(w.sent) {
			t.Errorf("%d rows were sent, %d are in the table, %d are counted as damaged", w.sent, got, damaged)
		}
		if report, err := again.Engine().Verify(w.Context()); err != nil || !report.OK() {
			t.Errorf("the ledger: %+v, %v", report, err)
		}
		w.await("another checkpoint", func() bool {
			n.runs.put(again, 20)
			return w.records()[name].Checkpoint != before
		})
		if _, counts, err := fetch(w.Context(), "fetched", name, again.Keeper().Owner(), again.opts); err != nil || !counts {
			t.Errorf("the next checkpoint promises that nothing in it is damaged: %v", err)
		}
		if again.Err() != nil {
			t.Error(again.Err())
		}
	})
}
