package instance

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// From one of its batches on, the log gets nothing from an owner, which continues for a while and then is lost with its disk. Whatever it has
// uploaded, imported or deleted by then, the log knows why. The adopter does it again under the same ids, and no row is lost or twice in the
// table.
func TestEffectsWaitForTheLog(t *testing.T) {
	for at, done := int64(0), false; !done; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inWorld(t, func(w *world, a, _, _ *worldNode) {
				p, i := a.runs, a.runs.opened()
				var appended atomic.Int64
				p.setHooks(func(call string) error {
					away := appended.Load() > at
					if call == "log append b" {
						away = appended.Add(1) > at
					}
					if away && strings.HasPrefix(call, "log ") {
						return errors.New("away")
					}
					return nil
				}, nil)
				w.clients.Go(func() { p.put(i, 30) })
				time.Sleep(10 * time.Second)
				done = appended.Load() <= at
				a.kill(nil, true)
				w.settle()
			})
		})
		if t.Failed() {
			return
		}
	}
}
