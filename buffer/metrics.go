package buffer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/trigger"
)

// metrics are the instruments of one buffer. A buffer without a meter has nil metrics, on which all methods may be called. No
// method is called with a lock held, and no row depends on them.
//
// Names and meanings are a contract. docs/metrics.md lists them, and a test compares the two.
type metrics struct {
	commits, calls, deliveries metric.Float64Histogram
	triggers                   metric.Int64Counter
	attributes                 func(sinkID, target string) []attribute.KeyValue // nil for each sink while there are too many
	registration               metric.Registration
}

// newMetrics returns nil without a meter.
func newMetrics(b *Buffer) (*metrics, error) {
	meter := b.opts.Meter
	if meter == nil {
		return nil, nil
	}
	in := instruments{meter: meter}
	m := &metrics{
		attributes: func(sinkID, target string) []attribute.KeyValue {
			b.mu.RLock()
			sinks := len(b.mu.sinks)
			b.mu.RUnlock()
			if sinks > b.opts.MaxMeasuredSinks {
				return nil
			}
			return withTarget(b.opts.SinkAttributes(sinkID), target)
		},
		commits: in.histogram("forebay.commit.duration", "Time from the start of a commit until it is on disk.",
			0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
		calls: in.histogram("forebay.driver.duration", "Duration of a driver call.",
			0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900),
		deliveries: in.histogram("forebay.delivery.duration",
			"Time from the acceptance of a file's first row until the file is in its table.",
			0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800, 86400, 604800),
		triggers: in.counter("forebay.triggers", "{trigger}", "Triggers that sealed a slice or closed a file, by reason."),
	}
	o := observers{
		accepted:  in.observableCounter("forebay.rows.accepted", "{row}", "Rows written to local disk."),
		imported:  in.observableCounter("forebay.rows.imported", "{row}", "Rows imported into the tables."),
		expired:   in.observableCounter("forebay.rows.expired", "{row}", "Rows dropped after the retention period."),
		discarded: in.observableCounter("forebay.rows.discarded", "{row}", "Rows discarded on request."),
		poison:    in.observableCounter("forebay.rows.poison", "{row}", "Rows moved to the quarantine because the target refused them."),
		damaged:   in.observableCounter("forebay.rows.damaged", "{row}", "Rows lost to disk damage."),
		unstored:  in.observableCounter("forebay.rows.unstored", "{row}", "Rows lost because they were only in memory when the disk failed."),
		damages:   in.gauge("forebay.damages", "{record}", "Damage records that have not been removed yet."),
		store:     in.gauge("forebay.disk.store", "By", "Disk space that the local level's files occupy, in allocated blocks."),
		waiting:   in.gauge("forebay.rows.waiting", "{row}", "Accepted rows that are not in a table yet, by level."),
		size:      in.gauge("forebay.rows.size", "By", "Stored bytes of the waiting rows, by level."),
		oldest:    in.ages("forebay.rows.age", "Age of the oldest waiting row, or 0 if no row is waiting."),
		files:     in.gauge("forebay.files", "{file}", "Files that are not in their table yet, by state."),
		held:      in.gauge("forebay.files.held", "{file}", "Files waiting for a retry after a failed upload or import."),
		leased:    in.gauge("forebay.files.leased", "{file}", "Files waiting because another node holds their table's lease."),
		rejects:   in.gauge("forebay.quarantine.records", "{record}", "Rejected records in the quarantine."),
		rejected:  in.gauge("forebay.quarantine.size", "By", "Size of the rejected records, as counted toward the quarantine's limits."),
		added:     in.observableCounter("forebay.quarantine.added", "{record}", "Records that entered the quarantine."),
		left:      in.observableCounter("forebay.quarantine.left", "{record}", "Records that left the quarantine, by outcome."),
		pending:   in.gauge("forebay.memory.size", "By", "Bytes of accepted rows that are not committed yet."),
		local:     in.gauge("forebay.disk.size", "By", "Bytes stored in the local level."),
		limit:     in.gauge("forebay.disk.limit", "By", "Limit of forebay.disk.size at which calls are refused: MaxDiskBytes, or less on a smaller volume."),
		keys:      in.gauge("forebay.keys", "{key}", "Call keys that the engine remembers. A retry with one of these keys stores nothing."),
		forgotten: in.observableCounter("forebay.keys.forgotten", "{key}", "Keys that were forgotten early because a limit was reached."),
		overloads: in.observableCounter("forebay.overloads", "{call}", "Refused calls, by the resource that was short."),
	}
	if in.err != nil {
		return nil, fmt.Errorf("buffer: metrics: %w", in.err)
	}
	var err error
	m.registration, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		o.observe(to, b.Stats(), b.opts, time.Now())
		return nil
	}, in.observables...)
	if err != nil {
		return nil, fmt.Errorf("buffer: metrics: %w", err)
	}
	return m, nil
}

// withTarget adds the name of a target. The first target has none.
func withTarget(list []attribute.KeyValue, name string) []attribute.KeyValue {
	if name == "" {
		return list
	}
	return append(list[:len(list):len(list)], attribute.String("target", name))
}

// close unregisters the callback.
func (m *metrics) close() {
	if m != nil {
		_ = m.registration.Unregister() // nothing depends on it
	}
}

func (m *metrics) with(sinkID, target string, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(m.attributes(sinkID, target), more...)...)
}

func (m *metrics) committed(d time.Duration) {
	if m != nil {
		m.commits.Record(context.Background(), d.Seconds())
	}
}

func (m *metrics) called(sinkID, target, step string, d time.Duration, err error) {
	if m == nil {
		return
	}
	outcome := "ok"
	_, leased := errors.AsType[*driver.LeasedError](err)
	switch {
	case leased:
		outcome = "leased"
	case driver.IsPermanent(err):
		outcome = "permanent"
	case err != nil:
		outcome = "retry"
	}
	m.calls.Record(context.Background(), d.Seconds(),
		m.with(sinkID, target, attribute.String("step", step), attribute.String("outcome", outcome)))
}

func (m *metrics) delivered(sinkID, target string, d time.Duration) {
	if m != nil {
		m.deliveries.Record(context.Background(), d.Seconds(), m.with(sinkID, target))
	}
}

func (m *metrics) triggered(sinkID, target, step string, why trigger.Reason) {
	if m != nil {
		m.triggers.Add(context.Background(), 1,
			m.with(sinkID, target, attribute.String("step", step), attribute.String("reason", why.String())))
	}
}

// observers are the instruments that read [Stats] at each collection.
type observers struct {
	accepted, imported, expired, discarded, poison, damaged, unstored, overloads, forgotten, added, left metric.Int64ObservableCounter
	waiting, size, files, held, pending, local, limit, damages, store, keys, rejects, rejected, leased   metric.Int64ObservableGauge
	oldest                                                                                               metric.Float64ObservableGauge
}

func (o *observers) observe(to metric.Observer, st Stats, opts Options, now time.Time) {
	to.ObserveInt64(o.pending, st.PendingBytes)
	to.ObserveInt64(o.local, st.LocalBytes)
	to.ObserveInt64(o.store, st.StoreBytes)
	to.ObserveInt64(o.damages, st.Damages)
	to.ObserveInt64(o.limit, st.MaxDiskBytes)
	to.ObserveInt64(o.keys, st.Keys)
	to.ObserveInt64(o.forgotten, st.KeysForgotten)
	to.ObserveInt64(o.overloads, st.OverloadsMemory, metric.WithAttributes(attribute.String("resource", "memory")))
	to.ObserveInt64(o.overloads, st.OverloadsDisk, metric.WithAttributes(attribute.String("resource", "disk")))
	sinks, attributes := st.Sinks, opts.SinkAttributes
	if len(sinks) > opts.MaxMeasuredSinks {
		sinks, attributes = []SinkStats{sumOf(sinks)}, func(string) []attribute.KeyValue { return nil }
	}
	for i := range sinks {
		s := &sinks[i]
		base := attributes(s.ID)
		if base != nil {
			base = withTarget(base, s.Table.Target)
		}
		with := func(more ...attribute.KeyValue) metric.MeasurementOption {
			return metric.WithAttributes(append(base[:len(base):len(base)], more...)...)
		}
		sink := with()
		to.ObserveInt64(o.accepted, s.Accepted, sink)
		to.ObserveInt64(o.imported, s.Target.Rows, sink)
		to.ObserveInt64(o.expired, s.Expired.Rows, sink)
		to.ObserveInt64(o.discarded, s.Discarded.Rows, sink)
		to.ObserveInt64(o.damaged, s.Damaged.Rows, sink)
		to.ObserveInt64(o.unstored, s.Unstored, sink)
		to.ObserveInt64(o.poison, s.Poison.Rows, sink) // for every sink, because a counter that begins above 0 hides its first growth from alerts
		if q := &s.Quarantine; q.On || q.Added > 0 {
			to.ObserveInt64(o.rejects, q.Records, sink)
			to.ObserveInt64(o.rejected, q.Bytes, sink)
			to.ObserveInt64(o.added, q.Added, sink)
			for _, way := range []struct {
				outcome string
				n       int64
			}{{"replayed", q.Replayed}, {"discarded", q.Discarded}, {"expired", q.Expired}, {"lost", q.Lost}} {
				to.ObserveInt64(o.left, way.n, with(attribute.String("outcome", way.outcome)))
			}
		}
		for _, l := range []struct {
			name  string
			level Level
		}{{"local", s.Local}, {"staging", s.Staging}} {
			level := with(attribute.String("level", l.name))
			to.ObserveInt64(o.waiting, l.level.Rows, level)
			to.ObserveInt64(o.size, l.level.StoredBytes, level)
		}
		var age time.Duration
		if first := s.firstWaiting(); !first.IsZero() {
			age = max(0, now.Sub(first))
		}
		to.ObserveFloat64(o.oldest, age.Seconds(), sink)
		states := map[FileState]int64{FileWriting: 0, FileClosing: 0, FileImporting: 0}
		var held, leased int64
		for _, f := range s.Files {
			if _, waits := states[f.State]; waits {
				states[f.State]++
				if f.Attempt > 0 {
					held++
				}
				if f.Leased {
					leased++
				}
			}
		}
		for state, n := range states {
			to.ObserveInt64(o.files, n, with(attribute.String("state", string(state))))
		}
		to.ObserveInt64(o.held, held, sink)
		if opts.Leases != nil {
			to.ObserveInt64(o.leased, leased, sink)
		}
	}
}

// sumOf returns the sums of all measured values, as the values of one sink.
func sumOf(sinks []SinkStats) (all SinkStats) {
	for i := range sinks {
		s := &sinks[i]
		all.Accepted += s.Accepted
		all.Unstored += s.Unstored
		all.Target.Rows += s.Target.Rows
		all.Expired.Rows += s.Expired.Rows
		all.Discarded.Rows += s.Discarded.Rows
		all.Damaged.Rows += s.Damaged.Rows
		all.Poison.Rows += s.Poison.Rows
		q := &all.Quarantine
		q.On = q.On || s.Quarantine.On
		q.Records += s.Quarantine.Records
		q.Bytes += s.Quarantine.Bytes
		q.Added += s.Quarantine.Added
		q.Replayed += s.Quarantine.Replayed
		q.Discarded += s.Quarantine.Discarded
		q.Expired += s.Quarantine.Expired
		q.Lost += s.Quarantine.Lost
		for _, l := range []struct{ to, from *Level }{{&all.Local, &s.Local}, {&all.Staging, &s.Staging}} {
			l.to.Rows += l.from.Rows
			l.to.StoredBytes += l.from.StoredBytes
			if first := l.from.FirstAt; !first.IsZero() && (l.to.FirstAt.IsZero() || first.Before(l.to.FirstAt)) {
				l.to.FirstAt = first
			}
		}
		all.Files = append(all.Files, s.Files...)
	}
	return all
}

// firstWaiting is when the oldest row that is not in its table was accepted, or zero if no row waits.
func (s *SinkStats) firstWaiting() time.Time {
	local, staging := s.Local.FirstAt, s.Staging.FirstAt
	if local.IsZero() || !staging.IsZero() && staging.Before(local) {
		return staging
	}
	return local
}

// instruments makes instruments and keeps the first error.
type instruments struct {
	meter       metric.Meter
	observables []metric.Observable
	err         error
}

func (in *instruments) keep(err error) {
	if in.err == nil {
		in.err = err
	}
}

func (in *instruments) histogram(name, description string, bounds ...float64) metric.Float64Histogram {
	h, err := in.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	in.keep(err)
	return h
}

func (in *instruments) counter(name, unit, description string) metric.Int64Counter {
	c, err := in.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	in.keep(err)
	return c
}

func (in *instruments) observableCounter(name, unit, description string) metric.Int64ObservableCounter {
	c, err := in.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	in.keep(err)
	in.observables = append(in.observables, c)
	return c
}

func (in *instruments) gauge(name, unit, description string) metric.Int64ObservableGauge {
	g, err := in.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	in.keep(err)
	in.observables = append(in.observables, g)
	return g
}

func (in *instruments) ages(name, description string) metric.Float64ObservableGauge {
	g, err := in.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	in.keep(err)
	in.observables = append(in.observables, g)
	return g
}
