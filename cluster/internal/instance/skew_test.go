package instance

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/changelog"
)

// An adopter that meets what a later release has written keeps everything and does not call the instance damaged. When it is updated it goes
// on.
func TestDrainOfALaterRelease(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name := a.runs.opened().Keeper().Instance()
		var refused atomic.Int64
		b.runs.setHooks(func(call string) error {
			if call != "log read" {
				return nil
			}
			refused.Add(1)
			return fmt.Errorf("hook: %w", changelog.ErrNewer)
		}, nil)
		a.kill(nil, true)
		w.await("the adopter has tried", func() bool { return refused.Load() > 0 })
		time.Sleep(5 * worldLease)
		if o := w.records()[name]; o.State != changelog.Adopting || o.Checkpoint == "" {
			t.Errorf("the record says %+v", o)
		}
		b.runs.setHooks(nil, nil)
		w.settle()
	})
}
