package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// alone runs a test with one node, whose process has acknowledged 50 rows.
func alone(t *testing.T, play func(w *world, n *worldNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.story = testing.Verbose()
		n := w.node("a")
		p := n.start()
		p.put(p.opened(), 50)
		play(w, n)
	})
}

func (n *worldNode) instance() string { return n.runs.opened().Keeper().Instance() }

// goesOn starts a process of a node, which must hold an instance that it had. All its rows get to the table.
func (n *worldNode) goesOn(as string) {
	n.w.Helper()
	p := n.start()
	i := p.opened()
	if name := i.Keeper().Instance(); name != as {
		n.w.Errorf("instance %s goes on as %s", as, name)
	}
	p.put(i, 50)
	if err := i.Engine().FlushAll(n.w.Context()); err != nil {
		n.w.Error(err)
	}
	n.w.check()
}

// aside returns the folders that were set aside.
func (n *worldNode) aside() (names []string) {
	all, err := n.runs.disk.List("node")
	if err != nil {
		n.w.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, "fenced-") {
			names = append(names, name)
		}
	}
	return names
}

// A process that ends in order, or is killed, is followed by one that continues with the instance and its log. No folder is set aside.
func TestRestart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			alone(t, func(w *world, n *worldNode) {
				name := n.instance()
				if killed {
					n.kill(nil, false)
				} else {
					n.stop()
					w.processes.Wait()
				}
				// A restoration was cut off, and its result was synced or set aside.
				left := "node/data/" + name + ".checkpoint"
				for _, dir := range []string{left + "/local", left + ".partial/local"} {
					if err := n.disk.MkdirAll(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				n.goesOn(name)
				if names, err := n.runs.disk.List("node/data"); err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name+".") }) {
					t.Errorf("%v is left: %v", names, err)
				}
				if names := n.aside(); len(names) > 0 {
					t.Errorf("%v was set aside", names)
				}
			})
		})
	}
}

// What happened to the disk of a node while its process was killed, and whether the folder is set aside and made again from the log.
func TestRestartWithAnotherDisk(t *testing.T) {
	copied := func(n *worldNode) *vfs.MemFS {
		return n.runs.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	for name, c := range map[string]struct {
		play    func(w *world, n *worldNode) *vfs.MemFS
		restore bool
	}{
		"it lacks what the log has": {func(_ *world, n *worldNode) *vfs.MemFS {
			disk := copied(n)
			n.runs.put(n.runs.opened(), 50)
			return disk
		}, false},
		"it is older than the log": {func(w *world, n *worldNode) *vfs.MemFS {
			disk := copied(n)
			n.runs.checkpoint()
			return disk
		}, true},
		"it has what the log lacks": {func(w *world, n *worldNode) *vfs.MemFS {
			n.runs.setHooks(func(call string) error {
				if call == "log append b" || call == "log open" {
					return changelog.ErrUnknown
				}
				return nil
			}, nil)
			w.clients.Go(func() { n.runs.put(n.runs.opened(), 1) })
			synctest.Wait()
			return copied(n)
		}, true},
		"it is damaged": {func(w *world, n *worldNode) *vfs.MemFS {
			n.stop()
			w.processes.Wait()
			n.start().opened() // its rows are in tables now
			disk := copied(n)
			corrupt(t, disk, "node/data/"+n.instance()+"/local")
			return disk
		}, true},
		"it is empty but for the name": {func(w *world, n *worldNode) *vfs.MemFS {
			disk := copied(n)
			if err := disk.RemoveAll("node/data"); err != nil {
				t.Fatal(err)
			}
			return disk
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(w *world, n *worldNode) {
				name := n.instance()
				disk := c.play(w, n)
				n.kill(nil, false)
				n.disk = disk
				n.goesOn(name)
				if got := len(n.aside()) > 0; got != c.restore {
					t.Errorf("set aside: %v, want %v", n.aside(), c.restore)
				}
			})
		})
	}
}

// The disk fails under a running process, and its tables are damaged when it is back. The instance ends, and is restored when it is opened
// again.
func TestDamageWhileOpen(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		name := n.instance()
		n.stop()
		w.processes.Wait()
		p := &worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}
		var failing atomic.Bool
		o := p.options()
		o.Engine.Buffer = localdisk.On(o.Engine.Buffer, errorfs.Wrap(n.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failing.Load() && op.Kind == errorfs.OpFileWrite {
				return errors.New("away")
			}
			return nil
		})))
		i, err := Open(w.Context(), "node", o)
		if err == nil {
			err = i.Engine().Define(w.Context(), worldSource)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.put(i, 10)
		failing.Store(true)
		p.put(i, 1)
		corrupt(t, n.disk, "node/data/"+name+"/local")
		failing.Store(false)
		w.await("the instance ends", func() bool { return i.Err() != nil })
		if !errors.As(i.Err(), new(*buffer.StoreDamageError)) {
			t.Errorf("got %v, want errors.As(i.Err(), new(*buffer.StoreDamageError))", i.Err())
		}
		_ = i.Close() // its disk has failed
		n.goesOn(name)
		if len(n.aside()) != 1 {
			t.Errorf("set aside: %v", n.aside())
		}
	})
}

// Whoever comes back after its instance was adopted, with its disk or from a pause, sets its folder aside and begins a new instance. What
// it had acknowledged is the adopter's, and it deletes nothing that the adopter needs.
func TestAdopted(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprint(paused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.story = testing.Verbose()
				n, other := w.node("a"), w.node("b")
				p := n.start()
				p.put(p.opened(), 30)
				other.start().opened()
				name := n.instance()
				first := p.opened()
				if paused {
					p.stop()
					w.clients.Go(func() { p.put(first, 30) }) // in progress meanwhile
				} else {
					n.kill(nil, false)
				}
				w.await("the instance is adopted and drained", func() bool { return w.records()[name].State == changelog.Retired })
				if paused {
					p.resume()
					w.await("the instance ends", func() bool { return first.Err() != nil })
					if !errors.Is(first.Err(), changelog.ErrFenced) {
						t.Errorf("it ends with %v", first.Err())
					}
					w.await("another instance opens", func() bool { i := p.open(); return i != nil && i != first })
				} else {
					n.start()
				}
				if n.instance() == name {
					t.Error("the fenced instance goes on")
				}
				if names := n.aside(); len(names) != 1 || !strings.HasPrefix(names[0], "fenced-"+name+"-") {
					t.Errorf("%v was set aside", names)
				}
				n.runs.put(n.runs.opened(), 30)
				if err := n.runs.opened().Engine().FlushAll(w.Context()); err != nil {
					t.Error(err)
				}
				w.check()
			})
		})
	}
}

// The process that opens a folder for the first time is killed at each of its calls, before or after it. The next one
// continues, and there is one instance with rows.
func TestFirstOpenIsKilledAtEachStep(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.story = testing.Verbose()
				node := w.node("a")
				p := node.start()
				var left atomic.Int64
				left.Store(int64(n / 2))
				killed := make(chan struct{})
				step := func(string) error {
					if left.Add(-1) == -1 {
						node.kill(nil, false)
						close(killed)
						return errDead
					}
					return nil
				}
				if n%2 == 0 {
					p.setHooks(step, nil)
				} else {
					p.setHooks(nil, step)
				}
				w.await("the process is killed, or has opened the instance", func() bool { return !p.alive() || p.open() != nil })
				if done = p.alive(); done {
					return
				}
				<-killed
				p = node.start()
				p.put(p.opened(), 10)
				if err := p.opened().Engine().FlushAll(w.Context()); err != nil {
					t.Error(err)
				}
				w.check()
			})
		})
		if t.Failed() {
			return
		}
	}
}

// While the log is away nothing is acknowledged. When it is back, the instance continues by itself, without a restored folder, because it has the
// batches that the log lacks.
func TestLogAway(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		i := n.runs.opened()
		heal := w.log.Cut(n.instance(), 1, 2)
		before := len(w.acked)
		for range 5 {
			w.clients.Go(func() { n.runs.put(i, 1) })
		}
		time.Sleep(20 * time.Second)
		if len(w.acked) != before {
			t.Errorf("%d rows were acknowledged meanwhile", len(w.acked)-before)
		}
		heal()
		w.clients.Wait()
		n.runs.put(i, 50)
		if len(w.acked) < before+50 {
			t.Errorf("%d of 50 rows are acknowledged after it came back", len(w.acked)-before)
		}
		if err := i.Engine().FlushAll(w.Context()); err != nil {
			t.Error(err)
		}
		w.check()
		if i.Err() != nil || len(n.aside()) > 0 {
			t.Errorf("got %v, set aside: %v, want no error, nothing set aside", i.Err(), n.aside())
		}
	})
}

// The servers of the log are away for longer than a lease, and do not know it for a moment when they are back. That is no lost log, so the
// instance continues.
func TestLogIsUnknownAfterItWasAway(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		i := n.runs.opened()
		failing := func(err error) func(string) error {
			return func(call string) error {
				if strings.HasPrefix(call, "log") {
					return err
				}
				return nil
			}
		}
		n.runs.setHooks(failing(errors.New("away")), nil)
		w.clients.Go(func() { n.runs.put(i, 1) })
		time.Sleep(2 * worldLease)
		n.runs.setHooks(failing(changelog.ErrMissing), nil)
		time.Sleep(worldLease / 2)
		n.runs.setHooks(nil, nil)
		w.clients.Wait()
		n.runs.put(i, 20)
		if i.Err() != nil || len(n.aside()) > 0 {
			t.Errorf("got %v, set aside: %v, want no error, nothing set aside", i.Err(), n.aside())
		}
		if err := i.Engine().FlushAll(w.Context()); err != nil {
			t.Error(err)
		}
		w.check()
	})
}

// Open gives up when its context ends, whichever store does not respond, and leaves the folder to the next call.
func TestOpenEndsWithItsContext(t *testing.T) {
	for _, away := range []string{"owners", "log"} {
		t.Run(away, func(t *testing.T) {
			alone(t, func(w *world, n *worldNode) {
				name := n.instance()
				n.stop()
				w.processes.Wait()
				p := &worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}
				p.setHooks(func(call string) error {
					if strings.HasPrefix(call, away) {
						return errors.New("away")
					}
					return nil
				}, nil)
				ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
				defer cancel()
				if i, err := Open(ctx, "node", p.options()); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, %v, want errors.Is(err, context.DeadlineExceeded)", i, err)
				}
				n.goesOn(name)
			})
		})
	}
}

// An open instance outlives the context of Open, even if the first attempt to open the engine had failed.
func TestOpenOutlivesItsContext(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		n.stop()
		w.processes.Wait()
		p := &worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}
		var failed atomic.Bool
		p.setHooks(func(call string) error {
			if call != "log open" || failed.Swap(true) {
				return nil
			}
			return errors.New("away")
		}, nil)
		ctx, cancel := context.WithCancel(w.Context())
		i, err := Open(ctx, "node", p.options())
		if err != nil || !failed.Load() {
			t.Fatal(err, failed.Load())
		}
		cancel()
		synctest.Wait()
		if err := errors.Join(i.Err(), i.Engine().Define(w.Context(), worldSource)); err != nil {
			t.Error(err)
		}
		p.put(i, 10)
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A folder that is open is not opened twice, because the second process would fence the first.
func TestOpenTwice(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		if i, err := Open(w.Context(), "node", n.runs.options()); err == nil {
			t.Fatalf("got %v, want an error", i)
		}
		n.runs.put(n.runs.opened(), 1)
		if err := n.runs.opened().Err(); err != nil {
			t.Error(err)
		}
	})
}

// The options are checked together.
func TestOptions(t *testing.T) {
	_, err := Open(t.Context(), "node", Options{Node: "a/b", Lease: time.Second, CheckpointBytes: -1})
	for _, want := range []string{"Log", "Owners", "a/b", "Lease", "Staging", "Target", "CheckpointBytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// After Close the engine takes nothing.
func TestClose(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		i := n.runs.opened()
		n.stop()
		w.processes.Wait()
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		if !errors.Is(i.Err(), forebay.ErrClosed) {
			t.Errorf("got %v, want errors.Is(i.Err(), forebay.ErrClosed)", i.Err())
		}
		if _, err := i.Engine().Ingest(w.Context(), "s", mapping.JSON([]byte(`{"id":"x"}`))); !errors.Is(err, buffer.ErrClosed) && !errors.Is(err, forebay.ErrClosed) {
			t.Errorf("got %v, want %v or %v", err, buffer.ErrClosed, forebay.ErrClosed)
		}
	})
}
