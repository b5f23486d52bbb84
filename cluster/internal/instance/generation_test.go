package instance

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// losses are the ways in which a log loses entries.
var losses = map[string]func(w *world, name string){
	"it is gone": func(w *world, name string) { w.loseLog(name) },
	"it was made again": func(w *world, name string) {
		w.loseLog(name)
		if err := w.log.Create(w.Context(), name); err != nil {
			w.Fatal(err)
		}
	},
	"it went back":               func(w *world, name string) { w.log.Rollback(name, 20) },
	"it went back to its begin":  func(w *world, name string) { w.log.Rollback(name, 0) },
	"all replicas have one hole": func(w *world, name string) { w.holes(name) },
	"the record is gone too": func(w *world, name string) {
		w.loseLog(name)
		w.forgetRecords()
	},
	"only the record is gone": func(w *world, _ string) { w.forgetRecords() },
}

func (w *world) loseLog(name string) {
	if err := w.log.Delete(w.Context(), name); err != nil {
		w.Fatal(err)
	}
}

// holes takes the last entry of a log from all replicas.
func (w *world) holes(name string) {
	stat, err := w.log.Stat(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	for replica := range 3 {
		w.log.Hole(name, replica, stat.Last)
	}
}

// logs returns which logs of an instance there are.
func (w *world) logsOf(name string) (generations []uint64) {
	for o := (changelog.Owner{}); o.Generation < 5; o.Generation++ {
		if _, err := w.log.Stat(w.Context(), o.LogName(name)); err == nil {
			generations = append(generations, o.Generation)
		}
	}
	return generations
}

// The log of an instance is lost, or lacks entries, while the disk of its owner is whole. The owner continues with a new log, twice, and
// no acknowledged row is lost. Then the disk is lost. The checkpoint and the new log are enough.
func TestLogIsLost(t *testing.T) {
	for what, lose := range losses {
		for _, how := range []string{"ended", "killed", "killed without a checkpoint"} {
			t.Run(what+", "+how, func(t *testing.T) {
				alone(t, func(w *world, n *worldNode) {
					name := n.instance()
					for generation := uint64(1); generation <= 2; generation++ {
						if how != "killed without a checkpoint" {
							n.runs.checkpoint()
						}
						n.runs.put(n.runs.opened(), 50)
						before := w.records()[name].LogName(name)
						if how == "ended" {
							n.stop()
							w.processes.Wait()
						} else {
							time.Sleep(worldLease) // a beat records the acknowledged number
							n.kill(nil, false)
						}
						lose(w, before)
						n.goesOn(name)
						if o := w.records()[name]; o.Generation != generation || o.Start == 0 || o.Checkpoint == "" {
							t.Errorf("the record says %+v, want log %d", o, generation)
						}
						synctest.Wait()
						if logs := w.logsOf(name); fmt.Sprint(logs) != fmt.Sprint([]uint64{generation}) {
							t.Errorf("there are the logs %d, want %d", logs, generation)
						}
						if names := n.aside(); len(names) > 0 {
							t.Errorf("%v was set aside", names)
						}
					}
					n.runs.put(n.runs.opened(), 20)
					if how != "ended" {
						n.runs.checkpoint()
						n.runs.checkpoint()
						synctest.Wait()
						if named, stored := w.checkpointObjects(name); named != stored {
							t.Errorf("staging has %d objects, the checkpoint %d", stored, named)
						}
						n.runs.put(n.runs.opened(), 20)
					}
					n.kill(nil, false)
					if err := n.disk.RemoveAll("node/data"); err != nil {
						t.Fatal(err)
					}
					n.goesOn(name)
				})
			})
		}
	}
}

// Each call by which an owner begins a new log fails, loses its response, or is the last of the process, before or after it took effect. The
// next start continues, with the disk, and without it, if the record names the new log already.
func TestNewLogIsInterruptedAtEachStep(t *testing.T) {
	for _, how := range []string{"fails", "loses its answer", "is not begun", "is the last"} {
		t.Run(how, func(t *testing.T) {
			first, step := casetest.Steps(t)
			for at, done := int64(first), false; !done; at += int64(step) {
				alone(t, func(w *world, n *worldNode) {
					name := n.instance()
					if at%3 > 0 {
						n.runs.checkpoint()
					}
					n.stop()
					w.processes.Wait()
					w.loseLog(name)
					p := n.start()
					var left atomic.Int64
					left.Store(at)
					killed := make(chan struct{})
					interrupt := func(call string) error {
						if w.records()[name].Node == "" || left.Add(-1) != -1 {
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
					w.await("the process is killed, or has opened the instance", func() bool { return !p.alive() || p.open() != nil })
					p.setHooks(nil, nil)
					done = left.Load() >= 0
					if p.alive() {
						n.kill(nil, false)
					} else {
						<-killed
					}
					if o := w.records()[name]; o.Generation > 0 && at%2 == 0 {
						if err := n.disk.RemoveAll("node/data"); err != nil {
							t.Fatal(err)
						}
					}
					n.goesOn(name)
					if logs := w.logsOf(name); len(logs) != 1 || logs[0] != w.records()[name].Generation {
						t.Errorf("there are the logs %d, the record names %d", logs, w.records()[name].Generation)
					}
					if at%2 == 1 { // the disk has the note of what staging has
						n.runs.checkpoint()
						n.runs.checkpoint()
						synctest.Wait()
						w.wantNamedObjects(name, fmt.Sprint("step ", at))
					}
				})
				if t.Failed() {
					t.Logf("at step %d", at)
					return
				}
			}
		})
	}
}

// The log of a running instance is lost. It ends, and continues with a new log when it is opened again.
func TestLogOfARunningInstanceIsLost(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			alone(t, func(w *world, n *worldNode) {
				name, first, p := n.instance(), n.runs.opened(), n.runs
				time.Sleep(worldLease)
				lose(w, name)
				if strings.Contains(what, "hole") || what == "only the record is gone" {
					p.put(first, 20) // which is no reason to look into the log, nor to read the record
					n.kill(nil, false)
					n.start()
				} else {
					w.clients.Go(func() { p.put(first, 50) })
				}
				w.await("the instance goes on with a new log", func() bool { i := n.runs.open(); return i != nil && i != first })
				w.clients.Wait()
				n.runs.put(n.runs.opened(), 20)
				if n.instance() != name || len(n.aside()) > 0 {
					t.Errorf("instance %s goes on as %s, %v was set aside", name, n.instance(), n.aside())
				}
				if err := n.runs.opened().Engine().FlushAll(w.Context()); err != nil {
					t.Error(err)
				}
				w.check()
			})
		})
	}
}

// Where the disk does not have everything either, an operator decides. Nothing is changed, and nothing is begun.
func TestLogAndDiskAreLost(t *testing.T) {
	for _, what := range []string{"the disk is empty", "the disk is damaged", "the disk is older"} {
		for _, how := range []string{"it is gone", "it went back", "it was made again"} {
			t.Run(what+", "+how, func(t *testing.T) {
				alone(t, func(w *world, n *worldNode) {
					name := n.instance()
					older := n.runs.disk.CrashClone(vfs.CrashCloneCfg{})
					n.runs.put(n.runs.opened(), 50)
					n.runs.checkpoint()
					time.Sleep(worldLease)
					n.stop()
					w.processes.Wait()
					n.start().opened() // its rows are in tables now
					n.stop()
					w.processes.Wait()
					switch what {
					case "the disk is older":
						n.disk = older
					case "the disk is damaged":
						corrupt(t, n.disk, "node/data/"+name+"/local")
					default:
						if err := n.disk.RemoveAll("node/data"); err != nil {
							t.Fatal(err)
						}
					}
					losses[how](w, name)
					before := w.records()[name]
					p := &worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}
					i, err := Open(w.Context(), "node", p.options())
					if err == nil {
						err = i.Close()
						t.Error("the instance goes on")
					}
					if !isLogLost(err) {
						t.Error(err)
					}
					if o := w.records()[name]; o.Generation != 0 || o.Log != before.Log || o.Checkpoint != before.Checkpoint || o.State != changelog.Owned {
						t.Errorf("the record says %+v, before %+v", o, before)
					}
				})
			})
		}
	}
}

// An owner stands still at each call by which it begins a new log, until another node has adopted the instance. It does not take it
// back, and the adopter, who finds that the log is lost, keeps everything.
func TestNewLogOfAFencedOwner(t *testing.T) {
	for at, done := int64(0), false; !done; at++ {
		alone(t, func(w *world, n *worldNode) {
			name := n.instance()
			n.runs.checkpoint()
			n.stop()
			w.processes.Wait()
			w.loseLog(name)
			other := w.node("b")
			other.start().opened()
			var left atomic.Int64
			left.Store(at)
			p := n.start()
			p.setHooks(func(string) error {
				if left.Add(-1) == -1 {
					p.stop()
				}
				return nil
			}, nil)
			w.await("the owner stands still, or has opened the instance", func() bool { return left.Load() < 0 || p.open() != nil })
			if done = left.Load() >= 0; done {
				return
			}
			p.setHooks(nil, nil)
			began := w.records()[name].Generation > 0
			w.await("another node has adopted the instance", func() bool { return w.records()[name].Node == "b" })
			p.resume()
			w.await("the instance is drained or damaged", func() bool {
				s := w.records()[name].State
				return s == changelog.Retired || s == changelog.Damaged
			})
			o := w.records()[name]
			if o.Node != "b" || began != (o.State == changelog.Retired) {
				t.Errorf("step %d: the record says %+v", at, o)
			}
			w.await("the fenced owner begins another instance", func() bool { i := p.open(); return i != nil && i.Keeper().Instance() != name })
			if began {
				w.check()
				if logs := w.logsOf(name); len(logs) > 0 {
					t.Errorf("step %d: the logs %d of a retired instance are left", at, logs)
				}
				return
			}
			// The rows are on the disk alone now.
			rows := 0
			for _, dir := range n.aside() {
				e, err := forebay.Open("node/"+dir, p.options().Engine)
				if err != nil {
					t.Fatal(err)
				}
				rows++
				if err := errors.Join(e.FlushAll(w.Context()), e.Close()); err != nil {
					t.Error(err)
				}
			}
			if w.check(); rows != 1 {
				t.Errorf("step %d: %v was set aside", at, n.aside())
			}
		})
		if t.Failed() {
			return
		}
	}
}
