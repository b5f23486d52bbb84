package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/parts"
)

// fault is something that breaks.
type fault string

// The faults.
const (
	back    fault = "is killed, and comes back at once"
	away    fault = "is killed, and stays away until another node has its instance"
	paused  fault = "stands still until another node has its instance, and goes on"
	wiped   fault = "is killed, loses its disk, and comes back without it"
	stopped fault = "is stopped in good order, and comes back at once"

	restarted fault = "the database is killed, and starts at once"
	gone      fault = "the database is away"
	hanging   fault = "the database stands still"

	noStaging fault = "the folder of the staging fails"
)

var kinds = [][]fault{
	{back, away, paused, wiped, stopped},
	{restarted, gone, hanging},
	{noStaging},
}

// sequence draws faults. Of each two one is of a node, and the others are of the database and now and then of the staging. Each kind comes as
// often as the others of its row.
func sequence(rng *rand.Rand, n int) (list []fault) {
	bags := make([][]fault, len(kinds))
	for i := range n {
		row := [...]int{0, 1, 0, 1, 0, 2}[i%6]
		if len(bags[row]) == 0 {
			bags[row] = append(bags[row], kinds[row]...)
			rng.Shuffle(len(bags[row]), func(i, j int) { bags[row][i], bags[row][j] = bags[row][j], bags[row][i] })
		}
		list = append(list, bags[row][0])
		bags[row] = bags[row][1:]
	}
	return list
}

// faults causes one fault after the other.
type faults struct {
	nodes    nodes
	server   database
	staging  string
	api      *api
	calendar calendar
	perDay   int
	rng      *rand.Rand
	say      func(format string, args ...any)

	mu   sync.Mutex
	list []happened
}

// happened is a fault that has been. Its end is zero while it lasts.
type happened struct {
	fault
	begin, end time.Time
}

// run causes the faults of each day, at random times. The next one begins when the cluster has recovered.
func (f *faults) run(ctx context.Context) error {
	if f.perDay == 0 {
		return nil
	}
	list := sequence(f.rng, f.perDay*f.calendar.days)
	for i, kind := range list {
		part := (float64(i%f.perDay) + 0.6*f.rng.Float64()) / float64(f.perDay)
		if err := ctxio.Sleep(ctx, time.Until(f.calendar.at(i/f.perDay, part))); err != nil {
			return err
		}
		if time.Now().After(f.calendar.at(f.calendar.days, 0)) {
			f.say("%d faults are left out: those before took too long", len(list)-i)
			return nil
		}
		if err := f.cause(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

func (f *faults) cause(ctx context.Context, kind fault) error {
	f.mu.Lock()
	f.list = append(f.list, happened{fault: kind, begin: time.Now()})
	now := &f.list[len(f.list)-1]
	f.mu.Unlock()
	short := min(30*time.Second, f.calendar.day/10)
	var err error
	switch kind {
	case restarted:
		f.say("%s", kind)
		err = f.absent(ctx, 0, f.server.Shutdown)
	case gone:
		f.say("%s for %s", kind, short)
		err = f.absent(ctx, short, f.server.Shutdown)
	case hanging:
		f.say("%s for %s", kind, short)
		err = f.absent(ctx, short, f.server.Hang)
	case noStaging:
		f.say("%s for %s", kind, short)
		err = f.absent(ctx, short, f.breakStaging)
	default:
		err = f.lose(ctx, f.nodes[f.rng.IntN(len(f.nodes))], kind)
	}
	if err = errors.Join(err, f.recovered(ctx)); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now.end = time.Now()
	f.say("all nodes are ready after %.1fs", now.end.Sub(now.begin).Seconds())
	return nil
}

// absent lets something be away for a while.
func (f *faults) absent(ctx context.Context, d time.Duration, end func() (restore func() error, err error)) error {
	restore, err := end()
	if err != nil {
		return err
	}
	return errors.Join(ctxio.Sleep(ctx, d), restore())
}

// breakStaging puts a file in the place of the folder, so that each call of the staging fails.
func (f *faults) breakStaging() (restore func() error, err error) {
	aside := filepath.Join(filepath.Dir(f.staging), "staging-aside")
	if err := os.WriteFile(aside, nil, 0o600); err != nil {
		return nil, err
	}
	exchange := func() error { return parts.Disk{}.Exchange(f.staging, aside) }
	return func() error { return errors.Join(exchange(), os.Remove(aside)) }, exchange()
}

// lose loses a node.
func (f *faults) lose(ctx context.Context, p *process, kind fault) error {
	instance, err := p.instance(ctx)
	if err != nil {
		return err
	}
	f.say("%s (%s) %s", p.Name, instance, kind)
	taken := func() error {
		by, err := f.nodes.awaitTaken(ctx, instance)
		if err == nil {
			f.say("%s has the instance %s", by, instance)
		}
		return err
	}
	switch kind {
	case paused:
		err := errors.Join(p.Signal(syscall.SIGSTOP), taken(), p.Signal(syscall.SIGCONT))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		// It may not have noticed yet that time has passed.
		return p.await(ctx, "back", func(_ message, now readiness) bool { return now.Ready && now.Instance != instance })
	case stopped:
		return errors.Join(p.stop(), p.start())
	}
	p.kill()
	switch kind {
	case away:
		return errors.Join(taken(), p.start())
	case wiped:
		return errors.Join(p.wipe(), p.start(), taken())
	}
	return p.start()
}

// recovered returns when the next fault is the only one, that is, all nodes are ready, and no node's rows are missing from the statistics.
func (f *faults) recovered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		if err := f.nodes.awaitReady(ctx); err != nil {
			return err
		}
		s, err := f.api.statistics(ctx, typed)
		if err == nil && len(s.Missing) > 0 {
			err = missing(sinkIDs[typed], s)
		}
		if err == nil {
			return nil
		}
		if ctxio.Sleep(ctx, 300*time.Millisecond) != nil {
			return err
		}
	}
}

// history returns the events so far.
func (f *faults) history() []happened {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]happened(nil), f.list...)
}

func missing(sink string, s statistics) error {
	return fmt.Errorf("the statistics of %s lack %v", sink, s.Missing)
}

func waitingRows(sink string, s statistics) error {
	return fmt.Errorf("%d rows of %s are on local disks and %d in staging", s.Levels.Local.RecordsCount, sink, s.Levels.Staging.RecordsCount)
}
