package otlpflat_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// expected are the cells of one record, read from pdata without package otlpflat. Nil is NULL, a string a text, and document JSON.
type expected map[string]any

// document is compared as a JSON value.
type document struct{ value any }

// misfit is a number that no int64 holds.
type misfit struct{}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func (e expected) time(moment, nanos string, t pcommon.Timestamp) {
	e[moment], e[nanos] = nil, nil
	if t == 0 {
		return
	}
	e[moment] = time.Unix(int64(t/1e9), int64(t%1e9)).UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.000000Z")
	if e[nanos] = strconv.FormatUint(uint64(t), 10); t > math.MaxInt64 {
		e[nanos] = misfit{}
	}
}

// arrival is the time of receipt of the records.
var arrival = time.Date(2026, 11, 28, 10, 0, 0, 123456789, time.UTC)

// recordTime expects the first time that is set, or the arrival.
func (e expected) recordTime(moment, nanos string, times ...pcommon.Timestamp) {
	e.time(moment, nanos, cmp.Or(append(times, pcommon.NewTimestampFromTime(arrival))...))
}

func (e expected) origin(r pcommon.Resource, resourceSchema string, s pcommon.InstrumentationScope, scopeSchema string) {
	e["ServiceName"] = nil
	if name, ok := r.Attributes().Get("service.name"); ok {
		e["ServiceName"] = orNull(name.AsString())
	}
	e["ResourceSchemaUrl"], e["ResourceAttributes"] = orNull(resourceSchema), document{r.Attributes().AsRaw()}
	e["ScopeSchemaUrl"], e["ScopeName"], e["ScopeVersion"], e["ScopeAttributes"] = orNull(scopeSchema), orNull(s.Name()), orNull(s.Version()), nil
	if s.Attributes().Len() > 0 {
		e["ScopeAttributes"] = document{s.Attributes().AsRaw()}
	}
}

func count(n uint64) any {
	if n > math.MaxInt64 {
		return misfit{}
	}
	return strconv.FormatUint(n, 10)
}

func number(f float64) any { return document{f} }

func numberIf(set bool, f float64) any {
	if !set {
		return nil
	}
	return number(f)
}

func expectLogs(batch plog.Logs) (all []expected) {
	for _, rl := range batch.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				e := expected{
					"TraceId": orNull(r.TraceID().String()), "SpanId": orNull(r.SpanID().String()), "TraceFlags": count(uint64(r.Flags())),
					"SeverityText": orNull(r.SeverityText()), "SeverityNumber": count(uint64(r.SeverityNumber())),
					"LogAttributes": document{r.Attributes().AsRaw()}, "EventName": orNull(r.EventName()), "Body": document{r.Body().AsRaw()},
				}
				switch r.Body().Type() {
				case pcommon.ValueTypeEmpty:
					e["Body"] = nil
				case pcommon.ValueTypeStr:
					e["Body"] = strings.ToValidUTF8(r.Body().Str(), "\ufffd")
				}
				e.time("ObservedTimestamp", "ObservedTimeUnixNano", r.ObservedTimestamp())
				e.recordTime("Timestamp", "TimeUnixNano", r.Timestamp(), r.ObservedTimestamp())
				e.origin(rl.Resource(), rl.SchemaUrl(), sl.Scope(), sl.SchemaUrl())
				all = append(all, e)
			}
		}
	}
	return all
}

func expectSpans(batch ptrace.Traces) (all []expected) {
	rfc := func(t pcommon.Timestamp) string {
		if t == 0 {
			return ""
		}
		return time.Unix(int64(t/1e9), int64(t%1e9)).UTC().Format(time.RFC3339Nano)
	}
	for _, rs := range batch.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				events, links := []any{}, []any{}
				for _, v := range s.Events().All() {
					event := map[string]any{"timestamp": rfc(v.Timestamp()), "name": v.Name(), "attributes": v.Attributes().AsRaw()}
					if n := v.DroppedAttributesCount(); n > 0 {
						event["dropped_attributes_count"] = n
					}
					events = append(events, event)
				}
				for _, v := range s.Links().All() {
					link := map[string]any{
						"trace_id": v.TraceID().String(), "span_id": v.SpanID().String(), "trace_state": v.TraceState().AsRaw(),
						"attributes": v.Attributes().AsRaw(), "flags": v.Flags(),
					}
					if n := v.DroppedAttributesCount(); n > 0 {
						link["dropped_attributes_count"] = n
					}
					links = append(links, link)
				}
				e := expected{
					"TraceId": orNull(s.TraceID().String()), "SpanId": orNull(s.SpanID().String()), "ParentSpanId": orNull(s.ParentSpanID().String()),
					"TraceState": orNull(s.TraceState().AsRaw()), "TraceFlags": count(uint64(s.Flags())), "SpanName": orNull(s.Name()),
					"SpanKind": name(s.Kind().String(), int32(s.Kind())), "StatusCode": name(s.Status().Code().String(), int32(s.Status().Code())),
					"StatusMessage": orNull(s.Status().Message()), "SpanAttributes": document{s.Attributes().AsRaw()},
					"Events": document{events}, "Links": document{links}, "Duration": nil,
				}
				if s.StartTimestamp() > 0 && s.EndTimestamp() >= s.StartTimestamp() {
					e["Duration"] = count(uint64(s.EndTimestamp() - s.StartTimestamp()))
				}
				e.recordTime("Timestamp", "TimeUnixNano", s.StartTimestamp())
				e.origin(rs.Resource(), rs.SchemaUrl(), ss.Scope(), ss.SchemaUrl())
				all = append(all, e)
			}
		}
	}
	return all
}

// name is the name of a value of an enumeration, or its number.
func name(s string, n int32) string {
	if s == "" {
		return strconv.Itoa(int(n))
	}
	return s
}

// ofKind are the columns of MetricsTable that only some kinds of metrics have.
var ofKind = []string{
	"Value", "Count", "Sum", "Min", "Max", "BucketCounts", "ExplicitBounds", "Scale", "ZeroCount", "ZeroThreshold", "PositiveOffset",
	"PositiveBucketCounts", "NegativeOffset", "NegativeBucketCounts", "ValueAtQuantiles", "AggregationTemporality", "IsMonotonic", "Exemplars",
}

func expectPoints(batch pmetric.Metrics) (all []expected) {
	for _, rm := range batch.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				add := func(kind string, p point, got pointOf, more expected) {
					e := expected{
						"MetricType": kind, "MetricName": orNull(m.Name()), "MetricDescription": orNull(m.Description()), "MetricUnit": orNull(m.Unit()),
						"Attributes": document{p.Attributes().AsRaw()}, "Flags": nil,
					}
					for _, column := range ofKind {
						e[column] = nil
					}
					if f := got.Flags(); f > 0 {
						e["Flags"] = count(uint64(f))
					}
					e.recordTime("TimeUnix", "TimeUnixNano", got.Timestamp())
					e.time("StartTimeUnix", "StartTimeUnixNano", got.StartTimestamp())
					e.origin(rm.Resource(), rm.SchemaUrl(), sm.Scope(), sm.SchemaUrl())
					for column, value := range more {
						e[column] = value
					}
					all = append(all, e)
				}
				switch m.Type() {
				case pmetric.MetricTypeGauge:
					for _, p := range m.Gauge().DataPoints().All() {
						add("gauge", p, p, expected{"Value": value(p), "Exemplars": exemplars(p.Exemplars())})
					}
				case pmetric.MetricTypeSum:
					for _, p := range m.Sum().DataPoints().All() {
						add("sum", p, p, expected{
							"Value": value(p), "Exemplars": exemplars(p.Exemplars()), "IsMonotonic": strconv.FormatBool(m.Sum().IsMonotonic()),
							"AggregationTemporality": name(m.Sum().AggregationTemporality().String(), int32(m.Sum().AggregationTemporality())),
						})
					}
				case pmetric.MetricTypeHistogram:
					for _, p := range m.Histogram().DataPoints().All() {
						add("histogram", p, p, expected{
							"Count": count(p.Count()), "Sum": numberIf(p.HasSum(), p.Sum()), "Min": numberIf(p.HasMin(), p.Min()), "Max": numberIf(p.HasMax(), p.Max()),
							"BucketCounts": document{list(p.BucketCounts().AsRaw())}, "ExplicitBounds": document{list(p.ExplicitBounds().AsRaw())}, "Exemplars": exemplars(p.Exemplars()),
							"AggregationTemporality": name(m.Histogram().AggregationTemporality().String(), int32(m.Histogram().AggregationTemporality())),
						})
					}
				case pmetric.MetricTypeExponentialHistogram:
					for _, p := range m.ExponentialHistogram().DataPoints().All() {
						add("exponential_histogram", p, p, expected{
							"Count": count(p.Count()), "Sum": numberIf(p.HasSum(), p.Sum()), "Min": numberIf(p.HasMin(), p.Min()), "Max": numberIf(p.HasMax(), p.Max()),
							"Scale": strconv.Itoa(int(p.Scale())), "ZeroCount": count(p.ZeroCount()), "ZeroThreshold": number(p.ZeroThreshold()),
							"PositiveOffset": strconv.Itoa(int(p.Positive().Offset())), "PositiveBucketCounts": document{list(p.Positive().BucketCounts().AsRaw())},
							"NegativeOffset": strconv.Itoa(int(p.Negative().Offset())), "NegativeBucketCounts": document{list(p.Negative().BucketCounts().AsRaw())},
							"AggregationTemporality": name(m.ExponentialHistogram().AggregationTemporality().String(), int32(m.ExponentialHistogram().AggregationTemporality())),
							"Exemplars":              exemplars(p.Exemplars()),
						})
					}
				case pmetric.MetricTypeSummary:
					for _, p := range m.Summary().DataPoints().All() {
						quantiles := []any{}
						for _, q := range p.QuantileValues().All() {
							quantiles = append(quantiles, map[string]any{"quantile": q.Quantile(), "value": q.Value()})
						}
						add("summary", p, p, expected{"Count": count(p.Count()), "Sum": number(p.Sum()), "ValueAtQuantiles": document{quantiles}})
					}
				}
			}
		}
	}
	return all
}

// pointOf are the getters that points of all kinds share.
type pointOf interface {
	Timestamp() pcommon.Timestamp
	StartTimestamp() pcommon.Timestamp
	Flags() pmetric.DataPointFlags
}

// list is not nil, which would be null.
func list[T any](all []T) []T { return append([]T{}, all...) }

func value(p pmetric.NumberDataPoint) any {
	switch p.ValueType() {
	case pmetric.NumberDataPointValueTypeInt:
		return number(float64(p.IntValue()))
	case pmetric.NumberDataPointValueTypeDouble:
		return number(p.DoubleValue())
	}
	return nil
}

func exemplars(s pmetric.ExemplarSlice) any {
	if s.Len() == 0 {
		return nil
	}
	all := []any{}
	for _, e := range s.All() {
		one := map[string]any{"timestamp": "", "value": nil, "attributes": e.FilteredAttributes().AsRaw()}
		if t := e.Timestamp(); t > 0 {
			one["timestamp"] = time.Unix(int64(t/1e9), int64(t%1e9)).UTC().Format(time.RFC3339Nano)
		}
		switch e.ValueType() {
		case pmetric.ExemplarValueTypeInt:
			one["value"] = e.IntValue()
		case pmetric.ExemplarValueTypeDouble:
			one["value"] = e.DoubleValue()
		}
		if !e.TraceID().IsEmpty() {
			one["trace_id"] = e.TraceID().String()
		}
		if !e.SpanID().IsEmpty() {
			one["span_id"] = e.SpanID().String()
		}
		all = append(all, one)
	}
	return document{all}
}

// normal is a JSON value with numbers as texts, so that it does not matter which Go type they had.
func normal(t *testing.T, text []byte) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("got %v: %s, want no error", err, text)
	}
	return v
}

// withoutNil returns a raw value of pdata with empty bytes in place of nil ones.
func withoutNil(v any) any {
	switch v := v.(type) {
	case []byte:
		return list(v)
	case []any:
		for i := range v {
			v[i] = withoutNil(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withoutNil(v[k])
		}
	}
	return v
}

// matches reports whether a cell is as expected.
func matches(t *testing.T, c mapping.Cell, want any) bool {
	t.Helper()
	if _, ok := want.(misfit); ok {
		var fail *mapping.Error
		return errors.As(c.Err, &fail) && fail.Reason == mapping.OutOfRange
	}
	if c.Err != nil || c.Null || want == nil {
		return c.Err == nil && c.Null && want == nil
	}
	if doc, ok := want.(document); ok {
		text, err := json.Marshal(withoutNil(doc.value))
		if err != nil {
			t.Fatal(err)
		}
		return reflect.DeepEqual(normal(t, []byte(c.Value)), normal(t, text))
	}
	return c.Value == want
}

// The columns of the presets hold what pdata holds, for random batches, and are the same when the record comes as JSON, as from a
// quarantine.
func TestTables(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	for name, kind := range map[string]struct {
		columns mapping.Columns
		batch   func() (iter.Seq[mapping.FieldDocument], []expected)
	}{
		"logs": {otlpflat.LogsTable(), func() (iter.Seq[mapping.FieldDocument], []expected) {
			batch := g.logs()
			for _, rl := range batch.ResourceLogs().All() {
				if g.sometimes() {
					rl.Resource().Attributes().PutStr("service.name", g.text())
				}
			}
			return otlpflat.Logs(batch), expectLogs(batch)
		}},
		"metrics": {otlpflat.MetricsTable(), func() (iter.Seq[mapping.FieldDocument], []expected) {
			batch := g.metrics()
			return otlpflat.Metrics(batch), expectPoints(batch)
		}},
		"traces": {otlpflat.TracesTable(), func() (iter.Seq[mapping.FieldDocument], []expected) {
			batch := g.traces()
			return otlpflat.Traces(batch), expectSpans(batch)
		}},
	} {
		mapper, err := mapping.Compile(kind.columns, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		filled, null := map[string]bool{}, map[string]bool{}
		for range 150 {
			docs, wants := kind.batch()
			i := 0
			for doc := range docs {
				want := wants[i]
				i++
				text, err := doc.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				cells := mapper.Cells(&mapping.Record{Document: doc, Received: arrival})
				if len(cells) != len(want) {
					t.Fatalf("%s: got %d cells, want %d", name, len(cells), len(want))
				}
				record := mapping.JSON(text)
				record.Received = arrival
				for k, again := range mapper.Cells(record) {
					c := cells[k]
					if again.Value != c.Value || again.Null != c.Null || (again.Err == nil) != (c.Err == nil) {
						t.Errorf("%s: %s of the document is %+v, of its JSON %+v\n%s", name, c.Column, c, again, text)
					}
					if w, ok := want[c.Column]; !ok || !matches(t, c, w) {
						t.Errorf("%s: %s is %+v, want %v\n%s", name, c.Column, c, w, text)
					}
					filled[c.Column] = filled[c.Column] || !c.Null && c.Err == nil
					null[c.Column] = null[c.Column] || c.Null
				}
			}
			if i != len(wants) {
				t.Fatalf("%s: got %d records, want %d", name, i, len(wants))
			}
			if t.Failed() {
				return
			}
		}
		for _, c := range kind.columns {
			if !filled[c.Name] && c.Name != "ServiceName" {
				t.Errorf("%s: the column %s is always NULL", name, c.Name)
			}
			never := []string{
				"TraceFlags", "SeverityNumber", "LogAttributes", "SpanAttributes", "Attributes", "ResourceAttributes", "SpanKind", "StatusCode", "Events", "Links",
				"MetricType", "Timestamp", "TimeUnix", "TimeUnixNano",
			}
			if null[c.Name] == slices.Contains(never, c.Name) {
				t.Errorf("%s: the column %s is NULL somewhere: %v, want not slices.Contains(never, c.Name)", name, c.Name, null[c.Name])
			}
		}
	}
}
