package otlptest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// transport makes the exporters of one way to send.
type transport struct {
	name    string
	traces  func(*service) (sdktrace.SpanExporter, error)
	metrics func(*service) (sdkmetric.Exporter, error)
	logs    func(*service) (sdklog.Exporter, error)
}

var bearer = map[string]string{"authorization": "Bearer " + secret}

// Exporters get what their documentation says: a general endpoint, to which they append the path of the signal, or the URL of
// one signal, which they use as it is, and the headers that OTEL_EXPORTER_OTLP_HEADERS sets.
var transports = []transport{
	{
		name: "HTTP, secret in the path",
		traces: func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret+"/v1/traces"))
		},
		metrics: func(s *service) (sdkmetric.Exporter, error) {
			return otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret+"/v1/metrics"))
		},
		logs: func(s *service) (sdklog.Exporter, error) {
			return otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret+"/v1/logs"))
		},
	},
	{
		name: "HTTP, address of the source alone",
		traces: func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret))
		},
		metrics: func(s *service) (sdkmetric.Exporter, error) {
			return otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret))
		},
		logs: func(s *service) (sdklog.Exporter, error) {
			return otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret))
		},
	},
	{
		name: "HTTP, bearer token, gzip",
		traces: func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(s.http+"/otlp/1/app/v1/traces"),
				otlptracehttp.WithHeaders(bearer), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		},
		metrics: func(s *service) (sdkmetric.Exporter, error) {
			return otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(s.http+"/otlp/1/app/v1/metrics"),
				otlpmetrichttp.WithHeaders(bearer), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
		},
		logs: func(s *service) (sdklog.Exporter, error) {
			return otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(s.http+"/otlp/1/app/v1/logs"),
				otlploghttp.WithHeaders(bearer), otlploghttp.WithCompression(otlploghttp.GzipCompression))
		},
	},
	{
		name: "gRPC",
		traces: func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpoint(s.grpc), otlptracegrpc.WithInsecure(), otlptracegrpc.WithHeaders(bearer))
		},
		metrics: func(s *service) (sdkmetric.Exporter, error) {
			return otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithEndpoint(s.grpc), otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithHeaders(bearer))
		},
		logs: func(s *service) (sdklog.Exporter, error) {
			return otlploggrpc.New(context.Background(), otlploggrpc.WithEndpoint(s.grpc), otlploggrpc.WithInsecure(), otlploggrpc.WithHeaders(bearer))
		},
	},
	{
		name: "gRPC, gzip",
		traces: func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpoint(s.grpc), otlptracegrpc.WithInsecure(),
				otlptracegrpc.WithHeaders(bearer), otlptracegrpc.WithCompressor("gzip"))
		},
		metrics: func(s *service) (sdkmetric.Exporter, error) {
			return otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithEndpoint(s.grpc), otlpmetricgrpc.WithInsecure(),
				otlpmetricgrpc.WithHeaders(bearer), otlpmetricgrpc.WithCompressor("gzip"))
		},
		logs: func(s *service) (sdklog.Exporter, error) {
			return otlploggrpc.New(context.Background(), otlploggrpc.WithEndpoint(s.grpc), otlploggrpc.WithInsecure(),
				otlploggrpc.WithHeaders(bearer), otlploggrpc.WithCompressor("gzip"))
		},
	},
}

// each runs a test for every transport.
func each(t *testing.T, f func(*testing.T, *service, transport)) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) { f(t, newService(t, nil), tr) })
	}
}

// must returns v, or stops the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// res is the resource of all telemetry in these tests.
func res() *resource.Resource {
	return resource.NewWithAttributes("https://opentelemetry.io/schemas/1.37.0",
		attribute.String("service.name", "shop"), attribute.Int("shard", 3))
}

// wantCommon checks what all records have.
func wantCommon(t *testing.T, r map[string]any) {
	t.Helper()
	want(t, r, "resource", map[string]any{"service.name": "shop", "shard": 3.0})
	want(t, r, "resource_schema_url", "https://opentelemetry.io/schemas/1.37.0")
	want(t, r, "scope", map[string]any{
		"name": "otlptest", "version": "1.2.3", "attributes": map[string]any{"team": "a"}, "schema_url": "https://example.com/schema",
	})
}

func want(t *testing.T, r map[string]any, key string, value any) {
	t.Helper()
	if got := r[key]; !reflect.DeepEqual(got, value) {
		t.Errorf("%s is %v (%T), want %v (%T)", key, got, got, value, value)
	}
}

func text(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// attributes are the attributes of the SDK as a record has them.
func attributes(kvs []attribute.KeyValue) map[string]any {
	m := make(map[string]any)
	for _, kv := range kvs {
		b, err := json.Marshal(kv.Value.AsInterface())
		if err != nil {
			panic(err)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			panic(err)
		}
		m[string(kv.Key)] = v
	}
	return m
}

// spanTee keeps what goes to an exporter.
type spanTee struct {
	sdktrace.SpanExporter
	spans map[string]sdktrace.ReadOnlySpan
}

func (e *spanTee) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, s := range spans {
		e.spans[s.SpanContext().SpanID().String()] = s
	}
	return e.SpanExporter.ExportSpans(ctx, spans)
}

// Every span that the SDK exports is one row with all that it has.
func TestSpans(t *testing.T) {
	each(t, func(t *testing.T, s *service, tr transport) {
		ctx := t.Context()
		tee := &spanTee{must(tr.traces(s))(t), make(map[string]sdktrace.ReadOnlySpan)}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tee, sdktrace.WithMaxExportBatchSize(100)), sdktrace.WithResource(res()))
		tracer := provider.Tracer("otlptest", trace.WithInstrumentationVersion("1.2.3"), trace.WithSchemaURL("https://example.com/schema"),
			trace.WithInstrumentationAttributes(attribute.String("team", "a")))
		const n = 250
		var last trace.SpanContext
		for i := range n {
			parent, span := tracer.Start(ctx, "GET /"+strconv.Itoa(i), trace.WithSpanKind(trace.SpanKindServer),
				trace.WithAttributes(attribute.Int64("big", 1<<53+int64(i)), attribute.StringSlice("tags", []string{"a", "b"}), attribute.Bool("ok", true)))
			if last.IsValid() {
				span.AddLink(trace.Link{SpanContext: last, Attributes: []attribute.KeyValue{attribute.String("why", "previous")}})
			}
			_, child := tracer.Start(parent, "query", trace.WithSpanKind(trace.SpanKindClient))
			child.AddEvent("row", trace.WithAttributes(attribute.Float64("ratio", 0.25)))
			child.SetStatus(codes.Error, "broken")
			child.End()
			span.SetStatus(codes.Ok, "")
			span.End()
			last = span.SpanContext()
		}
		if err := provider.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		records := s.records("traces")
		if len(records) != 2*n || len(tee.spans) != 2*n {
			t.Fatalf("got %d rows of %d spans, want %d of each", len(records), len(tee.spans), 2*n)
		}
		for _, r := range records {
			id, _ := r["span_id"].(string)
			span := tee.spans[id]
			if span == nil {
				t.Fatalf("the span %q was not emitted, or is there twice", id)
			}
			delete(tee.spans, id)
			wantCommon(t, r)
			want(t, r, "timestamp", text(span.StartTime()))
			want(t, r, "end_timestamp", text(span.EndTime()))
			want(t, r, "trace_id", span.SpanContext().TraceID().String())
			if span.Parent().IsValid() {
				want(t, r, "parent_span_id", span.Parent().SpanID().String())
			} else {
				want(t, r, "parent_span_id", nil)
			}
			want(t, r, "name", span.Name())
			want(t, r, "kind", strings.ToUpper(span.SpanKind().String()[:1])+span.SpanKind().String()[1:])
			want(t, r, "status_code", span.Status().Code.String())
			want(t, r, "status_message", span.Status().Description)
			want(t, r, "attributes", attributes(span.Attributes()))
			events := []any{}
			for _, e := range span.Events() {
				events = append(events, map[string]any{"timestamp": text(e.Time), "name": e.Name, "attributes": attributes(e.Attributes)})
			}
			want(t, r, "events", events)
			links, _ := r["links"].([]any)
			if len(links) != len(span.Links()) {
				t.Fatalf("got %d links, want %d", len(links), len(span.Links()))
			}
			for i, l := range span.Links() {
				got := links[i].(map[string]any)
				want(t, got, "trace_id", l.SpanContext.TraceID().String())
				want(t, got, "span_id", l.SpanContext.SpanID().String())
				want(t, got, "attributes", attributes(l.Attributes))
			}
		}
	})
}

// logTee keeps what goes to an exporter.
type logTee struct {
	sdklog.Exporter
	records []sdklog.Record
}

func (e *logTee) Export(ctx context.Context, records []sdklog.Record) error {
	for _, r := range records {
		e.records = append(e.records, r.Clone())
	}
	return e.Exporter.Export(ctx, records)
}

// Every log record that the SDK exports is one row with all that it has, in order.
func TestLogs(t *testing.T) {
	each(t, func(t *testing.T, s *service, tr transport) {
		tee := &logTee{Exporter: must(tr.logs(s))(t)}
		provider := sdklog.NewLoggerProvider(sdklog.WithResource(res()),
			sdklog.WithProcessor(sdklog.NewBatchProcessor(tee, sdklog.WithExportMaxBatchSize(100))))
		logger := provider.Logger("otlptest", log.WithInstrumentationVersion("1.2.3"), log.WithSchemaURL("https://example.com/schema"),
			log.WithInstrumentationAttributes(attribute.String("team", "a")))
		ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled,
		}))
		const n = 250
		for i := range n {
			var r log.Record
			r.SetTimestamp(time.Unix(1_700_000_000, int64(i)))
			r.SetSeverity(log.SeverityWarn2)
			r.SetSeverityText("careful")
			r.SetEventName("e" + strconv.Itoa(i))
			r.SetBody(attribute.StringValue("line\n" + strconv.Itoa(i) + ` "quoted" ž`))
			r.AddAttributes(attribute.Int64("big", 1<<53+int64(i)), attribute.ByteSlice("raw", []byte{0xff, byte(i)}),
				attribute.Map("m", attribute.Float64("f", 0.5)), attribute.KeyValue{Key: "none"})
			logger.Emit(ctx, r)
		}
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		records := s.records("logs")
		if len(records) != n || len(tee.records) != n {
			t.Fatalf("got %d rows of %d records, want %d of each", len(records), len(tee.records), n)
		}
		for i, r := range records {
			e := tee.records[i]
			wantCommon(t, r)
			want(t, r, "timestamp", text(e.Timestamp()))
			want(t, r, "observed_timestamp", text(e.ObservedTimestamp()))
			want(t, r, "severity_number", float64(e.Severity()))
			want(t, r, "severity_text", e.SeverityText())
			want(t, r, "event_name", e.EventName())
			want(t, r, "body", e.Body().AsString())
			want(t, r, "flags", 1.0)
			want(t, r, "trace_id", e.TraceID().String())
			want(t, r, "span_id", e.SpanID().String())
			raw, _ := json.Marshal([]byte{0xff, byte(i)})
			want(t, r, "attributes", map[string]any{
				"big": float64(1<<53 + int64(i)), "raw": strings.Trim(string(raw), `"`), "m": map[string]any{"f": 0.5}, "none": nil,
			})
		}
		// float64 rounds values above 2^53, but the digits are in the row.
		for i, row := range s.mem.Rows("in.c-app.logs") {
			if digits := fmt.Sprintf(`"big":%d,`, 1<<53+int64(i)); !strings.Contains(row[0], digits) {
				t.Fatalf("row %d lacks %s: %s", i, digits, row[0])
			}
		}
	})
}

// Data points of all kinds that the SDK makes are rows with all their values.
func TestMetrics(t *testing.T) {
	each(t, func(t *testing.T, s *service, tr transport) {
		ctx := t.Context()
		exporter := must(tr.metrics(s))(t)
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res()),
			sdkmetric.WithView(sdkmetric.NewView(sdkmetric.Instrument{Name: "exponential"},
				sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})))
		meter := provider.Meter("otlptest", metric.WithInstrumentationVersion("1.2.3"), metric.WithSchemaURL("https://example.com/schema"),
			metric.WithInstrumentationAttributes(attribute.String("team", "a")))
		counter := must(meter.Int64Counter("counter", metric.WithUnit("{request}"), metric.WithDescription("requests")))(t)
		gauge := must(meter.Float64Gauge("gauge"))(t)
		histogram := must(meter.Float64Histogram("histogram"))(t)
		exponential := must(meter.Float64Histogram("exponential"))(t)
		for i := range 20 {
			at := metric.WithAttributes(attribute.Int("worker", i))
			counter.Add(ctx, 1<<53+int64(i), at)
			gauge.Record(ctx, float64(i)+0.5, at)
			for k := range 10 {
				histogram.Record(ctx, float64(k*i), at)
				exponential.Record(ctx, float64(k*i)-3, at)
			}
		}
		var data metricdata.ResourceMetrics
		if err := reader.Collect(ctx, &data); err != nil {
			t.Fatal(err)
		}
		if err := exporter.Export(ctx, &data); err != nil {
			t.Fatal(err)
		}
		if err := exporter.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}

		records := s.records("metrics")
		find := func(name string, set attribute.Set) map[string]any {
			i := slices.IndexFunc(records, func(r map[string]any) bool {
				return r["metric_name"] == name && reflect.DeepEqual(r["attributes"], attributes(set.ToSlice()))
			})
			if i < 0 {
				t.Fatalf("no row of %s %v", name, set)
			}
			r := records[i]
			records = slices.Delete(records, i, i+1)
			wantCommon(t, r)
			return r
		}
		points := 0
		for _, m := range data.ScopeMetrics[0].Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					r := find(m.Name, p.Attributes)
					want(t, r, "metric_type", "sum")
					want(t, r, "metric_unit", "{request}")
					want(t, r, "metric_description", "requests")
					want(t, r, "value", float64(p.Value))
					want(t, r, "is_monotonic", true)
					want(t, r, "aggregation_temporality", "Cumulative")
					want(t, r, "start_timestamp", text(p.StartTime))
					want(t, r, "timestamp", text(p.Time))
					points++
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					r := find(m.Name, p.Attributes)
					want(t, r, "metric_type", "gauge")
					want(t, r, "value", p.Value)
					points++
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					r := find(m.Name, p.Attributes)
					want(t, r, "metric_type", "histogram")
					want(t, r, "count", float64(p.Count))
					want(t, r, "sum", p.Sum)
					low, _ := p.Min.Value()
					high, _ := p.Max.Value()
					want(t, r, "min", low)
					want(t, r, "max", high)
					want(t, r, "bucket_counts", list(p.BucketCounts))
					want(t, r, "explicit_bounds", list(p.Bounds))
					points++
				}
			case metricdata.ExponentialHistogram[float64]:
				for _, p := range d.DataPoints {
					r := find(m.Name, p.Attributes)
					want(t, r, "metric_type", "exponential_histogram")
					want(t, r, "count", float64(p.Count))
					want(t, r, "sum", p.Sum)
					want(t, r, "scale", float64(p.Scale))
					want(t, r, "zero_count", float64(p.ZeroCount))
					want(t, r, "zero_threshold", p.ZeroThreshold)
					for key, b := range map[string]metricdata.ExponentialBucket{"positive": p.PositiveBucket, "negative": p.NegativeBucket} {
						want(t, r, key, map[string]any{"offset": float64(b.Offset), "bucket_counts": list(b.Counts)})
					}
					points++
				}
			default:
				t.Fatalf("%s is %T", m.Name, d)
			}
		}
		if points != 80 || len(records) != 0 {
			t.Errorf("got %d points, and %d rows too many, want 80 and 0", points, len(records))
		}
	})
}

func list[T uint64 | float64](values []T) []any {
	l := []any{}
	for _, v := range values {
		l = append(l, float64(v))
	}
	return l
}
