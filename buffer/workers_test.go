package buffer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

func TestWorkersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t.Context(), 1)
		gate := make(chan bool)
		var order []uint64
		add := func(sink uint32, key uint64) {
			w.add(sink, job{key: key, run: func(context.Context) { order = append(order, key); <-gate }})
		}
		add(1, 10)
		synctest.Wait()                                    // it runs
		for _, key := range []uint64{10, 11, 11, 12, 10} { // one that runs may be queued again, one that waits not
			add(1, key)
		}
		add(2, 20)
		close(gate)
		synctest.Wait()
		if want := []uint64{10, 20, 10, 11, 12}; !slices.Equal(order, want) {
			t.Errorf("jobs ran in the order %v, want %v", order, want)
		}
		add(1, 11)
		synctest.Wait()
		if len(order) != 6 {
			t.Error("a job that has run cannot be queued again")
		}
		w.stop()
	})
}

// A sink that waits for its staging for days has many slices, and each of them is queued at every attempt.
func BenchmarkQueueOfManyJobs(b *testing.B) {
	for b.Loop() {
		w := newWorkers(b.Context(), 0)
		for key := range uint64(10_000) {
			w.add(1, job{key: key})
		}
	}
}

// Jobs that share wait for each other, and a job that does not share has its turn before later jobs.
func TestWorkersGatherJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t.Context(), 1)
		w.gather = gatherTime
		var mu sync.Mutex
		var calls []int
		called := func(jobs int) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, jobs)
		}
		want := func(want ...int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(calls, want) {
				t.Errorf("got calls of %v jobs, want %v", calls, want)
			}
			calls = nil
		}
		w.together = func(_ context.Context, files []*file) { called(len(files)) }
		add := func(sink uint32, weight int64) {
			j := job{key: uint64(sink), run: func(context.Context) { called(1) }}
			if weight > 0 {
				j.share = share{kind: sharesFirst, weight: weight, file: &file{}}
			}
			w.add(sink, j)
		}
		add(1, 1) // alone, at once
		synctest.Wait()
		for sink := uint32(2); sink < 12; sink++ {
			add(sink, 1)
		}
		add(12, 0)
		synctest.Wait()
		want(1, 1)
		time.Sleep(gatherTime)
		synctest.Wait()
		want(10)
		for sink := range uint32(maxShared + 1) { // a full call begins at once
			add(20+sink, 1)
		}
		synctest.Wait()
		time.Sleep(gatherTime)
		synctest.Wait()
		want(maxShared, 1)
		time.Sleep(gatherTime)
		add(500, 1)
		synctest.Wait()
		for sink := range uint32(4) {
			add(501+sink, maxShareWeight/2)
		}
		time.Sleep(3 * gatherTime)
		synctest.Wait()
		want(1, 2, 2) // of half the weight
		w.stop()
	})
}

// A file whose shared call has failed is imported alone, even if another attempt of it was requested meanwhile.
func TestAloneTakesThePlaceOfShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t.Context(), 1)
		var calls []int
		var add func(sink uint32, kind shareKind)
		w.together = func(_ context.Context, files []*file) {
			calls = append(calls, len(files))
			add(1, sharesAgain)
			add(1, sharesNot)
		}
		add = func(sink uint32, kind shareKind) {
			w.add(sink, job{key: uint64(sink), share: share{kind, 1, &file{}}, run: func(context.Context) {
				if kind != sharesNot {
					calls = append(calls, 0)
				} else if calls = append(calls, 1); len(calls) == 1 { // the others are gathered
					time.Sleep(time.Second)
				}
			}})
		}
		add(9, sharesNot)
		synctest.Wait()
		add(1, sharesAgain)
		add(2, sharesAgain)
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []int{1, 2, 1}; !slices.Equal(calls, want) {
			t.Errorf("got calls of %v jobs, want %v", calls, want)
		}
		w.stop()
	})
}

// A worker does several light jobs at once, or one other job.
func TestWorkersDoLightJobsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t.Context(), 1)
		gate := make(chan bool)
		var running atomic.Int64
		run := func(context.Context) {
			running.Add(1)
			<-gate
			running.Add(-1)
		}
		for sink := range uint32(lightJobs + 3) {
			w.add(sink, job{key: 1, run: run, light: true})
		}
		w.add(100, job{key: 1, run: run})
		synctest.Wait()
		if got := running.Load(); got != lightJobs {
			t.Errorf("got %d light jobs at once, want %d", got, lightJobs)
		}
		close(gate)
		synctest.Wait()
		if got := running.Load(); got != 0 {
			t.Errorf("got %d jobs that still run, want 0", got)
		}
		w.stop()
	})
}
