package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

const maxClients = 4

// generation is one process, from an opening of the data directory to its end.
type generation struct {
	dead   atomic.Bool
	off    chan struct{} // closed when dead is set
	ctx    context.Context
	cancel context.CancelFunc
	level  level
}

// run is one simulation. Its fields belong to the operator, unless mu is named.
type run struct {
	scenario
	t   *testing.T
	sum *summary
	// rng decides the operator's actions. Decisions that were added later come from extra, so that the regressions stay
	// unchanged. It is nil in a plain run.
	rng, extra *rand.Rand
	// more decides what concerns quarantines. It is nil in a run without them.
	more  *rand.Rand
	begin time.Time
	logs  *slog.Logger

	disk *disk
	out  *outside
	opts buffer.Tuning
	gen  *generation // changes with mu held
	// found is the disk after the cut of power, nil while it is on. Guarded by mu.
	found *disk

	clients  []*client
	commands []chan func(*client)
	tasks    *sync.WaitGroup // clients' commands and other calls concurrent with the operator
	hurry    chan struct{}   // closed when clients should make no more pauses

	plans             map[string]*plan
	grown             map[string]*grown // guarded by mu
	disabled, removed map[string]bool   // sources
	removals          map[string]int    // how often a source was removed, under mu
	altered           map[string][]datatype.Column
	// copies counts the checkpoints. snapshots are the rows of the chunks that were on the disk when it was damaged, by
	// slice and chunk.
	copies int
	// voids says that the target is a [driver.Voider], clockWasSet that the clock is set at some time in the run.
	voids, clockWasSet bool
	backfill           backfill
	snapshots          map[chunkID][]string
	damaged            bool
	hits               map[string]bool // names of the rows in damaged data

	mu sync.Mutex
	model
}

func newRun(s scenario, sum *summary) *run {
	r := &run{
		scenario: s, sum: sum, rng: rand.New(rand.NewPCG(s.seed, 0x5eed)), out: newOutside(s.seed, sum),
		disk: newDisk(vfsCrashable()), plans: map[string]*plan{}, grown: map[string]*grown{}, disabled: map[string]bool{}, removed: map[string]bool{}, removals: map[string]int{},
		altered: map[string][]datatype.Column{}, snapshots: map[chunkID][]string{}, hits: map[string]bool{}, model: newModel(),
	}
	if !s.plain {
		r.extra = rand.New(rand.NewPCG(s.seed, 0xe97a))
	}
	if s.keeps() {
		r.more = rand.New(rand.NewPCG(s.seed, 0x4ee9))
	}
	r.logs = slog.New(slog.DiscardHandler)
	if r.story {
		r.out.tell = r.tell
		r.logs = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	r.logs = slog.New(eventHandler{r.logs.Handler(), r})
	r.out.faulty = pick(r.rng, 0, 0.05, 0.3, 0.7)
	r.out.hang = r.rng.IntN(4) == 0
	r.opts = buffer.Tuning{
		MemTableBytes: 1 << 20, MaxPendingBytes: 1 << 20, MaxDiskBytes: pick[int64](r.rng, 1<<20, 16<<20),
		SyncInterval: pick(r.rng, time.Millisecond, 25*time.Millisecond, time.Second),
		Retry:        buffer.Retry{Initial: time.Second, Max: time.Minute, Jitter: -1}, AttemptTimeout: time.Minute,
		AdmissionWait: pick[time.Duration](r.rng, -1, 250*time.Millisecond),
		Uploads:       1 + r.rng.IntN(3), Imports: 1 + r.rng.IntN(3), Retention: 7 * 24 * time.Hour,
	}
	for i := range 1 + r.rng.IntN(maxClients) {
		r.clients = append(r.clients, &client{r: r, num: i})
	}
	r.opts.KeepFormat = r.typed() && chance(s.seed, 0.3, "keep the format")
	r.setTarget()
	names := []string{"a", "b", "c"}
	if r.engine() {
		names = []string{"x/a", "x/b", "y/c"}
	}
	for _, id := range names[:1+r.rng.IntN(3)] {
		r.plans[id] = &plan{}
		r.draw(id)
	}
	if r.archives() {
		for _, id := range []string{archiveID, backfillID} {
			r.plans[id] = &plan{}
			r.draw(id)
		}
	}
	if r.extra != nil {
		r.opts.Retention = pick(r.extra, r.opts.Retention, 30*time.Minute, 6*time.Hour)
		if r.opts.Retention > 6*time.Hour {
			r.opts.Retry.Max, r.opts.Retry.Probe = 4*time.Hour, 4*time.Hour // else a run has many thousands of attempts, and learns nothing from them
		}
	}
	if !s.plain && chance(s.seed, 0.4, "small share") {
		r.opts.MaxSinkBytes = 64 << 10
	}
	r.unsynced = 2*r.opts.SyncInterval + time.Millisecond
	return r
}

// simulate plays one run. It has a bubble for each setting of the clock. Most runs have one.
func simulate(t *testing.T, s scenario, sum *summary) {
	r := newRun(s, sum)
	steps := 10 + r.rng.IntN(40)
	clocks := r.clocks()
	r.clockWasSet = len(clocks) > 1
	for i := range clocks {
		synctest.Test(t, func(t *testing.T) {
			r.t = t
			r.enter(clocks[i])
			defer r.dismiss() // even if the run fails, because a bubble with remaining goroutines would hide the cause
			for range steps / len(clocks) {
				r.step()
				if t.Failed() {
					break
				}
			}
			if i < len(clocks)-1 {
				r.leave()
			} else {
				r.end()
			}
		})
		if t.Failed() {
			break
		}
	}
	if s.story {
		fmt.Fprintf(os.Stderr, "fingerprint of the run: %016x\n", r.out.trace)
	}
}

// clocks draws how often and how far the clock is set while no process runs. A bubble always begins at the same time, so
// the draw is how long it sleeps first, see enter.
func (r *run) clocks() []time.Duration {
	list := []time.Duration{0}
	if r.extra == nil {
		return list
	}
	list[0] = pick(r.extra, 0, 72*time.Hour)
	if r.extra.IntN(3) > 0 {
		return list
	}
	for range 1 + r.extra.IntN(2) {
		list = append(list, pick(r.extra, -1000*time.Hour, -10*time.Hour, -time.Minute, time.Hour, 30*24*time.Hour))
	}
	return list
}

// enter begins a bubble and starts the first process and the clients in it. step is how far the clock is set.
func (r *run) enter(step time.Duration) {
	first := r.begin.IsZero()
	now := time.Now()
	if first {
		r.begin = now
		r.left = now
	}
	if wait := r.left.Add(step).Sub(now); wait > 0 {
		time.Sleep(wait) // to the new time, but it cannot go below zero
	}
	now = time.Now()
	if !first {
		r.tell("the clock is set by %s", now.Sub(r.left))
		direction := "forward"
		if now.Before(r.left) {
			direction = "back"
		}
		r.sum.add("clock: set "+direction, 1)
	}
	r.out.clockSet(r.left, now)
	r.tasks, r.hurry, r.commands = &sync.WaitGroup{}, make(chan struct{}), nil
	for _, c := range r.clients {
		commands := make(chan func(*client), 64)
		r.commands = append(r.commands, commands)
		tasks := r.tasks
		go func() {
			for cmd := range commands {
				cmd(c)
				tasks.Done()
			}
		}()
	}
	r.tell("seed %d: %d clients, engine %v, %+v", r.seed, len(r.clients), r.engine(), r.opts)
	r.start()
}

// leave ends the process and the bubble.
func (r *run) leave() {
	close(r.hurry)
	synctest.Wait()
	r.reboot()
	r.disk.heal()
	r.tasks.Wait()
	r.down(r.extra.IntN(2) == 0)
	r.left = time.Now()
}

// dismiss ends the clients.
func (r *run) dismiss() {
	for _, c := range r.commands {
		close(c)
	}
}

func (r *run) tell(format string, args ...any) {
	if r.story {
		fmt.Fprintf(os.Stderr, "%12s  %s\n", time.Since(r.begin), fmt.Sprintf(format, args...))
	}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// generation returns the process that runs now.
func (r *run) generation() *generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gen
}

// start opens the data directory as a new process and defines the sinks.
func (r *run) start() {
	g := &generation{off: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	l, err := r.open(g)
	for attempt := 1; err != nil; attempt++ {
		r.tell("open: %v", err)
		if attempt == 20 {
			r.t.Fatalf("open: %v", err)
		}
		time.Sleep(time.Minute)
		l, err = r.open(g)
	}
	g.level = l
	r.mu.Lock()
	r.gen, r.handles = g, map[string][]*handle{}
	for id := range r.plans { // no source is defined yet
		r.history[id] = append(r.history[id], entry{})
		r.inForce[id] = len(r.history[id]) - 1
	}
	r.mu.Unlock()
	known := map[string]bool{}
	for _, id := range sortedKeys(r.plans) {
		if source, _ := sourceOf(id); r.engine() {
			if known[source] || r.removed[source] {
				continue
			}
			known[source] = true
		}
		r.define(id)
	}
}

func (r *run) define(id string) {
	ctx, cancel := context.WithTimeout(r.gen.ctx, time.Minute)
	defer cancel()
	if err := r.gen.level.define(ctx, id); err != nil {
		r.tell("define %s: %v", id, err)
	}
}

// sinksOf are the sinks of a source.
func (r *run) sinksOf(source string) (ids []string) {
	for _, id := range sortedKeys(r.plans) {
		if s, _ := sourceOf(id); s == source {
			ids = append(ids, id)
		}
	}
	return ids
}

// draw draws another definition of a sink.
func (r *run) draw(id string) {
	p := r.plans[id]
	p.conf = buffer.SinkConfig{
		ID:       id,
		Table:    driver.Table{ID: "in.c-sim." + letter(id), Columns: datatype.UntypedColumns("id", "value")},
		Encoding: pick(r.rng, driver.None, driver.Gzip, driver.Zstd),
		Upload: trigger.Conditions{
			Interval: pick(r.rng, time.Second, 30*time.Second, 5*time.Minute), Count: pick[int64](r.rng, 3, 20, 1000),
			Size: pick[int64](r.rng, 5<<10, 1<<20),
		},
		Import: trigger.Conditions{
			Interval: pick(r.rng, 30*time.Second, time.Minute, time.Hour), Count: pick[int64](r.rng, 100, 1000),
			Size: pick[int64](r.rng, 100<<10, 10<<20),
		},
	}
	if r.extra != nil {
		p.sync = syncModes[r.extra.IntN(len(syncModes))]
	}
	if isArchive(id) {
		p.conf.Table, p.conf.Encoding = driver.Table{ID: archived}, driver.Gzip
		return
	}
	r.drawVersion(id)
	p.shape()
	r.drawQuarantine(id)
}

// letter is the last part of the name of a sink.
func letter(id string) string { return id[len(id)-1:] }

// beside runs a call concurrently with the operator.
func (r *run) beside(fn func(g *generation)) {
	g := r.gen
	r.tasks.Go(func() { fn(g) })
}

// cut takes the power off, or kills the process with 100 percent. From this moment on nothing that it does has an effect.
func (r *run) cut(g *generation, percent int, seed uint64) {
	// The order matters, because a response that a client gets before dead is set was sent before the disk is inspected.
	r.out.mu.Lock()
	r.mu.Lock()
	defer r.out.mu.Unlock()
	defer r.mu.Unlock()
	if g.dead.Load() {
		return
	}
	g.dead.Store(true)
	close(g.off)
	if percent == 100 {
		r.found = r.disk.killed()
	} else {
		r.found = r.disk.crashed(percent, rand.New(rand.NewPCG(seed, 1)))
	}
	now := time.Now()
	for _, row := range r.rows {
		if row.gen == g {
			row.gone = now
		}
	}
	r.sum.add("process: cut of power", 1)
	r.tell("power is off, %d %% of what was not synced is kept", percent)
}

// bury ends a process whose power went off. It returns false when it is on.
func (r *run) bury() bool {
	r.mu.Lock()
	found := r.found
	r.found = nil
	r.mu.Unlock()
	if found == nil {
		return false
	}
	r.disarm()
	r.gen.cancel()
	_ = r.gen.level.close() // of the process that is dead. It frees the goroutines and touches nothing
	r.tasks.Wait()
	r.disk = found
	return true
}

// reboot starts a new process when the power went off.
func (r *run) reboot() {
	if r.bury() {
		r.tell("reboot")
		r.start()
	}
}

// down ends the process by a cut, or in good order, and then calls that run may fail.
func (r *run) down(cut bool) {
	if cut {
		r.cut(r.gen, r.percent(), r.rng.Uint64())
		r.bury()
		return
	}
	r.disarm()
	r.sum.add("process: restart", 1)
	var failed *buffer.FailedError
	switch err := r.gen.level.close(); {
	case err == nil || r.gen.dead.Load():
	case errors.As(err, &failed): // which may have happened so late that the log does not have it
		r.mu.Lock()
		r.failures = append(r.failures, time.Now())
		r.mu.Unlock()
	default:
		r.t.Errorf("close: %v", err)
	}
	r.gen.cancel()
	r.tasks.Wait()
	r.disarm()
	r.bury()
}

// end stops all faults, lets everything drain and checks the model.
func (r *run) end() {
	synctest.Wait()
	r.reboot()
	r.disarm()
	close(r.hurry)
	r.tasks.Wait()
	r.disarm()
	r.reboot()
	r.out.mu.Lock()
	r.out.quiet, r.out.rule = true, 0
	for id, columns := range r.altered {
		r.out.tables[id].columns = columns
	}
	for _, t := range r.out.tables {
		if i := t.find("n"); i >= 0 && t.columns[i].Type == datatype.Bool {
			r.meddle(t)
		}
	}
	r.out.mu.Unlock()
	r.tell("all faults end")
	time.Sleep(r.opts.Retry.Max + time.Minute) // calls that hang, and the longest delays
	synctest.Wait()
	for _, id := range sortedKeys(r.grown) {
		if r.grown[id].open {
			r.define(id) // as the error says
		}
	}
	synctest.Wait()
	r.endBackfill()
	time.Sleep(r.opts.Retry.Max + time.Minute)
	synctest.Wait()
	r.roomForAll()
	r.checkPressure()
	if r.extra != nil && r.extra.IntN(3) == 0 {
		r.drainAlone()
	}
	ctx, cancel := context.WithTimeout(r.gen.ctx, time.Hour)
	defer cancel()
	if err := r.gen.level.flushAll(ctx); err != nil {
		r.t.Errorf("flush at the end: %v", err)
	}
	time.Sleep(r.opts.Retry.Max + time.Minute)
	synctest.Wait()
	report, err := r.gen.level.verify(r.gen.ctx)
	if err != nil || !report.OK() {
		r.t.Errorf("verify at the end: %v %+v", err, report)
	}
	stats := r.gen.level.stats()
	held := r.allKept(stats)
	if err := r.gen.level.close(); err != nil {
		r.t.Errorf("close at the end: %v", err)
	}
	r.gen.cancel()
	damage := r.checkStore()
	r.check(stats, damage, held)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
