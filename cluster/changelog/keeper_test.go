package changelog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

func TestLeaseOptions(t *testing.T) {
	if err := (changelog.LeaseOptions{Node: "a"}).Validate(); err != nil {
		t.Error(err)
	}
	err := changelog.LeaseOptions{Node: "a b", Lease: time.Second}.Validate()
	if err == nil || !strings.Contains(err.Error(), "Node") || !strings.Contains(err.Error(), "Lease") {
		t.Errorf("the error is %v", err)
	}
	if _, err := changelog.Take(t.Context(), nil, "i", 0, changelog.LeaseOptions{}); err == nil {
		t.Error("Take accepts options without a node")
	}
}

// A name that no store of owners can have would be tried forever.
func TestTakeChecksTheName(t *testing.T) {
	_, err := changelog.Take(t.Context(), changelogtest.NewOwners(1, changelogtest.Faults{}), "a b", 0, changelog.LeaseOptions{Node: "a"})
	if err == nil || !strings.Contains(err.Error(), `"i.a b"`) {
		t.Errorf("Take = %v, want that the name is refused", err)
	}
}

func TestKeeperBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		k := take(t, newLink(owners), "a", "i", 0)
		k.SetReleased(7)
		k.SetReleased(5)
		for range 100 {
			time.Sleep(lease / 10)
			if !k.Valid() {
				t.Fatal("the lease ended")
			}
		}
		got := record(t, owners, "i")
		if got.Beat < 30 || got.Beat > 31 || got.Epoch != 1 || got.State != changelog.Owned || got.Node != "a" || got.Lease != lease || got.Released != 7 {
			t.Errorf("after ten leases the record is %+v", got)
		}
		k.Close()
		k.Close()
		if k.Valid() {
			t.Error("a closed Keeper is valid")
		}
		if _, err := k.NextEpoch(t.Context()); err == nil || errors.Is(err, changelog.ErrFenced) {
			t.Errorf("NextEpoch of a closed Keeper: %v", err)
		}
	})
}

// What Take makes of the record that it finds, and of the epoch that the local store knows.
func TestTake(t *testing.T) {
	const a, b = "a", "b"
	for name, tt := range map[string]struct {
		found string // the record: "node epoch state", or text that is none
		local uint64
		want  string // "epoch state", "fenced" or "unreadable"
	}{
		"new":                                    {"", 0, "1 owned"},
		"restart":                                {"a 3 owned", 3, "4 owned"},
		"ended before its epoch was stored":      {"a 4 owned", 3, "5 owned"},
		"ended before any epoch was stored":      {"a 1 owned", 0, "2 owned"},
		"adopted by another node":                {"b 4 adopting", 3, "fenced"},
		"adopted by this node without its disk":  {"a 4 adopting", 3, "fenced"},
		"drained by another node":                {"b 4 drained", 3, "fenced"},
		"an adopter restarts":                    {"a 3 draining", 3, "4 draining"},
		"an adopter has drained it":              {"a 3 drained", 3, "fenced"},
		"an adopter found damage":                {"a 3 damaged", 3, "fenced"},
		"the record went back to before":         {"a 1 owned", 3, "4 owned"},
		"the record went back to another":        {"b 2 owned", 3, "4 adopting"},
		"the record was lost":                    {"", 3, "4 owned"},
		"the record is damaged":                  {"{", 3, "unreadable"},
		"a newer release has adopted":            {`{"format":2,"node":"b","session":"s","epoch":4}`, 3, "fenced"},
		"a newer release of this node was there": {`{"format":2,"node":"a","session":"s","epoch":3}`, 3, "unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := changelogtest.NewOwners(1, changelogtest.Faults{})
				value := []byte(tt.found)
				o := changelog.Owner{Session: "before", Lease: lease, Checkpoint: "c", Released: 9}
				if n, _ := fmt.Sscan(tt.found, &o.Node, &o.Epoch, &o.State); n == 3 {
					var err error
					if value, err = json.Marshal(o); err != nil {
						t.Fatal(err)
					}
				}
				if tt.found != "" {
					if _, err := owners.CompareAndSet(t.Context(), changelog.OwnerKey("i"), 0, value); err != nil {
						t.Fatal(err)
					}
				}
				k, err := changelog.Take(t.Context(), owners, "i", tt.local, changelog.LeaseOptions{Node: a})
				var fenced *changelog.FencedError
				got := ""
				switch {
				case errors.As(err, &fenced):
					got = "fenced"
					if !errors.Is(err, changelog.ErrFenced) || fenced.Instance != "i" || fenced.Epoch != tt.local || fenced.Owner.Epoch < tt.local {
						t.Errorf("the error is %+v", fenced)
					}
				case err != nil:
					got = "unreadable"
				default:
					defer k.Close()
					o := record(t, owners, "i")
					got = fmt.Sprint(o.Epoch, " ", o.State)
					if tt.found != "" && (o.Checkpoint != "c" || o.Released != 9) {
						t.Errorf("the record lost its checkpoint or its number: %+v", o)
					}
					if o.Node != a || k.Owner().Epoch != o.Epoch || !k.Valid() {
						t.Errorf("the record is %+v", o)
					}
				}
				if got != tt.want {
					t.Errorf("Take gives %s (%v), want %s", got, err, tt.want)
				}
			})
		})
	}
}

func TestTakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(changelogtest.NewOwners(1, changelogtest.Faults{}))
		l.setAway(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := changelog.Take(ctx, l, "i", 0, l.options("a"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errAway) {
			t.Errorf("the error is %v", err)
		}
	})
}

// The right to acknowledge begins when the request was sent, not when its response arrived.
func TestLeaseCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(changelogtest.NewOwners(1, changelogtest.Faults{}))
		l.hook(nil, func() error { time.Sleep(lease / 8); return nil })
		began := time.Now()
		k := take(t, l, "a", "i", 0)
		l.stop()
		time.Sleep(lease - time.Since(began) - 1)
		if !k.Valid() {
			t.Error("the lease ended too early")
		}
		time.Sleep(time.Nanosecond)
		if k.Valid() {
			t.Error("the lease lasts longer than its time after the request")
		}
	})
}

// A process that stood still past its lease acknowledges nothing, and finds its adopter.
func TestPauseBeyondTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		l := newLink(owners)
		k := take(t, l, "a", "i", 0)
		resume := l.stop()
		time.Sleep(lease + 1)
		if k.Valid() {
			t.Error("the lease did not end")
		}
		if err := k.Err(); err != nil {
			t.Errorf("the Keeper has ended without an adopter: %v", err)
		}
		adopted := record(t, owners, "i")
		adopted.Node, adopted.Session, adopted.Epoch, adopted.State = "b", "other", 2, changelog.Adopting
		replace(t, owners, "i", adopted)
		resume()
		ends(t, k)
		var fenced *changelog.FencedError
		if !errors.As(k.Err(), &fenced) || fenced.Owner.Node != "b" || fenced.Epoch != 1 {
			t.Errorf("the Keeper ended with %v", k.Err())
		}
		if _, err := k.NextEpoch(t.Context()); !errors.Is(err, changelog.ErrFenced) {
			t.Errorf("NextEpoch: %v", err)
		}
		if err := k.Beat(t.Context()); !errors.Is(err, changelog.ErrFenced) || k.Valid() {
			t.Errorf("Beat: %v", err)
		}
		if got := record(t, owners, "i"); got.Beat != adopted.Beat {
			t.Errorf("the fenced node wrote %+v", got)
		}
	})
}

// replace writes a record without the knowledge of its holder.
func replace(t *testing.T, owners changelog.Owners, instance string, o changelog.Owner) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := owners.Get(t.Context(), changelog.OwnerKey(instance))
	if err == nil {
		_, err = owners.CompareAndSet(t.Context(), v.Key, v.Version, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A request without a response costs a part of the lease.
func TestLostRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(changelogtest.NewOwners(1, changelogtest.Faults{}))
		k := take(t, l, "a", "i", 0)
		for range 10 {
			l.stop()
			time.Sleep(lease / 2)
			l.lose()
			for range 10 {
				time.Sleep(lease / 10)
				if !k.Valid() {
					t.Fatal("the lease ended")
				}
			}
		}
	})
}

// A pause past the lease without an adopter ends by itself.
func TestPauseWithoutAnAdopter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(changelogtest.NewOwners(1, changelogtest.Faults{}))
		k := take(t, l, "a", "i", 0)
		resume := l.stop()
		time.Sleep(3 * lease)
		resume()
		if err := k.Beat(t.Context()); err != nil || !k.Valid() || k.Owner().Epoch != 1 {
			t.Errorf("Beat: %v, %+v", err, k.Owner())
		}
	})
}

// The write took effect and its response was lost. The process finds its own record and continues.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		l := newLink(owners)
		k := take(t, l, "a", "i", 0)
		var lost atomic.Int64
		lost.Store(3)
		l.hook(nil, func() error {
			if lost.Add(-1) >= 0 {
				return changelog.ErrUnknown
			}
			return nil
		})
		epoch, err := k.NextEpoch(t.Context())
		if got := record(t, owners, "i"); err != nil || epoch <= 1 || got.Epoch != epoch {
			t.Errorf("the epoch is %d (%v), the record %+v", epoch, err, got)
		}
		lost.Store(2)
		if err := k.Update(t.Context(), func(o *changelog.Owner) { o.Checkpoint, o.CheckpointPosition = "c", 5 }); err != nil {
			t.Error(err)
		}
		if got := record(t, owners, "i"); got.Checkpoint != "c" || got.CheckpointPosition != 5 || got.Epoch != epoch {
			t.Errorf("the record is %+v", got)
		}
	})
}

// Another process has the same name. The first one was thought to be gone, and its instance was adopted.
func TestProcessOfTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		l := newLink(owners)
		k := take(t, l, "a", "i", 0)
		// The first process asks for the epoch that the second one gets, and gets no response.
		l.hook(func() error {
			twin := record(t, owners, "i")
			twin.Session, twin.Epoch, twin.State = "other", twin.Epoch+1, changelog.Adopting
			replace(t, owners, "i", twin)
			return changelog.ErrUnknown
		}, nil)
		if epoch, err := k.NextEpoch(t.Context()); !errors.Is(err, changelog.ErrFenced) || k.Valid() {
			t.Errorf("both have epoch %d (%v), valid: %t", epoch, err, k.Valid())
		}
	})
}

// An old value of the record decides nothing.
func TestStaleReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{StaleReads: 0.8})
		l := newLink(owners)
		k := take(t, l, "a", "i", 0)
		for want := uint64(2); want < 30; want++ {
			var lost atomic.Bool
			l.hook(nil, func() error {
				if !lost.Swap(true) {
					return changelog.ErrUnknown
				}
				return nil
			})
			if epoch, err := k.NextEpoch(t.Context()); err != nil || epoch < want {
				t.Fatalf("epoch %d: %v", epoch, err)
			}
		}
		// The next process of the node finds the newest epoch in spite of old reads.
		last := k.Owner().Epoch
		k.Close()
		l.hook(nil, nil)
		if k := take(t, newLink(owners), "a", "i", 1); k.Owner().Epoch <= last {
			t.Errorf("epoch %d follows %d", k.Owner().Epoch, last)
		}
	})
}

// The store of owners lost records that this process wrote. It writes its held record again. The checkpoint that the old
// record names may be deleted.
func TestRecordWentBack(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, k *changelog.Keeper){
		"to a beat of its own":    func(*testing.T, *changelog.Keeper) {},
		"to an epoch of its own":  func(t *testing.T, k *changelog.Keeper) { nextEpoch(t, k) },
		"to two epochs of it ago": func(t *testing.T, k *changelog.Keeper) { nextEpoch(t, k); nextEpoch(t, k) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := changelogtest.NewOwners(1, changelogtest.Faults{})
				k := take(t, newLink(owners), "a", "i", 0)
				restore := owners.Save()
				before(t, k)
				if err := k.Update(t.Context(), func(o *changelog.Owner) { o.Checkpoint, o.CheckpointPosition = "new", 5 }); err != nil {
					t.Fatal(err)
				}
				held := k.Owner()
				restore()
				if err := k.Beat(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := record(t, owners, "i"); got.Epoch < held.Epoch || got.Beat <= held.Beat || got.Checkpoint != "new" {
					t.Errorf("the record is %+v, held was %+v", got, held)
				}
			})
		})
	}
	t.Run("to the owner before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			owners := changelogtest.NewOwners(1, changelogtest.Faults{})
			old := take(t, newLink(owners), "a", "i", 0)
			restore := owners.Save()
			old.Close()
			adopted := record(t, owners, "i")
			adopted.Node, adopted.Session, adopted.Epoch, adopted.State = "b", "other", 4, changelog.Draining
			replace(t, owners, "i", adopted)
			k := take(t, newLink(owners), "b", "i", 4)
			restore()
			if err := k.Beat(t.Context()); err != nil || k.Owner().Epoch != 6 {
				t.Errorf("the epoch is %d (%v), want 1 more than 5", k.Owner().Epoch, err)
			}
			if got := record(t, owners, "i"); got.Node != "b" || got.Epoch != 6 || got.State != changelog.Draining {
				t.Errorf("the record is %+v", got)
			}
		})
	})
	t.Run("to none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			owners := changelogtest.NewOwners(1, changelogtest.Faults{})
			restore := owners.Save()
			k := take(t, newLink(owners), "a", "i", 0)
			restore()
			if err := k.Beat(t.Context()); err != nil || k.Owner().Epoch != 2 {
				t.Errorf("the epoch is %d (%v), want 2", k.Owner().Epoch, err)
			}
		})
	})
}

func nextEpoch(t *testing.T, k *changelog.Keeper) uint64 {
	t.Helper()
	epoch, err := k.NextEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

func TestStatesFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		k := take(t, newLink(owners), "a", "i", 0)
		become := func(s changelog.OwnerState) error {
			return k.Update(t.Context(), func(o *changelog.Owner) { o.State = s })
		}
		for _, step := range []struct{ refused, next changelog.OwnerState }{
			{changelog.Drained, changelog.Draining},
			{changelog.Owned, changelog.Drained},
			{changelog.Draining, changelog.Retired},
			{changelog.Damaged, changelog.Retired},
		} {
			if err := become(step.refused); err == nil {
				t.Errorf("the state %s was accepted", step.refused)
			}
			if err := become(step.next); err != nil || record(t, owners, "i").State != step.next {
				t.Errorf("the state %s: %v", step.next, err)
			}
		}
	})
}

// Beats, epochs and changes of one process do not fence it, and no epoch is given twice.
func TestKeeperIsSharedByGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{Delay: time.Second, LostResponses: 0.2, StaleReads: 0.2})
		k := take(t, newLink(owners), "a", "i", 0)
		var mu sync.Mutex
		var epochs []uint64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					epoch := nextEpoch(t, k)
					mu.Lock()
					epochs = append(epochs, epoch)
					mu.Unlock()
					if err := k.Update(t.Context(), func(o *changelog.Owner) { o.CheckpointPosition++ }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		slices.Sort(epochs)
		if len(slices.Compact(epochs)) != 40 {
			t.Errorf("an epoch was given twice: %v", epochs)
		}
		if k.Err() != nil {
			t.Error(k.Err())
		}
	})
}

func TestValidDoesNotAllocate(t *testing.T) {
	k := take(t, newLink(changelogtest.NewOwners(1, changelogtest.Faults{})), "a", "i", 0)
	if n := testing.AllocsPerRun(1000, func() {
		if !k.Valid() {
			t.Error("the lease ended")
		}
	}); n != 0 {
		t.Errorf("Valid allocates %v times", n)
	}
}
