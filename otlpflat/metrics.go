package otlpflat

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping"
)

// Metrics returns the data points of a batch, one document each, in the order of the batch. A metric without data has none. It reads the encoded form
// of the batch, which it makes first, so the batch may change afterwards. A document is valid until the next one is yielded.
func Metrics(batch pmetric.Metrics) iter.Seq[mapping.FieldDocument] {
	request, _ := (&pmetric.ProtoMarshaler{}).MarshalMetrics(batch) // always nil
	return points(string(request))
}

// EncodedMetrics is [EncodedLogs] for the data points of an encoded ExportMetricsServiceRequest and [Metrics].
func EncodedMetrics(request []byte) (docs iter.Seq[mapping.FieldDocument], records int, ok bool) {
	text := string(request)
	if !usualMetrics.usual(text) {
		return nil, 0, false
	}
	new(group).records(text, func(record string) bool {
		var m metric
		m.read(record)
		records += count(m.points.text, m.points.tag)
		return true
	})
	return points(text), records, true
}

func points(request string) iter.Seq[mapping.FieldDocument] {
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(pointDocument)
		d.record = d
		d.records(request, func(record string) bool {
			d.metric.read(record)
			for s := d.metric.points.text; s != ""; {
				var p part
				if p, s, _ = cut(s); p.tag != tagPoint {
					continue
				}
				d.point.read(p.content, d.metric.typ)
				if !yield(d) {
					return false
				}
			}
			return true
		})
	}
}

// pointDocument is one data point. The type of the metric says which of the fields of the point are set.
type pointDocument struct {
	group
	metric metric
	point  point
}

// metric has the written fields of a metric.
type metric struct {
	name, description, unit string
	typ                     byte // the tag of its data, 0 without data
	points                  fields
	temporality             int32
	monotonic               bool
	metadata                fields
}

// point has the written fields of a data point of any type.
type point struct {
	start, time           uint64
	flags                 uint32
	attributes, exemplars fields
	value                 number
	count, zeroCount      uint64
	sum, min, max         number
	counts, bounds        string
	scale                 int32
	zeroThreshold         uint64
	positive, negative    string
	quantiles             fields
}

// number is a field that may be missing, an integer or the bits of a double.
type number struct {
	bits uint64
	kind byte // noNumber if it is missing
}

const (
	noNumber = iota
	intNumber
	doubleNumber
)

const (
	tagMetricName        = 1<<3 | content
	tagMetricDescription = 2<<3 | content
	tagMetricUnit        = 3<<3 | content
	tagGauge             = 5<<3 | content
	tagSum               = 7<<3 | content
	tagHistogram         = 9<<3 | content
	tagExponential       = 10<<3 | content
	tagSummary           = 11<<3 | content
	tagMetadata          = 12<<3 | content

	tagPoint       = 1<<3 | content
	tagTemporality = 2<<3 | varint
	tagMonotonic   = 3<<3 | varint

	// of points of all types
	tagPointStart = 2<<3 | fixed64
	tagPointTime  = 3<<3 | fixed64

	// of numbers, and some of summaries
	tagNumberDouble    = 4<<3 | fixed64
	tagNumberExemplar  = 5<<3 | content
	tagNumberInt       = 6<<3 | fixed64
	tagNumberAttribute = 7<<3 | content
	tagNumberFlags     = 8<<3 | varint

	// of distributions, which are histograms of both types, and summaries
	tagCount           = 4<<3 | fixed64
	tagDistributionSum = 5<<3 | fixed64
	tagSummaryQuantile = 6<<3 | content

	tagHistogramCounts    = 6<<3 | content
	tagHistogramBounds    = 7<<3 | content
	tagHistogramExemplar  = 8<<3 | content
	tagHistogramAttribute = 9<<3 | content
	tagHistogramFlags     = 10<<3 | varint
	tagHistogramMin       = 11<<3 | fixed64
	tagHistogramMax       = 12<<3 | fixed64

	tagExponentialAttribute = 1<<3 | content
	tagExponentialScale     = 6<<3 | varint
	tagExponentialZeroCount = 7<<3 | fixed64
	tagExponentialPositive  = 8<<3 | content
	tagExponentialNegative  = 9<<3 | content
	tagExponentialFlags     = 10<<3 | varint
	tagExponentialExemplar  = 11<<3 | content
	tagExponentialMin       = 12<<3 | fixed64
	tagExponentialMax       = 13<<3 | fixed64
	tagExponentialThreshold = 14<<3 | fixed64

	tagBucketsOffset = 1<<3 | varint
	tagBucketsCounts = 2<<3 | content

	tagQuantile        = 1<<3 | fixed64
	tagQuantileValueAt = 2<<3 | fixed64

	tagExemplarTime      = 2<<3 | fixed64
	tagExemplarDouble    = 3<<3 | fixed64
	tagExemplarSpanID    = 4<<3 | content
	tagExemplarTraceID   = 5<<3 | content
	tagExemplarInt       = 6<<3 | fixed64
	tagExemplarAttribute = 7<<3 | content
)

var usualMetrics = func() *message {
	exemplar := oneOf(once(messageOf(list(tagExemplarAttribute, usualAttribute), field(tagExemplarTraceID, usualTraceID), field(tagExemplarSpanID, usualSpanID)),
		tagExemplarTime, tagExemplarDouble, tagExemplarInt), tagExemplarDouble, tagExemplarInt)
	of := func(point *message, tags ...byte) func(string) bool {
		return once(messageOf(list(tagPoint, once(point, tagPointStart, tagPointTime).usual)), tags...).usual
	}
	numbers := oneOf(once(messageOf(list(tagNumberAttribute, usualAttribute), list(tagNumberExemplar, exemplar.usual)), tagNumberDouble, tagNumberInt, tagNumberFlags),
		tagNumberDouble, tagNumberInt)
	histogram := once(messageOf(list(tagHistogramAttribute, usualAttribute), list(tagHistogramExemplar, exemplar.usual),
		field(tagHistogramCounts, usualFixed64s), field(tagHistogramBounds, usualFixed64s)),
		tagCount, tagDistributionSum, tagHistogramFlags, tagHistogramMin, tagHistogramMax)
	buckets := once(messageOf(field(tagBucketsCounts, usualVarints)), tagBucketsOffset)
	exponential := once(messageOf(list(tagExponentialAttribute, usualAttribute), list(tagExponentialExemplar, exemplar.usual),
		field(tagExponentialPositive, buckets.usual), field(tagExponentialNegative, buckets.usual)),
		tagCount, tagDistributionSum, tagExponentialScale, tagExponentialZeroCount, tagExponentialFlags, tagExponentialMin, tagExponentialMax, tagExponentialThreshold)
	quantile := once(messageOf(), tagQuantile, tagQuantileValueAt)
	summary := once(messageOf(list(tagNumberAttribute, usualAttribute), list(tagSummaryQuantile, quantile.usual)), tagCount, tagDistributionSum, tagNumberFlags)
	return usualRequest(oneOf(once(messageOf(field(tagGauge, of(numbers)), field(tagSum, of(numbers, tagTemporality, tagMonotonic)),
		field(tagHistogram, of(histogram, tagTemporality)), field(tagExponential, of(exponential, tagTemporality)), field(tagSummary, of(summary)),
		list(tagMetadata, usualAttribute)), tagMetricName, tagMetricDescription, tagMetricUnit),
		tagGauge, tagSum, tagHistogram, tagExponential, tagSummary))
}()

func (m *metric) read(s string) {
	*m = metric{points: fields{tag: tagPoint}, metadata: fields{tag: tagMetadata}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagMetricName:
			m.name = p.content
		case tagMetricDescription:
			m.description = p.content
		case tagMetricUnit:
			m.unit = p.content
		case tagGauge, tagSum, tagHistogram, tagExponential, tagSummary:
			m.typ, m.points.text = p.tag, p.content
			for s := p.content; s != ""; {
				switch p, s, _ = cut(s); p.tag {
				case tagTemporality:
					m.temporality = int32(p.number)
				case tagMonotonic:
					m.monotonic = p.number != 0
				}
			}
		case tagMetadata:
			m.metadata.add(s)
		}
		s = rest
	}
}

// read reads the point of a metric of a type.
func (r *point) read(s string, typ byte) {
	switch typ {
	case tagHistogram:
		r.readHistogram(s)
	case tagExponential:
		r.readExponential(s)
	case tagSummary:
		r.readSummary(s)
	default:
		r.readNumber(s)
	}
}

func (r *point) readNumber(s string) {
	*r = point{attributes: fields{tag: tagNumberAttribute}, exemplars: fields{tag: tagNumberExemplar}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagNumberDouble:
			r.value = number{p.number, doubleNumber}
		case tagNumberInt:
			r.value = number{p.number, intNumber}
		case tagNumberExemplar:
			r.exemplars.add(s)
		case tagNumberAttribute:
			r.attributes.add(s)
		case tagNumberFlags:
			r.flags = uint32(p.number)
		default:
			r.readShared(p)
		}
		s = rest
	}
}

// readShared reads a field that has the same number in points of several types. For numbers, tagCount is their double, which is read before.
func (r *point) readShared(p part) {
	switch p.tag {
	case tagPointStart:
		r.start = p.number
	case tagPointTime:
		r.time = p.number
	case tagCount:
		r.count = p.number
	case tagDistributionSum:
		r.sum = number{p.number, doubleNumber}
	}
}

func (r *point) readHistogram(s string) {
	*r = point{attributes: fields{tag: tagHistogramAttribute}, exemplars: fields{tag: tagHistogramExemplar}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagHistogramCounts:
			r.counts = p.content
		case tagHistogramBounds:
			r.bounds = p.content
		case tagHistogramExemplar:
			r.exemplars.add(s)
		case tagHistogramAttribute:
			r.attributes.add(s)
		case tagHistogramFlags:
			r.flags = uint32(p.number)
		case tagHistogramMin:
			r.min = number{p.number, doubleNumber}
		case tagHistogramMax:
			r.max = number{p.number, doubleNumber}
		default:
			r.readShared(p)
		}
		s = rest
	}
}

func (r *point) readExponential(s string) {
	*r = point{attributes: fields{tag: tagExponentialAttribute}, exemplars: fields{tag: tagExponentialExemplar}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagExponentialAttribute:
			r.attributes.add(s)
		case tagExponentialScale:
			r.scale = zigzag(p.number)
		case tagExponentialZeroCount:
			r.zeroCount = p.number
		case tagExponentialPositive:
			r.positive = p.content
		case tagExponentialNegative:
			r.negative = p.content
		case tagExponentialFlags:
			r.flags = uint32(p.number)
		case tagExponentialExemplar:
			r.exemplars.add(s)
		case tagExponentialMin:
			r.min = number{p.number, doubleNumber}
		case tagExponentialMax:
			r.max = number{p.number, doubleNumber}
		case tagExponentialThreshold:
			r.zeroThreshold = p.number
		default:
			r.readShared(p)
		}
		s = rest
	}
}

func (r *point) readSummary(s string) {
	*r = point{attributes: fields{tag: tagNumberAttribute}, quantiles: fields{tag: tagSummaryQuantile}, sum: number{kind: doubleNumber}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagSummaryQuantile:
			r.quantiles.add(s)
		case tagNumberAttribute:
			r.attributes.add(s)
		case tagNumberFlags:
			r.flags = uint32(p.number)
		default:
			r.readShared(p)
		}
		s = rest
	}
}

// At returns when the data point was taken, in Unix nanoseconds; 0 if it is not set.
func (d *pointDocument) At() uint64 { return d.point.time }

// The members of a point by number. Which of them a point has depends on the type of its metric. sharedMembers follow.
const (
	pointStart = iota + 1
	pointTime
	pointName
	pointDescription
	pointUnit
	pointType
	pointAttributes
	pointValue
	pointMonotonic
	pointCount
	pointSum
	pointMin
	pointMax
	pointCounts
	pointBounds
	pointScale
	pointZeroCount
	pointTemporality
	pointZeroThreshold
	pointPositive
	pointNegative
	pointQuantiles
	pointFlags
	pointExemplars
	pointMetadata
	pointShared
)

var pointLayout = newLayout(pointTime, "start_timestamp", "timestamp", "metric_name", "metric_description", "metric_unit", "metric_type", "attributes",
	"value", "is_monotonic", "count", "sum", "min", "max", "bucket_counts", "explicit_bounds", "scale", "zero_count", "aggregation_temporality",
	"zero_threshold", "positive", "negative", "quantile_values", "flags", "exemplars", "metric_metadata")

func (d *pointDocument) Layout() *members.Layout { return pointLayout }

// Nanos returns a member that is a time.
func (d *pointDocument) Nanos(number int) uint64 {
	if number == pointStart {
		return d.point.start
	}
	return d.point.time
}

// AppendMember is AppendField for the path to a member.
func (d *pointDocument) AppendMember(dst []byte, number int) ([]byte, mapping.FieldKind) {
	d.w.startMember(dst)
	d.member(number)
	return d.w.dst, d.w.kind
}

func (d *pointDocument) write() {
	d.w.root()
	for n := pointName; n <= pointType; n++ {
		d.member(n)
	}
	d.writeGroup(&d.w)
	if d.w.done {
		return
	}
	d.member(pointStart)
	d.member(pointTime)
	for n := pointAttributes; n < pointShared && !d.w.done; n++ {
		d.member(n)
	}
	d.writeEnd(&d.w)
}

func (d *pointDocument) member(number int) {
	w, m, p := &d.w, &d.metric, &d.point
	switch number {
	case pointStart:
		w.memberTime("start_timestamp", p.start)
	case pointTime:
		w.memberTime("timestamp", p.time)
	case pointName:
		w.memberText("metric_name", m.name)
	case pointDescription:
		w.memberText("metric_description", m.description)
	case pointUnit:
		w.memberText("metric_unit", m.unit)
	case pointType:
		if w.member("metric_type") {
			w.plain(typeName(m.typ))
		}
	case pointAttributes:
		w.memberAttributes("attributes", p.attributes)
	case pointFlags:
		if p.flags != 0 {
			w.memberUint("flags", uint64(p.flags))
		}
	case pointExemplars:
		if !p.exemplars.empty() && w.member("exemplars") {
			w.array(p.exemplars, (*writer).exemplar)
		}
	case pointMetadata:
		if !m.metadata.empty() {
			w.memberAttributes("metric_metadata", m.metadata)
		}
	default:
		if number >= pointShared {
			d.writeShared(w, number-pointShared)
		} else if m.has(number) {
			d.measured(number)
		}
	}
}

// has reports whether points of the type of the metric have a member that measures something.
func (m *metric) has(number int) bool {
	switch m.typ {
	case tagGauge:
		return number == pointValue
	case tagSum:
		return number == pointValue || number == pointMonotonic || number == pointTemporality
	case tagSummary:
		return number == pointCount || number == pointSum || number == pointQuantiles
	case tagHistogram:
		return pointCount <= number && number <= pointBounds || number == pointTemporality
	default:
		return pointCount <= number && number <= pointMax || pointScale <= number && number <= pointNegative
	}
}

// measured writes a member that the point has.
func (d *pointDocument) measured(number int) {
	w, p := &d.w, &d.point
	switch number {
	case pointValue:
		w.memberNumber("value", p.value)
	case pointMonotonic:
		if w.member("is_monotonic") {
			w.bool(d.metric.monotonic)
		}
	case pointCount:
		w.memberUint("count", p.count)
	case pointSum:
		w.optionalNumber("sum", p.sum)
	case pointMin:
		w.optionalNumber("min", p.min)
	case pointMax:
		w.optionalNumber("max", p.max)
	case pointCounts:
		if w.member("bucket_counts") {
			w.fixed64s(p.counts, (*writer).uint)
		}
	case pointBounds:
		if w.member("explicit_bounds") {
			w.fixed64s(p.bounds, (*writer).bits)
		}
	case pointScale:
		if w.member("scale") {
			w.int(int64(p.scale))
		}
	case pointZeroCount:
		w.memberUint("zero_count", p.zeroCount)
	case pointTemporality:
		if t := d.metric.temporality; w.member("aggregation_temporality") {
			w.plain(enum(pmetric.AggregationTemporality(t).String(), t))
		}
	case pointZeroThreshold:
		if w.member("zero_threshold") {
			w.bits(p.zeroThreshold)
		}
	case pointPositive:
		if w.member("positive") {
			w.buckets(p.positive)
		}
	case pointNegative:
		if w.member("negative") {
			w.buckets(p.negative)
		}
	case pointQuantiles:
		if w.member("quantile_values") {
			w.array(p.quantiles, (*writer).quantile)
		}
	}
}

func typeName(typ byte) string {
	switch typ {
	case tagGauge:
		return "gauge"
	case tagSum:
		return "sum"
	case tagHistogram:
		return "histogram"
	case tagExponential:
		return "exponential_histogram"
	default:
		return "summary"
	}
}

func (w *writer) memberNumber(key string, n number) {
	if !w.member(key) {
		return
	}
	switch n.kind {
	case intNumber:
		w.int(int64(n.bits))
	case doubleNumber:
		w.bits(n.bits)
	default:
		w.null()
	}
}

// optionalNumber is memberNumber without a member for a number that is not set.
func (w *writer) optionalNumber(key string, n number) {
	if n.kind != noNumber {
		w.memberNumber(key, n)
	}
}

func (w *writer) buckets(s string) {
	var offset uint64
	var counts string
	for s != "" {
		var p part
		switch p, s, _ = cut(s); p.tag {
		case tagBucketsOffset:
			offset = p.number
		case tagBucketsCounts:
			counts = p.content
		}
	}
	c := w.open('{')
	if w.member("offset") {
		w.int(int64(zigzag(offset)))
	}
	if w.member("bucket_counts") {
		w.varints(counts)
	}
	w.close(c, '}')
}

func (w *writer) quantile(s string) {
	var quantile, value uint64
	for s != "" {
		var p part
		switch p, s, _ = cut(s); p.tag {
		case tagQuantile:
			quantile = p.number
		case tagQuantileValueAt:
			value = p.number
		}
	}
	c := w.open('{')
	w.memberNumber("quantile", number{quantile, doubleNumber})
	w.memberNumber("value", number{value, doubleNumber})
	w.close(c, '}')
}

func (w *writer) exemplar(s string) {
	var time uint64
	var value number
	var trace, span string
	attributes := fields{tag: tagExemplarAttribute}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagExemplarTime:
			time = p.number
		case tagExemplarDouble:
			value = number{p.number, doubleNumber}
		case tagExemplarInt:
			value = number{p.number, intNumber}
		case tagExemplarTraceID:
			trace = p.content
		case tagExemplarSpanID:
			span = p.content
		case tagExemplarAttribute:
			attributes.add(s)
		}
		s = rest
	}
	c := w.open('{')
	w.memberTime("timestamp", time)
	w.memberNumber("value", value)
	w.optionalID("trace_id", trace)
	w.optionalID("span_id", span)
	w.memberAttributes("attributes", attributes)
	w.close(c, '}')
}
