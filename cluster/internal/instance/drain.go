package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/localdisk"
)

// drains is how many adopted instances are restored and drained at once.
const drains = 2

// drainer moves the rows of adopted instances to their tables. Its methods may be called concurrently.
type drainer struct {
	dir   string // each instance has a folder in it
	opts  Options
	own   *Instance // of the node, to which rejected records and files move
	slots chan struct{}

	mu   sync.Mutex
	jobs map[*drainage]*forebay.Engine // the calls of drain, with the engine while it is open
	// received are the last instances whose keys this process has copied into its own instance.
	received []string

	// old are the records that may be deleted once they have stood for forgetAfter, by key and version with since when. One goroutine sweeps.
	old map[oldRecord]time.Time
}

type oldRecord struct {
	key     string
	version changelog.Version
}

// newDrainer removes the files that an earlier process left in the folder. That process no longer held any of the instances.
func newDrainer(dir string, opts Options) (*drainer, error) {
	d := &drainer{dir: dir, opts: opts, slots: make(chan struct{}, drains), jobs: map[*drainage]*forebay.Engine{}}
	return d, d.disk().RemoveAll(dir)
}

func (d *drainer) disk() vfs.FS { return localdisk.Of(d.opts.Engine.Buffer) }

// Drain moves all rows of an adopted instance to their tables, under the ids of its owner, and then deletes its log and its checkpoints.
// [changelog.Adopt] calls it. It continues until that is done, ctx ends, or the instance needs an operator, in which
// case the record says [changelog.Damaged] and everything is kept. The next adopter continues with the state in the record and
// the log. Nothing depends on the folder of the previous adopter.
//
// Two instances are drained at once, the others wait for their turn. An instance whose tables refuse its rows until an operator
// fixes the cause gives up its turn.
func (i *Instance) Drain(ctx context.Context, k *changelog.Keeper) { i.drainer.drain(ctx, k) }

func (d *drainer) drain(ctx context.Context, k *changelog.Keeper) {
	job := &drainage{
		drainer: d, k: k, dir: d.disk().PathJoin(d.dir, k.Instance()), adopted: time.Now(),
		log: d.opts.Logger.With("instance", k.Instance()),
	}
	job.show(nil)
	defer job.hide()
	if job.take(ctx) != nil {
		return
	}
	defer job.free()
	began := time.Now()
	if err := errors.Join(job.run(ctx), d.disk().RemoveAll(job.dir)); err != nil {
		if errors.Is(k.Err(), changelog.ErrFenced) {
			withdrawLogs(k, d.opts)
		}
		job.log.Warn("instance no longer drained by this node", "cause", err, "next", "another node adopts the instance, unless its log or checkpoint lost data")
		return
	}
	job.log.Info("adopted instance drained", "after", time.Since(began))
}

// drainage is one call of drain.
type drainage struct {
	*drainer
	k       *changelog.Keeper
	dir     string
	adopted time.Time
	turn    bool      // it has one of the slots
	arrived bool      // the rejected records and files belong to the instance of this node
	cut     bool      // a checkpoint has shortened the log
	notCut  time.Time // when the last attempt to shorten the log failed
	keeps   string    // why the last attempt has not drained the instance, guarded by mu
	log     *slog.Logger
}

// run takes the instance from Adopting, or from Draining, to Retired.
func (d *drainage) run(ctx context.Context) error {
	var damaged time.Time // since when each attempt found damage
	if err := d.retry(ctx, "the adopted instance cannot be drained", func() error {
		if d.k.Owner().GivenUp {
			if err := d.giveUp(ctx, nil); err != nil {
				return err
			}
		}
		err := d.move(ctx)
		for errors.Is(err, errCut) {
			err = d.move(ctx)
		}
		switch {
		case d.k.Owner().GivenUp && isUnreadable(err): // what only an engine finds
			if err := d.giveUp(ctx, err); err != nil {
				return err
			}
			return d.move(ctx)
		case !isDamage(err):
			damaged = time.Time{}
		case damaged.IsZero():
			damaged = time.Now()
		case time.Since(damaged) >= d.opts.Lease: // another replica would have led by now
			d.log.Error("log or checkpoint of the instance lost data", "cause", err, "next", "readmit the instance or give it up (docs/cluster-failures.md)")
			return backoff.Permanent(errors.Join(err, d.become(ctx, changelog.Damaged)))
		}
		return err
	}); err != nil {
		return err
	}
	if err := d.become(ctx, changelog.Drained); err != nil {
		return err
	}
	if err := d.retry(ctx, "log and checkpoint of a drained instance cannot be deleted", func() error {
		return d.clear(ctx, d.k.Instance(), d.k.Owner())
	}); err != nil {
		return err
	}
	return d.become(ctx, changelog.Retired)
}

func (d *drainage) become(ctx context.Context, state changelog.OwnerState) error {
	return d.k.Update(ctx, func(o *changelog.Owner) {
		if o.State = state; state == changelog.Retired {
			o.RetiredAt, o.Arrived = time.Now().UTC().Truncate(time.Second), d.arrived
		}
	})
}

// notDrainedNext is the next step when the rows of an adopted instance do not move.
const notDrainedNext = "check that the servers, staging and the archive respond, and that this node may write and delete objects in staging; the rows are safe in the log"

// retry is the function of this name for calls that nothing but another owner makes final. Each attempt to drain takes room in the
// log, so that there are few of them.
func (d *drainage) retry(ctx context.Context, text string, try func() error) error {
	return retryWithin(ctx, d.opts, time.Minute, text, func() error {
		if err := d.take(ctx); err != nil { // many instances may wait for staging, and few at once may restore when it is back
			return backoff.Permanent(err)
		}
		err := try()
		switch {
		case err == nil:
			d.keep("")
		case errors.Is(err, changelog.ErrFenced):
			err = backoff.Permanent(err)
		default:
			d.keep(fmt.Sprintf("%s: %v", text, err))
			if time.Since(d.adopted) >= importPatience { // no other instance waits for it
				d.free()
				// Fields: sink (if known), cause, again (if known).
				d.log.Warn("adopted instance not drained yet", "cause", err, "next", notDrainedNext)
			}
		}
		return err
	})
}

// take waits for a turn, and free gives it up.
func (d *drainage) take(ctx context.Context) error {
	if d.turn {
		return nil
	}
	select {
	case d.slots <- struct{}{}:
		d.turn = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *drainage) free() {
	if d.turn {
		d.turn = false
		<-d.slots
	}
}

// keep notes why the instance is still there, for [Report]. Empty means that it is being drained.
func (d *drainage) keep(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keeps = why
}

// move restores the instance and moves its rows to their tables. Each call starts over. The work of an earlier call is in the log.
// Nothing outside begins before the log has a marker of the engine, which appends one when it is opened.
func (d *drainage) move(ctx context.Context) error {
	if err := d.disk().RemoveAll(d.dir); err != nil {
		return err
	}
	counts, err := restore(ctx, d.dir, d.k, d.opts, false, nil)
	if err != nil {
		return fmt.Errorf("restore instance %s: %w", d.k.Instance(), err)
	}
	if err := d.become(ctx, changelog.Draining); err != nil {
		return err
	}
	log := newLog(d.opts.Log, d.k, d.opts.Node, d.log)
	defer log.close()
	defer context.AfterFunc(ctx, func() { log.end(context.Cause(ctx)) })()
	log.begun = func(ctx context.Context, end changelog.LogEnd) error { // nothing of this node is after it yet
		if d.k.Owner().Adopted != nil {
			return nil
		}
		return d.k.Update(ctx, func(o *changelog.Owner) { o.Adopted = &end })
	}
	o := d.opts.Engine
	o.Changelog = log
	o.Meter = nil // the node's own engine has it; Report has the rows of this one
	o.Logger = o.Logger.With("adopted", d.k.Instance())
	// What this disk loses is restored by the next attempt.
	flushing, end := context.WithCancelCause(ctx)
	defer end(nil)
	onDamage := func(found *buffer.StoreDamageError) { end(found) }
	if !counts {
		o.OnDamage = onDamage
	}
	e, err := forebay.Open(d.dir, o)
	if err == nil && d.k.Owner().GivenUp { // it does not apply to later damage
		if err = d.k.Update(ctx, func(o *changelog.Owner) { o.GivenUp = false }); err != nil {
			err = errors.Join(err, e.Close())
		}
	}
	if err != nil {
		return err
	}
	d.show(e)
	i := &Instance{opts: d.opts, folder: &folder{disk: d.disk(), dir: d.dir}, keeper: d.k, log: log, engine: e, counts: counts, onDamage: onDamage}
	stop := d.checkpoints(flushing, i)
	err = d.empty(flushing, e)
	stop()
	if errors.Is(err, errCut) {
		if failed := (&checkpointer{Instance: i, store: d.opts.checkpoints()}).make(flushing); failed != nil {
			d.log.Warn("log of the adopted instance not cut", "cause", failed, "again", cutPause, "next", "check that staging responds")
			d.cut, d.notCut = false, time.Now()
		} else {
			d.log.Info("log of the adopted instance cut")
		}
	}
	d.show(nil)
	if err := errors.Join(err, e.Close()); err != nil {
		return err
	}
	// Whoever reads the log alone sees that it has ended. Nothing depends on it, because a log that is full cannot say so.
	if err := log.appender.Finish(ctx); err != nil {
		d.log.Debug("end of a drained log not noted", "cause", err)
	}
	return nil
}

// checkpoints makes checkpoints of an adopted instance whose log is short of room, until stop is called. The instance accepts no rows, but
// the processing of its rows is written to its log.
func (d *drainage) checkpoints(ctx context.Context, i *Instance) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	every := int64(math.MaxInt64)
	if d.cut { // each attempt to import adds to it
		every = d.opts.CheckpointBytes / cutPart
	}
	var background sync.WaitGroup
	background.Go(func() {
		stat, err := d.opts.Log.Stat(ctx, i.log.name())
		if err != nil {
			return // the next attempt to drain may have more luck
		}
		i.log.room.bound(stat, every)
		(&checkpointer{Instance: i, store: d.opts.checkpoints()}).run(ctx)
	})
	return func() { cancel(); background.Wait() }
}

// empty returns when all rows are in their tables or have moved to the instance of this node, and all nodes know it.
func (d *drainage) empty(ctx context.Context, e *forebay.Engine) error {
	adoption, err := d.opts.Adopt(d.k.Instance(), d.k.Owner().Epoch, e)
	if err != nil {
		return err
	}
	defer adoption.Close()
	// An adopter before may have kept the files from being imported.
	moved := d.k.Owner().MovedTo != ""
	if err := e.Buffer().Moves().EndDeparture(ctx, moved); err != nil {
		return err
	}
	if moved {
		adoption.RejectsMoved()
	}
	if err := d.flush(ctx, e, adoption); err != nil {
		return err
	}
	if err := d.moveKeys(ctx, e); err != nil {
		return err
	}
	return adoption.Finish(ctx)
}

// flush returns when all rows are in their tables and staging is empty, or when the remaining files have moved to the instance of this node.
func (d *drainage) flush(ctx context.Context, e *forebay.Engine, adoption Adoption) error {
	held := &backoff.ExponentialBackOff{InitialInterval: time.Second, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: time.Minute}
	last, since := "", time.Now() // the number of slices of each sink and state, and when it was another one
	for {
		if err := adoption.Follow(ctx); err != nil {
			return err
		}
		flushing, end := context.WithTimeout(ctx, importPatience)
		err := e.FlushAll(flushing)
		end()
		now := e.Stats() // one moment, because a replay makes a row of a rejected record
		refused, waits := errors.AsType[*buffer.HeldError](err)
		switch {
		case ctx.Err() != nil:
			return cmp.Or(err, context.Cause(ctx))
		case err != nil && !waits && flushing.Err() == nil:
			return err
		}
		if counts := slicesOf(now); counts != last {
			last, since = counts, time.Now()
		}
		wait := settle
		if waits && staged(now) || settled(now) {
			moved, failed := d.moveRest(ctx, e, adoption)
			if moved && failed == nil {
				return nil
			}
			err = errors.Join(err, failed)
			if !waits || failed != nil {
				// Its log is all that has them.
				d.free()
				wait = held.NextBackOff()
				d.keep(fmt.Sprintf("its rejected records and files do not move: %v", err))
				d.log.Warn("rest of the adopted instance not moved", "records", rejected(now), "cause", err, "again", wait,
					"next", "replay or discard records, repair the tables that refuse rows, or raise the named limit")
			}
		}
		if wait == settle && (waits && (refused.Attempt > 0 || flushing.Err() == nil) || time.Since(since) >= importPatience) { // else uploads continue
			d.free()
			wait = held.NextBackOff()
			sink, cause := notStaged(now)
			if cause == "" && waits {
				d.keep(fmt.Sprintf("a table refuses its rows: %v", err))
				d.log.Warn("table refuses rows of the adopted instance", "sink", refused.SinkID, "cause", err, "again", wait, "next", "repair the table; the rows wait in staging")
			} else {
				cause = cmp.Or(cause, "an import has not ended")
				d.keep(fmt.Sprintf("sink %s: %s", sink, cause))
				// Fields: sink (if known), cause, again (if known).
				d.log.Warn("adopted instance not drained yet", "sink", sink, "cause", cause, "again", wait, "next", notDrainedNext)
			}
		}
		if wait != settle && d.cuts(ctx) {
			return errCut
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errCut says that the log of an adopted instance is to be cut. Only a table or an operator can end the wait for the rest of its rows and records,
// and until then the log would keep all batches since the last checkpoint of its owner. The servers would reserve as much. With a checkpoint the log
// gets short, and the next opening of the log gives the room back.
var errCut = errors.New("the log of the adopted instance gets shorter")

// cutPause is the time from a failed cut of a log to the next one. The engine of the instance is opened again for each.
const cutPause = 10 * time.Minute

// cuts reports whether the log is long enough to be cut. It is cut once, because each opening of the log needs some space again.
func (d *drainage) cuts(ctx context.Context) bool {
	if d.cut || !d.notCut.IsZero() && time.Since(d.notCut) < cutPause {
		return false
	}
	stat, err := d.opts.Log.Stat(ctx, d.k.Owner().LogName(d.k.Instance()))
	if err != nil {
		return false // the next round asks again
	}
	d.cut = stat.Bytes >= d.opts.CheckpointBytes/cutPart
	return d.cut
}

// cutPart is the part of [Options.CheckpointBytes] from which on a log is cut: 4 MiB by default, for which servers reserve no more than for an
// empty log.
const cutPart = 64

// importPatience is how long the tables have to take the rows of an adopted instance, until its files move to the instance of the adopter. A file
// whose table refuses it until an operator acts moves at once.
const importPatience = time.Minute

// staged reports whether nothing but files that wait for their import is left, with all of their slices in staging.
func staged(s forebay.Stats) bool {
	for _, sink := range s.Sinks {
		if sink.Slices[buffer.SliceWriting]+sink.Slices[buffer.SliceUploading]+sink.Slices[buffer.SliceImported] > 0 {
			return false
		}
		for _, f := range sink.Files {
			if f.FinishedAt.IsZero() && f.State != buffer.FileImporting {
				return false
			}
		}
	}
	return true
}

// slicesOf describes how many slices each sink has in each state.
func slicesOf(s forebay.Stats) string {
	var text strings.Builder
	for _, sink := range s.Sinks {
		fmt.Fprintf(&text, "%s/%s %v\n", sink.Source, sink.Sink, sink.Slices)
	}
	return text.String()
}

// notStaged names a sink whose slices are not in staging yet, or still there although they are imported. cause is empty if there is none.
func notStaged(s forebay.Stats) (name, cause string) {
	for _, sink := range s.Sinks {
		name = sink.Source + "/" + sink.Sink
		if n := sink.Slices[buffer.SliceWriting] + sink.Slices[buffer.SliceUploading]; n > 0 {
			cause = fmt.Sprintf("%d slices are not in staging", n)
			for _, f := range sink.Files {
				if f.RetryReason != "" && f.State != buffer.FileImporting {
					cause += ": " + f.RetryReason
					break
				}
			}
			return name, cause
		}
		if n := sink.Slices[buffer.SliceImported]; n > 0 {
			return name, fmt.Sprintf("%d imported slices are not deleted from staging", n)
		}
	}
	return name, ""
}

// settle is how long flush waits before it looks again whether the staged objects of imported files are deleted.
const settle = 250 * time.Millisecond

// settled reports whether no file is in progress and no slice is left, in the local level or in staging.
func settled(s forebay.Stats) bool {
	for _, sink := range s.Sinks {
		for _, n := range sink.Slices {
			if n > 0 {
				return false
			}
		}
		for _, f := range sink.Files {
			if f.FinishedAt.IsZero() {
				return false
			}
		}
	}
	return true
}

// rejected counts the records in the quarantines of an engine.
func rejected(s forebay.Stats) (records int64) {
	for _, sink := range s.Sinks {
		records += sink.Quarantine.Records
	}
	return records
}

// clear deletes the data of a drained instance outside of the nodes. It may be repeated, even by several nodes at once, because no node creates
// an instance of this name again.
func (d *drainer) clear(ctx context.Context, instance string, o changelog.Owner) error {
	if err := d.opts.checkpoints().Clear(ctx, instance, o.Epoch, o.Checkpoint); err != nil {
		return err
	}
	return deleteLogs(ctx, d.opts.Log, instance, o)
}

// keepRetired is how long the record of a retired instance stays. An operator can look it up, and a log that a fenced owner creates late is
// deleted when a node starts. It is not what keeps the owners of such instances away. See [changelog.Forget].
const keepRetired = 7 * 24 * time.Hour

// forgetAfter is how long this process must have seen such a record. When the store of owners was put back to an older state, it has records that
// are old at once, and lacks the records of instances that began later. Their nodes have this much time to come and write them again.
const forgetAfter = time.Hour

// forget deletes records of instances that have been retired for long, and what package checkpoint has noted of them. retired are all that
// are old enough.
func (d *drainer) forget(ctx context.Context, retired []changelog.Versioned) error {
	before := d.old
	d.old = map[oldRecord]time.Time{}
	retired = slices.DeleteFunc(retired, func(v changelog.Versioned) bool {
		r := oldRecord{v.Key, v.Version}
		since, seen := before[r]
		if !seen {
			since = time.Now()
		}
		d.old[r] = since
		return time.Since(since) < forgetAfter
	})
	if len(retired) == 0 {
		return nil
	}
	for _, v := range retired {
		if err := d.opts.checkpoints().Forget(ctx, strings.TrimPrefix(v.Key, changelog.OwnerKey(""))); err != nil {
			return err
		}
	}
	if err := changelog.Forget(ctx, d.opts.Owners, retired...); !errors.Is(err, changelog.ErrLost) { // another node does it too
		return err
	}
	return nil
}

// sweepEvery is how often a node looks for instances that no node retires.
const sweepEvery = time.Minute

// sweep retires the instances whose adopter died after they were drained and before their logs were deleted, until ctx ends. No node
// adopts these instances. An instance that another node is about to retire may be among them, which does no harm.
//
// Once it also deletes logs of instances that were retired before, because a fenced owner that stood still may have created one after that, and died.
func (d *drainer) sweep(ctx context.Context) {
	warned := false
	var late map[string]changelog.Owner // nil if the retired instances are not known yet
	for ctx.Err() == nil {
		retired, err := d.sweepOnce(ctx)
		if retired != nil {
			if err := d.endArrivals(ctx, d.own.engine, d.own.keeper.Instance(), retired); err != nil && ctx.Err() == nil {
				d.opts.Logger.Warn("move of rejected records and files not ended", "cause", err, "next", "it is retried automatically")
			}
		}
		if late == nil {
			late = retired
		}
		for instance, o := range late {
			failed := deleteLogs(ctx, d.opts.Log, instance, o)
			if err = errors.Join(err, failed); failed != nil {
				break
			}
			delete(late, instance)
		}
		if err != nil && !warned && ctx.Err() == nil {
			warned = true
			d.opts.Logger.Warn("log and checkpoint of a drained instance left", "cause", err, "next", "it is retried automatically")
		}
		select {
		case <-time.After(sweepEvery):
		case <-ctx.Done():
		}
	}
}

// sweepOnce passes over an instance that cannot be retired. The error says why. It returns the instances that were retired before, nil if they
// are not all known.
func (d *drainer) sweepOnce(ctx context.Context) (retired map[string]changelog.Owner, failed error) {
	ctx, cancel := context.WithTimeout(ctx, sweepEvery)
	defer cancel()
	found, all := map[string]changelog.Owner{}, map[string]changelog.OwnerState{}
	var old []changelog.Versioned
	for v, err := range d.opts.Owners.Watch(ctx, changelog.OwnerKey("")) {
		if err != nil {
			return nil, errors.Join(failed, err)
		}
		if v.Version == 0 { // these were all
			old = slices.DeleteFunc(old, func(v changelog.Versioned) bool {
				o := found[strings.TrimPrefix(v.Key, changelog.OwnerKey(""))]
				to, there := all[o.MovedTo]
				return o.MovedTo != "" && !o.Arrived && there && to != changelog.Retired
			})
			return found, errors.Join(failed, d.forget(ctx, old))
		}
		var o changelog.Owner
		instance := strings.TrimPrefix(v.Key, changelog.OwnerKey(""))
		unread := o.UnmarshalJSON(v.Value)
		all[instance] = o.State
		switch {
		case unread == nil && o.State == changelog.Retired:
			found[instance] = o
			if !o.RetiredAt.IsZero() && time.Since(o.RetiredAt) > keepRetired {
				old = append(old, v)
			}
			continue
		case unread != nil || o.State != changelog.Drained:
			continue
		}
		err := d.clear(ctx, instance, o)
		o.State, o.RetiredAt = changelog.Retired, time.Now().UTC().Truncate(time.Second)
		var value []byte
		if err == nil {
			value, err = o.MarshalJSON()
		}
		if err == nil {
			_, err = d.opts.Owners.CompareAndSet(ctx, v.Key, v.Version, value)
		}
		if err != nil && !errors.Is(err, changelog.ErrLost) {
			failed = errors.Join(failed, err)
		}
	}
	return nil, failed
}
