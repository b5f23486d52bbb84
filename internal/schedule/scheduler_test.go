package schedule_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/internal/schedule"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// firing is one call of fire.
type firing struct {
	key   string
	after time.Duration // since the start of the test
}

// recorder is a fire function that remembers its calls.
type recorder struct {
	start time.Time
	mu    sync.Mutex
	calls []firing
}

func (r *recorder) fire(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, firing{key, time.Since(r.start)})
}

// take waits until the scheduler has nothing to do now, and returns the calls since the last take.
func (r *recorder) take() []firing {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// expect compares the calls since the last expect.
func (r *recorder) expect(t *testing.T, want ...firing) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v", got, want)
	}
}

// bubble runs a test with a scheduler and a recorder under a fake clock.
func bubble(t *testing.T, test func(t *testing.T, s *schedule.Scheduler[string], r *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		s := schedule.New(r.fire)
		defer s.Stop()
		test(t, s, r)
	})
}

func TestFiresInOrderOfDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		s.Set("c", r.start.Add(3*time.Second))
		s.Set("a", r.start.Add(time.Second))
		s.Set("b", r.start.Add(2*time.Second))
		r.expect(t)
		time.Sleep(10 * time.Second)
		r.expect(t, firing{"a", time.Second}, firing{"b", 2 * time.Second}, firing{"c", 3 * time.Second})
	})
}

func TestFiresEqualDeadlinesInOrderOfSet(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		at := r.start.Add(time.Second)
		var want []firing
		for i := range 50 {
			key := fmt.Sprint(i)
			s.Set(key, at)
			want = append(want, firing{key, time.Second})
		}
		s.Set("0", at) // goes to the end
		want = append(want[1:], want[0])
		time.Sleep(time.Second)
		r.expect(t, want...)
	})
}

func TestSetReplaces(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		s.Set("later", r.start.Add(time.Second))
		s.Set("later", r.start.Add(5*time.Second))
		s.Set("sooner", r.start.Add(time.Hour))
		s.Set("sooner", r.start.Add(2*time.Second))
		time.Sleep(2 * time.Hour)
		r.expect(t, firing{"sooner", 2 * time.Second}, firing{"later", 5 * time.Second})
	})
}

func TestFiresPastDeadlineAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		s.Set("past", r.start.Add(-time.Hour))
		s.Set("now", r.start)
		s.Set("long past", time.Unix(0, 0))
		r.expect(t, firing{"past", 0}, firing{"now", 0}, firing{"long past", 0})
	})
}

func TestRemove(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		s.Set("removed", r.start.Add(time.Second))
		s.Set("kept", r.start.Add(time.Second))
		s.Set("emptied", r.start.Add(time.Second))
		s.Remove("removed")
		s.Remove("never set")
		s.Set("emptied", time.Time{})
		time.Sleep(time.Minute)
		r.expect(t, firing{"kept", time.Second})
		s.Set("removed", time.Now())
		r.expect(t, firing{"removed", time.Minute})
	})
}

// A deadline restored from disk has no monotonic reading.
func TestTakesWallTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		time.Sleep(time.Millisecond) // the wait plus the elapsed time exceed a Duration
		s.Set("wall", r.start.Round(0).Add(time.Second))
		s.Set("far", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) // further than a Duration reaches
		time.Sleep(time.Hour)
		r.expect(t, firing{"wall", time.Second})
		s.Set("far", r.start.Add(2*time.Hour))
		time.Sleep(2 * time.Hour)
		r.expect(t, firing{"far", 2 * time.Hour})
	})
}

// The whole way of a load whose start was read back after the wall clock had been set back by a day.
func TestAfterWallClockStep(t *testing.T) {
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		c := trigger.Upload().Default
		l := trigger.Load{Since: r.start.Round(0).Add(24 * time.Hour), Size: 1, Count: 1}.Resume(time.Now())
		s.Set("sink", c.Deadline(l))
		time.Sleep(time.Hour)
		r.expect(t, firing{"sink", 30 * time.Second})
	})
}

func TestFireMaySetAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		ticks := 0
		var s *schedule.Scheduler[string]
		s = schedule.New(func(key string) {
			r.fire(key)
			if ticks++; ticks < 3 {
				s.Set(key, time.Now().Add(time.Second))
				s.Remove("victim")
			}
		})
		defer s.Stop()
		s.Set("tick", r.start.Add(time.Second))
		s.Set("victim", r.start.Add(time.Minute))
		time.Sleep(time.Hour)
		r.expect(t, firing{"tick", time.Second}, firing{"tick", 2 * time.Second}, firing{"tick", 3 * time.Second})
	})
}

// A key that asks to be called at once, forever, must starve neither another key nor Stop.
func TestIsFairToAllKeys(t *testing.T) {
	var s *schedule.Scheduler[string]
	ready, other := make(chan struct{}), make(chan struct{})
	s = schedule.New(func(key string) {
		<-ready
		if key == "other" {
			close(other)
			return
		}
		s.Set(key, time.Unix(0, 0))
	})
	s.Set("busy", time.Unix(0, 0))
	s.Set("other", time.Now())
	close(ready)
	<-other
	s.Stop()
}

func TestStopWaitsForFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		entered := make(chan struct{})
		s := schedule.New(func(string) {
			close(entered)
			time.Sleep(time.Minute)
			ended.Store(true)
		})
		s.Set("slow", time.Now())
		s.Set("never", time.Now())
		<-entered
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				s.Stop()
				if !ended.Load() {
					t.Error("Stop returned while fire was running")
				}
			})
		}
		wg.Wait()
		// A second call would panic in close(entered).
		s.Set("late", time.Now())
		s.Remove("never")
		time.Sleep(time.Hour)
		s.Stop()
	})
}

// Random operations against a model that looks at every key at every step.
func TestAgainstModel(t *testing.T) {
	rng := seedtest.Rand(t)
	bubble(t, func(t *testing.T, s *schedule.Scheduler[string], r *recorder) {
		model := map[string]time.Duration{} // deadline since start
		for step := range 5000 {
			key := fmt.Sprint(rng.IntN(20))
			switch rng.IntN(10) {
			case 0:
				s.Remove(key)
				delete(model, key)
			case 1, 2, 3:
				passed := time.Duration(rng.IntN(5)) * time.Second
				time.Sleep(passed)
			default:
				at := time.Since(r.start) + time.Duration(rng.IntN(20)-2)*time.Second + time.Duration(step)
				s.Set(key, r.start.Add(at))
				model[key] = max(at, time.Since(r.start))
			}
			var want []firing
			for _, key := range slices.Sorted(maps.Keys(model)) {
				if at := model[key]; at <= time.Since(r.start) {
					want = append(want, firing{key, at})
					delete(model, key)
				}
			}
			slices.SortFunc(want, func(a, b firing) int { return int(a.after - b.after) })
			if got := r.take(); !slices.Equal(got, want) {
				t.Fatalf("step %d: fired %v, want %v", step, got, want)
			}
		}
	})
}

// Every key that was set last with a near deadline fires, whatever happens at the same time.
func TestStress(t *testing.T) {
	const workers, keys, rounds = 8, 50, 400
	var fired [workers * keys]atomic.Int64
	var s *schedule.Scheduler[int]
	s = schedule.New(func(key int) {
		if fired[key].Add(1)%7 == 0 {
			s.Set(key, time.Now())
		}
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				key := w*keys + rng.IntN(keys)
				switch rng.IntN(4) {
				case 0:
					s.Remove(key)
				case 1:
					s.Set(rng.IntN(workers*keys), time.Now().Add(time.Hour))
				default:
					s.Set(key, time.Now().Add(time.Duration(rng.IntN(1000))*time.Microsecond))
				}
			}
		})
	}
	wg.Wait()
	// From here on each key has a deadline that has come, and must fire at least once more.
	var before [workers * keys]int64
	for key := range fired {
		s.Remove(key)
	}
	for key := range fired {
		before[key] = fired[key].Load()
		s.Set(key, time.Now())
	}
	for key := range fired {
		for fired[key].Load() == before[key] { // a lost wake-up hangs here and the test times out
			runtime.Gosched()
		}
	}
	s.Stop()
	var stopped [workers * keys]int64
	for key := range fired {
		stopped[key] = fired[key].Load()
		s.Set(key, time.Now())
	}
	s.Stop()
	for key := range fired {
		if fired[key].Load() != stopped[key] {
			t.Fatalf("key %d fired after Stop", key)
		}
	}
}

// A sink that is written often moves its deadline often. No allocation may come with it.
func TestSetDoesNotAllocate(t *testing.T) {
	s := schedule.New(func(int) {})
	defer s.Stop()
	for key := range 100 {
		s.Set(key, time.Now().Add(time.Hour))
	}
	at := time.Now().Add(2 * time.Hour)
	if n := testing.AllocsPerRun(1000, func() { s.Set(50, at) }); n != 0 {
		t.Errorf("Set of a known key allocates %v times", n)
	}
}

// go test -bench Scheduler ./internal/schedule
func BenchmarkScheduler(b *testing.B) {
	for _, keys := range []int{100, 10_000} {
		start := time.Now().Add(time.Hour)
		fill := func(fire func(int)) *schedule.Scheduler[int] {
			s := schedule.New(fire)
			for key := range keys {
				s.Set(key, start.Add(time.Duration(key)*time.Millisecond))
			}
			return s
		}
		b.Run(fmt.Sprintf("op=postpone/keys=%d", keys), func(b *testing.B) {
			s := fill(func(int) { b.Error("fired") })
			defer s.Stop()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Set(i%keys, start.Add(time.Duration(i)*time.Microsecond))
			}
		})
		b.Run(fmt.Sprintf("op=fire/keys=%d", keys), func(b *testing.B) {
			fired := make(chan struct{})
			s := fill(func(int) { fired <- struct{}{} })
			defer s.Stop()
			b.ReportAllocs()
			for b.Loop() {
				s.Set(0, start.Add(-2*time.Hour))
				<-fired
			}
		})
	}
}
