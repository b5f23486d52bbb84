package platform

import (
	"context"
	"slices"
	"sync"
)

// lanes runs jobs in the background: at most limit at once, and the jobs of one lane one after the other in their order.
type lanes struct {
	workers
	limit int

	mu      sync.Mutex // guards the fields below
	pending []laneJob
	waiting map[int64]bool // the ids of pending
	busy    map[string]bool
	active  int
}

type laneJob struct {
	id   int64
	lane string // "" for a job that waits for no other
	run  func(ctx context.Context)
}

func newLanes(limit int) *lanes {
	return &lanes{workers: newWorkers(), limit: limit, waiting: make(map[int64]bool), busy: make(map[string]bool)}
}

// add queues a job. After stop it is left for the next opening of the directory.
func (l *lanes) add(j laneJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, j)
	l.waiting[j.id] = true
	l.dispatch()
}

// remove takes a job that has not begun out of the queue, and reports whether it was there.
func (l *lanes) remove(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting[id] {
		return false
	}
	delete(l.waiting, id)
	l.pending = slices.DeleteFunc(l.pending, func(j laneJob) bool { return j.id == id })
	return true
}

// waits reports whether a job waits: for another one of its lane, or because limit jobs run.
func (l *lanes) waits(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[id]
}

// dispatch starts what can run. Called with mu held.
func (l *lanes) dispatch() {
	for i := 0; i < len(l.pending) && l.active < l.limit && l.ctx.Err() == nil; {
		j := l.pending[i]
		if j.lane != "" && l.busy[j.lane] {
			i++
			continue
		}
		l.pending = slices.Delete(l.pending, i, i+1)
		delete(l.waiting, j.id)
		l.active++
		if j.lane != "" {
			l.busy[j.lane] = true
		}
		l.wg.Go(func() {
			defer l.done(j)
			j.run(l.ctx)
		})
	}
}

func (l *lanes) done(j laneJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	delete(l.busy, j.lane)
	l.dispatch()
}

// stop ends the context of what runs, waits for it, and starts nothing more.
func (l *lanes) stop() {
	l.cancel()
	l.mu.Lock() // a running dispatch has ended; a later one sees the context
	l.pending = nil
	clear(l.waiting)
	l.mu.Unlock()
	l.wg.Wait()
}
