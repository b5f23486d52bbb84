package changelogtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

func TestMemoryOwners(t *testing.T) {
	o := changelogtest.NewOwners(1, changelogtest.Faults{})
	changelogtest.TestOwners(t, func(*testing.T) changelog.Owners { return o })
}

func set(t *testing.T, o *changelogtest.Owners, old changelog.Version, value string) changelog.Version {
	t.Helper()
	v, err := o.CompareAndSet(t.Context(), "i.a", old, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func expectValue(t *testing.T, o *changelogtest.Owners, want string) {
	t.Helper()
	if v, err := o.Get(t.Context(), "i.a"); err != nil || string(v.Value) != want {
		t.Errorf("Get = %q, %v, want %q", v.Value, err, want)
	}
}

// A change whose response is lost was made, and a late change will be made, unless another arrives first.
func TestUnknownChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, tc := range map[string]struct {
			faults       changelogtest.Faults
			first, later string
		}{
			"lost answer":  {changelogtest.Faults{LostResponses: 1}, "new", "new"},
			"lost request": {changelogtest.Faults{LostRequests: 1}, "old", "old"},
			"late request": {changelogtest.Faults{LateRequests: 1}, "old", "new"},
		} {
			o := changelogtest.NewOwners(1, changelogtest.Faults{})
			version := set(t, o, 0, "old")
			o.SetFaults(tc.faults)
			if _, err := o.CompareAndSet(t.Context(), "i.a", version, []byte("new")); !errors.Is(err, changelog.ErrUnknown) {
				t.Errorf("%s: CompareAndSet = %v, want changelog.ErrUnknown", what, err)
			}
			o.SetFaults(changelogtest.Faults{})
			expectValue(t, o, tc.first)
			time.Sleep(time.Minute)
			expectValue(t, o, tc.later)
		}
	})
}

func TestStaleReads(t *testing.T) {
	o := changelogtest.NewOwners(1, changelogtest.Faults{StaleReads: 0.5})
	version, seen := changelog.Version(0), make(map[string]bool)
	for i := range 5 {
		version = set(t, o, version, fmt.Sprint(i))
	}
	for range 100 {
		v, err := o.Get(t.Context(), "i.a")
		if err != nil {
			t.Fatal(err)
		}
		seen[string(v.Value)] = true
	}
	if !seen["4"] || !seen["3"] || seen["0"] {
		t.Errorf("Get returns %v, want the newest and a few before it", seen)
	}
}

// A store that went back gives versions a second time.
func TestRestoredOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := changelogtest.NewOwners(1, changelogtest.Faults{})
		old := set(t, o, 0, "old")
		restore := o.Save()
		lost := set(t, o, old, "lost")
		ended := make(chan error)
		go func() {
			for _, err := range o.Watch(t.Context(), "i.") {
				if err != nil {
					ended <- err
				}
			}
		}()
		synctest.Wait()
		restore()
		if err := <-ended; errors.Is(err, context.Canceled) {
			t.Errorf("the watch ends with %v", err)
		}
		expectValue(t, o, "old")
		if again := set(t, o, old, "new"); again != lost {
			t.Errorf("after the restore a change has version %d, want %d again", again, lost)
		}
	})
}

func TestBrokenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := changelogtest.NewOwners(1, changelogtest.Faults{BrokenWatches: 1})
		ended := make(chan error)
		go func() {
			for _, err := range o.Watch(t.Context(), "i.") {
				if err != nil {
					ended <- err
				}
			}
		}()
		synctest.Wait()
		set(t, o, 0, "one")
		if err := <-ended; err == nil {
			t.Error("the watch goes on")
		}
	})
}
