package otlpflat_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// generator makes random batches. Each field is unset now and then. Doubles are never whole numbers, and keys of bytes begin
// with "bytes", so the JSON form of a value shows its type.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

func (g generator) sometimes() bool { return g.IntN(4) > 0 }

func (g generator) text() string {
	texts := []string{"", "a", "hello, world", `quote " and \ slash`, "line\nbreak\ttab\x00\x1f", "žluťoučký kůň 👍", "<&>\u2028", "a.b[0]"}
	return texts[g.IntN(len(texts))]
}

func (g generator) time() pcommon.Timestamp {
	times := []uint64{0, 1, 1e9, 1_700_000_000_123_456_789, 1_700_000_000_120_000_000, 951_782_400_000_000_000, math.MaxUint64}
	return pcommon.Timestamp(times[g.IntN(len(times))])
}

func (g generator) count() uint64 {
	counts := []uint64{0, 1, 7, 1<<53 + 1, math.MaxInt64, math.MaxUint64}
	return counts[g.IntN(len(counts))]
}

func (g generator) double() float64 {
	doubles := []float64{0.5, -1.25, 1e-9, 1.5e300, 0.1, math.SmallestNonzeroFloat64, 1e21 + 1<<20}
	return doubles[g.IntN(len(doubles))]
}

func (g generator) small() uint32 {
	if g.sometimes() {
		return 0
	}
	return g.Uint32()
}

func (g generator) traceID() (id pcommon.TraceID) {
	if g.sometimes() {
		for i := range id {
			id[i] = byte(g.Uint32())
		}
	}
	return id
}

func (g generator) spanID() (id pcommon.SpanID) {
	if g.sometimes() {
		for i := range id {
			id[i] = byte(g.Uint32())
		}
	}
	return id
}

func (g generator) value(v pcommon.Value, depth int) {
	switch g.IntN(8) {
	case 0:
	case 1, 2:
		v.SetStr(g.text())
	case 3:
		v.SetBool(g.IntN(2) == 0)
	case 4:
		v.SetInt([]int64{0, -1, 1<<53 + 1, math.MinInt64, math.MaxInt64}[g.IntN(5)])
	case 5:
		v.SetDouble(g.double())
	case 6:
		s := v.SetEmptySlice()
		for n := g.IntN(4); n > 0 && depth > 0; n-- {
			g.value(s.AppendEmpty(), depth-1)
		}
	case 7:
		m := v.SetEmptyMap()
		if depth > 0 {
			g.attributes(m, depth-1)
		}
	}
}

func (g generator) attributes(m pcommon.Map, depth int) {
	for i := range g.IntN(5) {
		if g.IntN(6) == 0 {
			m.PutEmptyBytes(fmt.Sprint("bytes", i)).FromRaw([]byte(g.text()))
			continue
		}
		key := []string{"user.id", "a", "0", "quote\"", "é", "http.route", "x[1]"}[g.IntN(7)] + fmt.Sprint(i)
		g.value(m.PutEmpty(key), depth)
	}
}

func (g generator) resource(r pcommon.Resource) {
	g.attributes(r.Attributes(), 2)
	r.SetDroppedAttributesCount(g.small())
}

func (g generator) scope(s pcommon.InstrumentationScope) {
	s.SetName(g.text())
	s.SetVersion(g.text())
	g.attributes(s.Attributes(), 1)
	s.SetDroppedAttributesCount(g.small())
}

func (g generator) logs() plog.Logs {
	batch := plog.NewLogs()
	for range g.IntN(3) {
		rl := batch.ResourceLogs().AppendEmpty()
		g.resource(rl.Resource())
		rl.SetSchemaUrl(g.text())
		for range g.IntN(3) {
			sl := rl.ScopeLogs().AppendEmpty()
			g.scope(sl.Scope())
			sl.SetSchemaUrl(g.text())
			for range g.IntN(4) {
				g.log(sl.LogRecords().AppendEmpty())
			}
		}
	}
	return batch
}

func (g generator) log(r plog.LogRecord) {
	r.SetTimestamp(g.time())
	r.SetObservedTimestamp(g.time())
	r.SetSeverityNumber(plog.SeverityNumber(g.IntN(25)))
	r.SetSeverityText(g.text())
	g.value(r.Body(), 3)
	g.attributes(r.Attributes(), 2)
	r.SetDroppedAttributesCount(g.small())
	r.SetFlags(plog.LogRecordFlags(g.small()))
	r.SetTraceID(g.traceID())
	r.SetSpanID(g.spanID())
	r.SetEventName(g.text())
}

func (g generator) traces() ptrace.Traces {
	batch := ptrace.NewTraces()
	for range g.IntN(3) {
		rs := batch.ResourceSpans().AppendEmpty()
		g.resource(rs.Resource())
		rs.SetSchemaUrl(g.text())
		for range g.IntN(3) {
			ss := rs.ScopeSpans().AppendEmpty()
			g.scope(ss.Scope())
			ss.SetSchemaUrl(g.text())
			for range g.IntN(4) {
				g.span(ss.Spans().AppendEmpty())
			}
		}
	}
	return batch
}

func (g generator) span(s ptrace.Span) {
	s.SetStartTimestamp(g.time())
	s.SetEndTimestamp(g.time())
	s.SetTraceID(g.traceID())
	s.SetSpanID(g.spanID())
	s.SetParentSpanID(g.spanID())
	s.TraceState().FromRaw(g.text())
	s.SetName(g.text())
	s.SetKind(ptrace.SpanKind(g.IntN(7)))
	s.SetFlags(g.small())
	s.Status().SetCode(ptrace.StatusCode(g.IntN(4)))
	s.Status().SetMessage(g.text())
	g.attributes(s.Attributes(), 2)
	s.SetDroppedAttributesCount(g.small())
	s.SetDroppedEventsCount(g.small())
	s.SetDroppedLinksCount(g.small())
	for range g.IntN(3) {
		e := s.Events().AppendEmpty()
		e.SetTimestamp(g.time())
		e.SetName(g.text())
		g.attributes(e.Attributes(), 1)
		e.SetDroppedAttributesCount(g.small())
	}
	for range g.IntN(3) {
		l := s.Links().AppendEmpty()
		l.SetTraceID(g.traceID())
		l.SetSpanID(g.spanID())
		l.TraceState().FromRaw(g.text())
		g.attributes(l.Attributes(), 1)
		l.SetFlags(g.small())
		l.SetDroppedAttributesCount(g.small())
	}
}

func (g generator) metrics() pmetric.Metrics {
	batch := pmetric.NewMetrics()
	for range g.IntN(3) {
		rm := batch.ResourceMetrics().AppendEmpty()
		g.resource(rm.Resource())
		rm.SetSchemaUrl(g.text())
		for range g.IntN(3) {
			sm := rm.ScopeMetrics().AppendEmpty()
			g.scope(sm.Scope())
			sm.SetSchemaUrl(g.text())
			for range g.IntN(7) {
				g.metric(sm.Metrics().AppendEmpty())
			}
		}
	}
	return batch
}

func (g generator) metric(m pmetric.Metric) {
	m.SetName(g.text())
	m.SetDescription(g.text())
	m.SetUnit(g.text())
	g.attributes(m.Metadata(), 1)
	temporality := pmetric.AggregationTemporality(g.IntN(4))
	switch g.IntN(6) {
	case 0: // no data
	case 1:
		gauge := m.SetEmptyGauge()
		for range g.IntN(3) {
			g.number(gauge.DataPoints().AppendEmpty())
		}
	case 2:
		s := m.SetEmptySum()
		s.SetAggregationTemporality(temporality)
		s.SetIsMonotonic(g.sometimes())
		for range g.IntN(3) {
			g.number(s.DataPoints().AppendEmpty())
		}
	case 3:
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(temporality)
		for range g.IntN(3) {
			g.histogram(h.DataPoints().AppendEmpty())
		}
	case 4:
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(temporality)
		for range g.IntN(3) {
			g.exponential(h.DataPoints().AppendEmpty())
		}
	case 5:
		s := m.SetEmptySummary()
		for range g.IntN(3) {
			g.summary(s.DataPoints().AppendEmpty())
		}
	}
}

func (g generator) exemplars(s pmetric.ExemplarSlice) {
	for range g.IntN(3) {
		e := s.AppendEmpty()
		e.SetTimestamp(g.time())
		if g.sometimes() {
			e.SetDoubleValue(g.double())
		} else {
			e.SetIntValue(-5)
		}
		e.SetTraceID(g.traceID())
		e.SetSpanID(g.spanID())
		g.attributes(e.FilteredAttributes(), 1)
	}
}

// point is what data points of all kinds share, distribution what histograms share.
type (
	point interface {
		SetStartTimestamp(pcommon.Timestamp)
		SetTimestamp(pcommon.Timestamp)
		Attributes() pcommon.Map
		SetFlags(pmetric.DataPointFlags)
	}
	distribution interface {
		point
		SetCount(uint64)
		SetSum(float64)
		SetMin(float64)
		SetMax(float64)
		Exemplars() pmetric.ExemplarSlice
	}
)

func (g generator) point(p point) {
	p.SetStartTimestamp(g.time())
	p.SetTimestamp(g.time())
	g.attributes(p.Attributes(), 1)
	p.SetFlags(pmetric.DataPointFlags(g.IntN(2)))
}

func (g generator) distribution(p distribution) {
	g.point(p)
	p.SetCount(g.count())
	for _, set := range []func(float64){p.SetSum, p.SetMin, p.SetMax} {
		if g.sometimes() {
			set(g.double())
		}
	}
	g.exemplars(p.Exemplars())
}

func (g generator) number(p pmetric.NumberDataPoint) {
	g.point(p)
	g.exemplars(p.Exemplars())
	switch g.IntN(3) {
	case 0:
		p.SetIntValue(math.MaxInt64)
	case 1:
		p.SetDoubleValue(g.double())
	}
}

func (g generator) histogram(p pmetric.HistogramDataPoint) {
	g.distribution(p)
	for range g.IntN(4) {
		p.BucketCounts().Append(g.count())
		p.ExplicitBounds().Append(g.double())
	}
}

func (g generator) exponential(p pmetric.ExponentialHistogramDataPoint) {
	g.distribution(p)
	p.SetScale(int32(g.IntN(40) - 20))
	p.SetZeroCount(g.count())
	p.SetZeroThreshold(g.double())
	for _, b := range []pmetric.ExponentialHistogramDataPointBuckets{p.Positive(), p.Negative()} {
		b.SetOffset(int32(g.IntN(2000) - 1000))
		for range g.IntN(4) {
			b.BucketCounts().Append(g.count())
		}
	}
}

func (g generator) summary(p pmetric.SummaryDataPoint) {
	g.point(p)
	p.SetCount(g.count())
	p.SetSum(g.double())
	for range g.IntN(3) {
		q := p.QuantileValues().AppendEmpty()
		q.SetQuantile(g.double())
		q.SetValue(g.double())
	}
}
