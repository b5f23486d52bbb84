package otlpflat_test

import (
	"encoding/json"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

var (
	testTime    = pcommon.NewTimestampFromTime(time.Date(2026, 2, 28, 23, 59, 7, 120_000_000, time.UTC))
	testTraceID = pcommon.TraceID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}
	testSpanID  = pcommon.SpanID{0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1}
)

// texts returns the JSON of all documents.
func texts(t *testing.T, docs iter.Seq[mapping.FieldDocument]) []string {
	t.Helper()
	var all []string
	for doc := range docs {
		text, err := doc.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			t.Errorf("not JSON: %s", text)
		}
		all = append(all, string(text))
	}
	return all
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = strings.ReplaceAll(strings.ReplaceAll(want[i], "\n", ""), "\t", "")
	}
	for i := range max(len(got), len(want)) {
		g, w := "(none)", "(none)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("record %d\ngot  %s\nwant %s", i, g, w)
		}
	}
}

func TestLogs(t *testing.T) {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "shop")
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("http")
	sl.Scope().SetVersion("1.2.0")

	r := sl.LogRecords().AppendEmpty()
	r.SetTimestamp(testTime)
	r.SetObservedTimestamp(testTime + 1)
	r.SetSeverityNumber(plog.SeverityNumberWarn)
	r.SetSeverityText("WARN")
	r.Body().SetStr(`said "no"`)
	r.SetFlags(1)
	r.SetTraceID(testTraceID)
	r.SetSpanID(testSpanID)
	a := r.Attributes()
	a.PutStr("user.id", "u-1")
	a.PutInt("big", 1<<53+1)
	a.PutDouble("ratio", 0.1)
	a.PutDouble("whole", 3)
	a.PutBool("ok", true)
	a.PutEmpty("unset")
	a.PutEmptyBytes("raw").FromRaw([]byte{0xff, 0xfe, 0})
	a.PutEmptySlice("list").AppendEmpty().SetInt(-1)
	a.PutEmptyMap("map").PutStr("k", "<&>")
	a.PutDouble("nan", math.NaN())
	a.PutDouble("up", math.Inf(1))
	a.PutDouble("down", math.Inf(-1))
	a.PutStr("bad", "\xffx")

	sl.LogRecords().AppendEmpty() // nothing is set

	rl = batch.ResourceLogs().AppendEmpty()
	rl.SetSchemaUrl("https://example.com/r")
	rl.Resource().SetDroppedAttributesCount(3)
	sl = rl.ScopeLogs().AppendEmpty()
	sl.SetSchemaUrl("https://example.com/s")
	sl.Scope().Attributes().PutInt("shard", 7)
	sl.Scope().SetDroppedAttributesCount(2)
	r = sl.LogRecords().AppendEmpty()
	r.Body().SetEmptyMap().PutInt("n", math.MinInt64)
	r.SetEventName("checkout")
	r.SetDroppedAttributesCount(1)

	check(t, texts(t, otlpflat.Logs(batch)),
		`{"timestamp":"2026-02-28T23:59:07.12Z","observed_timestamp":"2026-02-28T23:59:07.120000001Z","severity_number":13,
		"severity_text":"WARN","body":"said \"no\"","flags":1,"trace_id":"000102030405060708090a0b0c0d0eff",
		"span_id":"deadbeef00000001","attributes":{"user.id":"u-1","big":9007199254740993,"ratio":0.1,"whole":3,"ok":true,
		"unset":null,"raw":"//4A","list":[-1],"map":{"k":"<&>"},"nan":"NaN","up":"Infinity","down":"-Infinity","bad":"�x"},
		"resource":{"service.name":"shop"},"scope":{"name":"http","version":"1.2.0"}}`,
		`{"timestamp":"","observed_timestamp":"","severity_number":0,"severity_text":"","body":null,"flags":0,"attributes":{},
		"resource":{"service.name":"shop"},"scope":{"name":"http","version":"1.2.0"}}`,
		`{"timestamp":"","observed_timestamp":"","severity_number":0,"severity_text":"","body":{"n":-9223372036854775808},
		"flags":0,"attributes":{},"resource":{},"scope":{"name":"","version":"","attributes":{"shard":7},
		"dropped_attributes_count":2,"schema_url":"https://example.com/s"},"event_name":"checkout","dropped_attributes_count":1,
		"resource_dropped_attributes_count":3,"resource_schema_url":"https://example.com/r"}`,
	)
}

func TestTraces(t *testing.T) {
	batch := ptrace.NewTraces()
	rs := batch.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("http")

	s := ss.Spans().AppendEmpty()
	s.SetStartTimestamp(testTime)
	s.SetEndTimestamp(testTime + 5)
	s.SetTraceID(testTraceID)
	s.SetSpanID(testSpanID)
	s.SetParentSpanID(pcommon.SpanID{7: 1})
	s.TraceState().FromRaw("a=1,b=2")
	s.SetName("GET /")
	s.SetKind(ptrace.SpanKindServer)
	s.SetFlags(256)
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Status().SetMessage("boom")
	s.Attributes().PutStr("http.route", "/")
	s.SetDroppedAttributesCount(1)
	s.SetDroppedEventsCount(2)
	s.SetDroppedLinksCount(3)
	e := s.Events().AppendEmpty()
	e.SetTimestamp(testTime)
	e.SetName("exception")
	e.Attributes().PutStr("exception.type", "E")
	e.SetDroppedAttributesCount(4)
	l := s.Links().AppendEmpty()
	l.SetTraceID(testTraceID)
	l.SetSpanID(testSpanID)
	l.TraceState().FromRaw("c=3")
	l.Attributes().PutBool("x", false)
	l.SetFlags(1)
	l.SetDroppedAttributesCount(5)

	s = ss.Spans().AppendEmpty()
	s.SetKind(9)
	s.Status().SetCode(8)

	check(t, texts(t, otlpflat.Traces(batch)),
		`{"timestamp":"2026-02-28T23:59:07.12Z","end_timestamp":"2026-02-28T23:59:07.120000005Z",
		"trace_id":"000102030405060708090a0b0c0d0eff","span_id":"deadbeef00000001","parent_span_id":"0000000000000001",
		"trace_state":"a=1,b=2","name":"GET /","kind":"Server","flags":256,"status_code":"Error","status_message":"boom",
		"attributes":{"http.route":"/"},"events":[{"timestamp":"2026-02-28T23:59:07.12Z","name":"exception",
		"attributes":{"exception.type":"E"},"dropped_attributes_count":4}],"links":[{"trace_id":"000102030405060708090a0b0c0d0eff",
		"span_id":"deadbeef00000001","trace_state":"c=3","attributes":{"x":false},"flags":1,"dropped_attributes_count":5}],
		"resource":{"service.name":"shop"},"scope":{"name":"http","version":""},"duration_ns":5,"dropped_attributes_count":1,
		"dropped_events_count":2,"dropped_links_count":3}`,
		`{"timestamp":"","end_timestamp":"","trace_id":"","span_id":"","trace_state":"","name":"","kind":"9","flags":0,
		"status_code":"8","status_message":"","attributes":{},"events":[],"links":[],"resource":{"service.name":"shop"},
		"scope":{"name":"http","version":""}}`,
	)
}

func TestMetrics(t *testing.T) {
	batch := pmetric.NewMetrics()
	rm := batch.ResourceMetrics().AppendEmpty()
	sm := rm.ScopeMetrics().AppendEmpty()
	add := func(name string) pmetric.Metric {
		m := sm.Metrics().AppendEmpty()
		m.SetName(name)
		return m
	}

	m := add("gauge")
	m.SetDescription("d")
	m.SetUnit("By")
	m.Metadata().PutStr("prometheus.type", "unknown")
	points := m.SetEmptyGauge().DataPoints()
	points.AppendEmpty().SetIntValue(math.MaxInt64)
	p := points.AppendEmpty()
	p.SetDoubleValue(math.NaN())
	p.SetStartTimestamp(testTime)
	p.SetTimestamp(testTime)
	p.SetFlags(1)
	p.Attributes().PutStr("k", "v")
	points.AppendEmpty()

	sum := add("sum").SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	p = sum.DataPoints().AppendEmpty()
	p.SetDoubleValue(1.5)
	x := p.Exemplars().AppendEmpty()
	x.SetTimestamp(testTime)
	x.SetIntValue(2)
	x.SetTraceID(testTraceID)
	x.SetSpanID(testSpanID)
	x.FilteredAttributes().PutInt("f", 1)

	add("none")

	hist := add("hist").SetEmptyHistogram()
	hist.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	h := hist.DataPoints().AppendEmpty()
	h.SetCount(math.MaxUint64)
	h.SetSum(10)
	h.SetMin(-0.5)
	h.SetMax(9.5)
	h.BucketCounts().FromRaw([]uint64{1, 1<<53 + 1})
	h.ExplicitBounds().FromRaw([]float64{0.25})
	hist.DataPoints().AppendEmpty()

	exp := add("exp").SetEmptyExponentialHistogram()
	exp.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	eh := exp.DataPoints().AppendEmpty()
	eh.SetCount(6)
	eh.SetSum(0)
	eh.SetMin(1)
	eh.SetMax(2)
	eh.SetScale(-3)
	eh.SetZeroCount(2)
	eh.SetZeroThreshold(0.001)
	eh.Positive().SetOffset(-1)
	eh.Positive().BucketCounts().FromRaw([]uint64{1, 2})
	eh.Negative().SetOffset(4)
	eh.Negative().BucketCounts().FromRaw([]uint64{1})

	su := add("summary").SetEmptySummary().DataPoints().AppendEmpty()
	su.SetCount(2)
	su.SetSum(3.5)
	q := su.QuantileValues().AppendEmpty()
	q.SetQuantile(0.99)
	q.SetValue(1e21)

	const group = `"resource":{},"scope":{"name":"","version":""},"start_timestamp":"","timestamp":"","attributes":{}`
	check(t, texts(t, otlpflat.Metrics(batch)),
		`{"metric_name":"gauge","metric_description":"d","metric_unit":"By","metric_type":"gauge",`+group+`,
		"value":9223372036854775807,"metric_metadata":{"prometheus.type":"unknown"}}`,
		`{"metric_name":"gauge","metric_description":"d","metric_unit":"By","metric_type":"gauge","resource":{},
		"scope":{"name":"","version":""},"start_timestamp":"2026-02-28T23:59:07.12Z","timestamp":"2026-02-28T23:59:07.12Z",
		"attributes":{"k":"v"},"value":"NaN","flags":1,"metric_metadata":{"prometheus.type":"unknown"}}`,
		`{"metric_name":"gauge","metric_description":"d","metric_unit":"By","metric_type":"gauge",`+group+`,
		"value":null,"metric_metadata":{"prometheus.type":"unknown"}}`,
		`{"metric_name":"sum","metric_description":"","metric_unit":"","metric_type":"sum",`+group+`,
		"value":1.5,"is_monotonic":true,"aggregation_temporality":"Cumulative","exemplars":[{"timestamp":"2026-02-28T23:59:07.12Z",
		"value":2,"trace_id":"000102030405060708090a0b0c0d0eff","span_id":"deadbeef00000001","attributes":{"f":1}}]}`,
		`{"metric_name":"hist","metric_description":"","metric_unit":"","metric_type":"histogram",`+group+`,
		"count":18446744073709551615,"sum":10,"min":-0.5,"max":9.5,"bucket_counts":[1,9007199254740993],"explicit_bounds":[0.25],
		"aggregation_temporality":"Delta"}`,
		`{"metric_name":"hist","metric_description":"","metric_unit":"","metric_type":"histogram",`+group+`,
		"count":0,"bucket_counts":[],"explicit_bounds":[],"aggregation_temporality":"Delta"}`,
		`{"metric_name":"exp","metric_description":"","metric_unit":"","metric_type":"exponential_histogram",`+group+`,
		"count":6,"sum":0,"min":1,"max":2,"scale":-3,"zero_count":2,"aggregation_temporality":"Delta","zero_threshold":0.001,
		"positive":{"offset":-1,"bucket_counts":[1,2]},"negative":{"offset":4,"bucket_counts":[1]}}`,
		`{"metric_name":"summary","metric_description":"","metric_unit":"","metric_type":"summary",`+group+`,
		"count":2,"sum":3.5,"quantile_values":[{"quantile":0.99,"value":1e+21}]}`,
	)
}

// Times agree with package time over the whole range of the protocol.
func TestTimes(t *testing.T) {
	batch := plog.NewLogs()
	records := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	nanos := []uint64{1, 999_999_999, 1_000_000_000, 86_399_999_999_999, 86_400_000_000_000, 951_782_399_000_000_001, math.MaxInt64, math.MaxUint64}
	for _, n := range nanos {
		records.AppendEmpty().SetTimestamp(pcommon.Timestamp(n))
	}
	i := 0
	for doc := range otlpflat.Logs(batch) {
		path, err := mapping.ParsePath("timestamp")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := doc.AppendField(nil, path)
		want := time.Unix(int64(nanos[i]/1e9), int64(nanos[i]%1e9)).UTC().Format(time.RFC3339Nano)
		if string(got) != want {
			t.Errorf("got %d: %s, want %s", nanos[i], got, want)
		}
		i++
	}
}

// Numbers are written as encoding/json writes them.
func TestNumbers(t *testing.T) {
	batch := plog.NewLogs()
	body := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetEmptySlice()
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 1e-7, 1.5e-9, 1e-10, 1e20, 1e21, 123456789012345678, 1 << 53, math.MaxFloat64, math.SmallestNonzeroFloat64}
	for _, f := range numbers {
		body.AppendEmpty().SetDouble(f)
	}
	want, err := json.Marshal(numbers)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range otlpflat.Logs(batch) {
		path, err := mapping.ParsePath("body")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := doc.AppendField(nil, path); string(got) != string(want) {
			t.Errorf("\ngot  %s\nwant %s", got, want)
		}
	}
}
