package otlpflat_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// reader takes the members of an object and remembers which were taken.
type reader struct {
	t       *testing.T
	members []member
}

type member struct {
	key   string
	value json.RawMessage
	taken bool
}

// read keeps the order of the members.
func read(t *testing.T, text []byte) *reader {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	r := &reader{t: t}
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		r.members = append(r.members, member{key: key.(string), value: value})
	}
	return r
}

func (r *reader) take(key string) json.RawMessage {
	for i := range r.members {
		if m := &r.members[i]; m.key == key && !m.taken {
			m.taken = true
			return m.value
		}
	}
	return nil
}

// end fails if written output is left unread.
func (r *reader) end() {
	r.t.Helper()
	for _, m := range r.members {
		if !m.taken {
			r.t.Fatalf("unknown member %q", m.key)
		}
	}
}

func (r *reader) text(key string) (s string) {
	if v := r.take(key); v != nil {
		if err := json.Unmarshal(v, &s); err != nil {
			r.t.Fatalf("%s: got %v, want no error", key, err)
		}
	}
	return s
}

func (r *reader) uint(key string) uint64 {
	v := r.take(key)
	if v == nil {
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *reader) int(key string) int64 {
	n, err := strconv.ParseInt(string(r.take(key)), 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *reader) float(key string) float64 {
	f, err := strconv.ParseFloat(string(r.take(key)), 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

func (r *reader) has(key string) bool {
	for _, m := range r.members {
		if m.key == key {
			return true
		}
	}
	return false
}

func (r *reader) time(key string) pcommon.Timestamp {
	s := r.text(key)
	if s == "" {
		return 0
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return pcommon.Timestamp(uint64(at.Unix())*1e9 + uint64(at.Nanosecond()))
}

func (r *reader) traceID(key string) (id pcommon.TraceID) {
	if _, err := hex.Decode(id[:], []byte(r.text(key))); err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *reader) spanID(key string) (id pcommon.SpanID) {
	if _, err := hex.Decode(id[:], []byte(r.text(key))); err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *reader) array(key string) (elements []json.RawMessage) {
	if v := r.take(key); v != nil {
		if err := json.Unmarshal(v, &elements); err != nil {
			r.t.Fatal(err)
		}
	}
	return elements
}

// enum finds the value of a name. Named values are below 16.
func (r *reader) enum(key string, name func(int32) string) int32 {
	s := r.text(key)
	for i := range int32(16) {
		if name(i) == s {
			return i
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		r.t.Fatalf("%s has the unknown name %q", key, s)
	}
	return int32(n)
}

func (r *reader) attributes(key string, m pcommon.Map) {
	if v := r.take(key); v != nil {
		readMap(r.t, v, m)
	}
}

func readMap(t *testing.T, text json.RawMessage, m pcommon.Map) {
	for _, x := range read(t, text).members {
		if strings.HasPrefix(x.key, "bytes") {
			var s string
			if err := json.Unmarshal(x.value, &s); err != nil {
				t.Fatal(err)
			}
			b, err := base64.StdEncoding.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			m.PutEmptyBytes(x.key).FromRaw(b)
			continue
		}
		readValue(t, x.value, m.PutEmpty(x.key))
	}
}

func readValue(t *testing.T, text json.RawMessage, v pcommon.Value) {
	switch c := text[0]; {
	case c == 'n':
	case c == 't' || c == 'f':
		v.SetBool(c == 't')
	case c == '"':
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		v.SetStr(s)
	case c == '{':
		readMap(t, text, v.SetEmptyMap())
	case c == '[':
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			t.Fatal(err)
		}
		s := v.SetEmptySlice()
		for _, e := range elements {
			readValue(t, e, s.AppendEmpty())
		}
	case bytes.ContainsAny(text, ".e"):
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			t.Fatal(err)
		}
		v.SetDouble(f)
	default:
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		v.SetInt(n)
	}
}

func (r *reader) group(res pcommon.Resource, setSchema func(string), scope pcommon.InstrumentationScope, setScopeSchema func(string)) {
	r.attributes("resource", res.Attributes())
	res.SetDroppedAttributesCount(uint32(r.uint("resource_dropped_attributes_count")))
	setSchema(r.text("resource_schema_url"))
	s := read(r.t, r.take("scope"))
	scope.SetName(s.text("name"))
	scope.SetVersion(s.text("version"))
	s.attributes("attributes", scope.Attributes())
	scope.SetDroppedAttributesCount(uint32(s.uint("dropped_attributes_count")))
	setScopeSchema(s.text("schema_url"))
	s.end()
}

func readLog(t *testing.T, text string) plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	sl := rl.ScopeLogs().AppendEmpty()
	l := sl.LogRecords().AppendEmpty()
	r := read(t, []byte(text))
	r.group(rl.Resource(), rl.SetSchemaUrl, sl.Scope(), sl.SetSchemaUrl)
	l.SetTimestamp(r.time("timestamp"))
	l.SetObservedTimestamp(r.time("observed_timestamp"))
	l.SetSeverityNumber(plog.SeverityNumber(r.int("severity_number")))
	l.SetSeverityText(r.text("severity_text"))
	readValue(t, r.take("body"), l.Body())
	l.SetFlags(plog.LogRecordFlags(r.uint("flags")))
	l.SetTraceID(r.traceID("trace_id"))
	l.SetSpanID(r.spanID("span_id"))
	r.attributes("attributes", l.Attributes())
	l.SetEventName(r.text("event_name"))
	l.SetDroppedAttributesCount(uint32(r.uint("dropped_attributes_count")))
	r.end()
	return batch
}

func readSpan(t *testing.T, text string) ptrace.Traces {
	batch := ptrace.NewTraces()
	rs := batch.ResourceSpans().AppendEmpty()
	ss := rs.ScopeSpans().AppendEmpty()
	s := ss.Spans().AppendEmpty()
	r := read(t, []byte(text))
	r.group(rs.Resource(), rs.SetSchemaUrl, ss.Scope(), ss.SetSchemaUrl)
	s.SetStartTimestamp(r.time("timestamp"))
	s.SetEndTimestamp(r.time("end_timestamp"))
	s.SetTraceID(r.traceID("trace_id"))
	s.SetSpanID(r.spanID("span_id"))
	s.SetParentSpanID(r.spanID("parent_span_id"))
	s.TraceState().FromRaw(r.text("trace_state"))
	s.SetName(r.text("name"))
	s.SetKind(ptrace.SpanKind(r.enum("kind", func(i int32) string { return ptrace.SpanKind(i).String() })))
	s.SetFlags(uint32(r.uint("flags")))
	s.Status().SetCode(ptrace.StatusCode(r.enum("status_code", func(i int32) string { return ptrace.StatusCode(i).String() })))
	s.Status().SetMessage(r.text("status_message"))
	r.attributes("attributes", s.Attributes())
	if start, end := s.StartTimestamp(), s.EndTimestamp(); r.has("duration_ns") != (start > 0 && end >= start) || r.uint("duration_ns") != uint64(end-start) && start > 0 && end >= start {
		r.t.Error("wrong duration")
	}
	s.SetDroppedAttributesCount(uint32(r.uint("dropped_attributes_count")))
	s.SetDroppedEventsCount(uint32(r.uint("dropped_events_count")))
	s.SetDroppedLinksCount(uint32(r.uint("dropped_links_count")))
	for _, text := range r.array("events") {
		e, r := s.Events().AppendEmpty(), read(t, text)
		e.SetTimestamp(r.time("timestamp"))
		e.SetName(r.text("name"))
		r.attributes("attributes", e.Attributes())
		e.SetDroppedAttributesCount(uint32(r.uint("dropped_attributes_count")))
		r.end()
	}
	for _, text := range r.array("links") {
		l, r := s.Links().AppendEmpty(), read(t, text)
		l.SetTraceID(r.traceID("trace_id"))
		l.SetSpanID(r.spanID("span_id"))
		l.TraceState().FromRaw(r.text("trace_state"))
		r.attributes("attributes", l.Attributes())
		l.SetFlags(uint32(r.uint("flags")))
		l.SetDroppedAttributesCount(uint32(r.uint("dropped_attributes_count")))
		r.end()
	}
	r.end()
	return batch
}

func readPoint(t *testing.T, text string) pmetric.Metrics {
	batch := pmetric.NewMetrics()
	rm := batch.ResourceMetrics().AppendEmpty()
	sm := rm.ScopeMetrics().AppendEmpty()
	m := sm.Metrics().AppendEmpty()
	r := read(t, []byte(text))
	r.group(rm.Resource(), rm.SetSchemaUrl, sm.Scope(), sm.SetSchemaUrl)
	m.SetName(r.text("metric_name"))
	m.SetDescription(r.text("metric_description"))
	m.SetUnit(r.text("metric_unit"))
	r.attributes("metric_metadata", m.Metadata())
	temporality := func() pmetric.AggregationTemporality {
		return pmetric.AggregationTemporality(r.enum("aggregation_temporality",
			func(i int32) string { return pmetric.AggregationTemporality(i).String() }))
	}
	switch typ := r.text("metric_type"); typ {
	case "gauge":
		r.number(m.SetEmptyGauge().DataPoints().AppendEmpty())
	case "sum":
		s := m.SetEmptySum()
		s.SetIsMonotonic(string(r.take("is_monotonic")) == "true")
		s.SetAggregationTemporality(temporality())
		r.number(s.DataPoints().AppendEmpty())
	case "histogram":
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(temporality())
		p := h.DataPoints().AppendEmpty()
		r.distribution(p)
		r.counts("bucket_counts", p.BucketCounts())
		for _, b := range r.array("explicit_bounds") {
			f, err := strconv.ParseFloat(string(b), 64)
			if err != nil {
				t.Fatal(err)
			}
			p.ExplicitBounds().Append(f)
		}
	case "exponential_histogram":
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(temporality())
		p := h.DataPoints().AppendEmpty()
		r.distribution(p)
		p.SetScale(int32(r.int("scale")))
		p.SetZeroCount(r.uint("zero_count"))
		p.SetZeroThreshold(r.float("zero_threshold"))
		for key, b := range map[string]pmetric.ExponentialHistogramDataPointBuckets{"positive": p.Positive(), "negative": p.Negative()} {
			r := read(t, r.take(key))
			b.SetOffset(int32(r.int("offset")))
			r.counts("bucket_counts", b.BucketCounts())
			r.end()
		}
	case "summary":
		p := m.SetEmptySummary().DataPoints().AppendEmpty()
		r.point(p)
		p.SetCount(r.uint("count"))
		p.SetSum(r.float("sum"))
		for _, text := range r.array("quantile_values") {
			q, r := p.QuantileValues().AppendEmpty(), read(t, text)
			q.SetQuantile(r.float("quantile"))
			q.SetValue(r.float("value"))
			r.end()
		}
	default:
		t.Fatalf("unknown metric type %q", typ)
	}
	r.end()
	return batch
}

func (r *reader) point(p point) {
	p.SetStartTimestamp(r.time("start_timestamp"))
	p.SetTimestamp(r.time("timestamp"))
	r.attributes("attributes", p.Attributes())
	p.SetFlags(pmetric.DataPointFlags(r.uint("flags")))
}

func (r *reader) distribution(p distribution) {
	r.point(p)
	p.SetCount(r.uint("count"))
	r.optional("sum", p.SetSum)
	r.optional("min", p.SetMin)
	r.optional("max", p.SetMax)
	r.exemplars(p.Exemplars())
}

func (r *reader) number(p pmetric.NumberDataPoint) {
	r.point(p)
	r.exemplars(p.Exemplars())
	r.setNumber(p.SetIntValue, p.SetDoubleValue)
}

func (r *reader) setNumber(setInt func(int64), setFloat func(float64)) {
	v := pcommon.NewValueEmpty()
	readValue(r.t, r.take("value"), v)
	switch v.Type() {
	case pcommon.ValueTypeInt:
		setInt(v.Int())
	case pcommon.ValueTypeDouble:
		setFloat(v.Double())
	}
}

func (r *reader) optional(key string, set func(float64)) {
	if r.has(key) {
		set(r.float(key))
	}
}

func (r *reader) counts(key string, s pcommon.UInt64Slice) {
	for _, text := range r.array(key) {
		n, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		s.Append(n)
	}
}

func (r *reader) exemplars(s pmetric.ExemplarSlice) {
	for _, text := range r.array("exemplars") {
		e, r := s.AppendEmpty(), read(r.t, text)
		e.SetTimestamp(r.time("timestamp"))
		r.setNumber(e.SetIntValue, e.SetDoubleValue)
		e.SetTraceID(r.traceID("trace_id"))
		e.SetSpanID(r.spanID("span_id"))
		r.attributes("attributes", e.FilteredAttributes())
		r.end()
	}
}
