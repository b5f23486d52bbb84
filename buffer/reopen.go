package buffer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/schedule"
)

// A failed store is treated as a crash without the end of the process (see [phase] for the states):
//
//  1. The store is cut off from the disk (pebblestore.FS). Appends and operations get a [*FailedError]. Whoever waits for a
//     commit learns that its outcome is unknown.
//  2. Timers and driver calls end, as in Close.
//  3. The store is closed and opened again, with the backoff of Tuning.Retry. The state is read from the disk; nothing in
//     memory is trusted.
//  4. The handles of the sinks are joined to that state, and everything goes on as after Open.
//
// The design that lost: to end for good. The usual causes, a full disk or a network volume that was away, pass, and every
// embedder would have to write this loop.

// background is everything that acts by itself.
type background struct {
	timers   *schedule.Scheduler[timerKey]
	uploads  *workers
	imports  *workers
	cleanups *workers
	// cancel ends the calls of drivers.
	cancel context.CancelFunc
}

func (b *Buffer) newBackground() background {
	ctx, cancel := context.WithCancel(b.ctx)
	return background{
		timers: schedule.New(b.fire), uploads: newWorkers(ctx, b.opts.Uploads),
		imports: newWorkers(ctx, b.opts.Imports), cleanups: newWorkers(ctx, 2), cancel: cancel,
	}
}

// stop returns when nothing acts any more. It may be called twice and at once.
func (g background) stop() {
	g.timers.Stop()
	g.cancel()
	g.uploads.stop()
	g.imports.stop()
	g.cleanups.stop()
}

// opened is a store with the state that was read from it.
type opened struct {
	store *pebblestore.Opening
	state *recovery
}

// openStore opens the store and reads its state. A store that is damaged is salvaged.
func (b *Buffer) openStore() (opened, error) {
	again := b.instance != ""
	o, err := b.tryStore(again)
	if err == nil || !salvage.IsDamage(err) {
		return o, err
	}
	if e := b.salvage(err); e != nil {
		return o, fmt.Errorf("%w; what is whole could not be salvaged, nothing was changed: %w", err, e)
	}
	return b.tryStore(false) // the instance is new
}

// tryStore opens the store, with again only that of this instance.
func (b *Buffer) tryStore(again bool) (opened, error) {
	for _, prepare := range []func(vfs.FS, string) error{salvage.FinishSwap, salvage.CheckClosed, salvage.ForgetClosed} {
		if err := prepare(b.fs, b.dir); err != nil {
			return opened{}, fmt.Errorf("buffer: open %s: %w", b.dir, err)
		}
	}
	st, err := openStore(b.dir, b.opts, again, b)
	if err != nil {
		err = salvage.OpenError(b.fs, b.dir, err)
		return opened{}, fmt.Errorf("buffer: open %s: %w", b.dir, err)
	}
	rec, err := recoverState(b.dir, st.DB)
	if err == nil {
		err = rec.sealDamaged()
	}
	if err == nil {
		err = rec.adopt(b.fs, b.dir)
	}
	// A folder that was replaced meanwhile has other numbers: going on in it would give ids a second time.
	if err == nil && again && rec.instance != b.instance {
		err = fmt.Errorf("the data directory was replaced: it belongs to instance %s, not to %s; close the engine and open it again",
			rec.instance, b.instance)
	}
	if e := st.Failure(); e != nil {
		err = e
	}
	if err != nil {
		return opened{}, errors.Join(fmt.Errorf("buffer: open %s: %w", b.dir, err), closeStore(st))
	}
	return opened{st, rec}, nil
}

// storeFailed is called by the store, with locks held.
func (b *Buffer) storeFailed(s *pebblestore.Opening, err error) {
	if b.store.Load() == s { // else it is being opened, and the opening reports it
		b.life.fail(&FailedError{Err: err})
		b.gate.kick()
		b.syncs.wake()
	}
}

// fail ends the store because of an error that the store itself did not take for one.
func (b *Buffer) fail(err error) *FailedError {
	b.store.Load().End(err)
	if f := b.failure(); f != nil {
		return f
	}
	return &FailedError{Err: err}
}

// watch begins the reopening of a store that has failed. Called by the committer.
func (b *Buffer) watch() {
	if !b.life.reopen(func() { b.reopening.Add(1) }) {
		return
	}
	b.log.Error("local level failed, it is being reopened", "error", b.failure().Err)
	b.mu.Lock()
	b.signalChange()
	b.mu.Unlock()
	b.serveRoom()
	go b.reopen(b.background)
}

func (b *Buffer) reopen(old background) {
	defer b.reopening.Done()
	old.stop()
	_ = closeStore(b.store.Load()) // reports what is known
	for attempt := 1; b.ctx.Err() == nil; attempt++ {
		o, err := b.openStore()
		if err == nil {
			select {
			case b.reopened <- o:
			case <-b.ctx.Done():
				_ = closeStore(o.store)
			}
			return
		}
		delay := b.opts.Retry.delay(attempt)
		b.log.Error("local level cannot be reopened", "attempt", attempt, "retry_after", b.now().Add(delay), "error", err)
		select {
		case <-time.After(delay):
		case <-b.ctx.Done():
		}
	}
}

// install takes up the reopened store. Called by the committer.
func (b *Buffer) install(o opened) {
	// The syncer reads what is replaced here: it must have ended every earlier commit.
	idle := newGroup(0)
	c := &commit{group: idle}
	b.syncs.add(c)
	b.hand(c)
	<-idle.done

	b.gate.dropOperations()
	b.mu.Lock()
	o.state.join(b.mu.state)
	b.mu.Unlock()
	b.takeUp(o)
	if !b.life.reopened(func() { b.background = b.newBackground() }) {
		return // Close has begun: it closes this store
	}
	b.checkStore()
	b.mu.Lock()
	b.signalChange()
	b.mu.Unlock()
	b.log.Warn("local level reopened")
	for _, s := range b.mu.sinks { // written by this goroutine alone
		if n := s.unstored.Load(); n > s.told.Swap(n) {
			b.log.Error("rows in memory were lost with the local level", "sink", s.id, "rows_since_open", n)
		}
	}
	b.resume()
	b.serveRoom()
}

// takeUp makes a store and the state that was read from it the current ones. Called by Open and the committer.
func (b *Buffer) takeUp(o opened) {
	b.mu.Lock()
	b.mu.state = o.state.state
	b.instance = o.state.instance
	b.mu.Unlock()
	b.local.Store(o.state.local)
	b.staged.Store(o.state.staged)
	b.gathering.Store(o.state.gathering)
	b.damages.Store(o.state.damages)
	b.receipts.replace(o.state.receipts)
	b.probes.reset()
	b.db = o.store.DB
	o.store.OnSync(b.syncs.wake)
	b.store.Store(o.store)
}

// checkStore takes up a failure of the store from before it was the current one.
func (b *Buffer) checkStore() {
	if s := b.store.Load(); s.Failure() != nil {
		b.storeFailed(s, s.Failure())
	}
}

// join makes the handles of the sinks valid for the recovered state: they keep their sinkState. A handle whose sink is not
// on the disk takes no rows any more.
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
		for _, f := range s.files {
			f.sink = s
		}
		s.recount()
		r.sinks[id], r.byNum[s.num] = s, s
		// The chunks of a definition are told apart by its pointer.
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
