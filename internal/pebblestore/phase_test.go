package pebblestore

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/forebay/forebay/internal/seedtest"
)

// In random transitions, only transitions of the diagram are made, and each condition of the store agrees with its phase.
func TestLifeFollowsItsDiagram(t *testing.T) {
	allowed := map[Phase][]Phase{
		PhaseOpen:      {PhaseFailed, PhaseClosing},
		PhaseFailed:    {PhaseReopening, PhaseClosing},
		PhaseReopening: {PhaseOpen, PhaseClosing},
		PhaseClosing:   {PhaseClosing, PhaseClosed}, // the store fails while it is closed
		PhaseClosed:    {PhaseClosed},
	}
	rng := seedtest.Rand(t)
	for range 1000 {
		var l life
		for range 20 {
			before := l.current()
			started := false
			start := func() { started = true }
			var made bool
			var must []Phase // the phases in which the transition is made
			switch rng.IntN(5) {
			case 0:
				made = l.fail(errors.New("gone"), func() bool { return true })
				if before.Failure == nil {
					must = []Phase{PhaseOpen, PhaseClosing, PhaseClosed}
				}
				started = made
			case 1:
				made, must = l.reopen(start), []Phase{PhaseFailed}
			case 2:
				made, must = l.reopened(start), []Phase{PhaseReopening}
			case 3:
				made, must = l.stop(start), []Phase{PhaseOpen, PhaseFailed, PhaseReopening}
			case 4:
				if before.Phase < PhaseClosing {
					continue // Close stops first
				}
				made, must = l.drain(), []Phase{PhaseClosing}
				started = made
			}
			after := l.current()
			switch {
			case made != slices.Contains(must, before.Phase), started != made:
				t.Fatalf("from %+v: made %t, started %t", before, made, started)
			case made && !slices.Contains(allowed[before.Phase], after.Phase), !made && after != before:
				t.Fatalf("from %+v to %+v", before, after)
			case after.Phase == PhaseOpen && after.Failure != nil, (after.Phase == PhaseFailed || after.Phase == PhaseReopening) && after.Failure == nil:
				t.Fatalf("the failure does not fit the phase: %+v", after)
			case (after.Failure != before.Failure) != (after.Epoch > before.Epoch):
				t.Fatalf("the epoch does not count the failure: %+v, then %+v", before, after)
			}
		}
	}
}

// A failure that is reported while the reopening after it ends does not count against the new opening, which would be given up for nothing.
func TestLateFailureIsOfItsOpening(t *testing.T) {
	for range 1000 {
		old, fresh := new(Opening), new(Opening)
		s := NewStore(StoreConfig{})
		s.now.Store(old)
		s.life.mu.Lock() // the reopening ends
		var teller sync.WaitGroup
		teller.Go(func() { s.failed(old, errors.New("gone")) })
		for range 10 {
			runtime.Gosched() // the reporting goroutine goes as far as it can
		}
		s.now.Store(fresh)
		s.life.mu.Unlock()
		teller.Wait()
		if c := s.Now(); c.Failure != nil {
			t.Fatalf("the new opening counts as failed: %+v", c)
		}
	}
}
