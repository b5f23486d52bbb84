package changelog_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

const oldName = "a-0_aaaaaaaa" // of the first era

// retire leaves the record of a retired instance.
func retire(t *testing.T, owners changelog.Owners, instance string) changelog.Versioned {
	t.Helper()
	replace(t, owners, instance, changelog.Owner{Node: "b", Session: "s", Epoch: 9, State: changelog.Retired, Lease: lease})
	v, err := owners.Get(t.Context(), changelog.OwnerKey(instance))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func hasRecord(t *testing.T, owners changelog.Owners, instance string) bool {
	t.Helper()
	v, err := owners.Get(t.Context(), changelog.OwnerKey(instance))
	if err != nil {
		t.Fatal(err)
	}
	return v.Version != 0
}

// wantForgotten demands that the error fences an owner whose record was deleted.
func wantForgotten(t *testing.T, who string, err error) {
	t.Helper()
	fenced, ok := errors.AsType[*changelog.FencedError](err)
	if !ok || fenced.Owner.Node != "" || fenced.Owner.State != changelog.Retired || !strings.Contains(err.Error(), "its record is deleted") {
		t.Errorf("%s: got %v, want an error that says that the record is deleted", who, err)
	}
}

// The records of retired instances are deleted. Owners of such an instance are fenced nevertheless: one that stood still since before it was
// adopted, one that returns with its disk, and one that had not written anything to its disk.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		late := newLink(owners)
		stood := take(t, late, "a", oldName, 0)
		resume := late.stop()
		v := retire(t, owners, oldName)
		unnamed, lives := retire(t, owners, "a"), take(t, newLink(owners), "c", "c-0_cccccccc", 0)
		running, err := owners.Get(t.Context(), changelog.OwnerKey(lives.Instance()))
		if err != nil {
			t.Fatal(err)
		}
		changed := v
		changed.Version--
		for _, retired := range [][]changelog.Versioned{{running}, {unnamed}, {changed}, nil, {v}, {v}} {
			if err := changelog.Forget(t.Context(), owners, retired...); err != nil {
				t.Fatal(err)
			}
			if have, want := hasRecord(t, owners, oldName), len(retired) == 0 || retired[0].Version != v.Version; have != want {
				t.Fatalf("the record is there: %t, after Forget of %+v", have, retired)
			}
		}
		if !hasRecord(t, owners, "a") || !hasRecord(t, owners, lives.Instance()) {
			t.Error("a record that must stay is deleted")
		}
		resume()
		ends(t, stood)
		wantForgotten(t, "who stood still", stood.Err())
		for _, local := range []uint64{0, 1, 9} {
			_, err := changelog.Take(t.Context(), late, oldName, local, late.options("a"))
			wantForgotten(t, "who comes back", err)
		}
		if hasRecord(t, owners, oldName) {
			t.Error("the record is there again")
		}
		next, err := changelog.NewInstance(t.Context(), owners, "a")
		if err != nil || !strings.HasPrefix(next, "a-1_") {
			t.Errorf("the next name is %q: %v", next, err)
		}
		if k := take(t, late, "a", next, 0); k.Owner().Epoch != 1 || lives.Err() != nil || !lives.Valid() {
			t.Errorf("the next instance has the epoch %d; who lives: %v", k.Owner().Epoch, lives.Err())
		}
	})
}

// An owner whose record is missing, although it was not deleted, continues. The store of owners went back.
func TestRecordIsMissingInItsEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		if k := take(t, newLink(owners), "a", oldName, 5); k.Owner().Epoch != 6 {
			t.Errorf("the epoch is %d", k.Owner().Epoch)
		}
		// Its claim has ended, so the record can be deleted when it is retired.
		if err := changelog.Forget(t.Context(), owners, retire(t, owners, oldName)); err != nil || hasRecord(t, owners, oldName) {
			t.Errorf("the record stays: %v", err)
		}
	})
}

// readsNone is a store of owners whose first reads of a record return a state without it.
type readsNone struct {
	changelog.Owners
	times int
}

func (r *readsNone) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	if key == changelog.OwnerKey(oldName) && r.times > 0 {
		r.times--
		return changelog.Versioned{Key: key}, nil
	}
	return r.Owners.Get(ctx, key)
}

// An owner reads that there is no record, which is old. The instance was retired, and its record is about to be deleted. Whatever the owner is
// about to write when that happens, it does not get the instance.
func TestForgetBesideALateOwner(t *testing.T) {
	for before, what := range map[int64]string{1: "before its claim", 2: "between its claim and its record"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := changelogtest.NewOwners(1, changelogtest.Faults{})
				v := retire(t, owners, oldName)
				l := newLink(&readsNone{Owners: owners, times: 1})
				var sets atomic.Int64
				l.hook(func() error {
					if sets.Add(1) == before {
						return changelog.Forget(t.Context(), owners, v)
					}
					return nil
				}, nil)
				_, err := changelog.Take(t.Context(), l, oldName, 3, l.options("a"))
				if !errors.Is(err, changelog.ErrFenced) {
					t.Errorf("the late owner: %v", err)
				}
				if hasRecord(t, owners, oldName) && record(t, owners, oldName).State != changelog.Retired {
					t.Errorf("the record is %+v", record(t, owners, oldName))
				}
				if sets := sets.Load(); sets < before {
					t.Errorf("the owner has written %d times", sets)
				}
			})
		})
	}
}
