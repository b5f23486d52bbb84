package changelog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// A damaged instance is left alone until an operator readmits it. Then it is adopted as any other, as the record says.
func TestReadmittedInstanceIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b, c := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0), startProcess(t, newLink(owners), "c", "ic", 0)
		a.own.SetReleased(9)
		if err := a.own.Update(t.Context(), func(o *changelog.Owner) { o.Log, o.Checkpoint, o.CheckpointPosition = "L", "c", 7 }); err != nil {
			t.Fatal(err)
		}
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		damaged, winner, _ := first(t, b, c)
		if err := damaged.Update(t.Context(), func(o *changelog.Owner) {
			o.State, o.GivenUp = changelog.Damaged, true // by a release that does not know its meaning
		}); err != nil {
			t.Fatal(err)
		}
		before := record(t, owners, "ia")
		time.Sleep(20 * lease)
		none(t, b, c)

		if err := changelog.Readmit(t.Context(), owners, "ia", func(o *changelog.Owner) {
			o.Released, o.Checkpoint, o.Node, o.Epoch, o.State = 0, "older", "me", 0, changelog.Retired
		}); err != nil {
			t.Fatal(err)
		}
		readmitted := record(t, owners, "ia")
		if readmitted.Node != winner.own.Owner().Node || readmitted.Session == before.Session || readmitted.Epoch != before.Epoch+1 || readmitted.State != changelog.Owned ||
			readmitted.GivenUp {
			t.Errorf("the readmitted record is %+v", readmitted)
		}
		began := time.Now()
		k, _, _ := first(t, b, c)
		if took := time.Since(began); took < lease {
			t.Errorf("it was adopted %v after it was readmitted, want a lease of silence", took)
		}
		if err := damaged.Err(); !errors.Is(err, changelog.ErrFenced) || winner.own.Err() != nil {
			t.Errorf("the Keeper of the damaged instance ended with %v, and the one of the node with %v", err, winner.own.Err())
		}
		got := k.Owner()
		if k.Instance() != "ia" || got.State != changelog.Adopting || got.Epoch != before.Epoch+2 || got.Released != 0 || got.Checkpoint != "older" ||
			got.CheckpointPosition != 7 || got.Log != "L" {
			t.Errorf("%s was adopted with %+v", k.Instance(), got)
		}
	})
}

// The node that gave the instance up has its local store.
func TestReadmittedInstanceIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := newLink(changelogtest.NewOwners(1, changelogtest.Faults{}))
		k := take(t, owners, "a", "ia", 0)
		if err := k.Update(t.Context(), func(o *changelog.Owner) { o.State = changelog.Damaged }); err != nil {
			t.Fatal(err)
		}
		k.Close()
		if _, err := changelog.Take(t.Context(), owners, "ia", 1, changelog.LeaseOptions{Node: "a", Lease: lease}); !errors.Is(err, changelog.ErrFenced) {
			t.Fatalf("Take of a damaged instance = %v, want changelog.ErrFenced", err)
		}
		if err := changelog.Readmit(t.Context(), owners, "ia", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := changelog.Take(t.Context(), owners, "ia", 1, changelog.LeaseOptions{Node: "b", Lease: lease}); !errors.Is(err, changelog.ErrFenced) {
			t.Errorf("Take by another node = %v, want changelog.ErrFenced", err)
		}
		if k := take(t, owners, "a", "ia", 1); k.Owner().Epoch != 3 || k.Owner().State != changelog.Owned {
			t.Errorf("it was taken with %+v", k.Owner())
		}
	})
}

func TestReadmitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := newLink(changelogtest.NewOwners(1, changelogtest.Faults{}))
		refuse := func(want string) {
			t.Helper()
			if err := changelog.Readmit(t.Context(), owners, "i", nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Readmit = %v, want that it says %q", err, want)
			}
		}
		refuse("no record")
		o := changelog.Owner{Node: "a", Session: "s", Epoch: 3, Lease: lease, State: changelog.Draining}
		replace(t, owners, "i", o)
		refuse("its state is draining")
		o.State = changelog.Damaged
		replace(t, owners, "i", o)
		owners.hook(func() error {
			owners.hook(nil, nil)
			replace(t, owners, "i", o)
			return nil
		}, nil)
		if err := changelog.Readmit(t.Context(), owners, "i", nil); !errors.Is(err, changelog.ErrLost) {
			t.Errorf("Readmit of a record that changes meanwhile = %v, want changelog.ErrLost", err)
		}
		owners.setAway(true)
		refuse(errAway.Error())
	})
}
