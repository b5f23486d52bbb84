package platform

import (
	"context"
	"slices"
	"sync"
)

// keyedQueue runs jobs in the background, at most limit at once, and the jobs of one key one after the other in their order.
type keyedQueue struct {
	workers
	limit int

	mu      sync.Mutex // guards the fields below
	pending []keyedJob
	busy    map[string]bool
	active  int
}

type keyedJob struct {
	id  int64
	key string // "" for a job that waits for no other
	run func(ctx context.Context)
}

func newKeyedQueue(limit int) *keyedQueue {
	return &keyedQueue{workers: newWorkers(), limit: limit, busy: make(map[string]bool)}
}

// add queues a job. After stop it is left for the next opening of the directory.
func (q *keyedQueue) add(j keyedJob) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, j)
	q.dispatch()
}

// remove takes a job that has not begun out of the queue, and reports whether it was there.
func (q *keyedQueue) remove(id int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.pending)
	q.pending = slices.DeleteFunc(q.pending, func(j keyedJob) bool { return j.id == id })
	return len(q.pending) < before
}

// waits reports whether a job waits for another job with its key, or because limit jobs run.
func (q *keyedQueue) waits(id int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.pending, func(j keyedJob) bool { return j.id == id })
}

// dispatch starts all jobs that can run. Called with mu held.
func (q *keyedQueue) dispatch() {
	for i := 0; i < len(q.pending) && q.active < q.limit && q.ctx.Err() == nil; {
		j := q.pending[i]
		if j.key != "" && q.busy[j.key] {
			i++
			continue
		}
		q.pending = slices.Delete(q.pending, i, i+1)
		q.active++
		if j.key != "" {
			q.busy[j.key] = true
		}
		q.wg.Go(func() {
			defer q.done(j)
			j.run(q.ctx)
		})
	}
}

func (q *keyedQueue) done(j keyedJob) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active--
	delete(q.busy, j.key)
	q.dispatch()
}

// stop ends the context of what runs, waits for it, and starts nothing more.
func (q *keyedQueue) stop() {
	q.cancel()
	q.mu.Lock() // a running dispatch has ended, and a later one sees the context
	q.pending = nil
	q.mu.Unlock()
	q.wg.Wait()
}
