package buffer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// workers runs jobs, at most limit at once and at most one of each sink. Sinks take turns, so that a sink with many
// jobs, or with slow ones, delays the others by at most one job each.
//
// A job that is light takes a part of a worker, so that the workers do several light jobs at once. A sync of the disk, or a response of a
// bucket, takes as long for a few rows as for many.
//
// Small jobs of different sinks may share a worker, which does them in one call. Jobs that can share are gathered while all workers are busy, and
// until some time after the previous shared call began, or until there are enough for a call. So a job that arrives alone begins immediately.
type workers struct {
	ctx   context.Context
	limit int
	// together does several jobs that share, of different sinks and one kind. It is not called if no job shares.
	together func(context.Context, []*file)
	gather   time.Duration // the least time from the beginning of a shared call to the next one, unless there are enough jobs for a call

	mu sync.Mutex
	// ready are the sinks that have a job and none running, in the order of their turns, by the kind of their next job.
	ready   [shareKinds][]turn
	turns   uint64
	begun   [shareKinds]time.Time // when the last shared call of the kind began
	wake    *time.Timer           // nil if nothing gathers
	jobs    map[uint32]*sinkJobs
	running int // parts of workers, see job.cost
	stopped bool
	idle    sync.WaitGroup
}

// turn is the place of a sink in the queue for a worker.
type turn struct {
	sink   uint32
	number uint64
}

type sinkJobs struct {
	queue   []job
	waiting map[uint64]bool // the keys in queue, because a backlog has thousands
	running bool
}

// job is one unit of work. key makes a repeated add of queued work harmless.
type job struct {
	key   uint64
	run   func(context.Context)
	share share
	light bool // only a job that does not share
}

// lightJobs is how many light jobs a worker does at once.
const lightJobs = 16

// cost is the part of a worker that a job takes, in parts of lightJobs.
func (j job) cost() int {
	if j.light {
		return 1
	}
	return lightJobs
}

// share says with which other jobs a job can be done in one call. Its zero value is a job that is done alone.
type share struct {
	kind   shareKind
	weight int64
	file   *file
}

type shareKind int

const (
	sharesNot   shareKind = iota
	sharesFirst           // first attempts
	// sharesAgain are repeated attempts. One of them may fail because of itself, so they never delay first attempts.
	sharesAgain
	shareKinds
)

const (
	// maxShared bounds the jobs of a shared call, maxShareWeight the sum of their weights.
	maxShared      = 100
	maxShareWeight = 4 << 20
	// gatherTime is workers.gather of imports.
	gatherTime = 100 * time.Millisecond
)

func newWorkers(ctx context.Context, limit int) *workers {
	return &workers{ctx: ctx, limit: limit, jobs: make(map[uint32]*sinkJobs)}
}

// add queues a job of a sink, unless one with the same key waits already. While a job of the sink runs, a job that is done alone takes the place of
// one that shares.
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
		if s.running && j.share.kind == sharesNot { // its shared call has failed, so the waiting job must not begin a second call
			s.queue[slices.IndexFunc(s.queue, func(w job) bool { return w.key == j.key })] = j
		}
		return
	}
	s.waiting[j.key] = true
	s.queue = append(s.queue, j)
	if !s.running && len(s.queue) == 1 {
		w.line(sink, s)
	}
	w.start()
}

// line gives a sink its turn after all others. Called with mu held.
func (w *workers) line(sink uint32, s *sinkJobs) {
	w.turns++
	kind := s.queue[0].share.kind
	w.ready[kind] = append(w.ready[kind], turn{sink, w.turns})
}

// start gives free workers their jobs. Called with mu held.
func (w *workers) start() {
	for {
		kind, ok := w.next()
		if !ok {
			return
		}
		cost := w.jobs[w.ready[kind][0].sink].queue[0].cost()
		if w.running+cost > lightJobs*w.limit {
			return
		}
		var sinks []uint32
		var jobs []job
		var weight int64
		for len(w.ready[kind]) > 0 && len(jobs) < maxShared && (len(jobs) == 0 || kind != sharesNot) {
			sink := w.ready[kind][0].sink
			s := w.jobs[sink]
			j := s.queue[0]
			if weight += j.share.weight; weight > maxShareWeight && len(jobs) > 0 {
				break
			}
			w.ready[kind] = w.ready[kind][1:]
			s.queue = s.queue[1:]
			delete(s.waiting, j.key)
			s.running = true
			sinks, jobs = append(sinks, sink), append(jobs, j)
		}
		if kind != sharesNot {
			w.begun[kind] = time.Now()
		}
		w.running += cost
		w.idle.Add(1)
		go w.work(sinks, jobs, cost)
	}
}

// next returns the kind of the jobs whose turn it is, or false if no job can begin now. Called with mu held.
func (w *workers) next() (kind shareKind, ok bool) {
	for k, line := range w.ready {
		if len(line) > 0 && w.gathered(shareKind(k)) && (!ok || line[0].number < w.ready[kind][0].number) {
			kind, ok = shareKind(k), true
		}
	}
	return kind, ok
}

// gathered reports whether the waiting jobs of a kind can begin. If not, they begin later. Called with mu held.
func (w *workers) gathered(kind shareKind) bool {
	if kind == sharesNot || len(w.ready[kind]) >= maxShared {
		return true
	}
	rest := w.gather - time.Since(w.begun[kind])
	if rest <= 0 {
		return true
	}
	if w.wake == nil {
		w.wake = time.AfterFunc(rest, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.wake = nil; !w.stopped {
				w.start()
			}
		})
	}
	return false
}

func (w *workers) work(sinks []uint32, jobs []job, cost int) {
	defer w.idle.Done()
	if len(jobs) == 1 {
		jobs[0].run(w.ctx)
	} else {
		files := make([]*file, len(jobs))
		for i, j := range jobs {
			files[i] = j.share.file
		}
		w.together(w.ctx, files)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running -= cost
	for _, sink := range sinks {
		s := w.jobs[sink]
		if s.running = false; len(s.queue) > 0 {
			w.line(sink, s)
		} else {
			delete(w.jobs, sink)
		}
	}
	if !w.stopped {
		w.start()
	}
}

// stop drops the queued work and waits for the running work, whose context should have ended.
func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	if w.wake != nil {
		w.wake.Stop()
	}
	w.mu.Unlock()
	w.idle.Wait()
}

// targetWorkers are the workers for the calls of each target. A call that hangs blocks only one worker of its target.
type targetWorkers struct {
	ctx      context.Context
	limit    int                            // of each target
	together func(context.Context, []*file) // see workers
	gather   time.Duration                  // see workers

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
		w.stopped, w.together, w.gather = t.stopped, t.together, t.gather
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
