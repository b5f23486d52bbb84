package instance

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// unreadable is a staging that gives nothing back.
type unreadable struct{ driver.Staging }

func (unreadable) Open(context.Context, driver.Object) (io.ReadCloser, error) {
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

// The record of an instance that has been retired for long is deleted, and the note of its checkpoints. Its node comes back with its
// disk after that. It is fenced and begins a new instance, no row is stored twice, and no log is left.
func TestNodeOfAForgottenInstance(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name := a.instance()
		a.stop()
		w.await("the instance is retired", func() bool { return w.records()[name].State == changelog.Retired })
		if at := w.records()[name].RetiredAt; !near(at, 0) {
			t.Errorf("the instance was retired at %s, now is %s", at, time.Now())
		}
		time.Sleep(2 * sweepEvery)
		o, ok := w.records()[name]
		if !ok {
			t.Fatal("the record is deleted at once")
		}
		o.RetiredAt = time.Now().Add(-keepRetired - time.Second)
		value, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		v, err := w.owners.Get(t.Context(), changelog.OwnerKey(name))
		if err == nil {
			_, err = w.owners.CompareAndSet(t.Context(), v.Key, v.Version, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(forgetAfter - time.Minute) // as long as nodes have time to return after the store of owners went back
		if _, ok := w.records()[name]; !ok {
			t.Fatal("the record is deleted when it is seen")
		}
		w.await("the record is deleted", func() bool { _, ok := w.records()[name]; return !ok })
		for v, err := range w.owners.Watch(t.Context(), "c.") {
			if err != nil {
				t.Fatal(err)
			}
			if v.Version == 0 {
				break
			}
			if v.Key == "c."+name {
				t.Errorf("the note %s is left: %s", v.Key, v.Value)
			}
		}
		if again := a.start().opened().Keeper().Instance(); again == name {
			t.Errorf("the node has the instance %s again", again)
		}
		if len(a.aside()) != 1 {
			t.Errorf("set aside are %v", a.aside())
		}
		a.runs.put(a.runs.opened(), 20)
		w.settle()
		if logs := w.logsOf(name); len(logs) > 0 {
			t.Errorf("the logs %d of the forgotten instance are left", logs)
		}
		if again := b.instance(); len(w.records()) != 2 {
			t.Errorf("there are the records %v; b has %s", w.records(), again)
		}
	})
}

// A process ended when it had the name of an instance and nothing else, and comes back when the record was deleted. The log that it makes
// before it knows is deleted again.
func TestForgottenInstanceWithoutAFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := w.node("a")
		const name = "a-0_aaaaaaaa"
		if _, err := w.owners.CompareAndSet(t.Context(), "era", 0, []byte(`{"format":1,"era":1}`)); err != nil {
			t.Fatal(err)
		}
		f, err := openFolder(n.disk, "node")
		if err == nil {
			err = errors.Join(f.begin(name), f.close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := n.start().opened().Keeper().Instance(); !strings.HasPrefix(got, "a-1_") {
			t.Errorf("the node has the instance %s", got)
		}
		if logs := w.logsOf(name); len(logs) > 0 {
			t.Errorf("the logs %d of the forgotten instance are left", logs)
		}
	})
}
