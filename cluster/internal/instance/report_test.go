package instance

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// near reports whether a moment lies some time ago, give or take two seconds.
func near(at time.Time, ago time.Duration) bool {
	d := time.Since(at) - ago
	return !at.IsZero() && d.Abs() <= 2*time.Second
}

// What waits for a log that is away is reported, with since when, and is gone when the log is back.
func TestReportOfALogThatIsAway(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		i := n.runs.opened()
		if r := i.Report(); r.Waiting != 0 || !r.WaitingSince.IsZero() || !r.FailingSince.IsZero() || r.Epoch != i.Keeper().Owner().Epoch || r.Left <= 0 || r.Left > worldLease {
			t.Errorf("all is well, and the report is %+v", r)
		}
		heal := w.log.Cut(n.instance(), 1, 2)
		w.clients.Go(func() { n.runs.put(i, 1) })
		time.Sleep(30 * time.Second)
		if r := i.Report(); r.Waiting == 0 || !near(r.WaitingSince, 30*time.Second) || r.FailingSince.IsZero() || time.Since(r.FailingSince) > 30*time.Second {
			t.Errorf("the log is away for 30 s, and the report is %+v", r)
		}
		heal()
		w.clients.Wait()
		w.await("nothing waits any more", func() bool {
			r := i.Report()
			return r.Waiting == 0 && r.WaitingSince.IsZero() && r.FailingSince.IsZero()
		})
	})
}

// A checkpoint that cannot be made is reported as due, and one that was made is reported with its time, even by the next process.
func TestReportOfCheckpoints(t *testing.T) {
	alone(t, func(w *world, n *worldNode) {
		p, i := n.runs, n.runs.opened()
		if r := i.Report(); !r.Checkpoint.IsZero() || !r.CheckpointDue.IsZero() {
			t.Errorf("the report of a new instance is %+v", r)
		}
		p.setHooks(func(call string) error {
			if strings.HasPrefix(call, "put ckpt-") {
				return errors.New("away")
			}
			return nil
		}, nil)
		// The report estimates the size of the log until it reads the size from the log.
		for i.Report().CheckpointDue.IsZero() {
			p.put(i, 20)
			time.Sleep(time.Minute)
		}
		due := i.Report().CheckpointDue
		time.Sleep(2 * time.Minute)
		if r := i.Report(); !r.Checkpoint.IsZero() || !r.CheckpointDue.Equal(due) {
			t.Errorf("a checkpoint is due since %s, and the report two minutes later is %+v", due, r)
		}
		p.setHooks(nil, nil)
		w.await("a checkpoint", func() bool { return !i.Report().Checkpoint.IsZero() })
		w.await("none is due", func() bool { return i.Report().CheckpointDue.IsZero() })
		made := i.Report().Checkpoint
		if made.Before(due) || made.After(time.Now()) { // its content is from its start, and its first puts may have failed
			t.Errorf("the checkpoint was made at %s, not from %s to %s", made, due, time.Now())
		}
		n.stop()
		time.Sleep(time.Second)
		again := n.start().opened()
		w.await("the next process knows it", func() bool { return again.Report().Checkpoint.Equal(made) })
	})
}

// The rows of an adopted instance that the staging does not take are reported with their age, and so are the records of all instances.
func TestReportOfAnAdoptedInstance(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name, adopter := a.instance(), b.runs.opened()
		if r := adopter.Report(); len(r.Adopted) > 0 {
			t.Errorf("nothing is adopted, and the report is %+v", r.Adopted)
		}
		refuse := func(call string) error {
			if strings.HasPrefix(call, "put ") && !strings.HasPrefix(call, "put ckpt-") { // files that are in staging would move
				return errors.New("full")
			}
			return nil
		}
		for _, n := range []*worldNode{a, b} {
			n.runs.setHooks(refuse, nil)
		}
		a.runs.put(a.runs.opened(), 30)
		accepted := time.Now()
		a.kill(nil, true)
		w.await("it is adopted", func() bool { return len(adopter.Report().Adopted) == 1 })
		since := time.Now()
		w.await("its rows are known", func() bool { return adopter.Report().Adopted[0].Rows > 0 })
		time.Sleep(3 * time.Minute)
		r := adopter.Report()
		got := r.Adopted[0]
		if got.Instance != name || !got.Restored || got.Rows < 30 || got.Bytes == 0 || !near(got.Since, time.Since(since)) {
			t.Errorf("the report is %+v", got)
		}
		if got.Oldest.IsZero() || got.Oldest.After(accepted) || got.Oldest.Before(accepted.Add(-time.Minute)) {
			t.Errorf("the oldest row is from %s, accepted was the last one at %s", got.Oldest, accepted)
		}
		if r.States[changelog.Draining] != 1 || r.States[changelog.Owned] != 1 {
			t.Errorf("the states are %v", r.States)
		}
		b.runs.setHooks(nil, nil)
		w.await("it is drained", func() bool { return len(adopter.Report().Adopted) == 0 })
		w.await("one instance is left", func() bool {
			return maps.Equal(adopter.Report().States, map[changelog.OwnerState]int{changelog.Owned: 1})
		})
		w.settle()
	})
}
