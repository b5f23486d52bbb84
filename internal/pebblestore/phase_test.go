package pebblestore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// Random transitions: only those of the diagram are made, and what a condition says of the store agrees with its phase.
func TestLifeFollowsItsDiagram(t *testing.T) {
	allowed := map[Phase][]Phase{
		PhaseOpen:      {PhaseFailed, PhaseClosing},
		PhaseFailed:    {PhaseReopening, PhaseClosing},
		PhaseReopening: {PhaseOpen, PhaseClosing},
		PhaseClosing:   {PhaseClosing, PhaseClosed}, // the store fails while it is closed
		PhaseClosed:    {PhaseClosed},
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
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
				made = l.fail(errors.New("gone"))
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
				t.Fatalf("seed %d: from %+v: made %t, started %t", seed, before, made, started)
			case made && !slices.Contains(allowed[before.Phase], after.Phase), !made && after != before:
				t.Fatalf("seed %d: from %+v to %+v", seed, before, after)
			case after.Phase == PhaseOpen && after.Failure != nil, (after.Phase == PhaseFailed || after.Phase == PhaseReopening) && after.Failure == nil:
				t.Fatalf("seed %d: the failure does not fit the phase: %+v", seed, after)
			case (after.Failure != before.Failure) != (after.Epoch > before.Epoch):
				t.Fatalf("seed %d: the epoch does not count the failure: %+v, then %+v", seed, before, after)
			}
		}
	}
}
