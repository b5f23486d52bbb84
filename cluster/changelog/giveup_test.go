package changelog_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// An instance that its adopter cannot read to the end is given up. The adopter is fenced, and the next adopter learns the operator's decision. It
// clears the decision, and may lower the released number.
func TestGivenUpInstanceIsAdopted(t *testing.T) {
	for _, state := range []changelog.OwnerState{changelog.Adopting, changelog.Draining, changelog.Damaged} {
		synctest.Test(t, func(t *testing.T) {
			owners := changelogtest.NewOwners(1, changelogtest.Faults{})
			a, b, c := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0), startProcess(t, newLink(owners), "c", "ic", 0)
			a.own.SetReleased(9)
			if err := a.own.Update(t.Context(), func(o *changelog.Owner) { o.Log = "L" }); err != nil {
				t.Fatal(err)
			}
			if err := changelog.GiveUp(t.Context(), owners, "ia"); err == nil || !strings.Contains(err.Error(), "owned") {
				t.Errorf("an instance that is owned was given up: %v", err)
			}
			if err := a.end(); err != nil {
				t.Fatal(err)
			}
			adopter, _, _ := first(t, b, c)
			if err := adopter.Update(t.Context(), func(o *changelog.Owner) { o.State = state }); err != nil {
				t.Fatal(err)
			}
			before := record(t, owners, "ia")
			if err := changelog.GiveUp(t.Context(), owners, "ia"); err != nil {
				t.Fatal(err)
			}
			k, _, _ := first(t, b, c)
			if err := adopter.Err(); !errors.Is(err, changelog.ErrFenced) {
				t.Errorf("the adopter before ended with %v", err)
			}
			if o := k.Owner(); o.State != changelog.Adopting || !o.GivenUp || o.Epoch != before.Epoch+2 || o.Released != 9 || o.Log != "L" {
				t.Errorf("adopted with %+v", o)
			}
			k.SetReleased(12)
			if err := k.Update(t.Context(), func(o *changelog.Owner) { o.GivenUp, o.Lost, o.Released = false, 5, 4 }); err != nil {
				t.Fatal(err)
			}
			if err := k.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			if o := record(t, owners, "ia"); o.GivenUp || o.Lost != 5 || o.Released != 4 {
				t.Errorf("the record says %+v", o)
			}
		})
	}
}

func TestGiveUpRefusesWhatHasEnded(t *testing.T) {
	owners := changelogtest.NewOwners(1, changelogtest.Faults{})
	if err := changelog.GiveUp(t.Context(), owners, "none"); err == nil {
		t.Error("an instance without a record was given up")
	}
	for _, state := range []changelog.OwnerState{changelog.Owned, changelog.Drained, changelog.Retired} {
		value, err := changelog.Owner{Node: "n", Session: "s", Epoch: 1, State: state, Lease: lease}.MarshalJSON()
		if err == nil {
			_, err = owners.CompareAndSet(context.WithoutCancel(t.Context()), changelog.OwnerKey(string(state)), 0, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := changelog.GiveUp(t.Context(), owners, string(state)); err == nil || !strings.Contains(err.Error(), string(state)) {
			t.Errorf("GiveUp of an instance that is %s: %v", state, err)
		}
	}
}

// An instance that was never given up has the same record as in older releases.
func TestRecordWithoutGiveUp(t *testing.T) {
	o := changelog.Owner{Node: "n", Session: "s", Epoch: 1, State: changelog.Damaged, Lease: lease}
	value, err := o.MarshalJSON()
	if err != nil || strings.Contains(string(value), "given_up") || strings.Contains(string(value), "lost") {
		t.Errorf("got %s, %v, want no error and !strings.Contains(string(value), \"given_up\") and !strings.Contains(string(value), \"lost\")", value, err)
	}
	o.GivenUp, o.Lost = true, 7
	var back changelog.Owner
	if value, err = o.MarshalJSON(); err == nil {
		err = json.Unmarshal(value, &back)
	}
	if err != nil || !back.GivenUp || back.Lost != 7 {
		t.Errorf("%s is read as %+v: %v", value, back, err)
	}
}

// The write that lowers the released number gets no response.
func TestReleasedIsLoweredWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		l := newLink(owners)
		k := take(t, l, "a", "i", 0)
		k.SetReleased(9)
		if err := k.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.SetReleased(12)
		var lost atomic.Int64
		lost.Store(2)
		l.hook(nil, func() error {
			if lost.Add(-1) >= 0 {
				return changelog.ErrUnknown
			}
			return nil
		})
		if err := k.Update(t.Context(), func(o *changelog.Owner) { o.Lost, o.Released = 5, min(o.Released, 4) }); err != nil {
			t.Fatal(err)
		}
		if o := record(t, owners, "i"); lost.Load() >= 0 || o.Lost != 5 || o.Released != 4 {
			t.Errorf("the record says %+v", o)
		}
		k.SetReleased(6)
		if err := k.Update(t.Context(), func(o *changelog.Owner) { o.Released = 99 }); err != nil {
			t.Fatal(err)
		}
		if o := record(t, owners, "i"); o.Released != 6 {
			t.Errorf("released is %d, and batch 6 was", o.Released)
		}
	})
}
