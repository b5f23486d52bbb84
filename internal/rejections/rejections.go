// Package rejections counts the records that sinks did not take, and measures them.
package rejections

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

// Counter counts the records that a sink did not take, by reason. The zero value is ready. It is safe for concurrent use.
type Counter struct {
	byReason [kept.Reasons]atomic.Int64
	tooLarge atomic.Int64
	failed   atomic.Int64
}

// Reject counts a rejection by its reason, as kept.ReasonOf does.
func (c *Counter) Reject(err error) {
	if _, ok := errors.AsType[*mapping.RowTooLargeError](err); ok {
		c.tooLarge.Add(1)
		return
	}
	reason := mapping.Reason(0)
	if m, ok := errors.AsType[*mapping.Error](err); ok && int(m.Reason) < len(c.byReason) {
		reason = m.Reason
	}
	c.byReason[reason].Add(1)
}

// Fail counts records that were refused by an overload, not stored because of a failure, or of unknown outcome.
func (c *Counter) Fail(records int) { c.failed.Add(int64(records)) }

// ByName returns the counts above zero by the name of their reason.
func (c *Counter) ByName() map[string]int64 {
	m := make(map[string]int64)
	put := func(name string, n int64) {
		if n > 0 {
			m[name] += n
		}
	}
	for i := range c.byReason {
		put(mapping.Reason(i).String(), c.byReason[i].Load())
	}
	put(kept.TooLarge, c.tooLarge.Load())
	put("failed", c.failed.Load())
	return m
}

// Sink is a sink that is measured.
type Sink struct {
	// ID is its name in the buffer.
	ID string
	// Refused is set while the sink keeps its previous columns.
	Refused bool
	// Count are the records that it did not take.
	Count *Counter
}

// Observe registers the metrics of the sinks that there are at the time of a collection. Above most sinks it measures their sums.
// attributes returns the attributes of a sink.
func Observe(meter metric.Meter, most int, attributes func(id string) []attribute.KeyValue, sinks func() iter.Seq[Sink]) (metric.Registration, error) {
	rejected, err := meter.Int64ObservableCounter("forebay.records.rejected", metric.WithUnit("{record}"),
		metric.WithDescription("Records that a sink did not store, by reason."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	refused, err := meter.Int64ObservableGauge("forebay.sinks.refused", metric.WithUnit("{sink}"),
		metric.WithDescription("1 while a sink keeps its previous columns because its table cannot be changed to fit the definition."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		all := slices.Collect(sinks())
		single := len(all) <= most
		allRefused, allRejected := int64(0), map[string]int64{}
		for _, s := range all {
			n := int64(0)
			if s.Refused {
				n = 1
			}
			allRefused += n
			var at []attribute.KeyValue
			if single {
				at = attributes(s.ID)
				to.ObserveInt64(refused, n, metric.WithAttributes(at...))
			}
			for reason, n := range s.Count.ByName() {
				allRejected[reason] += n
				if single {
					with := append(slices.Clip(at), attribute.String("reason", reason))
					to.ObserveInt64(rejected, n, metric.WithAttributes(with...))
				}
			}
		}
		if single {
			return nil
		}
		to.ObserveInt64(refused, allRefused)
		for reason, n := range allRejected {
			to.ObserveInt64(rejected, n, metric.WithAttributes(attribute.String("reason", reason)))
		}
		return nil
	}, rejected, refused)
}
