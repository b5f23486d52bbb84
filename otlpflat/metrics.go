package otlpflat

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping"
)

// Metrics returns the data points of a batch, one document each, in the order of the batch. A metric without data has none.
// A document is valid until the next one is yielded.
func Metrics(batch pmetric.Metrics) iter.Seq[mapping.FieldDocument] {
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(pointDocument)
		d.record = d
		resources := batch.ResourceMetrics()
		for i := range resources.Len() {
			r := resources.At(i)
			d.setResource(resourceOf(r.Resource(), r.SchemaUrl()))
			scopes := r.ScopeMetrics()
			for k := range scopes.Len() {
				s := scopes.At(k)
				d.setScope(scopeOf(s.Scope(), s.SchemaUrl()))
				metrics := s.Metrics()
				for n := range metrics.Len() {
					if !d.points(metrics.At(n), yield) {
						return
					}
				}
			}
		}
	}
}

// pointDocument is one data point. The type of the metric says which of the point fields is set.
type pointDocument struct {
	group
	metric      pmetric.Metric
	typ         pmetric.MetricType
	temporality pmetric.AggregationTemporality
	monotonic   bool

	number      pmetric.NumberDataPoint
	histogram   pmetric.HistogramDataPoint
	exponential pmetric.ExponentialHistogramDataPoint
	summary     pmetric.SummaryDataPoint
}

func (d *pointDocument) points(m pmetric.Metric, yield func(mapping.FieldDocument) bool) bool {
	d.metric, d.typ = m, m.Type()
	switch d.typ {
	case pmetric.MetricTypeGauge:
		return each(d, m.Gauge().DataPoints(), &d.number, yield)
	case pmetric.MetricTypeSum:
		d.temporality, d.monotonic = m.Sum().AggregationTemporality(), m.Sum().IsMonotonic()
		return each(d, m.Sum().DataPoints(), &d.number, yield)
	case pmetric.MetricTypeHistogram:
		d.temporality = m.Histogram().AggregationTemporality()
		return each(d, m.Histogram().DataPoints(), &d.histogram, yield)
	case pmetric.MetricTypeExponentialHistogram:
		d.temporality = m.ExponentialHistogram().AggregationTemporality()
		return each(d, m.ExponentialHistogram().DataPoints(), &d.exponential, yield)
	case pmetric.MetricTypeSummary:
		return each(d, m.Summary().DataPoints(), &d.summary, yield)
	}
	return true
}

// each yields the document with each of the points in its place.
func each[P any, L list[P]](d *pointDocument, points L, place *P, yield func(mapping.FieldDocument) bool) bool {
	for i := range points.Len() {
		if *place = points.At(i); !yield(d) {
			return false
		}
	}
	return true
}

// At returns when the data point was taken, in Unix nanoseconds; 0 if it is not set.
func (d *pointDocument) At() uint64 {
	var at pcommon.Timestamp
	switch d.typ {
	case pmetric.MetricTypeGauge, pmetric.MetricTypeSum:
		at = d.number.Timestamp()
	case pmetric.MetricTypeHistogram:
		at = d.histogram.Timestamp()
	case pmetric.MetricTypeExponentialHistogram:
		at = d.exponential.Timestamp()
	case pmetric.MetricTypeSummary:
		at = d.summary.Timestamp()
	}
	return uint64(at)
}

// pointShared is the number of the first of sharedMembers, after those of all kinds of points. The others depend on the kind, and are found by name.
const pointShared = 1

var pointLayout = newLayout(0)

func (d *pointDocument) Layout() *members.Layout { return pointLayout }

// Nanos is for layouts with times.
func (d *pointDocument) Nanos(int) uint64 { return 0 }

// AppendMember is AppendField for the path to a member.
func (d *pointDocument) AppendMember(dst []byte, number int) ([]byte, mapping.FieldKind) {
	d.w.startMember(dst)
	d.writeShared(&d.w, number-pointShared)
	return d.w.dst, d.w.kind
}

func (d *pointDocument) write() {
	w := &d.w
	w.root()
	w.memberText("metric_name", d.metric.Name())
	w.memberText("metric_description", d.metric.Description())
	w.memberText("metric_unit", d.metric.Unit())
	if w.done {
		return
	}
	switch d.typ {
	case pmetric.MetricTypeGauge:
		p := d.number
		d.writeCommon("gauge", p.StartTimestamp(), p.Timestamp(), p.Attributes())
		d.writeNumber(p)
		w.pointFlags(p.Flags())
		w.exemplars(p.Exemplars())
	case pmetric.MetricTypeSum:
		p := d.number
		d.writeCommon("sum", p.StartTimestamp(), p.Timestamp(), p.Attributes())
		d.writeNumber(p)
		if w.member("is_monotonic") {
			w.bool(d.monotonic)
		}
		d.writeTemporality()
		w.pointFlags(p.Flags())
		w.exemplars(p.Exemplars())
	case pmetric.MetricTypeHistogram:
		p := d.histogram
		d.writeCommon("histogram", p.StartTimestamp(), p.Timestamp(), p.Attributes())
		d.writeHistogram(p)
		w.pointFlags(p.Flags())
		w.exemplars(p.Exemplars())
	case pmetric.MetricTypeExponentialHistogram:
		p := d.exponential
		d.writeCommon("exponential_histogram", p.StartTimestamp(), p.Timestamp(), p.Attributes())
		d.writeExponential(p)
		w.pointFlags(p.Flags())
		w.exemplars(p.Exemplars())
	case pmetric.MetricTypeSummary:
		p := d.summary
		d.writeCommon("summary", p.StartTimestamp(), p.Timestamp(), p.Attributes())
		d.writeSummary(p)
		w.pointFlags(p.Flags())
	}
	if w.done {
		return
	}
	if m := d.metric.Metadata(); m.Len() > 0 && w.member("metric_metadata") {
		w.pdataMap(m)
	}
	d.writeEnd(w)
}

// writeCommon writes the members between the metric and the values of a point.
func (d *pointDocument) writeCommon(typ string, start, at pcommon.Timestamp, attributes pcommon.Map) {
	w := &d.w
	if w.member("metric_type") {
		w.plain(typ)
	}
	d.writeGroup(w)
	w.memberTime("start_timestamp", start)
	w.memberTime("timestamp", at)
	w.memberMap("attributes", attributes)
}

func (d *pointDocument) writeTemporality() {
	if d.w.member("aggregation_temporality") {
		d.w.plain(enum(d.temporality.String(), int32(d.temporality)))
	}
}

func (d *pointDocument) writeNumber(p pmetric.NumberDataPoint) {
	w := &d.w
	if !w.member("value") {
		return
	}
	switch p.ValueType() {
	case pmetric.NumberDataPointValueTypeInt:
		w.int(p.IntValue())
	case pmetric.NumberDataPointValueTypeDouble:
		w.float(p.DoubleValue())
	default:
		w.null()
	}
}

// distribution is what both kinds of histogram points share.
type distribution interface {
	Count() uint64
	HasSum() bool
	Sum() float64
	HasMin() bool
	Min() float64
	HasMax() bool
	Max() float64
}

// writeDistribution is generic so that the point stays off the heap.
func writeDistribution[P distribution](w *writer, p P) {
	w.memberUint("count", p.Count())
	if p.HasSum() && w.member("sum") {
		w.float(p.Sum())
	}
	if p.HasMin() && w.member("min") {
		w.float(p.Min())
	}
	if p.HasMax() && w.member("max") {
		w.float(p.Max())
	}
}

func (d *pointDocument) writeHistogram(p pmetric.HistogramDataPoint) {
	w := &d.w
	writeDistribution(w, p)
	if w.member("bucket_counts") {
		array(w, p.BucketCounts(), (*writer).uint)
	}
	if w.member("explicit_bounds") {
		array(w, p.ExplicitBounds(), (*writer).float)
	}
	d.writeTemporality()
}

func (d *pointDocument) writeExponential(p pmetric.ExponentialHistogramDataPoint) {
	w := &d.w
	writeDistribution(w, p)
	if w.member("scale") {
		w.int(int64(p.Scale()))
	}
	w.memberUint("zero_count", p.ZeroCount())
	d.writeTemporality()
	w.memberFloat("zero_threshold", p.ZeroThreshold())
	if w.member("positive") {
		w.buckets(p.Positive())
	}
	if w.member("negative") {
		w.buckets(p.Negative())
	}
}

func (w *writer) buckets(b pmetric.ExponentialHistogramDataPointBuckets) {
	c := w.open('{')
	if w.member("offset") {
		w.int(int64(b.Offset()))
	}
	if w.member("bucket_counts") {
		array(w, b.BucketCounts(), (*writer).uint)
	}
	w.close(c, '}')
}

func (d *pointDocument) writeSummary(p pmetric.SummaryDataPoint) {
	w := &d.w
	w.memberUint("count", p.Count())
	w.memberFloat("sum", p.Sum())
	if w.member("quantile_values") {
		array(w, p.QuantileValues(), (*writer).quantile)
	}
}

func (w *writer) quantile(q pmetric.SummaryDataPointValueAtQuantile) {
	c := w.open('{')
	w.memberFloat("quantile", q.Quantile())
	w.memberFloat("value", q.Value())
	w.close(c, '}')
}

func (w *writer) pointFlags(f pmetric.DataPointFlags) {
	if f != 0 {
		w.memberUint("flags", uint64(f))
	}
}

func (w *writer) exemplars(exemplars pmetric.ExemplarSlice) {
	if exemplars.Len() > 0 && w.member("exemplars") {
		array(w, exemplars, (*writer).exemplar)
	}
}

func (w *writer) exemplar(e pmetric.Exemplar) {
	c := w.open('{')
	w.memberTime("timestamp", e.Timestamp())
	if w.member("value") {
		switch e.ValueType() {
		case pmetric.ExemplarValueTypeInt:
			w.int(e.IntValue())
		case pmetric.ExemplarValueTypeDouble:
			w.float(e.DoubleValue())
		default:
			w.null()
		}
	}
	trace, span := e.TraceID(), e.SpanID()
	w.optionalID("trace_id", trace[:])
	w.optionalID("span_id", span[:])
	w.memberMap("attributes", e.FilteredAttributes())
	w.close(c, '}')
}
