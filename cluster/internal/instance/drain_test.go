package instance

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/forebay/forebay/changelog"
)

// inWorld runs a test with nodes a, b and c. The process of a has a checkpoint and rows behind it, b runs, c does not.
func inWorld(t *testing.T, play func(w *world, a, b, c *worldNode)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.story, w.checkpointBytes = testing.Verbose(), 8<<10
		a, b, c := w.node("a"), w.node("b"), w.node("c")
		for _, n := range []*worldNode{a, b} {
			p := n.start()
			p.put(p.opened(), 20)
		}
		a.checkpoint()
		a.runs.put(a.runs.opened(), 20)
		play(w, a, b, c)
	})
}

// settle waits until all instances but those that run are retired and the rows of those are in the table, and checks the table.
func (w *world) settle() {
	w.Helper()
	w.await("all instances have one owner or are retired", func() bool {
		running := map[string]bool{}
		for _, n := range w.nodes {
			if n.runs != nil {
				running[n.runs.opened().Keeper().Instance()] = true
			}
		}
		for name, o := range w.records() {
			if o.State != changelog.Retired && !running[name] {
				return false
			}
		}
		return true
	})
	for _, n := range w.nodes {
		if n.runs == nil {
			continue
		}
		if err := n.runs.opened().Engine().FlushAll(w.Context()); err != nil {
			w.Error(err)
		}
	}
	w.check()
}

// A node is killed and its disk is lost. Another one adopts its instance: all acknowledged rows are in the table once, and nothing is left
// of the instance.
func TestDrain(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name := a.runs.opened().Keeper().Instance()
		a.kill(nil, true)
		w.settle()
		if state := w.records()[name].State; state != changelog.Retired {
			t.Errorf("the instance is %s", state)
		}
		if _, err := w.log.Stat(t.Context(), name); err == nil {
			t.Error("its log is still there")
		}
		if names, err := b.runs.disk.List("node/adopted"); err == nil && len(names) > 0 {
			t.Errorf("the adopter keeps %v", names)
		}
	})
}

// The adopter is killed in front of each of its calls. It comes back, or another node adopts the instance then.
func TestDrainIsTakenOverAtEachStep(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, func(w *world, a, b, c *worldNode) {
				name := a.runs.opened().Keeper().Instance()
				var left atomic.Int64
				left.Store(int64(n))
				p := b.runs
				p.setHooks(func(call string) error {
					if o := w.records()[name]; o.State == changelog.Owned {
						return nil
					}
					if left.Add(-1) == -1 {
						if w.story {
							t.Log("b is killed in front of", call)
						}
						b.kill(nil, n%2 == 0)
						return errDead
					}
					return nil
				}, nil)
				a.kill(nil, true)
				w.await("b is killed, or has drained the instance", func() bool { return !p.alive() || w.records()[name].State == changelog.Retired })
				if done = p.alive(); done {
					return
				}
				c.start()
				if n%2 == 1 {
					b.start()
				}
				w.settle()
			})
		})
		if t.Failed() {
			return
		}
	}
}
