package buffer

import (
	"context"
	"sync"
)

// workers runs jobs, at most limit at once and at most one of each sink. Sinks take turns, so that a sink with many
// jobs, or with slow ones, delays the others by at most one job each.
type workers struct {
	ctx   context.Context
	limit int

	mu      sync.Mutex
	ready   []uint32 // sinks that have a job and none running, in the order of their turns
	jobs    map[uint32]*sinkJobs
	running int
	stopped bool
	idle    sync.WaitGroup
}

type sinkJobs struct {
	queue   []job
	waiting map[uint64]bool // the keys in queue: a backlog has thousands
	running bool
}

// job is one unit of work. key makes a repeated add of queued work harmless.
type job struct {
	key uint64
	run func(context.Context)
}

func newWorkers(ctx context.Context, limit int) *workers {
	return &workers{ctx: ctx, limit: limit, jobs: make(map[uint32]*sinkJobs)}
}

// add queues a job of a sink, unless one with the same key waits already.
func (w *workers) add(sink uint32, j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	s := w.jobs[sink]
	if s == nil {
		s = &sinkJobs{waiting: make(map[uint64]bool)}
		w.jobs[sink] = s
	}
	if s.waiting[j.key] {
		return
	}
	s.waiting[j.key] = true
	s.queue = append(s.queue, j)
	if !s.running && len(s.queue) == 1 {
		w.ready = append(w.ready, sink)
	}
	w.start()
}

// start gives free workers their jobs. Called with mu held.
func (w *workers) start() {
	for w.running < w.limit && len(w.ready) > 0 {
		sink := w.ready[0]
		w.ready = w.ready[1:]
		s := w.jobs[sink]
		j := s.queue[0]
		s.queue = s.queue[1:]
		delete(s.waiting, j.key)
		s.running = true
		w.running++
		w.idle.Add(1)
		go w.work(sink, s, j)
	}
}

func (w *workers) work(sink uint32, s *sinkJobs, j job) {
	defer w.idle.Done()
	j.run(w.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	s.running = false
	w.running--
	if len(s.queue) > 0 {
		w.ready = append(w.ready, sink)
	} else {
		delete(w.jobs, sink)
	}
	if !w.stopped {
		w.start()
	}
}

// stop drops what is queued and waits for what runs; its context should have ended.
func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.idle.Wait()
}

// targetWorkers are the workers for the calls of each target. A call that hangs blocks only one worker of its target.
type targetWorkers struct {
	ctx   context.Context
	limit int // of each target

	mu      sync.Mutex
	byName  map[string]*workers
	stopped bool
}

func newTargetWorkers(ctx context.Context, limit int) *targetWorkers {
	return &targetWorkers{ctx: ctx, limit: limit, byName: make(map[string]*workers)}
}

// of returns the workers of the target with a name.
func (t *targetWorkers) of(name string) *workers {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byName[name]
	if w == nil {
		w = newWorkers(t.ctx, t.limit)
		w.stopped = t.stopped
		t.byName[name] = w
	}
	return w
}

// stop is [workers.stop] of all.
func (t *targetWorkers) stop() {
	t.mu.Lock()
	t.stopped = true
	all := make([]*workers, 0, len(t.byName))
	for _, w := range t.byName {
		all = append(all, w)
	}
	t.mu.Unlock()
	for _, w := range all {
		w.stop()
	}
}

// importsOf returns the workers that import a file.
func (b *Buffer) importsOf(f *file) *workers { return b.imports.of(f.target) }
