package buffer

import (
	"context"
	"slices"
	"testing"

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
