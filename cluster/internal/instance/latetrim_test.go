package instance

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
)

// The owner dies while its trim of the log is held up on the way. The log carries it out before each call of the adopter to the log. The
// adopter begins with the checkpoint that the trim was made for, so nothing is missing.
func TestTrimArrivesAtTheAdopter(t *testing.T) {
	for n, done := int64(0), false; !done; n++ {
		inWorld(t, func(w *world, a, b, _ *worldNode) {
			i := a.runs.opened()
			name := i.Keeper().Instance()
			a.runs.setHooks(func(call string) error {
				if call == "log trim" {
					return errors.New("no answer")
				}
				return nil
			}, nil)
			before := w.records()[name].Checkpoint
			w.await("a checkpoint that the log is not trimmed for", func() bool {
				a.runs.put(i, 20)
				return w.records()[name].Checkpoint != before
			})
			a.runs.put(i, 20)
			o, first := w.records()[name], w.first(name)
			a.kill(nil, true)
			var left atomic.Int64
			left.Store(n)
			trim := func() {
				if err := w.log.Trim(t.Context(), name, o.CheckpointPosition); err != nil {
					t.Error(err)
				}
				if now := w.first(name); now <= first || now != o.CheckpointPosition+1 {
					t.Errorf("step %d: the log begins at %d, before at %d, and the checkpoint is at %d", n, now, first, o.CheckpointPosition)
				}
			}
			b.runs.setHooks(func(call string) error {
				if o := w.records()[name]; strings.HasPrefix(call, "log ") && (o.State == changelog.Adopting || o.State == changelog.Draining) && left.Add(-1) == -1 {
					trim()
				}
				return nil
			}, nil)
			w.retired(name)
			done = left.Load() >= 0
			if lost := w.missing(name); len(lost) > 0 {
				t.Errorf("step %d: rows %v are lost", n, lost)
			}
		})
		if t.Failed() || n > 300 {
			t.Fatalf("at step %d", n)
		}
	}
}
