package changelogtest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxBytes = 16 << 20

func TestMemoryLog(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	log.MaxBytes = maxBytes
	changelogtest.TestLog(t, changelogtest.LogHarness{MaxBytes: maxBytes, Open: func(*testing.T) changelog.Log { return log }})
}

const instance = "instance-1"

func opened(t *testing.T, log *changelogtest.Log, epoch uint64) changelog.Writer {
	t.Helper()
	if err := log.Create(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	w, err := log.Open(t.Context(), instance, changelog.Record{Kind: changelog.Opened, Epoch: epoch, Part: 1, Parts: 1, Node: "node-1"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func batch(n uint64) changelog.Record {
	return changelog.Record{Kind: changelog.Batch, Epoch: 1, Number: n, Part: 1, Parts: 1, Node: "node-1", Data: fmt.Append(nil, n)}
}

// numbers reads the batches, up to an error.
func numbers(t *testing.T, log changelog.Log) (got []uint64, err error) {
	t.Helper()
	for e, err := range log.Read(t.Context(), instance, 1) {
		if err != nil {
			return got, err
		}
		if e.Kind == changelog.Batch {
			got = append(got, e.Number)
		}
	}
	return got, nil
}

func expectNumbers(t *testing.T, log changelog.Log, want ...uint64) {
	t.Helper()
	if got, err := numbers(t, log); err != nil || !slices.Equal(got, want) {
		t.Errorf("the log has %v, %v, want %v", got, err, want)
	}
}

func wait(t *testing.T, ticket changelog.Ticket, want error) {
	t.Helper()
	if _, err := ticket.Wait(t.Context()); !errors.Is(err, want) {
		t.Errorf("Wait = %v, want %v", err, want)
	}
}

// A leader without a majority accepts proposals. The next leader drops the proposals that it lacks.
func TestNewLeaderDropsProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{})
		w := opened(t, log, 1)
		wait(t, w.Append(batch(1)), nil)
		heal := log.Cut(instance, 1, 2)
		lost := w.Append(batch(2))
		expectNumbers(t, log, 1)
		if !log.Elect(instance, 1) {
			t.Error("a replica with everything committed is not elected")
		}
		heal()
		wait(t, lost, changelog.ErrUnknown)
		wait(t, w.Append(batch(3)), changelog.ErrUnknown)
		expectNumbers(t, log, 1)
		wait(t, opened(t, log, 2).Append(batch(2)), nil)
		expectNumbers(t, log, 1, 2)
	})
}

// A proposal that the next leader has is stored after its caller has given up.
func TestStoredAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{})
		w := opened(t, log, 1)
		heal := log.Cut(instance, 1, 2)
		ticket := w.Append(batch(1))
		wait(t, ticket, changelog.ErrUnknown)
		expectNumbers(t, log)
		heal()
		expectNumbers(t, log, 1)
	})
}

// Requests that are held up arrive when their caller has given up, in order.
func TestLateRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{})
		w := opened(t, log, 1)
		log.SetFaults(changelogtest.Faults{LateRequests: 1, Timeout: time.Second})
		tickets := []changelog.Ticket{w.Append(batch(1)), w.Append(batch(2))}
		if err := log.Trim(t.Context(), instance, w.Marker()+1); !errors.Is(err, changelog.ErrUnknown) {
			t.Errorf("Trim = %v, want an error that says that the outcome is unknown", err)
		}
		for _, ticket := range tickets {
			wait(t, ticket, changelog.ErrUnknown)
		}
		log.SetFaults(changelogtest.Faults{})
		expectNumbers(t, log)
		time.Sleep(3 * time.Second)
		for e, err := range log.Read(t.Context(), instance, w.Marker()+2) {
			if err != nil || e.Number != 2 {
				t.Errorf("the log goes on with %d, %v, want batch 2", e.Number, err)
			}
		}
	})
}

// A leader without a majority refuses at once.
func TestRefusalNeedsNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{})
		old := opened(t, log, 1)
		opened(t, log, 1)
		defer log.Cut(instance, 1, 2)()
		begin := time.Now()
		wait(t, old.Append(batch(1)), changelog.ErrUnknown)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("the refusal took %v", waited)
		}
	})
}

// The second copy of a request gets the position of the first, until its ID is forgotten.
func TestDuplicates(t *testing.T) {
	for _, c := range []struct {
		name   string
		window time.Duration
		same   bool // the second copy comes when the first one is not committed
		want   error
	}{
		{name: "remembered"},
		{name: "forgotten", window: time.Nanosecond, want: changelog.ErrUnknown},
		{name: "under way", same: true, want: changelog.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := changelogtest.NewLog(1, changelogtest.Faults{})
				w := opened(t, log, 1)
				f := changelogtest.Faults{RepeatedRequests: 1, LostResponses: 1, Timeout: time.Second, DuplicateWindow: c.window}
				log.SetFaults(f)
				heal := func() {}
				if c.same {
					heal = log.Cut(instance, 1, 2)
				}
				began := time.Now()
				ticket := w.Append(batch(1)) // the first copy arrives at once, the other one within a second
				f.LostResponses = 0
				log.SetFaults(f)
				wait(t, ticket, c.want)
				if time.Since(began) >= f.Timeout {
					t.Error("the second copy has no answer")
				}
				heal()
				expectNumbers(t, log, 1)
			})
		})
	}
}

// A writer that begins again with its epoch gets no success for the copy before its marker.
func TestDuplicateElsewhere(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	wait(t, opened(t, log, 1).Append(batch(1)), nil)
	wait(t, opened(t, log, 1).Append(batch(1)), changelog.ErrUnknown)
	expectNumbers(t, log, 1)
	wait(t, opened(t, log, 1).Append(batch(2)), nil)
}

// A follower gets nothing after the hole of its leader, until another replica leads.
func TestFollowersStopInFrontOfAHole(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	w := opened(t, log, 1)
	heal := log.Cut(instance, 2)
	wait(t, w.Append(batch(1)), nil)
	wait(t, w.Append(batch(2)), nil)
	log.Hole(instance, 0, w.Marker()+1)
	heal()
	if log.Elect(instance, 2) {
		t.Error("a replica leads that can have nothing behind the hole")
	}
	if !log.Elect(instance, 1) || !log.Elect(instance, 2) {
		t.Error("the whole replica does not lead, or the other one has got nothing from it")
	}
	expectNumbers(t, log, 1, 2)
}

// Only reads through the replica with the hole notice it.
func TestHole(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	w := opened(t, log, 1)
	for n := range uint64(3) {
		wait(t, w.Append(batch(n+1)), nil)
	}
	log.Hole(instance, 2, w.Marker()+2)
	expectNumbers(t, log, 1, 2, 3)
	log.Elect(instance, 2)
	if got, err := numbers(t, log); !errors.Is(err, changelog.ErrHole) || !slices.Equal(got, []uint64{1}) {
		t.Errorf("the log has %v, %v, want the batch in front of the hole", got, err)
	}
	log.Elect(instance, 0)
	expectNumbers(t, log, 1, 2, 3)
}

func TestRollback(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	w := opened(t, log, 1)
	for n := range uint64(3) {
		wait(t, w.Append(batch(n+1)), nil)
	}
	log.Rollback(instance, w.Marker()+1)
	wait(t, w.Append(batch(4)), changelog.ErrUnknown)
	expectNumbers(t, log, 1)
}

// With any faults, an acknowledged record is in the log, in order and once, and not after a higher epoch.
func TestFaultsKeepAcknowledgedRecords(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			faults := changelogtest.Faults{
				Delay: 10 * time.Millisecond, Timeout: time.Second, LostRequests: 0.01, LateRequests: 0.01, RepeatedRequests: 0.01, LostResponses: 0.01,
				NewLeaders: 0.01, StaleReads: 0.5,
			}
			log := changelogtest.NewLog(seed, changelogtest.Faults{})
			if err := log.Create(t.Context(), instance); err != nil {
				t.Fatal(err)
			}
			log.SetFaults(faults)
			acknowledged := make(map[changelog.Position]changelog.Record)
			for epoch := range uint64(8) {
				marker := changelog.Record{Kind: changelog.Opened, Epoch: epoch + 1, Node: "node-1"}
				w, err := log.Open(t.Context(), instance, marker)
				if err != nil {
					continue
				}
				var tickets []changelog.Ticket
				for n := range uint64(40) {
					tickets = append(tickets, w.Append(changelog.Record{Kind: changelog.Batch, Epoch: epoch + 1, Number: n + 1, Node: "node-1"}))
				}
				for i, ticket := range tickets {
					if p, err := ticket.Wait(t.Context()); err == nil {
						acknowledged[p] = changelog.Record{Epoch: epoch + 1, Number: uint64(i) + 1}
					}
				}
			}
			time.Sleep(time.Minute)
			log.SetFaults(changelogtest.Faults{})
			highest, found := uint64(0), 0
			for e, err := range log.Read(t.Context(), instance, 1) {
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				highest = max(highest, e.Epoch)
				if want, ok := acknowledged[e.Position]; ok {
					found++
					if e.Epoch != want.Epoch || e.Number != want.Number || e.Epoch < highest {
						t.Errorf("seed %d: batch %d of epoch %d was acknowledged at %d, where the log has %d of %d behind epoch %d", seed, want.Number,
							want.Epoch, e.Position, e.Number, e.Epoch, highest)
					}
				}
			}
			if found != len(acknowledged) {
				t.Errorf("seed %d: the log has %d of %d acknowledged records", seed, found, len(acknowledged))
			}
			if seed == 0 && found == 0 {
				t.Error("nothing was acknowledged at all")
			}
		})
	}
}
