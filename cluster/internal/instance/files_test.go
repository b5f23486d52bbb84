package instance

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driver"
)

var errColumn = driver.Permanent(errors.New("a column is missing"))

// held are the files of an instance that wait for their import.
func (p *worldProcess) held() (ids []string) {
	for _, s := range p.opened().Engine().Stats().Sinks {
		for _, f := range s.Files {
			if f.FinishedAt.IsZero() {
				ids = append(ids, f.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// refuse makes the tables refuse all files while it is set. The other hooks of the processes are gone.
func (w *world) refuse(refuses *atomic.Bool) {
	for _, n := range w.nodes {
		if n.runs != nil {
			n.runs.setHooks(func(call string) error {
				if refuses.Load() && strings.HasPrefix(call, "import ") {
					return errColumn
				}
				return nil
			}, nil)
		}
	}
}

// Files that the table refuses move with the ids that it knows, through three losses, together with a rejected record. The lost instances and their logs are
// gone while the table still refuses the rows. When it is repaired, each row is in it once.
func TestHeldFilesMoveToTheAdopter(t *testing.T) {
	inWorld(t, func(w *world, a, b, c *worldNode) {
		var refuses atomic.Bool
		refuses.Store(true)
		w.refuse(&refuses)
		a.runs.reject(a.runs.opened(), 1)
		a.runs.put(a.runs.opened(), 30)
		b.runs.put(b.runs.opened(), 30)
		c.start()
		c.runs.opened()
		w.refuse(&refuses)
		for _, n := range []*worldNode{a, b} {
			name := n.instance()
			n.kill(nil, true)
			w.await("the instance is retired while its files are held", func() bool { return w.records()[name].State == changelog.Retired })
			w.await("no log of "+name+" is left", func() bool { return len(w.logsOf(name)) == 0 })
		}
		name := c.instance()
		a.start()
		a.runs.opened()
		w.refuse(&refuses)
		before := c.runs.held()
		if len(before) < 2 {
			t.Errorf("the last adopter holds the files %v, want the files of two instances", before)
		}
		c.kill(nil, true)
		w.await("the instance is retired", func() bool { return w.records()[name].State == changelog.Retired })
		now := a.runs.held()
		if slices.ContainsFunc(before, func(id string) bool { return !slices.Contains(now, id) }) {
			t.Errorf("the adopter holds the files %v, want %v", now, before)
		}
		refuses.Store(false)
		w.settle()
	})
}

// A target that is away for long keeps no lost instance either.
func TestFilesOfATargetThatIsAwayMove(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		var away atomic.Bool
		away.Store(true)
		b.runs.setHooks(func(call string) error {
			if away.Load() && strings.HasPrefix(call, "import ") {
				return errors.New("the server is away")
			}
			return nil
		}, nil)
		name := a.instance()
		a.runs.put(a.runs.opened(), 5)
		a.kill(nil, true)
		w.await("the instance is retired while the target is away", func() bool { return w.records()[name].State == changelog.Retired })
		away.Store(false)
		w.settle()
	})
}

// Without room for the files the instance stays, its log gets short, and the log says what to do.
func TestHeldFilesWaitForRoom(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		var logs lines
		w.logs = slog.NewTextHandler(&logs, nil)
		w.size = 1 << 10
		w.sinkBytes = 16 << 10
		b.stop()
		b.start()
		b.runs.opened()
		var refuses atomic.Bool
		refuses.Store(true)
		w.refuse(&refuses)
		a.runs.put(a.runs.opened(), 30)
		name := a.instance()
		a.kill(nil, true)
		w.await("the log says why the instance stays", func() bool {
			return strings.Contains(logs.String(), "rest of the adopted instance not moved") && strings.Contains(logs.String(), "half of MaxSinkBytes")
		})
		w.await("the log of the instance is cut", func() bool { return strings.Contains(logs.String(), "log of the adopted instance cut") })
		if o := w.records()[name]; o.State != changelog.Draining || o.MovedTo != "" {
			t.Errorf("the instance is %s and its files have moved to %q, want that it is kept", o.State, o.MovedTo)
		}
		refuses.Store(false)
		w.settle()
	})
}

// The adopter is killed at each step of the move of held files. It restarts, or another node adopts both instances. The table accepts files again
// before or after that. Each row is in the table once.
func TestHeldFilesMoveOnce(t *testing.T) {
	for moment, here := range map[string]func(o changelog.Owner, arrivals int, call string) bool{
		"leaving": func(o changelog.Owner, arrivals int, call string) bool {
			return strings.HasPrefix(call, "before log") && o.State == changelog.Draining && o.MovedTo == "" && arrivals == 0
		},
		"copied": func(o changelog.Owner, arrivals int, call string) bool {
			return call == "before owners set" && arrivals > 0 && o.MovedTo == ""
		},
		"decided": func(o changelog.Owner, _ int, call string) bool { return call == "after owners set" && o.MovedTo != "" },
		"arrived": func(o changelog.Owner, arrivals int, _ string) bool { return arrivals == 0 && o.MovedTo != "" },
	} {
		for _, diskLost := range []bool{false, true} {
			for _, repaired := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, disk lost %v, repaired meanwhile %v", moment, diskLost, repaired), func(t *testing.T) {
					inWorld(t, func(w *world, a, b, c *worldNode) {
						var refuses, refused atomic.Bool
						refuses.Store(true)
						p, name := b.runs, a.instance()
						i := p.opened()
						a.runs.put(a.runs.opened(), 30)
						a.kill(nil, true)
						var once sync.Once
						killed := make(chan struct{})
						hook := func(call string) error {
							if strings.HasPrefix(call, "before import ") && refuses.Load() {
								refused.Store(true)
								return errColumn
							}
							if refused.Load() && here(w.records()[name], len(i.Engine().Buffer().Moves().Arrivals()), call) {
								once.Do(func() {
									b.kill(nil, diskLost)
									close(killed)
								})
								return errDead
							}
							return nil
						}
						p.setHooks(func(call string) error { return hook("before " + call) }, func(call string) error { return hook("after " + call) })
						w.await("the adopter is killed", func() bool { return !p.alive() })
						<-killed
						if c.start(); !diskLost {
							b.start()
						}
						if !repaired {
							w.refuse(&refuses)
							time.Sleep(2 * time.Minute)
						}
						refuses.Store(false)
						w.settle()
					})
				})
			}
		}
	}
}
