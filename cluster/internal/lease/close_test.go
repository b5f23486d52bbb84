package lease

import (
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// A process that closes right after its last call has released the lease, so no node waits for its silence. It does not wait for a store that is
// away, nor for a call that does not end.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		cable := &line{Owners: owners}
		a, b := New(owners, "a", length, quiet()), New(cable, "b", length, quiet())
		c, d := New(owners, "c", length, quiet()), New(owners, "d", length, quiet())
		defer d.Close()
		_, release := mustTake(t, a, time.Second)
		release()
		a.Close()

		_, release = mustTake(t, b, time.Second)
		cable.set(true)
		release()
		began := time.Now()
		b.Close()
		if waited := time.Since(began); waited > length/6 {
			t.Errorf("Close waits %s for a store that is away", waited)
		}

		lost, release := mustTake(t, c, 2*length)
		defer release()
		began = time.Now()
		c.Close()
		if waited := time.Since(began); waited > 0 || !ended(lost) {
			t.Errorf("Close waits %s for a call that does not end; it was told so: %t", waited, ended(lost))
		}
		_, release = mustTake(t, d, 2*length)
		release()
	})
}
