package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// A staging whose calls fail often, before or after they took effect, still gets a whole checkpoint. Each object is stored again, and
// no other one with it.
func TestSaveEndsWhileTheStagingFailsOften(t *testing.T) {
	for _, every := range []int{2, 3, 5} {
		for _, took := range []bool{false, true} {
			t.Run(fmt.Sprintf("every %d, took effect %v", every, took), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					disk, staging := vfs.NewMem(), buffertest.NewMemory()
					want := files{}
					for i := range 40 {
						want[fmt.Sprintf("local/%06d.sst", i)] = fmt.Sprint("table ", i)
					}
					write(t, disk, snapshot, want)
					var mu sync.Mutex
					puts, failed := 0, 0
					fail := func(_ context.Context, call buffertest.Call) error {
						mu.Lock()
						defer mu.Unlock()
						if call.Op != buffertest.OpPut {
							return nil
						}
						if puts++; puts%every != 0 {
							return nil
						}
						failed++
						return errInjected
					}
					if took {
						staging.After = fail
					} else {
						staging.Before = fail
					}
					s := newStore(staging, disk, checkpoint.Options{})
					_, ref := save(t, s, 1, nil)
					if objects := len(want) + 1; failed < objects/every || puts != objects+failed {
						t.Errorf("%d of %d puts have failed, for %d objects", failed, puts, objects)
					}
					staging.Before, staging.After = nil, nil
					expect(t, t.Context(), staging, ref, want)
				})
			})
		}
	}
}

// While the staging is away Save ends soon, because the folder keeps room on the disk.
func TestSaveEndsWhileTheStagingIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, staging := vfs.NewMem(), buffertest.NewMemory()
		write(t, disk, snapshot, twoTables)
		s := newStore(staging, disk, checkpoint.Options{})
		attempt := func(ctx context.Context, fails error) (took time.Duration, err error) {
			staging.Before = func(context.Context, buffertest.Call) error { return fails }
			began := time.Now()
			_, _, err = s.Save(ctx, snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1}, nil)
			return time.Since(began), err
		}
		if took, err := attempt(t.Context(), errInjected); !errors.Is(err, errInjected) || took < 10*time.Second || took > 15*time.Second {
			t.Errorf("away: %v after %s", err, took)
		}
		if took, err := attempt(t.Context(), driver.Permanent(errInjected)); !errors.Is(err, errInjected) || took > 0 {
			t.Errorf("refused: %v after %s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if took, err := attempt(ctx, errInjected); !errors.Is(err, errInjected) || took != 2*time.Second {
			t.Errorf("cancelled: %v after %s", err, took)
		}
	})
}
