package changelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// process is a node that holds its own instance, named for it, and is a candidate for all others.
type process struct {
	*link
	own     *changelog.Keeper
	adopted chan *changelog.Keeper // by restore, which keeps the instance until the process ends
	end     func() error           // ends the process and returns what Adopt returned
}

func startProcess(t *testing.T, l *link, node, instance string, local uint64) *process {
	t.Helper()
	p := &process{link: l, own: take(t, l, node, instance, local), adopted: make(chan *changelog.Keeper, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- changelog.Adopt(ctx, p.own, func(ctx context.Context, k *changelog.Keeper) {
			p.adopted <- k
			<-ctx.Done()
		})
	}()
	var err error
	ended := false
	p.end = func() error {
		if !ended {
			cancel()
			err, ended = <-done, true
			p.own.Close()
		}
		return err
	}
	t.Cleanup(func() { _ = p.end() })
	return p
}

// none fails the test if one of the processes has adopted something.
func none(t *testing.T, processes ...*process) {
	t.Helper()
	synctest.Wait()
	for _, p := range processes {
		select {
		case k := <-p.adopted:
			t.Fatalf("node %s adopted %+v", p.own.Owner().Node, k.Instance())
		default:
		}
	}
}

// next waits until the process adopts an instance.
func (p *process) next(t *testing.T) *changelog.Keeper {
	t.Helper()
	k, _, _ := first(t, p, p)
	return k
}

// first waits until one of two processes adopts an instance, and returns that process and the other one.
func first(t *testing.T, a, b *process) (k *changelog.Keeper, winner, loser *process) {
	t.Helper()
	select {
	case k = <-a.adopted:
		return k, a, b
	case k = <-b.adopted:
		return k, b, a
	case <-time.After(20 * lease):
		t.Fatal("nobody adopted an instance")
	}
	return nil, nil, nil
}

func TestSilentOwnerIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b, c := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0), startProcess(t, newLink(owners), "c", "ic", 0)
		if err := a.own.Update(t.Context(), func(o *changelog.Owner) { o.Log, o.Checkpoint = "L", "c" }); err != nil {
			t.Fatal(err)
		}
		a.own.SetReleased(9)
		time.Sleep(10 * lease)
		none(t, a, b, c) // whoever beats is left alone
		silent := time.Now().Add(a.own.Left() - lease)
		if err := a.end(); err != nil {
			t.Errorf("Adopt returned %v", err)
		}
		k, winner, loser := first(t, b, c)
		if took := time.Since(silent); took < lease || took > lease+lease/12 {
			t.Errorf("the instance was adopted %v after the last beat of its owner", took)
		}
		got := record(t, owners, "ia")
		if got.Node != winner.own.Owner().Node || got.Epoch != 2 || got.State != changelog.Adopting || got.Log != "L" || got.Checkpoint != "c" || got.Released != 9 {
			t.Errorf("the record is %+v", got)
		}
		if k.Owner().Epoch != 2 || !k.Valid() {
			t.Errorf("the Keeper has %+v", k.Owner())
		}
		time.Sleep(10 * lease)
		none(t, winner, loser) // the adopter beats too
		if err := winner.end(); err != nil || k.Valid() {
			t.Errorf("Adopt returned %v", err)
		}
		for range 2 { // the instance of the adopter, and the adopted instance
			switch k := loser.next(t); k.Instance() {
			case "ia":
				if k.Owner().Epoch != 3 || k.Owner().State != changelog.Adopting {
					t.Errorf("the second adopter has %+v", k.Owner())
				}
			case winner.own.Instance():
			default:
				t.Errorf("%s was adopted", k.Instance())
			}
		}
	})
}

// While the store of owners is away no owner can beat, and silence means nothing.
func TestNobodyAdoptsWhileTheStoreIsAway(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, lease, 3 * lease} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,hangs=%t", away, hangs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					owners := changelogtest.NewOwners(1, changelogtest.Faults{})
					var processes []*process
					for _, node := range []string{"a", "b", "c"} {
						time.Sleep(lease / 7) // they do not beat at the same time
						processes = append(processes, startProcess(t, newLink(owners), node, "i"+node, 0))
					}
					for range 7 {
						time.Sleep(lease * 11 / 13)
						var resume []func()
						for _, p := range processes {
							if hangs {
								resume = append(resume, p.stop())
							} else {
								p.setAway(true)
								resume = append(resume, func() { p.setAway(false) })
							}
						}
						time.Sleep(away)
						for _, f := range resume {
							f()
						}
					}
					time.Sleep(2 * lease)
					none(t, processes...)
				})
			})
		}
	}
}

// Silence counts only between two beats that succeed at once.
func TestSilenceNeedsBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		replace(t, owners, "i", changelog.Owner{Node: "gone", Session: "s", Epoch: 7, State: changelog.Owned, Lease: lease})
		l := newLink(owners)
		began := time.Now()
		l.hook(func() error {
			if phase := time.Since(began) % (lease / 2); lease/6 <= phase && phase < lease*5/12 {
				return errAway
			}
			return nil
		}, nil)
		b := startProcess(t, l, "b", "ib", 0)
		time.Sleep(20 * lease)
		none(t, b)
		l.hook(nil, nil)
		b.next(t)
	})
}

// A candidate that is alone in not reaching the store counts no silence, and one whose watch alone is broken loses.
func TestCandidateWithABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		startProcess(t, newLink(owners), "a", "ia", 0)
		alone := &blind{Owners: owners, ended: make(chan struct{})}
		b := startProcess(t, newLink(alone), "b", "ib", 0)
		time.Sleep(lease)
		close(alone.ended)
		time.Sleep(20 * lease)
		none(t, b)
		if alone.lost == 0 {
			t.Error("it never tried to adopt the instance whose beats it does not see")
		}
	})
}

// blind is a store of owners whose watch shows nothing after a while, and does not end.
type blind struct {
	changelog.Owners
	ended chan struct{}
	lost  int
}

func (b *blind) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		for v, err := range b.Owners.Watch(ctx, prefix) {
			select {
			case <-b.ended:
				<-ctx.Done()
				return
			default:
				if !yield(v, err) {
					return
				}
			}
		}
	}
}

func (b *blind) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	version, err := b.Owners.CompareAndSet(ctx, key, old, value)
	if errors.Is(err, changelog.ErrLost) {
		b.lost++
	}
	return version, err
}

// A restarted watch shows the existing records, which is no sign of life.
func TestWatchBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		replace(t, owners, "i", changelog.Owner{Node: "gone", Session: "s", Epoch: 7, State: changelog.Owned, Lease: lease})
		b := startProcess(t, newLink(shortWatches{owners}), "b", "ib", 0)
		began := time.Now()
		if b.next(t); time.Since(began) > 2*lease {
			t.Errorf("it was adopted after %v", time.Since(began))
		}
	})
}

// shortWatches is a store of owners whose watches end early.
type shortWatches struct{ changelog.Owners }

func (s shortWatches) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, lease/6)
		defer cancel()
		for v, err := range s.Owners.Watch(ctx, prefix) {
			if !yield(v, err) {
				return
			}
		}
		yield(changelog.Versioned{}, errAway)
	}
}

// The host of all processes was suspended. They resume at nearly the same moment, after a time in which none could beat.
func TestHostStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b := newLink(owners), newLink(owners)
		pa, pb := startProcess(t, a, "a", "ia", 0), startProcess(t, b, "b", "ib", 0)
		// The beat of a is held up before it is sent, and that of b after it took effect, so nothing shows b that time has passed.
		for range 5 {
			time.Sleep(lease * 8 / 7)
			until := time.Now().Add(3 * lease)
			a.hook(func() error { time.Sleep(time.Until(until.Add(lease / 12))); return nil }, nil)
			b.hook(nil, func() error { time.Sleep(time.Until(until)); return nil })
			time.Sleep(5 * lease)
		}
		none(t, pa, pb)
	})
}

// A node that returns with its disk takes its instance before others adopt it.
func TestNodeComesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0)
		for range 10 {
			local := a.own.Owner().Epoch
			if err := a.end(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease * 3 / 4)
			a = startProcess(t, newLink(owners), "a", "ia", local)
			if a.own.Owner().Epoch != local+1 {
				t.Errorf("the epoch is %d after %d", a.own.Owner().Epoch, local)
			}
		}
		none(t, a, b)
	})
}

// A node whose disk was lost starts with a new instance and adopts its old one like any other. The process that had the name before
// was not dead. It is fenced although it has the same name.
func TestNodeComesBackWithoutItsDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		old := startProcess(t, newLink(owners), "a", "first", 0)
		resume := old.stop()
		p := startProcess(t, newLink(owners), "a", "second", 0)
		if k := p.next(t); k.Instance() != "first" || k.Owner().Epoch != 2 || old.own.Valid() {
			t.Errorf("%s was adopted with epoch %d", k.Instance(), k.Owner().Epoch)
		}
		resume()
		ends(t, old.own)
		if err := old.end(); !errors.Is(err, changelog.ErrFenced) {
			t.Errorf("Adopt of the fenced process returned %v", err)
		}
		none(t, p)
	})
}

// The adoption succeeded and its response was lost.
func TestAdoptionWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0)
		time.Sleep(lease)
		_ = a.end()
		var lost atomic.Int64
		b.hook(nil, func() error {
			if v, err := owners.Get(context.Background(), changelog.OwnerKey("ia")); err != nil || record(t, owners, "ia").Epoch == 1 || lost.Load() > 0 || v.Version == 0 {
				return nil
			}
			lost.Add(1)
			return changelog.ErrUnknown
		})
		began := time.Now()
		k := b.next(t)
		if took := time.Since(began); took > lease*3/2 || k.Owner().Epoch != 3 || lost.Load() != 1 {
			t.Errorf("after %v and %d lost answers: %+v", took, lost.Load(), k.Owner())
		}
		time.Sleep(5 * lease)
		none(t, b)
	})
}

// An adopter that stood still is fenced by the next one.
func TestAdopterIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b, c := startProcess(t, newLink(owners), "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0), startProcess(t, newLink(owners), "c", "ic", 0)
		_ = a.end()
		k, winner, loser := first(t, b, c)
		resume := winner.stop()
		for range 2 { // ia, and the adopter's own instance
			loser.next(t)
		}
		if k.Valid() || winner.own.Valid() {
			t.Error("the first adopter is valid")
		}
		resume()
		ends(t, winner.own)
		if err := winner.end(); !errors.Is(err, changelog.ErrFenced) {
			t.Errorf("Adopt of the first adopter returned %v", err)
		}
		if got := record(t, owners, "ia"); got.Epoch != 3 || k.Valid() {
			t.Errorf("the record is %+v", got)
		}
	})
}

// What an adopter restores ends when another node has its instance, and the instance is a candidate again.
func TestAdoptionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		replace(t, owners, "i", changelog.Owner{Node: "gone", Session: "s", Epoch: 7, State: changelog.Owned, Lease: lease})
		b := startProcess(t, newLink(owners), "b", "ib", 0)
		k := b.next(t)
		other := k.Owner()
		other.Node, other.Session, other.Epoch = "c", "s", 9
		replace(t, owners, "i", other)
		began := time.Now()
		ends(t, k)
		if !errors.Is(k.Err(), changelog.ErrFenced) || k.Valid() {
			t.Errorf("the Keeper ended with %v and is valid: %t", k.Err(), k.Valid())
		}
		if k = b.next(t); k.Owner().Epoch != 10 || time.Since(began) < lease {
			t.Errorf("after %v it was adopted again: %+v", time.Since(began), k.Owner())
		}
	})
}

// A process does not adopt an instance that it holds, even if its beats for that instance alone fail.
func TestHeldInstanceIsNotAdoptedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		replace(t, owners, "i", changelog.Owner{Node: "gone", Session: "s", Epoch: 7, State: changelog.Owned, Lease: lease})
		b := startProcess(t, newLink(&oneEpochFails{Owners: owners, epoch: 8}), "b", "ib", 0)
		k := b.next(t)
		time.Sleep(10 * lease)
		none(t, b)
		if k.Valid() || k.Err() != nil {
			t.Errorf("the Keeper is valid: %t, and ended with %v", k.Valid(), k.Err())
		}
	})
}

// oneEpochFails is a store of owners in which one epoch can be begun, and then written no more.
type oneEpochFails struct {
	changelog.Owners
	epoch uint64
	begun bool
}

func (o *oneEpochFails) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	if bytes.Contains(value, fmt.Appendf(nil, `"epoch":%d`, o.epoch)) {
		if o.begun {
			return 0, errAway
		}
		o.begun = true
	}
	return o.Owners.CompareAndSet(ctx, key, old, value)
}

// The clock of the owner loses time, so the leases overlap by the time it loses during one lease.
func TestSlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		slow := newLink(owners)
		slow.slow = 1.05
		a, b := startProcess(t, slow, "a", "ia", 0), startProcess(t, newLink(owners), "b", "ib", 0)
		time.Sleep(10 * lease)
		none(t, a, b)
		slow.stop()
		b.next(t)
		overlap := a.own.Left()
		if overlap <= 0 || overlap > lease/20 {
			t.Errorf("the leases overlap by %v, want at most %v", overlap, lease/20)
		}
		time.Sleep(overlap)
		if a.own.Valid() {
			t.Error("the lease lasts longer")
		}
	})
}

func TestWhatIsNotAdopted(t *testing.T) {
	for name, tt := range map[string]struct {
		o     changelog.Owner
		after time.Duration // 0 means never
	}{
		"drained": {changelog.Owner{State: changelog.Drained, Lease: lease}, 0},
		"retired": {changelog.Owner{State: changelog.Retired, Lease: lease}, 0},
		"damaged": {changelog.Owner{State: changelog.Damaged, Lease: lease}, 0},
		// Its node has options with another lease.
		"longer lease":  {changelog.Owner{State: changelog.Owned, Lease: 3 * lease}, 3 * lease},
		"shorter lease": {changelog.Owner{State: changelog.Draining, Lease: lease / 3}, lease},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := changelogtest.NewOwners(1, changelogtest.Faults{})
				tt.o.Node, tt.o.Session, tt.o.Epoch = "gone", "s", 7
				replace(t, owners, "i", tt.o)
				if _, err := owners.CompareAndSet(t.Context(), changelog.OwnerKey("unreadable"), 0, []byte("{")); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				b := startProcess(t, newLink(owners), "b", "ib", 0)
				if tt.after == 0 {
					time.Sleep(20 * lease)
					none(t, b)
					return
				}
				b.next(t)
				if took := time.Since(began); took < tt.after || took > tt.after+lease/12 {
					t.Errorf("it was adopted after %v, want %v", took, tt.after)
				}
				time.Sleep(20 * lease)
				none(t, b)
			})
		})
	}
}
