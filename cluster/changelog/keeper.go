package changelog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Keeper holds an instance for this process. It beats, which keeps others from adopting the instance. [Take] and [Adopt]
// make one. All methods may be called concurrently.
//
// A lease decides when a node stops and when another node begins. It is never what keeps rows safe. The log does that, because it refuses
// or voids what an earlier epoch appends. Each side measures on its own monotonic clock. The owner stops one lease after it began
// its last successful beat, the adopter begins one lease or more after it saw that beat. So their times overlap by no more than
// the time the owner's clock loses against the adopter's during one lease, 1.2 ms for clocks 100 ppm apart, and by the time
// between Valid and the caller's next action.
type Keeper struct {
	owners   Owners
	instance string
	session  string
	opts     LeaseOptions

	// born is where until begins, on the monotonic clock.
	born  time.Time
	until atomic.Int64 // the end of the lease; 0 if there is none

	// last is held, for goroutines without the turn.
	last     atomic.Pointer[Owner]
	released atomic.Uint64
	// states is what States returns.
	states atomic.Pointer[map[OwnerState]int]

	// ctx ends with Close or with a FencedError, which is its cause then.
	ctx        context.Context
	cancel     context.CancelCauseFunc
	background sync.WaitGroup

	// turn is held by the goroutine that writes the record, through the calls of the store of owners, and guards what follows.
	turn chan struct{}
	// held is the newest record that this process knows to be its own, and at the version that the next write replaces. That may
	// be the version of a record that is not its own. See look.
	held Owner
	at   Version
	// back says that the record at that version is not of this session, although its epoch is not higher.
	back bool
	beat uint64
	// claimed says that the record of eras has a claim of this process for the name. unsure says that a write of a record where there was
	// none may still be on its way.
	claimed, unsure bool
	// failing is when the first of the attempts failed that have failed since the last success.
	failing time.Time
}

var errClosed = errors.New("the keeper is closed")

// finalError is an error that a repetition does not change.
type finalError struct{ error }

// States returns how many instances are in each state but [Retired], as far as [Adopt] has seen their records. It returns nil before Adopt has seen all. The
// map is the caller's.
func (k *Keeper) States() map[OwnerState]int {
	if states := k.states.Load(); states != nil {
		return maps.Clone(*states)
	}
	return nil
}

func newKeeper(owners Owners, instance, session string, opts LeaseOptions) *Keeper {
	k := &Keeper{owners: owners, instance: instance, session: session, opts: opts, born: time.Now(), turn: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	return k
}

// Take makes this node the owner of an instance whose local store it has. local is the highest epoch that the store knows of, 0 for
// a new instance. Take chooses a higher one. It does not wait for silence. A node that returns with its disk is faster than
// its would-be adopters. Take repeats until it succeeds, ctx ends, or the result is final. A [FencedError] is final, and so is a
// record that this release cannot read.
//
// An instance that another node has adopted is fenced even if that node is away, because its rows may have moved on without this
// store.
func Take(ctx context.Context, owners Owners, instance string, local uint64, opts LeaseOptions) (*Keeper, error) {
	if err := errors.Join(opts.Validate(), CheckKey(OwnerKey(instance))); err != nil {
		return nil, err
	}
	k := newKeeper(owners, instance, rand.Text(), opts.withDefaults())
	k.held.Epoch = local
	if err := k.repeat(ctx, func() error {
		if err := k.prepare(ctx); err != nil {
			return err
		}
		return k.attempt(ctx, true, nil)
	}); err != nil {
		k.cancel(err)
		return nil, err
	}
	k.start()
	return k, nil
}

// prepare prepares the first write of Take. It decides nothing by reading. If its read is old, that write is lost.
func (k *Keeper) prepare(ctx context.Context) error {
	found, version, err := k.read(ctx)
	// The process may have ended before the epoch that it wrote was in the local store.
	restarted := found.Node == k.opts.Node && found.State == Owned
	switch {
	case found.Epoch > k.held.Epoch && found.Session != k.session && !restarted:
		return k.fenced(found)
	case err != nil && version != 0:
		return &finalError{err}
	case err != nil:
		return err
	case version == 0:
		if err := k.claimName(ctx); err != nil {
			return err
		}
		found.State = Owned
	case !found.State.live():
		return k.fenced(found)
	case found.Node != k.opts.Node:
		// The record went back to the owner from whom this node had adopted.
		found.State = Adopting
	}
	found.Epoch = max(found.Epoch, k.held.Epoch)
	k.held, k.at = found, version
	k.SetReleased(found.Released)
	return nil
}

// start begins to beat. A write has succeeded.
func (k *Keeper) start() { k.background.Go(k.keep) }

// keep beats whenever a third of the lease has passed since the last write.
func (k *Keeper) keep() {
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(k.Left() - k.opts.Lease*2/3):
		}
		if k.Left() <= k.opts.Lease*2/3 {
			_ = k.Beat(k.ctx) // it ends with success or with k.ctx
		}
	}
}

// Left is how much of the lease is left, below 0 when it has ended.
func (k *Keeper) Left() time.Duration { return time.Duration(k.until.Load()) - time.Since(k.born) }

// Valid reports whether the lease lasts. It is made for the hot path and costs one atomic load and a look at the clock. A process that stands still
// after a Valid that was true does not notice. The log finds that out.
func (k *Keeper) Valid() bool { return k.until.Load() > int64(time.Since(k.born)) }

// Instance returns the name of the instance.
func (k *Keeper) Instance() string { return k.instance }

// Owner returns the record as this process wrote it last.
func (k *Keeper) Owner() Owner { return *k.last.Load() }

// SetReleased notes that a batch was acknowledged. The next beat carries the highest number.
func (k *Keeper) SetReleased(number uint64) {
	for {
		old := k.released.Load()
		if number <= old || k.released.CompareAndSwap(old, number) {
			return
		}
	}
}

// Done is closed when the Keeper has ended. Either it was closed, or Err says who owns the instance now.
func (k *Keeper) Done() <-chan struct{} { return k.ctx.Done() }

// Err returns nil until Done is closed. Then it returns a [FencedError] that is final, or says that the Keeper was
// closed.
func (k *Keeper) Err() error { return context.Cause(k.ctx) }

// Close stops beating and waits until no write is in progress. The record stays. The node may come back and Take the instance, and
// others adopt it after the lease.
func (k *Keeper) Close() {
	k.cancel(errClosed)
	k.background.Wait()
	k.turn <- struct{}{}
	k.until.Store(0)
	<-k.turn
}

// Beat writes the record now. Success proves that the epoch of this process was still the highest after Beat was called. It repeats
// until it succeeds, ctx ends, or the error is final. A [FencedError] is final, and so is the error of a closed Keeper.
func (k *Keeper) Beat(ctx context.Context) error {
	return k.write(ctx, false, nil)
}

// NextEpoch raises the epoch and returns it. No other process is given the same. It repeats as Beat does.
func (k *Keeper) NextEpoch(ctx context.Context) (uint64, error) {
	if err := k.lock(ctx); err != nil {
		return 0, err
	}
	defer k.unlock()
	if err := k.repeat(ctx, func() error { return k.step(ctx, true, nil) }); err != nil {
		return 0, err
	}
	return k.held.Epoch, nil
}

// Update writes what change makes of State, Log, Generation, Start, Checkpoint, CheckpointPosition, GivenUp, Lost, RetiredAt, MovedTo and Arrived. change may also lower
// Released, as long as nothing is acknowledged meanwhile. The other fields are the Keeper's. change may be called several times. Update
// repeats as Beat does, and fails if the state cannot follow the one before.
func (k *Keeper) Update(ctx context.Context, change func(*Owner)) error {
	return k.write(ctx, false, func(o *Owner) error {
		before := o.State
		change(o)
		if !before.canBecome(o.State) {
			return &finalError{fmt.Errorf("the state of instance %s cannot change from %s to %q", k.instance, before, o.State)}
		}
		return nil
	})
}

func (k *Keeper) write(ctx context.Context, raise bool, change func(*Owner) error) error {
	if err := k.lock(ctx); err != nil {
		return err
	}
	defer k.unlock()
	return k.repeat(ctx, func() error { return k.step(ctx, raise, change) })
}

func (k *Keeper) lock(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Keeper) unlock() { <-k.turn }

// repeat calls try until it succeeds, its error is final, or one of the contexts ends.
func (k *Keeper) repeat(ctx context.Context, try func() error) error {
	for k.ctx.Err() == nil {
		err := try()
		if err == nil {
			return nil
		}
		if final := (*finalError)(nil); errors.As(err, &final) {
			return final.error
		}
		select {
		case <-k.ctx.Done():
		case <-ctx.Done():
			return fmt.Errorf("the record of instance %s cannot be written: %w, %w", k.instance, context.Cause(ctx), err)
		case <-time.After(k.opts.Lease / 24):
		}
	}
	return context.Cause(k.ctx)
}

// step makes one attempt and reads the record if it fails.
func (k *Keeper) step(ctx context.Context, raise bool, change func(*Owner) error) error {
	err := k.attempt(ctx, raise, change)
	if err == nil {
		if !k.failing.IsZero() {
			k.opts.Logger.Info("record of the instance written again", "instance", k.instance, "after", time.Since(k.failing))
			k.failing = time.Time{}
		}
		return nil
	}
	if final := (*finalError)(nil); errors.As(err, &final) {
		return err
	}
	if k.failing.IsZero() && !errors.Is(err, ErrLost) && k.ctx.Err() == nil {
		k.failing = time.Now()
		k.opts.Logger.Warn("record of the instance not written",
			"instance", k.instance, "left", k.Left(), "cause", err, "next", "before the lease ends, check that a majority of the servers is running")
	}
	if lookErr := k.look(ctx); lookErr != nil {
		return errors.Join(err, lookErr)
	}
	return err
}

// attempt tries once to replace the record by the record that this process holds, with its change.
func (k *Keeper) attempt(ctx context.Context, raise bool, change func(*Owner) error) error {
	next := k.held
	next.Released = k.released.Load()
	released := next.Released
	if change != nil {
		if err := change(&next); err != nil {
			return err
		}
	}
	next.Released = min(next.Released, released)
	next.Epoch = k.held.Epoch
	if raise || k.back {
		next.Epoch++
	}
	k.beat = max(k.beat, k.held.Beat) + 1
	next.Node, next.Session, next.Beat, next.Lease = k.opts.Node, k.session, k.beat, k.opts.Lease
	value, err := next.MarshalJSON()
	if err != nil {
		return &finalError{err}
	}
	began := time.Since(k.born)
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	version, err := k.owners.CompareAndSet(ctx, OwnerKey(k.instance), k.at, value)
	if err != nil {
		k.unsure = k.unsure || k.at == 0 && !errors.Is(err, ErrLost)
		return err
	}
	if k.back {
		k.opts.Logger.Warn("record of the instance had gone back", "instance", k.instance, "epoch", next.Epoch, "next", "find out who restored the servers")
	}
	k.held, k.at, k.back = next, version, false
	if next.Released < released {
		k.released.CompareAndSwap(released, next.Released)
	}
	k.last.Store(&next)
	k.until.Store(int64(began + k.opts.Lease))
	if k.claimed && !k.unsure {
		k.unclaimName(ctx)
	}
	return nil
}

// look finds the version for the next attempt, after one that was lost or whose result is unknown. Its read may be old, so it
// decides only that a higher epoch of another process is final, because an old record has a lower one.
func (k *Keeper) look(ctx context.Context) error {
	found, version, err := k.read(ctx)
	own := found.Session == k.session
	switch {
	case !own && found.Epoch > k.held.Epoch:
		return k.fenced(found)
	case err != nil:
		return err
	case version == 0:
		if err := k.claimName(ctx); err != nil {
			return err
		}
	case own && found.Beat > k.held.Beat:
		// A write whose response was lost. The next attempt confirms it.
		k.held = found
	}
	// Everything else is old, or the store of owners went back. If the next attempt succeeds, it did. What this process held is
	// written again, with a higher epoch if another process's record stands there.
	k.at, k.back = version, !own
	return nil
}

// read returns the record that the store of owners shows, which may be old, or the zero record at version 0. A record that is
// unreadable is an error with a version. As much of it as is readable is returned with the error.
func (k *Keeper) read(ctx context.Context) (Owner, Version, error) {
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	got, err := k.owners.Get(ctx, OwnerKey(k.instance))
	if err != nil || got.Version == 0 {
		return Owner{}, 0, err
	}
	var found Owner
	if err := found.UnmarshalJSON(got.Value); err != nil {
		return found, got.Version, fmt.Errorf("the record of instance %s is unreadable: %w", k.instance, err)
	}
	return found, got.Version, nil
}

// bounded bounds one call of the store of owners, so that several fit into a lease.
func (k *Keeper) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Lease/6)
	stop := context.AfterFunc(k.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// fenced ends the Keeper permanently.
func (k *Keeper) fenced(found Owner) error {
	err := &FencedError{Instance: k.instance, Epoch: k.held.Epoch, Owner: found}
	k.until.Store(0)
	k.cancel(err)
	k.opts.Logger.Error("instance owned by another process", "instance", k.instance, "epoch", err.Epoch, "node", found.Node, "now", found.Epoch, "next", "none if a node has adopted it; stop the process if it runs on a copy of the data")
	return &finalError{err}
}

// once makes one attempt to beat, which proves at success that the store of owners works.
func (k *Keeper) once(ctx context.Context) error {
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	if err := k.lock(ctx); err != nil {
		return err
	}
	defer k.unlock()
	return k.step(ctx, false, nil)
}
