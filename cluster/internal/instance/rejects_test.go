package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/mapping"
)

// rejectSource keeps the records that it rejects.
func rejectSource() forebay.Source {
	source := worldSource
	source.ID = "q"
	source.Sinks = slices.Clone(source.Sinks)
	source.Sinks[0].OnReject = forebay.Quarantine
	source.Sinks[0].Quarantine.MaxAge = 1000 * time.Hour
	return source
}

// reject sends records to the instance of a process that go to its quarantine, and notes which were acknowledged.
func (p *worldProcess) reject(i *Instance, records int) {
	w := p.w
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := i.Engine().Define(ctx, rejectSource()); err != nil {
		return
	}
	for range records {
		w.mu.Lock()
		w.sent++
		body := fmt.Sprintf(`{"number":%d}`, w.sent)
		w.mu.Unlock()
		res, err := i.Engine().Ingest(ctx, "q", mapping.JSON([]byte(body)))
		if err != nil || !p.alive() {
			return
		}
		if res.Sinks[0].Status != forebay.Quarantined {
			w.Errorf("the record %s is %v", body, res.Sinks[0].Status)
		}
		w.mu.Lock()
		w.rejected[body] = i.Keeper().Instance()
		w.mu.Unlock()
	}
}

// quarantined returns the records in the quarantines of all instances that run, by their ids.
func (w *world) quarantined() (bodies map[string]string, err error) {
	bodies = map[string]string{}
	for _, n := range w.nodes {
		if n.runs == nil {
			continue
		}
		q := n.runs.opened().Engine().Sink("q", "k").Quarantine()
		for r, err := range q.List(w.Context(), forebay.RejectedFilter{}) {
			if errors.Is(err, forebay.ErrUnknownSink) {
				break
			}
			if err != nil {
				return nil, err
			}
			c, err := q.Get(w.Context(), r.ID)
			if err != nil {
				return nil, err
			}
			if before, twice := bodies[r.ID]; twice {
				w.Errorf("the record %s, %s, is in two quarantines", r.ID, before)
			}
			bodies[r.ID] = string(c.Came)
		}
	}
	return bodies, nil
}

// checkRejected waits until each acknowledged record is in one quarantine of an instance that runs, and fails if one is there twice.
func (w *world) checkRejected() {
	w.Helper()
	var lost []string
	find := func() bool {
		found, err := w.quarantined()
		if err != nil { // of a disk that has lost something. The instance is about to be restored
			lost = []string{err.Error()}
			return false
		}
		count := map[string]int{}
		for _, body := range found {
			count[body]++
		}
		lost = nil
		w.mu.Lock()
		defer w.mu.Unlock()
		for body, instance := range w.rejected {
			if count[body] == 0 && !w.lostTwice[instance] {
				lost = append(lost, body+" of "+instance)
			}
		}
		for body, n := range count {
			if n > 1 {
				w.Errorf("the record %s is in quarantine %d times", body, n)
			}
		}
		return len(lost) == 0
	}
	for range 30 { // a move that a crash has interrupted ends within a minute
		if find() {
			return
		}
		time.Sleep(10 * time.Second)
	}
	slices.Sort(lost)
	w.Errorf("of %d rejected records %d are lost: %v", len(w.rejected), len(lost), lost)
}

// Rejected records move from instance to instance with their ids, through three losses. Nothing is left of the lost instances.
func TestRejectedRecordsMoveToTheAdopter(t *testing.T) {
	inWorld(t, func(w *world, a, b, c *worldNode) {
		a.runs.reject(a.runs.opened(), 5)
		b.runs.reject(b.runs.opened(), 2)
		first, err := w.quarantined()
		if err != nil || len(first) != 7 {
			t.Fatalf("the quarantines have %v, %v, want 7 records", first, err)
		}
		for _, n := range []*worldNode{a, b} {
			n.kill(nil, true)
			if n == a {
				c.start()
				c.runs.opened()
			}
			w.settle()
			now, err := w.quarantined()
			if err != nil || !maps.Equal(now, first) {
				t.Errorf("the quarantines have %v, %v, want %v", now, err, first)
			}
		}
		for name, o := range w.records() {
			if o.State == changelog.Retired && (o.MovedTo == "" || !o.Arrived) {
				t.Errorf("the record of %s says that its records have moved to %q and arrived: %v", name, o.MovedTo, o.Arrived)
			}
		}
	})
}

// lines is what processes have logged.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

// A quarantine without room accepts no record of a lost instance, which stays as long as that is so, and says so.
func TestRejectedRecordsWaitForRoom(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		var logs lines
		w.logs = slog.NewTextHandler(&logs, nil)
		b.stop()
		b.start()
		source := rejectSource()
		source.Sinks[0].Quarantine.MaxRecords = 5
		full := b.runs.opened()
		b.runs.reject(full, 4)
		if err := full.Engine().Define(w.Context(), source); err != nil {
			t.Fatal(err)
		}
		a.runs.reject(a.runs.opened(), 3)
		name := a.instance()
		a.kill(nil, true)
		w.await("the log says why the instance stays", func() bool {
			return strings.Contains(logs.String(), "rest of the adopted instance not moved")
		})
		time.Sleep(time.Minute)
		if o := w.records()[name]; o.State != changelog.Draining || o.MovedTo != "" {
			t.Errorf("the instance is %s and its records have moved to %q, want that it is kept", o.State, o.MovedTo)
		}
		w.check() // the rows do not wait for it
		q := full.Engine().Sink("q", "k").Quarantine()
		if n, err := q.DiscardAll(w.Context(), forebay.RejectedFilter{}); err != nil || n != 4 {
			t.Fatalf("got %d records discarded, %v, want 4", n, err)
		}
		w.mu.Lock()
		maps.DeleteFunc(w.rejected, func(_, instance string) bool { return instance != name })
		w.mu.Unlock()
		w.settle()
	})
}

// The adopter is killed while copies of the rejected records are in its log, before the decision and after it. It restarts, or another
// node adopts both instances.
func TestRejectedRecordsMoveOnce(t *testing.T) {
	for moment, here := range map[string]func(o changelog.Owner, arrivals int, call string) bool{
		"copied": func(o changelog.Owner, arrivals int, call string) bool {
			return call == "before owners set" && arrivals > 0 && o.MovedTo == ""
		},
		"decided": func(o changelog.Owner, _ int, call string) bool { return call == "after owners set" && o.MovedTo != "" },
		"arrived": func(o changelog.Owner, arrivals int, _ string) bool { return arrivals == 0 && o.MovedTo != "" },
	} {
		for _, diskLost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, disk lost %v", moment, diskLost), func(t *testing.T) {
				inWorld(t, func(w *world, a, b, c *worldNode) {
					name := a.instance()
					a.runs.reject(a.runs.opened(), 3)
					before, err := w.quarantined()
					if err != nil || len(before) != 3 {
						t.Fatalf("the quarantines have %v, %v, want 3 records", before, err)
					}
					a.kill(nil, true)
					w.killAt(b, name, diskLost, here)
					if c.start(); !diskLost {
						b.start()
					}
					w.settle()
					if now, err := w.quarantined(); err != nil || !maps.Equal(now, before) {
						t.Errorf("the quarantines have %v, %v, want %v", now, err, before)
					}
				})
			})
		}
	}
}

// Copies of rejected records join the quarantine, or are deleted, once the record of their instance says for certain where the records are. An undecided
// copy stays, because it may be the only record.
func TestDecideArrival(t *testing.T) {
	mover := buffer.Arrival{Mover: buffer.Mover{Instance: "i", Session: "s", Epoch: 5}}
	for name, c := range map[string]struct {
		owner           changelog.Owner
		accept, decided bool
	}{
		"the mover may still decide":          {changelog.Owner{State: changelog.Draining, Session: "s", Epoch: 5}, false, false},
		"the mover, with a later epoch":       {changelog.Owner{State: changelog.Draining, Session: "s", Epoch: 6}, false, false},
		"an old answer":                       {changelog.Owner{State: changelog.Draining, Session: "r", Epoch: 4}, false, false},
		"moved to here":                       {changelog.Owner{State: changelog.Draining, Session: "s", Epoch: 5, MovedTo: "here"}, true, true},
		"moved to here, and retired":          {changelog.Owner{State: changelog.Retired, Session: "t", Epoch: 9, MovedTo: "here"}, true, true},
		"moved to another instance":           {changelog.Owner{State: changelog.Draining, Session: "t", Epoch: 6, MovedTo: "there"}, false, true},
		"drained without a move":              {changelog.Owner{State: changelog.Drained, Session: "s", Epoch: 5}, false, true},
		"another adopter has the instance":    {changelog.Owner{State: changelog.Adopting, Session: "t", Epoch: 6}, false, true},
		"another session with the same epoch": {changelog.Owner{State: changelog.Adopting, Session: "t", Epoch: 5}, false, false},
	} {
		c.owner.Node, c.owner.Lease = "n", time.Second
		value, err := c.owner.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		accept, decided, err := decideArrival(mover, changelog.Versioned{Version: 1, Value: value}, "here")
		if err != nil || accept != c.accept || decided != c.decided {
			t.Errorf("%s: accept %t, decided %t, %v, want %t and %t", name, accept, decided, err, c.accept, c.decided)
		}
	}
	if accept, decided, err := decideArrival(mover, changelog.Versioned{}, "here"); err != nil || accept || decided {
		t.Errorf("without a record: accept %t, decided %t, %v, want that nothing is decided", accept, decided, err)
	}
	if _, decided, err := decideArrival(mover, changelog.Versioned{Version: 1, Value: []byte("{")}, "here"); err == nil || decided {
		t.Errorf("an unreadable record: decided %t, %v, want an error", decided, err)
	}
}

// killAt kills the adopter of an instance when here says so, and returns when it is dead. here gets the record of the instance, the number of moves that
// arrive at the adopter, and each call of the adopter before and after it.
func (w *world) killAt(adopter *worldNode, instance string, diskLost bool, here func(o changelog.Owner, arrivals int, call string) bool) {
	p, i := adopter.runs, adopter.runs.opened()
	var once sync.Once
	killed := make(chan struct{})
	kill := func(call string) error {
		if here(w.records()[instance], len(i.Engine().Buffer().Moves().Arrivals()), call) {
			once.Do(func() {
				adopter.kill(nil, diskLost)
				close(killed)
			})
			return errDead
		}
		return nil
	}
	p.setHooks(func(call string) error { return kill("before " + call) }, func(call string) error { return kill("after " + call) })
	w.await("the adopter is killed", func() bool { return !p.alive() })
	<-killed
}
