package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

var syncModes = []forebay.SyncMode{forebay.SyncDefault, forebay.SyncWait, forebay.SyncUnsafe}

// step is one decision of the operator.
func (r *run) step() {
	if r.more != nil && r.more.IntN(4) == 0 {
		r.keptStep()
	} else if r.extra != nil && r.extra.IntN(8) == 0 {
		r.extraStep()
	} else {
		r.usualStep()
	}
	if r.rng.IntN(2) == 0 {
		synctest.Wait()
	}
	r.reboot()
}

// usualStep is a step of plain runs. The order and the number of draws must not change, or the regressions change.
func (r *run) usualStep() {
	switch x := r.rng.IntN(100); {
	case x < 45:
		r.appendRows()
	case x < 60:
		d := pick(r.rng, 0, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, time.Minute,
			10*time.Minute)
		if r.rng.IntN(20) == 0 {
			d = time.Duration(r.rng.IntN(20)) * time.Hour
		}
		r.tell("sleep %s", d)
		time.Sleep(d)
	case x < 66:
		id := r.anySink()
		timeout := pick(r.rng, time.Second, time.Minute)
		r.tell("flush %s", id)
		r.sum.add("operator: flush", 1)
		r.beside(func(g *generation) {
			ctx, cancel := context.WithTimeout(g.ctx, timeout)
			defer cancel()
			before := r.ackedRows(g, id)
			if err := g.level.flush(ctx, id); err == nil {
				r.checkFlushed(g, id, before)
			}
		})
	case x < 72:
		id := r.anySink()
		r.draw(id)
		p := r.plans[id]
		p.disabled, p.gone = false, false
		source, _ := sourceOf(id)
		delete(r.disabled, source)
		if r.rng.IntN(3) == 0 && !isArchive(id) {
			p.conf.Table.ID += "2"
		}
		if r.typed() && chance(r.seed, 0.5, fmt.Sprint("retype after ", r.disk.ops())) && r.retype(id) {
			p.shape()
		}
		r.tell("define %s", id)
		r.sum.add("operator: define", 1)
		r.define(id)
	case x < 74:
		id := r.anySink()
		way := "drop"
		if r.engine() {
			way = pick(r.extra, endings...)
		}
		r.tell("%s %s", way, id)
		r.sum.add("operator: "+way, 1)
		ctx, cancel := context.WithTimeout(r.gen.ctx, time.Minute)
		_ = r.gen.level.end(ctx, id, way)
		cancel()
	case x < 76:
		id := r.anySink()
		r.tell("retry %s", id)
		r.sum.add("operator: retry", 1)
		_ = r.gen.level.retry(r.gen.ctx, id)
	case x < 79:
		level := pick(r.rng, "staging", "target")
		d := pick(r.rng, 10*time.Second, 10*time.Minute, 5*time.Hour)
		r.outage(level, d)
	case x < 81:
		r.alter()
	case x < 85:
		r.breakDisk()
	case x < 88:
		n := pick(r.rng, r.rng.IntN(10), r.rng.IntN(100))
		r.tell("the power will go off after %d operations", n)
		g, percent := r.gen, r.percent()
		seed := r.rng.Uint64()
		r.disk.cutAfter(n, func() { r.cut(g, percent, seed) })
	case x < 91:
		r.tell("power off")
		r.cut(r.gen, r.percent(), r.rng.Uint64())
	case x < 93:
		r.tell("kill")
		r.cut(r.gen, 100, r.rng.Uint64())
	case x < 96:
		r.tell("restart")
		r.down(false)
		r.start()
	default:
		r.verify()
	}
}

// extraStep is a step of runs that are not plain.
func (r *run) extraStep() {
	kinds := 12
	if r.typed() {
		kinds = 15
	}
	switch x := r.extra.IntN(kinds); {
	case x >= 12:
		r.another()
	case x < 3: // a target that refuses for longer than rows are kept
		d := r.opts.Retention + pick(r.extra, -time.Minute, time.Hour, 10*time.Hour)
		r.outage("target", d)
		if r.extra.IntN(2) == 0 {
			r.sleep(d)
		}
	case x < 5: // time leaps while clients and drivers are active
		r.sum.add("clock: leap of hours or days", 1)
		r.sleep(r.opts.Retention + pick(r.extra, -time.Hour/2, 10*time.Minute, 10*time.Hour))
	case x < 7:
		r.discard()
	case x < 9:
		r.checkpoint()
	default:
		r.tell("the disk is damaged while no process runs")
		r.down(r.extra.IntN(2) == 0)
		r.damage()
		r.start()
	}
}

// sleep ends early when the power goes off, because a dead process has nothing to show.
func (r *run) sleep(d time.Duration) {
	r.tell("sleep %s", d)
	select {
	case <-time.After(d):
	case <-r.gen.off:
	}
}

func (r *run) outage(level string, d time.Duration) {
	r.tell("outage of %s for %s", level, d)
	r.sum.add("drivers: outage", 1)
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.out.down[level] = time.Now().Add(d)
}

func (r *run) percent() int { return pick(r.rng, 0, 0, 10, 50, 90) }

func (r *run) anySink() string { return pick(r.rng, sortedKeys(r.plans)...) }

// appendRows lets a client append a batch.
func (r *run) appendRows() {
	var (
		sinks = sortedKeys(r.plans)
		w     = work{count: pick(r.rng, 1, 1, 1, 3, 20), size: pick(r.rng, 1, 1, 10, 100, 3000)}
	)
	w.wait = r.rng.IntN(3) > 0
	w.stale = r.rng.IntN(5) == 0
	times := 1 + r.rng.IntN(5)
	if r.rng.IntN(30) == 0 {
		w.size, w.count = 200<<10, 1
	}
	w.sinks = []string{pick(r.rng, sinks...)}
	if r.rng.IntN(5) == 0 {
		w.sinks = sinks
	}
	num := r.rng.IntN(len(r.clients))
	r.tell("client %d: %d appends of %+v", num, times, w)
	r.tasks.Add(1)
	select {
	case r.commands[num] <- func(c *client) { c.work(times, w) }:
	default: // the client is stuck
		r.tasks.Done()
	}
}

// breakDisk lets operations of the disk fail or be slow, from some operation on, for some time.
func (r *run) breakDisk() {
	var (
		from  = r.disk.ops() + r.rng.IntN(30)
		count = pick(r.rng, 1, 1, 3, 1000)
		until = time.Now().Add(pick(r.rng, time.Second, 10*time.Second, 10*time.Minute))
		what  = pick(r.rng, "log", "log", "sync", "write", "full", "create", "any", "read", "slow")
		half  = r.rng.IntN(2) == 0
		delay = pick(r.rng, 10*time.Millisecond, 300*time.Millisecond)
	)
	r.tell("disk fault %q from operation %d on, %d operations, until %s", what, from, count, until.Sub(r.begin))
	if what == "slow" {
		r.mu.Lock()
		r.unsynced = max(r.unsynced, 2*r.opts.SyncInterval+20*delay)
		r.mu.Unlock()
	}
	var once sync.Once
	hit := func(f fault) fault {
		r.sum.add("disk: "+what, 1)
		return f
	}
	r.disk.setFault(func(n int, kind opKind, name string) (f fault) {
		if what == "log" { // the next sync of a log
			if kind == opSync && isLog(name) {
				once.Do(func() { f = hit(fault{err: errIO}) })
			}
			return f
		}
		if n < from || n >= from+count || time.Now().After(until) {
			return fault{}
		}
		switch {
		case what == "sync" && kind == opSync, what == "write" && kind == opWrite, what == "create" && kind == opCreate,
			what == "any", what == "read" && kind == opRead:
			return hit(fault{err: errIO, half: half})
		case what == "full" && (kind == opWrite || kind == opCreate):
			return hit(fault{err: errFull, half: half})
		case what == "slow" && kind == opSync && isLog(name):
			return hit(fault{delay: delay})
		}
		return fault{}
	})
}

// failSync returns what lets a sync of the log fail, after so many that do not.
func (r *run) failSync(after int) func() {
	var left atomic.Int64
	left.Store(int64(after))
	d := r.disk
	return func() {
		d.setFault(func(_ int, kind opKind, name string) (f fault) {
			if kind == opSync && isLog(name) && left.Add(-1) == -1 {
				r.sum.add("disk: log", 1)
				f.err = errIO
			}
			return f
		})
	}
}

// alter changes the columns of a table, or changes them back.
func (r *run) alter() {
	sink := r.anySink()
	id, extends := r.plans[sink].conf.Table.ID, r.extends(sink)
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	t := r.out.tables[id]
	switch {
	case t == nil:
	case extends:
		r.meddle(t)
	case r.altered[id] != nil:
		r.tell("table %s has its columns again", id)
		t.columns = r.altered[id]
		delete(r.altered, id)
	default:
		r.tell("table %s gets another column", id)
		r.sum.add("operator: change of a table", 1)
		r.altered[id] = t.columns
		t.columns = append(slices.Clone(t.columns), datatype.Column{Name: "extra"})
	}
}

// discard gives up a file that waits.
func (r *run) discard() {
	id := r.anySink()
	var files []string
	for _, st := range r.gen.level.stats().Sinks {
		if st.ID != id {
			continue
		}
		for _, f := range st.Files {
			if f.FinishedAt.IsZero() {
				files = append(files, f.ID)
			}
		}
	}
	if len(files) == 0 {
		return
	}
	file := pick(r.extra, files...)
	r.tell("discard %s of %s", file, id)
	r.sum.add("operator: discard", 1)
	r.mu.Lock()
	r.discards[id]++
	r.mu.Unlock()
	r.beside(func(g *generation) {
		ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
		defer cancel()
		if err := g.level.discard(ctx, id, file); err != nil {
			r.tell("discard: %v", err)
		}
	})
}

// checkpoint makes a copy, looks at it and throws it away.
func (r *run) checkpoint() {
	r.copies++
	dir := fmt.Sprintf("copy-%d", r.copies)
	r.tell("checkpoint %s", dir)
	r.sum.add("operator: checkpoint", 1)
	ctx, cancel := context.WithTimeout(r.gen.ctx, time.Minute)
	defer cancel()
	err := r.gen.level.checkpoint(ctx, dir)
	if r.gen.dead.Load() {
		return
	}
	mem := r.disk.mem
	if err != nil {
		r.tell("checkpoint: %v", err)
		if _, e := mem.Stat(r.localOf(dir)); !errors.Is(e, fs.ErrNotExist) && ctx.Err() == nil {
			r.t.Errorf("checkpoint failed (%v), and there is a copy: %v", err, e)
		}
		return
	}
	copied, err := buffer.Inspect(r.localOf(dir), localdisk.On(buffer.InspectOptions{}, mem))
	if err != nil {
		r.t.Errorf("inspect the checkpoint: %v", err)
		return
	}
	report, err := copied.Verify(ctx)
	if !r.damaged && (err != nil || !report.OK()) {
		r.t.Errorf("verify the checkpoint: %v %+v", err, report)
	}
	if err := errors.Join(copied.Close(), mem.RemoveAll(dir)); err != nil {
		r.t.Errorf("remove the checkpoint: %v", err)
	}
}

func (r *run) verify() {
	r.tell("verify")
	r.sum.add("operator: verify", 1)
	ctx, cancel := context.WithTimeout(r.gen.ctx, time.Minute)
	defer cancel()
	report, err := r.gen.level.verify(ctx)
	if err == nil && !report.OK() && !r.gen.dead.Load() && !r.damaged {
		r.t.Errorf("the ledger differs: %+v", report)
	}
}
