package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
)

// metrics are the instruments of a node, beside those of its engine. They read what the node knows at each collection and ask nobody.
//
// Names and meanings are a contract: docs/metrics.md lists them, and a test compares the two.
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
		{&m.waiting, "forebay.cluster.log.waiting", "By", "Bytes of batches that are on disk and not in the log yet."},
		{&m.size, "forebay.cluster.log.size", "By", "What the log of the instance takes on the servers, in each copy."},
		{&m.limit, "forebay.cluster.log.limit", "By", "Bound of forebay.cluster.log.size."},
		{&m.behind, "forebay.cluster.log.behind", "{copy}", "Copies of the log that lag or are away."},
		{&m.lag, "forebay.cluster.log.lag", "{change}", "Changes that the copy which lags most does not have."},
		{&m.instances, "forebay.cluster.instances", "{instance}", "Instances of the cluster, by what their records say."},
		{&m.rows, "forebay.cluster.adopted.rows", "{row}", "Rows of an adopted instance that are not in a table yet."},
		{&m.bytes, "forebay.cluster.adopted.size", "By", "Their stored bytes."},
		{&m.records, "forebay.cluster.adopted.records", "{record}", "Rejected records in the quarantine of an adopted instance."},
		{&m.reserved, "forebay.cluster.server.reserved", "By", "Bytes that the server of the node has reserved for streams."},
		{&m.store, "forebay.cluster.server.limit", "By", "Bound of forebay.cluster.server.reserved."},
	} {
		*g.to, err = meter.Int64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.description))
		errs, all = append(errs, err), append(all, *g.to)
	}
	for _, g := range []struct {
		to                *metric.Float64ObservableGauge
		name, description string
	}{
		{&m.left, "forebay.cluster.lease.left", "What is left of the lease; 0 when it has ended."},
		{&m.waitingAge, "forebay.cluster.log.age", "How long the oldest batch that is not in the log waits for it; 0 when there is none."},
		{&m.failing, "forebay.cluster.log.failing", "How long the log does not take batches; 0 while it does."},
		{&m.checkpoint, "forebay.cluster.checkpoint.age", "Age of the last checkpoint."},
		{&m.due, "forebay.cluster.checkpoint.overdue", "How long a checkpoint is due that is not made yet; 0 when there is none."},
		{&m.adopted, "forebay.cluster.adopted.duration", "How long ago this node has taken over an instance that it still drains."},
		{&m.rowsAge, "forebay.cluster.adopted.age", "Age of the oldest row of an adopted instance that is not in its table."},
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

// observe leaves out what is not known.
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
