package instance

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/cluster/changelog"
)

// Report describes an instance and the instances that it drains, for metrics. It needs no request. A time is zero for never, or if there is
// nothing of that kind.
type Report struct {
	// Epoch is the owner's, and Left how much of the lease is left.
	Epoch uint64
	Left  time.Duration
	// Waiting are the bytes that are not in the log yet. The first of them has waited since WaitingSince.
	Waiting      int64
	WaitingSince time.Time
	// FailingSince is since when the log does not respond, or the lease has ended.
	FailingSince time.Time
	// Log is the last known state of the log. Its ID is empty before the first.
	Log changelog.Stat
	// Checkpoint is when the last checkpoint was made, and CheckpointDue since when the next one is due.
	Checkpoint, CheckpointDue time.Time
	// Adopted are the instances whose rows this node moves to their tables, sorted by name.
	Adopted []Adopted
	// States counts the instances of the cluster by what their records say. Nil means that they have not been read yet.
	States map[changelog.OwnerState]int
}

// Adopted is an instance whose rows this node moves to their tables.
type Adopted struct {
	// Instance is its name.
	Instance string
	// Since is when this node has taken over.
	Since time.Time
	// Restored says that rows and rejected records are known. Oldest is when the oldest row was accepted.
	Restored             bool
	Rows, Bytes, Records int64
	Oldest               time.Time
	// Keeps says for people why the last attempt to drain the instance has not ended. Empty means that none has failed yet.
	Keeps string
}

// Report returns the present state.
func (i *Instance) Report() Report {
	r := Report{Epoch: i.keeper.Owner().Epoch, Left: i.keeper.Left(), CheckpointDue: i.log.room.dueSince()}
	i.log.mu.Lock()
	a := i.log.appender
	r.FailingSince = i.log.opening
	i.log.mu.Unlock()
	if a != nil {
		s := a.State()
		r.Waiting, r.WaitingSince, r.FailingSince = int64(s.WaitingBytes), s.WaitingSince, time.Time{}
		if s.Status != changelog.Running {
			r.FailingSince = s.Since
		}
	}
	if stat := i.logStat.Load(); stat != nil {
		r.Log = *stat
	}
	if made := i.checkpointed.Load(); made != nil {
		r.Checkpoint = *made
	}
	r.Adopted, r.States = i.drainer.report(), i.keeper.States()
	return r
}

// watchLog asks the log about itself once in a lease, until ctx ends. While it does not respond, its last state stays.
func (i *Instance) watchLog(ctx context.Context) {
	tick := time.NewTicker(i.opts.Lease)
	defer tick.Stop()
	for {
		if stat, err := i.opts.Log.Stat(ctx, i.log.name()); err == nil {
			i.logStat.Store(&stat)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// show lets the report have the engine of a drainage, or nil while it is not open.
func (d *drainage) show(e *forebay.Engine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs[d] = e
}

func (d *drainage) hide() {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.jobs, d)
}

func (d *drainer) report() (adopted []Adopted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for job, e := range d.jobs {
		a := Adopted{Instance: job.k.Instance(), Since: job.adopted, Restored: e != nil, Keeps: job.keeps}
		if e != nil {
			a.count(e.Stats())
		}
		adopted = append(adopted, a)
	}
	slices.SortFunc(adopted, func(a, b Adopted) int { return cmp.Compare(a.Instance, b.Instance) })
	return adopted
}

func (a *Adopted) count(s forebay.Stats) {
	a.Records = rejected(s)
	for i := range s.Sinks {
		for _, level := range []struct {
			rows, bytes int64
			first       time.Time
		}{
			{s.Sinks[i].Local.Rows, s.Sinks[i].Local.StoredBytes, s.Sinks[i].Local.FirstAt},
			{s.Sinks[i].Staging.Rows, s.Sinks[i].Staging.StoredBytes, s.Sinks[i].Staging.FirstAt},
		} {
			a.Rows += level.rows
			a.Bytes += level.bytes
			if !level.first.IsZero() && (a.Oldest.IsZero() || level.first.Before(a.Oldest)) {
				a.Oldest = level.first
			}
		}
	}
}
