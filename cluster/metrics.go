package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
)

// metrics are the instruments of a node, in addition to its engine's. They read the node's own state at each collection and make no request.
//
// Names and meanings are a contract. The page docs/metrics.md lists them, and a test compares the two.
type metrics struct {
	epoch, waiting, size, limit, behind, lag, instances, rows, bytes, records, reserved, store metric.Int64ObservableGauge
	left, waitingAge, failing, checkpoint, due, adopted, rowsAge                               metric.Float64ObservableGauge
}

// measure begins to report the node, if its engine has a meter. stop ends it.
func (n *Node) measure() (stop func(), err error) {
	meter := n.opts.Engine.Meter
	if meter == nil {
		return func() {}, nil
	}
	var m metrics
	var all []metric.Observable
	var errs []error
	for _, g := range []struct {
		to                      *metric.Int64ObservableGauge
		name, unit, description string
	}{
		{&m.epoch, "forebay.cluster.epoch", "{epoch}", "Epoch of the node's instance."},
		{&m.waiting, "forebay.cluster.log.waiting", "By", "Bytes of batches that are on disk but not in the log yet."},
		{&m.size, "forebay.cluster.log.size", "By", "Size of each copy of the log on the servers."},
		{&m.limit, "forebay.cluster.log.limit", "By", "Current limit of forebay.cluster.log.size."},
		{&m.behind, "forebay.cluster.log.behind", "{copy}", "Copies of the log that lag or are unavailable."},
		{&m.lag, "forebay.cluster.log.lag", "{change}", "Changes that the slowest copy does not have yet."},
		{&m.instances, "forebay.cluster.instances", "{instance}", "Instances in the cluster, by the state in their records."},
		{&m.rows, "forebay.cluster.adopted.rows", "{row}", "Waiting rows of an adopted instance."},
		{&m.bytes, "forebay.cluster.adopted.size", "By", "Stored bytes of the waiting rows of an adopted instance."},
		{&m.records, "forebay.cluster.adopted.records", "{record}", "Rejected records in the quarantine of an adopted instance."},
		{&m.reserved, "forebay.cluster.server.reserved", "By", "Bytes that the node's server has reserved for streams."},
		{&m.store, "forebay.cluster.server.limit", "By", "Limit of forebay.cluster.server.reserved."},
	} {
		*g.to, err = meter.Int64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.description))
		errs, all = append(errs, err), append(all, *g.to)
	}
	for _, g := range []struct {
		to                *metric.Float64ObservableGauge
		name, description string
	}{
		{&m.left, "forebay.cluster.lease.left", "Remaining time of the lease, or 0 if it has ended."},
		{&m.waitingAge, "forebay.cluster.log.age", "Age of the oldest batch that is not in the log yet, or 0 if there is none."},
		{&m.failing, "forebay.cluster.log.failing", "Time since the log stopped accepting batches, or 0 while it is accepting them."},
		{&m.checkpoint, "forebay.cluster.checkpoint.age", "Age of the last checkpoint."},
		{&m.due, "forebay.cluster.checkpoint.overdue", "How long a checkpoint has been overdue, or 0 if none is overdue."},
		{&m.adopted, "forebay.cluster.adopted.duration", "Time since this node took over an instance that it still drains."},
		{&m.rowsAge, "forebay.cluster.adopted.age", "Age of the oldest waiting row of an adopted instance, or 0 if no row is waiting."},
	} {
		*g.to, err = meter.Float64ObservableGauge(g.name, metric.WithUnit("s"), metric.WithDescription(g.description))
		errs, all = append(errs, err), append(all, *g.to)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	r, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		m.observe(to, n.instance.Report(), time.Now())
		if n.server != nil {
			reserved, most := n.server.Reserved()
			to.ObserveInt64(m.reserved, reserved)
			to.ObserveInt64(m.store, most)
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return func() { _ = r.Unregister() }, nil // nothing depends on it
}

// observe leaves out unknown values.
func (m *metrics) observe(to metric.Observer, r instance.Report, now time.Time) {
	age := func(since time.Time) float64 {
		if since.IsZero() {
			return 0
		}
		return max(0, now.Sub(since).Seconds())
	}
	to.ObserveInt64(m.epoch, int64(r.Epoch))
	to.ObserveFloat64(m.left, max(0, r.Left.Seconds()))
	to.ObserveInt64(m.waiting, r.Waiting)
	to.ObserveFloat64(m.waitingAge, age(r.WaitingSince))
	to.ObserveFloat64(m.failing, age(r.FailingSince))
	to.ObserveFloat64(m.due, age(r.CheckpointDue))
	if !r.Checkpoint.IsZero() {
		to.ObserveFloat64(m.checkpoint, age(r.Checkpoint))
	}
	if r.Log.ID != "" {
		to.ObserveInt64(m.size, r.Log.Bytes)
		to.ObserveInt64(m.limit, r.Log.MaxBytes)
		to.ObserveInt64(m.behind, int64(r.Log.Behind))
		to.ObserveInt64(m.lag, int64(r.Log.Lag))
	}
	if r.States != nil {
		for _, state := range []changelog.OwnerState{changelog.Owned, changelog.Adopting, changelog.Draining, changelog.Drained, changelog.Damaged} {
			to.ObserveInt64(m.instances, int64(r.States[state]), metric.WithAttributes(attribute.String("state", string(state))))
		}
	}
	for _, a := range r.Adopted {
		of := metric.WithAttributes(attribute.String("adopted", a.Instance))
		to.ObserveFloat64(m.adopted, age(a.Since), of)
		if a.Restored {
			to.ObserveInt64(m.rows, a.Rows, of)
			to.ObserveInt64(m.bytes, a.Bytes, of)
			to.ObserveInt64(m.records, a.Records, of)
			to.ObserveFloat64(m.rowsAge, age(a.Oldest), of)
		}
	}
}
