package instance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/localdisk"
)

// Instance is an engine with its log, owned by this process. It is safe for concurrent use.
type Instance struct {
	opts    Options
	folder  *folder
	keeper  *changelog.Keeper
	log     *batchLog
	engine  *forebay.Engine
	drainer *drainer

	// onDamage is called when the disk of this node has lost rows that log and checkpoint have. counts says that they lack the rows, so the loss is
	// counted.
	onDamage func(*buffer.StoreDamageError)
	counts   bool

	// checkpointed is when the last checkpoint was made, nil until that is known, and logStat the last known state of the log.
	checkpointed atomic.Pointer[time.Time]
	logStat      atomic.Pointer[changelog.Stat]

	// ctx ends when the instance is fenced, and with Close. Its cause is what Err returns.
	ctx        context.Context
	end        context.CancelCauseFunc
	background sync.WaitGroup
	salvaging  sync.Mutex // held by one call of Salvage
	closeOnce  sync.Once
	closeErr   error
}

// Open opens the present instance of the folder, or a new one, and returns when rows can be accepted. While the log or the store of
// owners does not respond it tries again, until ctx ends. Only one process can have the folder open.
//
// An instance that has another owner by now is set aside, and a new one begins. The rows in it are the other owner's.
func Open(ctx context.Context, dir string, o Options) (*Instance, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	f, err := openFolder(localdisk.Of(o.Engine.Buffer), dir)
	if err != nil {
		return nil, fmt.Errorf("instance: %w", err)
	}
	d, err := newDrainer(f.adopted(), o)
	if err = errors.Join(err, f.tidy()); err != nil {
		return nil, fmt.Errorf("instance: open %s: %w", dir, errors.Join(err, f.close()))
	}
	for {
		i, err := open(ctx, f, o)
		if err == nil {
			i.drainer, d.own = d, i
			i.start()
			return i, nil
		}
		fenced, ok := errors.AsType[*fencedError](err)
		if !ok {
			return nil, fmt.Errorf("instance: open %s: %w", dir, errors.Join(err, f.close()))
		}
		o.Logger.Warn("new instance begun", "instance", fenced.instance, "cause", err, "next", "none; the other owner drains the previous instance")
		f.tellVoid(fenced.instance, o.Logger)
		if owner, err := readOwner(ctx, o.Owners, fenced.instance); err == nil {
			f.noteEnd(fenced.instance, owner.Adopted, o.Logger)
		} // else Salvage asks again
		name, err := newName(ctx, o)
		if err == nil {
			err = errors.Join(f.setAside(fenced.instance, fenced.epoch), f.begin(name))
		}
		if err != nil {
			return nil, fmt.Errorf("instance: begin a new one in %s: %w", dir, errors.Join(err, f.close()))
		}
	}
}

// newName returns a name that no instance has had.
func newName(ctx context.Context, o Options) (name string, err error) {
	err = retry(ctx, o, "no name can be drawn for a new instance", func() (err error) {
		name, err = changelog.NewInstance(ctx, o.Owners, o.Node)
		return err
	})
	return name, err
}

// fencedError ends an opening because the instance has another owner. The epoch is this process's last one or the other owner's.
type fencedError struct {
	instance string
	epoch    uint64
	error
}

func (e *fencedError) Unwrap() error { return e.error }

// open opens the present instance of the folder.
func open(ctx context.Context, f *folder, o Options) (_ *Instance, err error) {
	name, err := f.instance()
	if err != nil {
		return nil, err
	}
	if name == "" {
		if name, err = newName(ctx, o); err != nil {
			return nil, err
		}
		if err := f.begin(name); err != nil {
			return nil, err
		}
	}
	have, err := f.inspect(name)
	if err != nil {
		return nil, err
	}
	i := &Instance{opts: o, folder: f}
	i.onDamage = i.damaged
	i.ctx, i.end = context.WithCancelCause(context.Background())
	if i.keeper, err = take(ctx, name, have.mark.Released.Epoch, have.empty, o); err != nil {
		i.end(err)
		return nil, err
	}
	defer func() {
		if isDamage(err) { // or another node has adopted and drained the instance meanwhile, and deleted its log
			err = errors.Join(err, i.keeper.Beat(ctx))
		}
		if errors.Is(err, changelog.ErrFenced) {
			err = &fencedError{name, i.keeper.Owner().Epoch, err}
		}
		if err != nil {
			i.end(err)
			i.keeper.Close()
		}
	}()
	if err := i.openWithLog(ctx, have); err != nil {
		return nil, err
	}
	return i, nil
}

// openWithLog opens the engine on the log that the record names, and on a new one if that is lost and the folder has everything.
func (i *Instance) openWithLog(ctx context.Context, have found) error {
	lost := have.empty && i.keeper.Owner().Log != "" // an engine is opened when the record has the log
	begun := false                                   // a log. Once is enough
	for again := false; ; again = true {
		stat, err := i.checkLog(ctx, have)
		patient := err != nil
		if err == nil {
			err = i.renew(have)
		}
		if err == nil {
			err = i.openEngine(ctx, lost)
		}
		switch {
		case err == nil:
			i.log.room.bound(stat, i.opts.CheckpointBytes)
			return nil
		case lost || begun || !isLogLost(err):
			return err
		case errors.Is(err, changelog.ErrMissing) && !patient && !again:
			continue // it may have been made a moment ago, or a server may lag, so checkLog waits
		}
		var readErr error
		if have, readErr = i.folder.inspect(i.keeper.Instance()); readErr != nil {
			return errors.Join(err, readErr)
		}
		if err := i.beginLog(ctx, have, err); err != nil {
			return err
		}
		begun = true
		have, readErr = i.folder.inspect(i.keeper.Instance())
		if readErr != nil {
			return readErr
		}
	}
}

// take makes this process the owner of an instance. The log of a new one is created first. See the package comment.
func take(ctx context.Context, name string, epoch uint64, empty bool, o Options) (*changelog.Keeper, error) {
	if empty {
		if err := retry(ctx, o, "the log of a new instance cannot be created", func() error {
			record, err := o.Owners.Get(ctx, changelog.OwnerKey(name))
			if err == nil && record.Version == 0 {
				err = o.Log.Create(ctx, name)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	k, err := changelog.Take(ctx, o.Owners, name, epoch, o.lease())
	if fenced, ok := errors.AsType[*changelog.FencedError](err); ok {
		if empty && fenced.Owner.State == changelog.Retired { // final, so the log created above has no owner
			withdraw(name, fenced.Owner, o)
		}
		return nil, &fencedError{name, fenced.Owner.Epoch, err}
	}
	return k, err
}

// checkLog compares the log with the log that the record names, and notes it there if it is the first. A record that is read may be
// old. So the log of an instance that has a record may have been made again, in place of one that was lost. Its ID shows that. A log counts
// as lost when it is missing for as long as a lease.
func (i *Instance) checkLog(ctx context.Context, have found) (stat changelog.Stat, err error) {
	owner, instance := i.keeper.Owner(), i.keeper.Instance()
	var missing time.Time
	if err := retry(ctx, i.opts, "the log of the instance does not respond", func() (err error) {
		stat, err = i.opts.Log.Stat(ctx, owner.LogName(instance))
		switch {
		case !errors.Is(err, changelog.ErrMissing):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) >= i.opts.Lease:
			return backoff.Permanent(fmt.Errorf("the log of instance %s is lost, and rows may be with it: %w", instance, err))
		}
		return err
	}); err != nil {
		return stat, err
	}
	switch {
	case owner.Log == "" && !have.empty:
		// An engine is opened when the record has the log.
		return stat, fmt.Errorf("the record of instance %s is lost, and its log may have been trimmed: %w", instance, changelog.ErrWentBack)
	case owner.Log == "":
		return stat, i.keeper.Update(ctx, func(o *changelog.Owner) { o.Log = stat.ID })
	case owner.Log != stat.ID:
		return stat, fmt.Errorf("the log of instance %s was %s and is %s, rows may be lost: %w", instance, owner.Log, stat.ID, changelog.ErrWentBack)
	case have.mark.generation > owner.Generation:
		return stat, fmt.Errorf("the record of instance %s names log %d, and the local level has batches of log %d: %w",
			instance, owner.Generation, have.mark.generation, changelog.ErrWentBack)
	}
	return stat, nil
}

// openEngine opens the engine on the log. If lost is set, its folder was lost and is restored first. A folder that the log does not continue, or that
// is damaged, is set aside and restored too, once. Damage that neither log nor checkpoint can make good is counted.
func (i *Instance) openEngine(ctx context.Context, lost bool) error {
	name := i.keeper.Instance()
	found, err := i.folder.damage(name)
	if err != nil {
		return err
	}
	const aside, check = "local level set aside and restored", "check the disk; you may remove the folder fenced-… later"
	if found != nil {
		i.opts.Logger.Warn(aside, "instance", name, "cause", found, "next", check)
	}
	again, restored, countable := lost || found != nil, false, found != nil
	var missing time.Time // since when each attempt found that log or checkpoint lack something
	return retry(ctx, i.opts, "the instance cannot be opened", func() error {
		if again {
			switch err := i.restore(ctx, lost); {
			case err == nil:
				lost, again, restored = false, false, true
			case errors.Is(err, changelog.ErrFenced), isDamage(err) && !countable:
				return backoff.Permanent(err)
			case !isDamage(err):
				missing = time.Time{}
				return err
			case missing.IsZero():
				missing = time.Now()
				return err
			case time.Since(missing) < i.opts.Lease: // then another replica would have led
				return err
			default:
				i.opts.Logger.Error("rows lost in local level and log", "instance", name, "cause", err, "next", "check the disk, and find out what deletes objects in staging")
				if err := i.folder.forgetDamage(name); err != nil {
					return err
				}
				again, countable, i.counts = false, false, true
			}
		}
		err := i.tryEngine(ctx, i.folder.data(name))
		switch {
		case err == nil:
			return nil
		case !restored && mustRestore(err):
			i.opts.Logger.Warn(aside, "instance", name, "cause", err, "next", check)
			again, countable = true, !i.counts && errors.As(err, new(*buffer.StoreDamageError))
		case i.log.failure == nil || errors.Is(err, changelog.ErrFenced) || errors.Is(err, changelog.ErrNewer) || isDamage(err):
			err = backoff.Permanent(err)
		}
		return err
	})
}

// restore restores the folder of the engine. If lost is set, there is none that could serve as well.
func (i *Instance) restore(ctx context.Context, lost bool) error {
	name := i.keeper.Instance()
	dir := i.folder.restored(name)
	if lost {
		dir = i.folder.data(name)
		i.folder.tellVoid(name, i.opts.Logger)
		if err := i.folder.setAside(name, i.keeper.Owner().Epoch); err != nil { // something else
			return backoff.Permanent(err)
		}
	} else if err := i.folder.disk.RemoveAll(dir); err != nil {
		return err
	}
	var end *changelog.LogEnd
	damaged, err := restore(ctx, dir, i.keeper, i.opts, !lost, func(_ context.Context, found changelog.LogEnd) error {
		end = &found
		return nil
	})
	if err == nil && !lost {
		i.folder.tellVoid(name, i.opts.Logger)
		i.folder.noteEnd(name, end, i.opts.Logger)
		err = i.folder.exchange(name, i.keeper.Owner().Epoch)
	}
	if err == nil {
		i.counts = damaged
	}
	return err
}

// damaged ends the instance because its disk has lost something. The next Open restores it.
func (i *Instance) damaged(found *buffer.StoreDamageError) {
	if err := i.folder.noteDamage(i.keeper.Instance(), found.Err); err != nil {
		i.opts.Logger.Error("damage of the local level not noted", "instance", i.keeper.Instance(), "cause", err, "next", "check the disk")
	}
	i.end(found)
}

// mustRestore reports whether the log does not continue a local level as it is.
func mustRestore(err error) bool {
	return errors.Is(err, changelog.ErrAhead) || errors.Is(err, changelog.ErrTrimmed) || errors.As(err, new(*buffer.StoreDamageError))
}

// tryEngine makes one attempt to open the engine.
func (i *Instance) tryEngine(ctx context.Context, dir string) error {
	log := newLog(i.opts.Log, i.keeper, i.opts.Node, i.opts.Logger)
	i.log = log
	o := i.opts.Engine
	o.Changelog = log
	if !i.counts {
		o.OnDamage = i.onDamage
	}
	stop := context.AfterFunc(ctx, func() { log.end(context.Cause(ctx)) })
	engine, err := forebay.Open(dir, o)
	if !stop() && err == nil {
		err = errors.Join(context.Cause(ctx), engine.Close())
	}
	if err != nil {
		i.log.close()
		return err
	}
	i.engine = engine
	return nil
}

// retry calls try until it succeeds, fails with a [backoff.PermanentError], or ctx ends. The first failure is logged with a text.
func retry(ctx context.Context, o Options, text string, try func() error) error {
	return retryWithin(ctx, o, 2*time.Second, text, try)
}

// retryWithin is retry with a bound of the wait between two attempts.
func retryWithin(ctx context.Context, o Options, most time.Duration, text string, try func() error) error {
	warned := false
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, try() },
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: 100 * time.Millisecond, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: most,
		}),
		backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, _ time.Duration) {
			if !warned {
				o.Logger.Warn("step retried", "problem", text, "cause", err, "next", "check that the servers and staging respond")
			}
			warned = true
		}))
	return err
}

// start begins what an open instance does by itself.
func (i *Instance) start() {
	i.background.Go(func() { i.drainer.sweep(i.ctx) })
	i.background.Go(func() { i.deleteLogBefore(i.ctx) })
	if i.opts.Engine.Meter != nil {
		i.background.Go(func() { i.watchLog(i.ctx) })
	}
	i.background.Go(func() {
		c := checkpointer{Instance: i, store: i.opts.checkpoints()}
		c.run(i.ctx)
	})
	i.background.Go(func() {
		look := time.NewTicker(i.opts.Lease / 3)
		defer look.Stop()
		for {
			select {
			case <-i.keeper.Done():
				i.end(i.keeper.Err())
			case <-i.log.ctx.Done():
				i.end(context.Cause(i.log.ctx))
			case <-look.C:
				i.log.endIfLost()
				if err := i.engine.Ready(); errors.As(err, new(*buffer.StoreDamageError)) {
					i.end(err)
				}
			case <-i.ctx.Done():
				return
			}
		}
	})
}

// Engine returns the engine. Close closes it.
func (i *Instance) Engine() *forebay.Engine { return i.engine }

// Keeper returns what holds the instance for this process. Close closes it.
func (i *Instance) Keeper() *changelog.Keeper { return i.keeper }

// Done is closed with Close, and when the instance cannot continue. Then close it, and open the folder again.
func (i *Instance) Done() <-chan struct{} { return i.ctx.Done() }

// Err returns nil until Done is closed. After that it is [forebay.ErrClosed], or why the instance cannot continue, mostly an error that is
// [changelog.ErrFenced].
func (i *Instance) Err() error { return context.Cause(i.ctx) }

// Close closes the engine, which stays this node's until another node adopts it. Open it again within the lease. Close may be called
// several times.
func (i *Instance) Close() error {
	i.closeOnce.Do(func() {
		i.end(forebay.ErrClosed)
		i.background.Wait()
		err := i.engine.Close()
		i.log.close()
		i.keeper.Close()
		i.closeErr = errors.Join(err, i.folder.close())
	})
	return i.closeErr
}
