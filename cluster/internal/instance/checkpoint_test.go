package instance

import (
	"testing"

	"github.com/forebay/forebay/changelog"
)

// checkpoint lets rows come until there is another checkpoint and the log is trimmed behind it.
func (n *worldNode) checkpoint() {
	n.w.Helper()
	i := n.runs.opened()
	name := i.Keeper().Instance()
	trimmed := func() (first changelog.Position) {
		stat, err := n.w.log.Stat(n.w.Context(), name)
		if err != nil {
			n.w.Fatal(err)
		}
		return stat.First
	}
	before := trimmed()
	n.w.await("a checkpoint", func() bool {
		if trimmed() > before {
			return true
		}
		n.runs.put(i, 20)
		return false
	})
}

// The log is trimmed behind each checkpoint, and a machine without its disk goes on from the last one.
func TestCheckpoint(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		for range 3 {
			n.checkpoint()
		}
		n.runs.put(n.runs.opened(), 5)
		name := n.instance()
		n.kill(noRandom(), false)
		if err := n.disk.RemoveAll("node/data"); err != nil {
			t.Fatal(err)
		}
		n.goesOn(name)
	})
}
