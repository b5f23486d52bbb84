package instance

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
)

// unreadable is a staging that gives nothing back.
type unreadable struct{ buffer.Staging }

func (unreadable) Open(context.Context, buffer.Object) (io.ReadCloser, error) {
	return nil, errors.New("no access")
}

// A drained instance whose checkpoint cannot be deleted does not keep the others from being retired.
func TestSweepPassesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		state := func(instance string) changelog.OwnerState {
			v, err := owners.Get(t.Context(), changelog.OwnerKey(instance))
			var o changelog.Owner
			if err := errors.Join(err, o.UnmarshalJSON(v.Value)); err != nil {
				t.Fatal(err)
			}
			return o.State
		}
		for instance, checkpoint := range map[string]string{"a": "ckpt-x", "b": "", "c": "ckpt-x"} {
			o := changelog.Owner{Node: "n", Session: "s", Epoch: 1, State: changelog.Drained, Lease: time.Second, Checkpoint: checkpoint}
			value, err := o.MarshalJSON()
			if err == nil {
				_, err = owners.CompareAndSet(t.Context(), changelog.OwnerKey(instance), 0, value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d := &drainer{opts: Options{
			Owners: owners, Log: changelogtest.NewLog(1, changelogtest.Faults{}), Checkpoints: unreadable{},
		}.withDefaults()}
		if _, err := d.sweepOnce(t.Context()); err == nil {
			t.Error("nothing is left")
		}
		if a, b, c := state("a"), state("b"), state("c"); a != changelog.Drained || b != changelog.Retired || c != changelog.Drained {
			t.Errorf("the instances are %s, %s and %s", a, b, c)
		}
	})
}
