package buffer

import (
	"context"

	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/schedule"
)

// A failed store is treated as a crash without the end of the process (see [pebblestore.Phase] for the states):
//
//  1. The store is cut off from the disk (pebblestore.FS). Appends and operations get a [*FailedError]. Callers that wait
//     for a commit learn that its outcome is unknown.
//  2. Timers and driver calls end, as in Close.
//  3. The store is closed and opened again, with the backoff of Tuning.Retry. The state is read from the disk. Nothing in
//     memory is trusted.
//  4. The handles of the sinks are joined to that state, and everything continues as after Open.
//
// The design that lost was to end permanently. The usual causes, a full disk or a network volume that was away, pass, and
// every embedder would have to write this loop.

// background is everything that acts by itself.
type background struct {
	timers   *schedule.Scheduler[timerKey]
	uploads  *workers
	imports  *targetWorkers
	compacts *targetWorkers
	cleanups *workers
	// cancel ends the calls of drivers.
	cancel context.CancelFunc
	copy   *recordCopy
}

func (b *Buffer) newBackground() background {
	ctx, cancel := context.WithCancel(b.ctx)
	imports := newTargetWorkers(ctx, b.opts.Imports)
	imports.together, imports.gather = b.importTogether, gatherTime
	cleanups := newWorkers(ctx, 2)
	cleanups.together = b.cleanupTogether
	return background{
		timers: schedule.New(b.fire), uploads: newWorkers(ctx, b.opts.Uploads),
		imports: imports, compacts: newTargetWorkers(ctx, 2), cleanups: cleanups, cancel: cancel, copy: b.newRecordCopy(),
	}
}

// end is stop for a store that no longer commits. The copy of its records ends too.
func (g background) end() {
	g.stop()
	g.copy.stop()
}

// stop returns when all background work has ended. It may be called twice and at once.
func (g background) stop() {
	g.timers.Stop()
	g.cancel()
	g.uploads.stop()
	g.imports.stop()
	g.compacts.stop()
	g.cleanups.stop()
}

// fail ends the store because of an error that the store itself did not take for one.
func (b *Buffer) fail(err error) error {
	b.store.Opening().End(err)
	if f := b.failure(); f != nil {
		return f
	}
	return &FailedError{Err: err}
}

// watch begins the reopening of a store that has failed. Called by the committer.
func (b *Buffer) watch() {
	if b.store.Now().Phase != pebblestore.PhaseFailed { // asked after every commit, because the call below allocates
		return
	}
	if b.unsound.Load() != nil {
		b.stop()
		return
	}
	if !b.store.ReopenInBackground(func() func() { return b.background.end }) {
		return
	}
	if b.opts.Changelog != nil {
		b.confirm.giveUp() // Begin comes next
	}
	b.mu.Lock()
	b.signalChange()
	b.mu.Unlock()
	b.admission.serve()
}

// handOver lets the committer install an opening.
func (b *Buffer) handOver(o *pebblestore.Opening) {
	select {
	case b.reopened <- o:
	case <-b.ctx.Done():
		_ = o.Close() // it was never used
	}
}

// install takes up the reopened store. Called by the committer.
func (b *Buffer) install(o *pebblestore.Opening) {
	// The syncer reads the fields that are replaced here, so it must have ended every earlier commit.
	idle := newGroup(0)
	c := &commit{group: idle}
	b.syncs.add(c)
	b.hand(c)
	<-idle.done

	b.gate.dropOperations()
	b.mu.Lock()
	b.recovered.join(b.mu.state)
	b.mu.Unlock()
	b.takeUp(o)
	if !b.store.Install(o, func() { b.background = b.newBackground() }) {
		return // Close has begun
	}
	b.mu.Lock()
	b.signalChange()
	b.mu.Unlock()
	for _, s := range b.mu.sinks { // written by this goroutine alone
		if n := s.unstored.Load(); n > s.told.Swap(n) {
			b.log.Error("rows in memory lost with the local level", "sink", s.id, "rows_since_open", n, "next", "check the disk; no caller was told that these rows are stored")
		}
	}
	b.resume()
	b.admission.serve()
	if d := b.unsound.Load(); d != nil { // found while the store was being reopened
		_ = b.fail(d)
	}
}

// takeUp makes the state that was read from an opening the current one. Called by Open and the committer.
func (b *Buffer) takeUp(o *pebblestore.Opening) {
	r := b.recovered
	b.mu.Lock()
	b.mu.state = r.state
	b.instance = r.instance
	b.format.Store(int32(r.version))
	b.mu.Unlock()
	b.admission.takeUp(r)
	b.damages.Store(r.damages)
	b.damaged.Store(nil)
	b.receipts.replace(r.receipts)
	b.probes.reset()
	b.db, b.recovered = o.DB, nil
	if b.opts.Changelog != nil {
		b.confirm.number, b.confirm.tail, b.confirm.copied = r.number, r.tail, 0
		b.confirm.confirmed.Store(r.number)
		b.confirm.ctx, b.confirm.giveUp = context.WithCancel(b.confirm.all)
	}
	o.OnSync(b.syncs.wake)
}

// join makes the handles of the sinks valid for the recovered state. They keep their sinkState. A handle whose sink is not
// on the disk no longer accepts rows.
func (r *recovery) join(before state) {
	for id, s := range before.sinks {
		fresh := r.sinks[id]
		if fresh == nil {
			s.gone.Store(true)
			continue
		}
		// What was on its way when the disk failed may have reached it or not. Now it is known.
		s.unstored.Add(max(0, s.accepted().Rows-fresh.accepted().Rows))
		s.rec, s.file, s.slice, s.files = fresh.rec, fresh.file, fresh.slice, fresh.files
		s.held, s.heldBytes, s.arriving, s.arrivingFiles = fresh.held, fresh.heldBytes, fresh.arriving, fresh.arrivingFiles
		for _, f := range s.files {
			f.sink = s
		}
		s.recount(r.buffer.opts.MaxSinkBytes)
		r.sinks[id], r.byNum[s.num] = s, s
		// The chunks of a definition are identified by its pointer.
		if !s.rec.Def.Equal(s.def) {
			s.def = nil
			continue
		}
		s.rec.Def = s.def
		if s.file != nil && s.file.rec.Def.Equal(s.def) {
			s.file.rec.Def = s.def
		}
	}
}
