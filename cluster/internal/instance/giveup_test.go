package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// missing are the rows of an instance that were acknowledged and are not in the table, ascending. It checks that none is there twice, and
// that all rows of other instances are there.
func (w *world) missing(instance string) (ids []int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, row := range w.mem.Rows(worldTable) {
		if count[row[0]]++; count[row[0]] == 2 {
			w.Errorf("row %s is in the table twice", row[0])
		}
	}
	for id, of := range w.acked {
		switch {
		case count[id] > 0:
		case of != instance:
			w.Errorf("row %s of %s is lost", id, of)
		default:
			n := 0
			_, _ = fmt.Sscan(id, &n)
			ids = append(ids, n)
		}
	}
	slices.Sort(ids)
	return ids
}

// abandon lets node a acknowledge ten more rows, which its log has after the returned position, and loses it with its disk before any of
// them is uploaded.
func (w *world) abandon(a *worldNode) (name string, behind changelog.Position, rows []int) {
	w.Helper()
	i := a.runs.opened()
	name = i.Keeper().Instance()
	time.Sleep(10 * time.Second) // what came before is imported
	a.runs.setHooks(func(call string) error {
		if strings.HasPrefix(call, "put ") {
			return errors.New("away")
		}
		return nil
	}, nil)
	a.runs.put(i, 5)
	stat, err := w.log.Stat(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	for range 10 {
		a.runs.put(i, 1)
		rows = append(rows, w.sent)
	}
	if err := i.Keeper().Beat(w.Context()); err != nil { // the record has the released number
		w.Fatal(err)
	}
	a.kill(nil, true)
	return name, stat.Last, rows
}

// retired waits until an instance is retired and all others have moved their rows, and returns its record.
func (w *world) retired(name string) changelog.Owner {
	w.Helper()
	w.await("the instance is retired", func() bool { return w.records()[name].State == changelog.Retired })
	for _, n := range w.nodes {
		if n.runs != nil {
			if err := n.runs.opened().Engine().FlushAll(w.Context()); err != nil {
				w.Error(err)
			}
		}
	}
	return w.records()[name]
}

func (w *world) giveUp(name string) {
	w.Helper()
	if err := changelog.GiveUp(w.Context(), w.owners, name); err != nil {
		w.Fatal(err)
	}
}

// holesIn makes a hole in replicas of a log.
func (w *world) holesIn(name string, at changelog.Position, replicas ...int) {
	for _, r := range replicas {
		w.log.Hole(name, r, at)
	}
}

// An operator gives up a damaged instance. The rows before the damage reach the table, lost batches are counted, and nothing is
// left of the instance.
func TestGiveUp(t *testing.T) {
	for what, test := range map[string]struct {
		damage func(w *world, name string, behind changelog.Position)
		all    bool // more may be lost than the batches after the position
	}{
		"a hole in all replicas": {func(w *world, name string, behind changelog.Position) { w.holesIn(name, behind+1, 0, 1, 2) }, false},
		"a log that went back":   {func(w *world, name string, behind changelog.Position) { w.log.Rollback(name, behind) }, false},
		"no log": {func(w *world, name string, _ changelog.Position) {
			if err := w.log.Delete(w.Context(), name); err != nil {
				w.Fatal(err)
			}
		}, true},
		"another log": {func(w *world, name string, _ changelog.Position) {
			if err := errors.Join(w.log.Delete(w.Context(), name), w.log.Create(w.Context(), name)); err != nil {
				w.Fatal(err)
			}
		}, true},
		"no manifest": {func(w *world, name string, _ changelog.Position) {
			obj, _ := w.manifest(name)
			if err := w.mem.Delete(w.Context(), obj); err != nil {
				w.Fatal(err)
			}
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world, a, b, _ *worldNode) {
				name, behind, rows := w.abandon(a)
				released := w.records()[name].Released
				test.damage(w, name, behind)
				w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
				before := w.records()[name]
				loss, err := b.runs.opened().Loss(w.Context(), name)
				if err != nil || loss.LogError == nil && loss.CheckpointError == nil || !reflect.DeepEqual(w.records()[name], before) {
					t.Errorf("Loss: %+v, %v; the record was %v and is %v", loss, err, before, w.records()[name])
				}
				w.giveUp(name)
				o := w.retired(name)
				lost := w.missing(name)
				switch {
				case loss.Batches() != o.Lost:
					t.Errorf("%d batches are lost, and it was said that it would be %d: %+v", o.Lost, loss.Batches(), loss)
				case o.GivenUp || o.Generation != 1 || o.Lost < 10 || o.Lost > released:
					t.Errorf("the record says %+v; batch %d was released", o, released)
				case !test.all && fmt.Sprint(lost) != fmt.Sprint(rows):
					t.Errorf("rows %v are lost, want %v", lost, rows)
				case test.all && (len(lost) < 10 || len(lost) > 15):
					t.Errorf("rows %v are lost, want those that were not imported: 10 to 15, up to %d", lost, rows[9])
				}
				for generation := range uint64(3) {
					if _, err := w.log.Stat(t.Context(), changelog.Owner{Generation: generation}.LogName(name)); !errors.Is(err, changelog.ErrMissing) {
						t.Errorf("log %d is left: %v", generation, err)
					}
				}
			})
		})
	}
}

// A replica that may have what others lack cannot be asked, and never comes back. Only an operator can know that. Until then the instance waits.
func TestGiveUpOfALogThatCannotBeAsked(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name, behind, rows := w.abandon(a)
		var read atomic.Int64 // how often a log was opened that is given up
		b.runs.setHooks(func(call string) error {
			if call == "log open" && w.records()[name].GivenUp {
				read.Add(1)
			}
			return nil
		}, nil)
		w.holesIn(name, behind+1, 0, 1)
		heal := w.log.Cut(name, 2)
		defer heal()
		time.Sleep(5 * worldLease)
		if o := w.records()[name]; o.State != changelog.Adopting {
			t.Fatalf("the record says %+v", o)
		}
		w.giveUp(name)
		if o := w.retired(name); o.Lost < 10 {
			t.Errorf("the record says %+v", o)
		}
		if lost := w.missing(name); fmt.Sprint(lost) != fmt.Sprint(rows) {
			t.Errorf("rows %v are lost, want %v", lost, rows)
		}
		if n := read.Load(); n != 2 {
			t.Errorf("the log was read %d times after the decision, want twice: each time takes long when a replica does not answer", n)
		}
	})
}

// An operator is wrong. Everything can be read. Nothing is lost, and the log stays the same.
func TestGiveUpOfAnInstanceThatIsWhole(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name, _, _ := w.abandon(a)
		b.runs.setHooks(func(call string) error { // it has not moved the rows before the decision
			if call == "log open" && !w.records()[name].GivenUp {
				return errors.New("away")
			}
			return nil
		}, nil)
		if err := changelog.GiveUp(t.Context(), w.owners, name); err == nil {
			t.Error("an instance was given up whose owner is not known to be lost")
		}
		w.await("the instance is adopted", func() bool { return w.records()[name].State != changelog.Owned })
		w.giveUp(name)
		if o := w.retired(name); o.GivenUp || o.Lost > 0 || o.Generation > 0 {
			t.Errorf("the record says %+v", o)
		}
		if lost := w.missing(name); len(lost) > 0 {
			t.Errorf("rows %v are lost", lost)
		}
	})
}

// A log whose replicas are damaged is missing for less than a lease, while its servers come back. What it has is not lost by that.
func TestGiveUpWaitsForWhatComesBack(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name, behind, rows := w.abandon(a)
		w.holesIn(name, behind+1, 0, 1, 2)
		w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
		var begun atomic.Int64 // when the log is missing first
		b.runs.setHooks(func(call string) error {
			if call != "log stat" && call != "log open" || !w.records()[name].GivenUp {
				return nil
			}
			begun.CompareAndSwap(0, time.Now().UnixNano())
			if time.Now().UnixNano()-begun.Load() < int64(worldLease/2) {
				return changelog.ErrMissing
			}
			return nil
		}, nil)
		w.giveUp(name)
		w.retired(name)
		if lost := w.missing(name); fmt.Sprint(lost) != fmt.Sprint(rows) || begun.Load() == 0 {
			t.Errorf("rows %v are lost, want %v", lost, rows)
		}
	})
}

// The checkpoint lacks an object, and the log has everything, because its owner died before it was trimmed. The new checkpoint does not count on
// objects of the old one.
func TestGiveUpWithoutTheCheckpoint(t *testing.T) {
	inWorld(t, func(w *world, _, _, c *worldNode) {
		c.start()
		i := c.runs.opened()
		name := i.Keeper().Instance()
		c.runs.setHooks(func(call string) error {
			if call == "log trim" {
				return errors.New("away")
			}
			return nil
		}, nil)
		for w.records()[name].Checkpoint == "" {
			c.runs.put(i, 50)
		}
		c.kill(nil, true)
		_, data := w.manifest(name)
		var m checkpoint.Manifest
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			if f.Size > 0 && !strings.HasSuffix(f.Name, ".sst") {
				if err := w.mem.Delete(t.Context(), driver.Object{ID: f.Object, FileID: f.Object, SinkID: "cluster/checkpoint"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
		w.giveUp(name)
		if o := w.retired(name); o.Lost > 0 || o.Generation != 1 {
			t.Errorf("the record says %+v", o)
		}
		if lost := w.missing(name); len(lost) > 0 {
			t.Errorf("rows %v are lost", lost)
		}
	})
}

// The adopter that gives an instance up is killed before each of its calls, or loses the response. The next adopter loses no more rows.
func TestGiveUpIsInterruptedAtEachStep(t *testing.T) {
	first, step := casetest.Steps(t)
	for n, done := first, false; !done; n += step {
		inWorld(t, func(w *world, a, b, c *worldNode) {
			name, behind, rows := w.abandon(a)
			w.holesIn(name, behind+1, 0, 1, 2)
			w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
			p := b.runs
			var left atomic.Int64
			left.Store(int64(n))
			var begun atomic.Bool
			killed := make(chan struct{})
			p.setHooks(func(call string) error {
				begun.Store(begun.Load() || call == "log create")
				if !begun.Load() || left.Add(-1) != -1 || !p.alive() {
					return nil
				}
				b.kill(nil, n%2 == 0)
				close(killed)
				return errDead
			}, nil)
			w.giveUp(name)
			w.await("b is killed, or the instance is retired", func() bool { return !p.alive() || w.records()[name].State == changelog.Retired })
			p.setHooks(nil, nil)
			synctest.Wait()
			if done = left.Load() >= 0; !done {
				<-killed
				c.start()
				b.start()
			}
			if o := w.retired(name); o.GivenUp || o.Lost < 10 {
				t.Errorf("step %d: the record says %+v", n, o)
			}
			w.await("the other instance has one owner", func() bool {
				for _, o := range w.records() {
					if o.State == changelog.Adopting || o.State == changelog.Draining {
						return false
					}
				}
				return true
			})
			if lost := w.missing(name); fmt.Sprint(lost) != fmt.Sprint(rows) {
				t.Errorf("step %d: rows %v are lost, want %v", n, lost, rows)
			}
		})
		if t.Failed() || n > 300 {
			t.Fatalf("at step %d", n)
		}
	}
}

// The adopter that gives an instance up loses the response of each of its calls.
func TestGiveUpLosesAnAnswer(t *testing.T) {
	first, step := casetest.Steps(t)
	for n, done := first, false; !done; n += step {
		inWorld(t, func(w *world, a, b, _ *worldNode) {
			name, behind, rows := w.abandon(a)
			w.holesIn(name, behind+1, 0, 1, 2)
			w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
			var left atomic.Int64
			left.Store(int64(n))
			var begun atomic.Bool
			b.runs.setHooks(nil, func(call string) error {
				begun.Store(begun.Load() || call == "log create")
				if begun.Load() && left.Add(-1) == -1 {
					return changelog.ErrUnknown
				}
				return nil
			})
			w.giveUp(name)
			if o := w.retired(name); o.GivenUp || o.Lost < 10 {
				t.Errorf("step %d: the record says %+v", n, o)
			}
			done = left.Load() >= 0
			if lost := w.missing(name); fmt.Sprint(lost) != fmt.Sprint(rows) {
				t.Errorf("step %d: rows %v are lost, want %v", n, lost, rows)
			}
		})
		if t.Failed() || n > 300 {
			t.Fatalf("at step %d", n)
		}
	}
}

// The lost part had moved rows to their tables. Rows that the remaining part still has are not stored a second time.
func TestGiveUpDoublesNothing(t *testing.T) {
	for _, uploads := range []bool{false, true} { // before the damage
		inWorld(t, func(w *world, _, _, c *worldNode) {
			w.checkpointBytes = 1 << 20
			c.start()
			i := c.runs.opened()
			name := i.Keeper().Instance()
			time.Sleep(10 * time.Second)
			if !uploads {
				c.runs.setHooks(func(call string) error {
					if strings.HasPrefix(call, "put ") {
						return errors.New("away")
					}
					return nil
				}, nil)
			}
			c.runs.put(i, 15)
			if uploads {
				time.Sleep(1500 * time.Millisecond)
			}
			stat, err := w.log.Stat(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			c.runs.setHooks(nil, nil)
			c.runs.put(i, 30)
			time.Sleep(20 * time.Second) // and is imported
			if lost := w.missing(name); len(lost) > 0 {
				t.Fatalf("rows %v are not imported", lost)
			}
			c.kill(nil, true)
			w.holesIn(name, stat.Last+1, 0, 1, 2)
			w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
			w.giveUp(name)
			w.retired(name)
			if lost := w.missing(name); len(lost) > 0 {
				t.Errorf("rows %v are lost", lost)
			}
		})
	}
}
