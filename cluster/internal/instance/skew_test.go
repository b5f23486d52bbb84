package instance

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/synctest"
)

// An adopter that reads records of a later release keeps everything and does not call the instance damaged. When it is updated it
// continues.
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

// A checkpoint of a local level in a later format is not damage.
func TestCheckpointOfALaterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.node("a")
		o := (&worldProcess{link: &link{w: w, name: "a"}, node: n, disk: n.disk}).options().withDefaults()
		if err := w.log.Create(t.Context(), "later"); err != nil {
			t.Fatal(err)
		}
		stat, err := w.log.Stat(t.Context(), "later")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(n.disk.MkdirAll("made/local", 0o700), pebblestore.WriteNote(n.disk, "made/local", "forebay-format", "99\n")); err != nil {
			t.Fatal(err)
		}
		_, ref, err := o.checkpoints().Save(t.Context(), "made", checkpoint.Manifest{Instance: "later", Epoch: 1, Log: stat.ID, Number: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k, err := changelog.Take(t.Context(), w.owners, "later", 0, o.lease())
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Update(t.Context(), func(r *changelog.Owner) { r.Log, r.Checkpoint = stat.ID, ref }); err != nil {
			t.Fatal(err)
		}
		_, err = restore(t.Context(), "restored", k, o, false, nil)
		if _, later := errors.AsType[*buffer.FormatError](err); !later || isDamage(err) {
			t.Errorf("restored from format 99: %v", err)
		}
	})
}
