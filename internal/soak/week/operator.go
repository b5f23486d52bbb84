package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// place is an event at a sink.
type place struct {
	sink, attempt int
	n             uint64
}

// operator adds columns, and works on the quarantines, through any node and at any time.
type operator struct {
	*api
	events
	load     *load
	say      func(format string, args ...any)
	rng      *rand.Rand
	calendar calendar

	mu      sync.Mutex
	edited  map[place]bool
	deleted map[place]certainty
	grownAt [maxDays]uint64 // by column, the number from which on events have it, or 0 while unknown
	grown   int
	counts  struct{ edits, replays, discards, tasks int }
}

// certainty says whether a record was discarded.
type certainty int

const (
	perhaps certainty = iota + 1
	surely
)

func newOperator(a *api, l *load, c calendar, seed uint64, say func(string, ...any)) *operator {
	return &operator{
		api: a, events: l.events, load: l, calendar: c, say: say, rng: rand.New(rand.NewPCG(seed, 2<<40)),
		edited: map[place]bool{}, deleted: map[place]certainty{},
	}
}

// atOnce is how many records an operator works on in one go.
const atOnce = 300

// run does each day what an operator does, at random times, until the calendar ends.
func (o *operator) run(ctx context.Context) error {
	for day := range o.calendar.days {
		actions := []func(context.Context) error{
			func(ctx context.Context) error { return o.grow(ctx, day) },
			o.editAndReplay, o.replayAll, o.discard,
		}
		o.rng.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
		for i, act := range actions {
			at := o.calendar.at(day, (float64(i)+0.2+0.6*o.rng.Float64())/float64(len(actions)))
			if err := ctxio.Sleep(ctx, time.Until(at)); err != nil {
				return err
			}
			if err := act(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow adds a column to both tables. The events from then on have it on every node.
func (o *operator) grow(ctx context.Context, day int) error {
	for sink := range sinks {
		if err := o.extend(ctx, sink, day+1); err != nil {
			return err
		}
	}
	o.mu.Lock()
	o.grown = day + 1
	o.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for !o.api.allHave(wait, grown(day)) {
		if err := ctxio.Sleep(wait, 100*time.Millisecond); err != nil {
			return fmt.Errorf("wait until each node has column %s: %w", grown(day), err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grownAt[day] = max(1, o.load.number())
	o.say("the operator has added column %s to both tables", grown(day))
	return nil
}

// records lists a quarantine. While a part of the cluster is away the operator waits.
func (o *operator) records(ctx context.Context, sink int) ([]record, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		list, err := o.list(ctx, sink, atOnce)
		if err == nil {
			return list, nil
		}
		if ctxio.Sleep(ctx, time.Second) != nil {
			return nil, err
		}
	}
}

// edit repairs a record. It reports false for one that is gone.
func (o *operator) edit(ctx context.Context, sink int, id string) (bool, error) {
	for {
		c, n, attempt, err := o.get(ctx, sink, id)
		if statusOf(err) == http.StatusNotFound {
			return false, nil
		}
		if err != nil || c.Record.Edited {
			return err == nil, err
		}
		body, err := o.repair(n, attempt, c.Record.RefusedRow != nil)
		if err != nil {
			return false, err
		}
		o.mu.Lock()
		o.edited[place{sink, attempt, n}] = true
		o.counts.edits++
		o.mu.Unlock()
		_, err = o.insist(ctx, http.MethodPut, recordPath(sink, id)+"/body?revision="+itoa(c.Record.Revision), body, nil)
		switch statusOf(err) {
		case http.StatusConflict: // an attempt whose response was lost
		case http.StatusNotFound:
			return false, nil
		default:
			return err == nil, err
		}
	}
}

// editAndReplay repairs and replays records one by one.
func (o *operator) editAndReplay(ctx context.Context) error {
	done := 0
	for sink := range sinks {
		list, err := o.records(ctx, sink)
		if err != nil {
			return err
		}
		o.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, r := range list[:len(list)/3] {
			ok, err := o.edit(ctx, sink, r.RecordID)
			if err == nil && ok {
				_, err = o.insist(ctx, http.MethodPost, recordPath(sink, r.RecordID)+"/replay", nil, nil)
				done++
			}
			if err != nil && statusOf(err) != http.StatusNotFound { // 404 means that an attempt whose response was lost has succeeded
				return err
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.replays += done
	o.say("the operator has repaired and replayed %d records, one by one", done)
	return nil
}

// replayAll repairs records and replays all. Records that are not repaired are rejected again, by the mapping or by the database. Records of the
// days before are all repaired, because an instance that another node has taken over is kept, and takes memory, while its quarantine has records.
func (o *operator) replayAll(ctx context.Context) error {
	done, again := 0, 0
	now := time.Now()
	today := o.calendar.at(o.calendar.dayOf(now), 0)
	for sink := range sinks {
		list, err := o.records(ctx, sink)
		if err != nil {
			return err
		}
		for i, r := range list {
			// A file in which many rows are refused would be held. So hardly any row that the database refused is retried unchanged.
			if r.Edited || r.At.After(today) && i%8 == 0 && (r.RefusedRow == nil || i%64 == 0) {
				continue
			}
			if _, err := o.edit(ctx, sink, r.RecordID); err != nil {
				return err
			}
		}
		t, err := o.change(ctx, http.MethodPost, sinkPath(sink)+"/quarantine/replay", map[string]bool{"all": true})
		if err != nil {
			return err
		}
		if t.Rejects != nil {
			done, again = done+t.Rejects.Replayed, again+t.Rejects.Rejected
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.tasks++
	o.counts.replays += done
	o.say("the operator has replayed all: %d records are rows, %d were rejected again", done, again)
	return nil
}

// discard deletes some records.
func (o *operator) discard(ctx context.Context) error {
	done := 0
	for sink := range sinks {
		list, err := o.records(ctx, sink)
		if err != nil {
			return err
		}
		o.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, r := range list[:len(list)/4] {
			_, n, attempt, err := o.get(ctx, sink, r.RecordID)
			if statusOf(err) == http.StatusNotFound {
				continue
			}
			if err != nil {
				return err
			}
			at := place{sink, attempt, n}
			o.note(at, perhaps)
			unsure, err := o.insist(ctx, http.MethodDelete, recordPath(sink, r.RecordID), nil, nil)
			switch {
			case err == nil:
				o.note(at, surely)
				done++
			case statusOf(err) == http.StatusNotFound && unsure:
			default:
				return err
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.discards += done
	o.say("the operator has discarded %d records", done)
	return nil
}

func (o *operator) note(p place, c certainty) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deleted[p] = c
}

// settle waits until all rows are in their tables.
func (o *operator) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*longest)
	defer cancel()
	for {
		var waits error
		for sink := range sinks {
			s, err := o.statistics(ctx, sink)
			switch {
			case err != nil:
				waits = err
			case len(s.Missing) > 0:
				waits = missing(sinkIDs[sink], s)
			case s.waiting() > 0:
				waits = waitingRows(sinkIDs[sink], s)
			}
		}
		if waits == nil {
			return nil
		}
		if err := ctxio.Sleep(ctx, time.Second); err != nil {
			return errors.Join(errors.New("not all rows come to their tables"), waits, err)
		}
	}
}
