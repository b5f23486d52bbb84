package buffer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// Random transitions: only those of the diagram are made, and what a condition says of the store agrees with its phase.
func TestLifeFollowsItsDiagram(t *testing.T) {
	allowed := map[phase][]phase{
		running:   {failed, stopping},
		failed:    {reopening, stopping},
		reopening: {running, stopping},
		stopping:  {stopping, draining}, // the store fails while the buffer stops
		draining:  {draining},
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
			var must []phase // the phases in which the transition is made
			switch rng.IntN(5) {
			case 0:
				made = l.fail(&FailedError{Err: errors.New("gone")})
				if before.failure == nil {
					must = []phase{running, stopping, draining}
				}
				started = made
			case 1:
				made, must = l.reopen(start), []phase{failed}
			case 2:
				made, must = l.reopened(start), []phase{reopening}
			case 3:
				made, must = l.stop(start), []phase{running, failed, reopening}
			case 4:
				if before.phase < stopping {
					continue // Close stops first
				}
				made, must = l.drain(), []phase{stopping}
				started = made
			}
			after := l.current()
			switch {
			case made != slices.Contains(must, before.phase), started != made:
				t.Fatalf("seed %d: from %+v: made %t, started %t", seed, before, made, started)
			case made && !slices.Contains(allowed[before.phase], after.phase), !made && after != before:
				t.Fatalf("seed %d: from %+v to %+v", seed, before, after)
			case after.phase == running && after.failure != nil, (after.phase == failed || after.phase == reopening) && after.failure == nil:
				t.Fatalf("seed %d: the failure does not fit the phase: %+v", seed, after)
			case (after.failure != before.failure) != (after.epoch > before.epoch):
				t.Fatalf("seed %d: the epoch does not count the failure: %+v, then %+v", seed, before, after)
			}
		}
	}
}
