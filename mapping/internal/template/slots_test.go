//go:build !forebay_notemplates

package template

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/internal/synctest"
)

// heldEvent is an event whose body comes when its channel is closed.
type heldEvent struct {
	jsonEvent
	running *atomic.Int32
	come    chan struct{}
}

func (e *heldEvent) BodyBytes() ([]byte, error) {
	e.running.Add(1)
	defer e.running.Add(-1)
	<-e.come
	return e.jsonEvent.BodyBytes()
}

// Sixty-four requests of 1 MB at the same time held 64 times the memory of one evaluation.
func TestLargeBodiesTakeTurns(t *testing.T) {
	const calls, slots = 64, 2
	for _, c := range []struct {
		name string
		size int
		want int32
	}{
		{"large", largeBody, slots},
		{"small", largeBody - 1, calls},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Two programs with the same slots count together. Made in the bubble, so that waiting for a slot is seen.
				opts := Options{Slots: make(Slots, slots)}
				var programs []*Program
				for range 2 {
					p, faults := Compile(`std.length(BodyStr())`, opts)
					if len(faults) > 0 {
						t.Fatal(faults)
					}
					programs = append(programs, p)
				}
				var running, done atomic.Int32
				come := make(chan struct{})
				for i := range calls {
					go func() {
						ev := &heldEvent{jsonEvent: jsonEvent{body: strings.Repeat("x", c.size)}, running: &running, come: come}
						if _, fail := programs[i%2].Append(nil, ev, false); fail != nil {
							t.Error(fail.Err)
						}
						done.Add(1)
					}()
				}
				synctest.Wait()
				if got := running.Load(); got != c.want {
					t.Errorf("%d evaluations run, want %d", got, c.want)
				}
				close(come)
				synctest.Wait()
				if got := done.Load(); got != calls {
					t.Errorf("%d of %d evaluations ended, want %v", got, calls, calls)
				}
			})
		})
	}
}

// A failed evaluation gives its slot back.
func TestFailedEvaluationFreesItsSlot(t *testing.T) {
	p, faults := Compile(`error 'no'`, Options{Slots: make(Slots, 1)})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	ev := &jsonEvent{body: strings.Repeat("x", largeBody)}
	for range 3 {
		if _, fail := p.Append(nil, ev, false); fail == nil {
			t.Fatal("no failure")
		}
	}
}
