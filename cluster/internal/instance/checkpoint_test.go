package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// first is where the log of an instance begins.
func (w *world) first(instance string) changelog.Position {
	w.Helper()
	stat, err := w.log.Stat(w.Context(), w.records()[instance].LogName(instance))
	if err != nil {
		w.Fatal(err)
	}
	return stat.First
}

// checkpoint sends rows until the log is trimmed after another checkpoint.
func (p *worldProcess) checkpoint() {
	p.w.Helper()
	i := p.opened()
	name := i.Keeper().Instance()
	before := p.w.first(name)
	p.w.await("a checkpoint", func() bool {
		if !p.alive() || p.w.first(name) > before {
			return true
		}
		p.put(i, 20)
		return false
	})
}

// checkpointObjects counts the objects of the checkpoint that the record of an instance names, and how many the staging has.
func (w *world) checkpointObjects(instance string) (named, stored int) {
	w.Helper()
	o := (&worldProcess{link: &link{w: w}, node: w.nodes[0]}).options()
	m, err := o.withDefaults().checkpoints().Load(w.Context(), instance, w.records()[instance].Checkpoint)
	if err != nil {
		w.Fatal(err)
	}
	objects := map[string]bool{}
	for _, f := range m.Files {
		if f.Object != "" {
			objects[f.Object] = true
		}
	}
	for _, o := range w.mem.Objects() {
		if strings.HasPrefix(o.ID, "ckpt-") {
			stored++
		}
	}
	return len(objects) + 1, stored
}

// wantNamedObjects checks that staging has only the checkpoint objects that the record of the instance names.
func (w *world) wantNamedObjects(instance, when string) {
	w.Helper()
	if named, stored := w.checkpointObjects(instance); named != stored {
		w.Errorf("%s: staging has %d objects, the checkpoint %d", when, stored, named)
	}
}

// The log is trimmed after each checkpoint, and a node whose folder is empty continues from the last one. Staging keeps that one alone.
func TestCheckpoint(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		p, name := n.runs, n.instance()
		p.setHooks(func(call string) error {
			if strings.HasPrefix(call, "open ckpt-") {
				t.Error("the process reads a checkpoint that it has made itself")
			}
			return nil
		}, nil)
		for range 3 {
			p.checkpoint()
		}
		p.put(p.opened(), 5)
		synctest.Wait()
		p.setHooks(nil, nil)
		w.wantNamedObjects(name, "three checkpoints")
		n.kill(nil, false)
		if err := n.disk.RemoveAll("node/data"); err != nil {
			t.Fatal(err)
		}
		n.goesOn(name)
	})
}

// Each step of a checkpoint, from the note of its objects on, fails, loses its response, or is the last of the process, before or after it took
// effect. The instance continues with its disk, or without. Its next process removes objects without a checkpoint, and makes a new checkpoint.
func TestCheckpointIsInterruptedAtEachStep(t *testing.T) {
	step := func(call string) bool {
		for _, s := range []string{"note get", "note set", "put ckpt-", "owners set", "log append c", "log trim", "log stat", "delete ckpt-"} {
			if strings.HasPrefix(call, s) {
				return true
			}
		}
		return false
	}
	for _, how := range []string{"fails", "loses its answer", "is not begun", "is the last"} {
		t.Run(how, func(t *testing.T) {
			first, distance := casetest.Steps(t)
			for at, done := int64(first), false; !done; at += int64(distance) {
				alone(t, func(w *world, n *worldNode) {
					p, name := n.runs, n.instance()
					p.checkpoint()
					var begun atomic.Bool
					var left atomic.Int64
					left.Store(at)
					killed := make(chan struct{})
					interrupt := func(call string) error {
						if call == "note get" {
							begun.Store(true)
						}
						if !begun.Load() || !step(call) || left.Add(-1) != -1 {
							return nil
						}
						if w.story {
							w.Logf("%s %s", call, how)
						}
						if how == "fails" || how == "loses its answer" {
							return fmt.Errorf("%w: no answer", changelog.ErrUnknown)
						}
						n.kill(nil, false)
						close(killed)
						return errDead
					}
					if how == "fails" || how == "is not begun" {
						p.setHooks(interrupt, nil)
					} else {
						p.setHooks(nil, interrupt)
					}
					p.checkpoint()
					synctest.Wait()
					if done = left.Load() >= 0; done {
						return
					}
					if p.alive() {
						p.checkpoint()
						synctest.Wait()
						w.wantNamedObjects(name, fmt.Sprint("step ", at))
						n.kill(nil, false)
					} else {
						<-killed
					}
					if at%2 == 0 {
						if err := n.disk.RemoveAll("node/data"); err != nil {
							t.Fatal(err)
						}
					}
					n.goesOn(name)
					synctest.Wait()
					w.wantNamedObjects(name, fmt.Sprint("step ", at, ", opened"))
					n.runs.checkpoint()
					synctest.Wait()
					w.wantNamedObjects(name, fmt.Sprint("step ", at, ", another checkpoint"))
				})
				if t.Failed() {
					t.Logf("at step %d", at)
					return
				}
			}
		})
	}
}

// A checkpoint with a batch that the log does not have yet is not named before the log has it. An adopter would find a batch without
// knowing whether its caller sends it again.
func TestCheckpointWaitsForTheLog(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		p, name := n.runs, n.instance()
		i := p.opened()
		heal := w.log.Cut(name, 1, 2)
		w.clients.Go(func() { p.put(i, 1) })
		synctest.Wait()
		made := make(chan error, 1)
		go func() {
			c := checkpointer{Instance: i, store: i.opts.checkpoints()}
			made <- c.make(w.Context())
		}()
		time.Sleep(20 * time.Second)
		if ref := w.records()[name].Checkpoint; ref != "" {
			t.Errorf("%s is named before the log has its last batch, want \"\"", ref)
		}
		heal()
		if err := <-made; err != nil {
			t.Error(err)
		}
		if w.records()[name].Checkpoint == "" {
			t.Error("no checkpoint is named")
		}
		w.clients.Wait()
	})
}

// The owner stalls at each step of a checkpoint, before or after it, until another node has adopted the instance and begun
// to drain it. Then it continues with that step. The adopter is lost with its disk. The next adopter still finds checkpoint and log.
func TestCheckpointOfAnOwnerThatStandsStillAtEachStep(t *testing.T) {
	steps := []string{"note set", "put ckpt-", "owners set", "log append c", "log trim", "log stat", "delete ckpt-"}
	for _, behind := range []bool{false, true} {
		for _, step := range steps {
			t.Run(fmt.Sprintf("%s, behind=%v", step, behind), func(t *testing.T) {
				alone(t, func(w *world, n *worldNode) {
					p, name, first := n.runs, n.instance(), n.runs.opened()
					p.checkpoint()
					other := w.node("b")
					q := other.start()
					q.opened()
					q.setHooks(func(call string) error {
						if strings.HasPrefix(call, "import") {
							return errors.New("away") // so that the instance is not drained yet
						}
						return nil
					}, nil)
					var begun, stood atomic.Bool
					stand := func(call string) error {
						if call == "note get" {
							begun.Store(true)
						}
						if begun.Load() && strings.HasPrefix(call, step) && stood.CompareAndSwap(false, true) {
							p.stop()
						}
						return nil
					}
					if behind {
						p.setHooks(nil, stand)
					} else {
						p.setHooks(stand, nil)
					}
					w.clients.Go(func() { p.put(first, 2000) })
					w.await("the owner stands still", stood.Load)
					w.await("the instance is being drained", func() bool { return w.records()[name].State == changelog.Draining })
					p.resume()
					w.await("the owner is fenced", func() bool { return first.Err() != nil })
					synctest.Wait()
					other.kill(nil, true)
					other.start()
					w.await("the instance is drained", func() bool { return w.records()[name].State == changelog.Retired })
					w.clients.Wait()
					if err := p.opened().Engine().FlushAll(w.Context()); err != nil {
						t.Error(err)
					}
					w.check()
				})
			})
		}
	}
}

// The copy that a killed process had made goes with the next start, even if the log was trimmed already and no other checkpoint is
// due, because it keeps room on the disk.
func TestSnapshotOfAKilledProcessIsRemoved(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		p := n.runs
		p.checkpoint()
		synctest.Wait()
		p.setHooks(func(call string) error {
			if strings.HasPrefix(call, "delete ckpt-") && p.alive() {
				n.kill(nil, false)
				return errDead
			}
			return nil
		}, nil)
		p.checkpoint()
		if _, err := n.disk.Stat("node/data/snapshot"); err != nil {
			t.Fatalf("the killed process has left no snapshot: %v", err)
		}
		n.start().opened()
		synctest.Wait()
		if _, err := n.disk.Stat("node/data/snapshot"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the snapshot is still there: %v", err)
		}
	})
}

// A node that was adopted in the middle of a checkpoint neither names it nor trims the log nor deletes the one before.
func TestCheckpointOfAFencedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.story = testing.Verbose()
		n, other := w.node("a"), w.node("b")
		p := n.start()
		p.put(p.opened(), 50)
		p.checkpoint()
		other.start().opened()
		first, name := p.opened(), n.instance()
		adopted := make(chan struct{})
		var trims atomic.Int64
		p.setHooks(func(call string) error {
			switch {
			case strings.HasPrefix(call, "put ckpt-"):
				<-adopted // and beats do not arrive
			case call == "owners set":
				select {
				case <-adopted:
				default:
					return errors.New("away")
				}
			case call == "log trim":
				trims.Add(1)
			}
			return nil
		}, nil)
		w.clients.Go(func() { p.put(first, 500) })
		w.await("the instance is adopted", func() bool { return w.records()[name].Node == "b" })
		ref := w.records()[name].Checkpoint
		close(adopted)
		w.await("the instance ends", func() bool { return first.Err() != nil })
		if trims.Load() > 0 {
			t.Error("the fenced owner trims the log")
		}
		if now := w.records()[name].Checkpoint; now != ref {
			t.Errorf("the fenced owner names its checkpoint %s", now)
		}
		w.await("the instance is drained", func() bool { return w.records()[name].State == changelog.Retired })
		w.check()
	})
}

// While the staging of checkpoints is away, rows are held up before the log is full, even after a restart. When the staging is back, they continue.
func TestCheckpointsAway(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint(restarted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.story = testing.Verbose()
				w.log.MaxBytes = 256 << 10
				n := w.node("a")
				p := n.start()
				var back atomic.Bool
				away := func(call string) error {
					if strings.HasPrefix(call, "put ckpt-") && !back.Load() {
						return errors.New("away")
					}
					return nil
				}
				p.setHooks(away, nil)
				i, name := p.opened(), n.instance()
				w.clients.Go(func() { p.put(i, 2000) })
				held := func() (rows int) {
					time.Sleep(5 * time.Minute)
					w.mu.Lock()
					defer w.mu.Unlock()
					return len(w.acked)
				}
				rows := held()
				stat, err := w.log.Stat(t.Context(), name)
				if err != nil || rows < 100 || rows > 1900 || stat.Bytes > stat.MaxBytes*9/10 {
					t.Fatalf("%d rows were acknowledged, the log has %+v: %v", rows, stat, err)
				}
				if state := i.log.now().State(); state.Status != changelog.Running {
					t.Errorf("the log is %+v", state)
				}
				w.clients.Wait()
				if restarted {
					n.kill(nil, false)
					p = n.start()
					p.setHooks(away, nil)
					time.Sleep(5 * time.Minute)
					back.Store(true)
					i = p.opened()
				} else {
					w.clients.Go(func() { p.put(i, 200) })
					if again := held(); again > rows+20 {
						t.Errorf("%d more rows were acknowledged meanwhile", again-rows)
					}
					back.Store(true)
					w.clients.Wait()
				}
				p.checkpoint()
				p.put(i, 200)
				if got := len(w.acked); got < rows+200 {
					t.Errorf("%d rows were acknowledged after it came back", got-rows)
				}
				if err := i.Engine().FlushAll(t.Context()); err != nil {
					t.Error(err)
				}
				w.check()
			})
		})
	}
}
