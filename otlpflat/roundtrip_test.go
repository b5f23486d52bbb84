package otlpflat_test

import (
	"bytes"
	"iter"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// A flat record that is read back is the original record with its resource and scope. The comparison uses the protocol's own
// encoding, so every field counts.
func TestRoundTrip(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	records := 0
	for range 60 {
		logs := g.logs()
		singles := splitLogs(logs)
		for i, text := range textsOf(t, otlpflat.Logs(logs), len(singles)) {
			got, err := (&plog.ProtoMarshaler{}).MarshalLogs(readLog(t, text))
			want, err2 := (&plog.ProtoMarshaler{}).MarshalLogs(singles[i])
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Fatalf("log %v %v: %s", err, err2, text)
			}
			records++
		}
		traces := g.traces()
		spans := splitTraces(traces)
		for i, text := range textsOf(t, otlpflat.Traces(traces), len(spans)) {
			got, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(readSpan(t, text))
			want, err2 := (&ptrace.ProtoMarshaler{}).MarshalTraces(spans[i])
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Fatalf("span %v %v: %s", err, err2, text)
			}
			records++
		}
		metrics := g.metrics()
		points := splitMetrics(metrics)
		for i, text := range textsOf(t, otlpflat.Metrics(metrics), len(points)) {
			got, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(readPoint(t, text))
			want, err2 := (&pmetric.ProtoMarshaler{}).MarshalMetrics(points[i])
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Fatalf("point %v %v: %s", err, err2, text)
			}
			records++
		}
	}
	if records < 200 {
		t.Errorf("only %d records were compared", records)
	}
}

// textsOf returns the records of a batch that must have n.
func textsOf(t *testing.T, docs iter.Seq[mapping.FieldDocument], n int) []string {
	t.Helper()
	all := texts(t, docs)
	if len(all) != n {
		t.Fatalf("got %d records, want %d", len(all), n)
	}
	return all
}

// splitLogs makes a batch of each record.
func splitLogs(batch plog.Logs) (singles []plog.Logs) {
	for _, rl := range batch.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				one := plog.NewLogs()
				outer := one.ResourceLogs().AppendEmpty()
				inner := outer.ScopeLogs().AppendEmpty()
				copyGroup(outer, rl, inner, sl)
				r.CopyTo(inner.LogRecords().AppendEmpty())
				singles = append(singles, one)
			}
		}
	}
	return singles
}

func splitTraces(batch ptrace.Traces) (singles []ptrace.Traces) {
	for _, rs := range batch.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				one := ptrace.NewTraces()
				outer := one.ResourceSpans().AppendEmpty()
				inner := outer.ScopeSpans().AppendEmpty()
				copyGroup(outer, rs, inner, ss)
				s.CopyTo(inner.Spans().AppendEmpty())
				singles = append(singles, one)
			}
		}
	}
	return singles
}

func splitMetrics(batch pmetric.Metrics) (singles []pmetric.Metrics) {
	for _, rm := range batch.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for i := range pointCount(m) {
					one := pmetric.NewMetrics()
					outer := one.ResourceMetrics().AppendEmpty()
					inner := outer.ScopeMetrics().AppendEmpty()
					copyGroup(outer, rm, inner, sm)
					c := inner.Metrics().AppendEmpty()
					m.CopyTo(c)
					keepPoint(c, i)
					singles = append(singles, one)
				}
			}
		}
	}
	return singles
}

// copyGroup copies the shared fields of the records of a resource and a scope.
func copyGroup(toResource, resource resourceOf, toScope, scope scopeOf) {
	resource.Resource().CopyTo(toResource.Resource())
	toResource.SetSchemaUrl(resource.SchemaUrl())
	scope.Scope().CopyTo(toScope.Scope())
	toScope.SetSchemaUrl(scope.SchemaUrl())
}

// resourceOf and scopeOf fit any signal.
type (
	resourceOf interface {
		Resource() pcommon.Resource
		SchemaUrl() string
		SetSchemaUrl(string)
	}
	scopeOf interface {
		Scope() pcommon.InstrumentationScope
		SchemaUrl() string
		SetSchemaUrl(string)
	}
)

func pointCount(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	}
	return 0
}

func keepPoint(m pmetric.Metric, keep int) {
	at := -1
	not := func() bool { at++; return at != keep }
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		m.Gauge().DataPoints().RemoveIf(func(pmetric.NumberDataPoint) bool { return not() })
	case pmetric.MetricTypeSum:
		m.Sum().DataPoints().RemoveIf(func(pmetric.NumberDataPoint) bool { return not() })
	case pmetric.MetricTypeHistogram:
		m.Histogram().DataPoints().RemoveIf(func(pmetric.HistogramDataPoint) bool { return not() })
	case pmetric.MetricTypeExponentialHistogram:
		m.ExponentialHistogram().DataPoints().RemoveIf(func(pmetric.ExponentialHistogramDataPoint) bool { return not() })
	case pmetric.MetricTypeSummary:
		m.Summary().DataPoints().RemoveIf(func(pmetric.SummaryDataPoint) bool { return not() })
	}
}
