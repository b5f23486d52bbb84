package collectortest

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/otlpflat"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// telemetry is a batch of each signal.
type telemetry struct {
	logs    plog.Logs
	traces  ptrace.Traces
	metrics pmetric.Metrics
}

// send exports the batches to a gRPC server.
func (b telemetry) send(t *testing.T, addr string) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret)
	if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(b.logs)); err != nil {
		t.Fatalf("logs: got %v, want no error", err)
	}
	if _, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(b.traces)); err != nil {
		t.Fatalf("traces: got %v, want no error", err)
	}
	if _, err := pmetricotlp.NewGRPCClient(conn).Export(ctx, pmetricotlp.NewExportRequestFromMetrics(b.metrics)); err != nil {
		t.Fatalf("metrics: got %v, want no error", err)
	}
}

// storeTelemetry stores batches with Forebay in a place of ClickHouse that has the views.
func (p place) storeTelemetry(t *testing.T, b telemetry) {
	t.Helper()
	target, end, err := openTarget(p.kind, p.where)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	engine, err := forebay.Open(filepath.Join(t.TempDir(), "data"), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	src := forebay.Source{ID: source, Type: forebay.OTLP, Secret: secret}
	for signal, columns := range presets {
		src.Sinks = append(src.Sinks, forebay.Sink{
			ID: string(signal), AllowedSignals: []forebay.Signal{signal}, Table: forebay.Table{ID: string(signal), Columns: columns},
		})
	}
	if err := engine.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := otlpgrpc.Server(engine, otlpgrpc.Options{})
	go func() { _ = rpc.Serve(l) }()
	defer rpc.Stop()
	b.send(t, l.Addr().String())
	if err := engine.FlushAll(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	statements, err := otlpflat.Views(otlpflat.ViewOptions{
		Dialect: otlpflat.ClickHouse, Schema: p.database, Logs: string(forebay.SignalLogs), Traces: string(forebay.SignalTraces), Metrics: string(forebay.SignalMetrics),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		clickhouseServer.Exec(t, statement)
	}
}

// columnTypes are the types of the stored columns of each table and view of a place, by table and column.
func (p place) columnTypes() map[string]map[string]string {
	p.tb.Helper()
	types := map[string]map[string]string{}
	for _, row := range clickhouseServer.Rows(p.tb, "SELECT table, name, type FROM system.columns WHERE database = '"+p.database+"' AND default_kind = ''") {
		table := *row[0]
		if types[table] == nil {
			types[table] = map[string]string{}
		}
		types[table][*row[1]] = *row[2]
	}
	return types
}

// query returns the rows of a query, each as one text, in the order of the texts.
func (p place) query(query string) (all []string) {
	p.tb.Helper()
	for _, row := range clickhouseServer.Rows(p.tb, query) {
		var cells []string
		for _, cell := range row {
			cells = append(cells, *cell)
		}
		all = append(all, strings.Join(cells, "\n"))
	}
	slices.Sort(all)
	return all
}

// Each table of the Collector's exporter for ClickHouse is a view of Forebay with its columns, their types, and the rows that the exporter makes of the
// same telemetry.
func TestExporterOfClickHouse(t *testing.T) {
	batch := telemetry{oddLogs(), oddTraces(), oddMetrics()}
	sample().ResourceLogs().MoveAndAppendTo(batch.logs.ResourceLogs())
	views := newPlace(t, toClickHouse)
	views.storeTelemetry(t, batch)
	tables := newPlace(t, toClickHouse)
	const logsOnly = "    logs: {receivers: [otlp], exporters: [clickhouse]}\n"
	c := startCollector(t, io.Discard, tables.kind, t.TempDir(), tables.where, logsOnly,
		logsOnly+strings.Replace(logsOnly, "logs", "traces", 1)+strings.Replace(logsOnly, "logs", "metrics", 1))
	batch.send(t, c.addr)

	ours, theirs := views.columnTypes(), tables.columnTypes()
	delete(theirs, "otel_traces_trace_id_ts_mv") // It fills otel_traces_trace_id_ts, which dashboards read.
	want := map[string]int{
		"otel_logs": batch.logs.LogRecordCount(), "otel_traces": batch.traces.SpanCount(), "otel_traces_trace_id_ts": 2, "otel_metrics_gauge": 4, "otel_metrics_sum": 3,
		"otel_metrics_histogram": 2, "otel_metrics_exponential_histogram": 2, "otel_metrics_summary": 2,
	}
	if len(theirs) != len(want) {
		t.Errorf("the exporter has the tables %v, want %v", theirs, want)
	}
	for table, rows := range want {
		t.Run(table, func(t *testing.T) {
			columns := compareTypes(t, table, ours[table], theirs[table])
			if len(columns) == 0 {
				t.Fatalf("the exporter has no table %s", table)
			}
			query := "SELECT " + strings.Join(columns, ", ") + " FROM %s." + table
			if table == "otel_traces_trace_id_ts" { // The exporter stores a row for each insert.
				query = "SELECT TraceId, toString(min(Start)), toString(max(End)) FROM %s." + table + " GROUP BY TraceId"
			}
			var have []string
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(5 * time.Minute); ; <-tick.C {
				if have = tables.query(fmt.Sprintf(query, tables.database)); len(have) >= rows || time.Now().After(deadline) {
					break
				}
			}
			got := views.query(fmt.Sprintf(query, views.database))
			if len(got) != rows || len(have) != rows {
				t.Fatalf("the view has %d rows, the exporter's table %d, want %d\n%s", len(got), len(have), rows, &c.logs)
			}
			for i := range rows {
				if got[i] != have[i] {
					t.Errorf("the view has the row\n%s\nthe exporter's table\n%s\nof %q", got[i], have[i], columns)
				}
			}
		})
	}
}

// compareTypes returns an expression for each column of the exporter's table, after it has compared the types.
func compareTypes(t *testing.T, table string, ours, theirs map[string]string) (expressions []string) {
	t.Helper()
	for name, typ := range theirs {
		value, nanos := "`"+name+"`", ours[name]
		if strings.HasPrefix(table, "otel_metrics_") && strings.Contains(nanos, "DateTime64(9)") {
			// The exporter stores the times of points in seconds now. The views have nanoseconds, as earlier versions of its tables.
			value, nanos = "CAST("+value+", '"+typ+"')", strings.Replace(nanos, "DateTime64(9)", "DateTime", 1)
		}
		if nanos != typ {
			t.Errorf("%s.%s has type %q, want %q", table, name, ours[name], typ)
		}
		switch {
		case strings.HasPrefix(typ, "Map("):
			value = "mapSort(" + value + ")"
		case strings.HasPrefix(typ, "Array(Map("):
			value = "arrayMap(m -> mapSort(m), " + value + ")"
		}
		expressions = append(expressions, "toString("+value+")")
	}
	slices.Sort(expressions)
	return expressions
}

// oddTraces has a span with all that can be set, and spans of each kind and status with nothing else.
func oddTraces() ptrace.Traces {
	batch := ptrace.NewTraces()
	rs := batch.ResourceSpans().AppendEmpty()
	rs.SetSchemaUrl("https://example.com/resource")
	rs.Resource().Attributes().PutStr("service.name", `the "shop"`)
	rs.Resource().Attributes().PutInt("process.pid", 42)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.SetSchemaUrl("https://example.com/scope")
	ss.Scope().SetName("orders")
	ss.Scope().SetVersion("1.2")
	ss.Scope().Attributes().PutBool("beta", true)
	full := ss.Spans().AppendEmpty()
	full.SetStartTimestamp(pcommon.Timestamp(began + 123_456_789))
	full.SetEndTimestamp(pcommon.Timestamp(began + 5_000_000_001))
	full.SetTraceID(pcommon.TraceID{1, 15: 2})
	full.SetSpanID(pcommon.SpanID{3, 7: 4})
	full.SetParentSpanID(pcommon.SpanID{5, 7: 6})
	full.TraceState().FromRaw("vendor=1,other=2")
	full.SetName("GET /orders/{id}\n'quoted'")
	full.SetKind(ptrace.SpanKindServer)
	full.SetFlags(1)
	full.Status().SetCode(ptrace.StatusCodeError)
	full.Status().SetMessage("no \\ stock")
	oddAttributes(full.Attributes())
	for i := range 2 {
		e := full.Events().AppendEmpty()
		e.SetTimestamp(pcommon.Timestamp(began + 200_000_000*i + 7))
		e.SetName("exception")
		oddAttributes(e.Attributes())
	}
	full.Events().AppendEmpty() // with nothing
	link := full.Links().AppendEmpty()
	link.SetTraceID(pcommon.TraceID{9, 15: 9})
	link.SetSpanID(pcommon.SpanID{9, 7: 9})
	link.TraceState().FromRaw("a=b")
	oddAttributes(link.Attributes())
	full.Links().AppendEmpty()

	spans := batch.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range 6 {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{7, 15: 7})
		s.SetSpanID(pcommon.SpanID{7, 7: byte(i)})
		s.SetKind(ptrace.SpanKind(i))
		s.Status().SetCode(ptrace.StatusCode(i % 3))
		s.SetStartTimestamp(pcommon.Timestamp(began + i))
		s.SetEndTimestamp(pcommon.Timestamp(began + i))
	}
	plain := spans.AppendEmpty() // It has an end, because the exporter's duration of a span without one is 2^64 less its start.
	plain.SetStartTimestamp(pcommon.Timestamp(began))
	plain.SetEndTimestamp(pcommon.Timestamp(began + 9))
	return batch
}

// oddAttributes sets an attribute of each kind.
func oddAttributes(m pcommon.Map) {
	m.PutStr("quoted", "\"\\\n")
	m.PutStr("empty", "")
	m.PutInt("n", math.MinInt64)
	m.PutDouble("ratio", 0.25)
	m.PutDouble("large", 1e20)
	m.PutDouble("tiny", 1.5e-9)
	m.PutBool("ok", false)
	list := m.PutEmptySlice("list")
	list.AppendEmpty().SetInt(1)
	list.AppendEmpty().SetStr("b")
	m.PutEmptyMap("map").PutStr("k", "v")
}

// oddMetrics has points of each kind, one with all that can be set, and one with nothing but its time.
func oddMetrics() pmetric.Metrics {
	batch := pmetric.NewMetrics()
	rm := batch.ResourceMetrics().AppendEmpty()
	rm.SetSchemaUrl("https://example.com/resource")
	rm.Resource().Attributes().PutStr("service.name", `the "shop"`)
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.SetSchemaUrl("https://example.com/scope")
	sm.Scope().SetName("orders")
	sm.Scope().SetVersion("1.2")
	sm.Scope().Attributes().PutBool("beta", true)
	metric := func(name string) pmetric.Metric {
		m := sm.Metrics().AppendEmpty()
		m.SetName(name)
		m.SetDescription("orders, \"all\"")
		m.SetUnit("{order}")
		return m
	}
	gauge := metric("gauge").SetEmptyGauge().DataPoints()
	for _, value := range []float64{0.25, -1e300, math.NaN()} {
		p := gauge.AppendEmpty()
		oddPoint(p)
		p.SetDoubleValue(value)
		oddExemplars(p.Exemplars())
	}
	gauge.AppendEmpty().SetTimestamp(pcommon.Timestamp(began))
	sum := metric("sum").SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := sum.DataPoints().AppendEmpty()
	oddPoint(p)
	p.SetIntValue(-1 << 50)
	oddExemplars(p.Exemplars())
	p = sum.DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.Timestamp(began))
	p.SetDoubleValue(math.Inf(1))
	metric("sum").SetEmptySum().DataPoints().AppendEmpty().SetTimestamp(pcommon.Timestamp(began))

	histogram := metric("histogram").SetEmptyHistogram()
	histogram.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	h := histogram.DataPoints().AppendEmpty()
	oddDistribution(h)
	h.BucketCounts().FromRaw([]uint64{1, math.MaxUint64, 0})
	h.ExplicitBounds().FromRaw([]float64{-0.5, 1e20})
	histogram.DataPoints().AppendEmpty().SetTimestamp(pcommon.Timestamp(began))

	exponential := metric("exponential").SetEmptyExponentialHistogram()
	exponential.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	e := exponential.DataPoints().AppendEmpty()
	oddDistribution(e)
	e.SetScale(-3)
	e.SetZeroCount(math.MaxInt64)
	e.Positive().SetOffset(-7)
	e.Positive().BucketCounts().FromRaw([]uint64{3, 0, 4})
	e.Negative().SetOffset(1000)
	e.Negative().BucketCounts().FromRaw([]uint64{math.MaxUint64})
	exponential.DataPoints().AppendEmpty().SetTimestamp(pcommon.Timestamp(began))

	summary := metric("summary").SetEmptySummary().DataPoints()
	s := summary.AppendEmpty()
	oddPoint(s)
	s.SetCount(12)
	s.SetSum(1.5)
	for _, quantile := range []float64{0, 0.5, 1} {
		q := s.QuantileValues().AppendEmpty()
		q.SetQuantile(quantile)
		q.SetValue(quantile * 1e20)
	}
	summary.AppendEmpty().SetTimestamp(pcommon.Timestamp(began))
	return batch
}

func oddPoint(p interface {
	SetStartTimestamp(pcommon.Timestamp)
	SetTimestamp(pcommon.Timestamp)
	Attributes() pcommon.Map
	SetFlags(pmetric.DataPointFlags)
},
) {
	p.SetStartTimestamp(pcommon.Timestamp(began - 60_000_000_000))
	p.SetTimestamp(pcommon.Timestamp(began + 123_456_789))
	oddAttributes(p.Attributes())
	p.SetFlags(1)
}

func oddDistribution(p interface {
	SetStartTimestamp(pcommon.Timestamp)
	SetTimestamp(pcommon.Timestamp)
	Attributes() pcommon.Map
	SetFlags(pmetric.DataPointFlags)
	SetCount(uint64)
	SetSum(float64)
	SetMin(float64)
	SetMax(float64)
	Exemplars() pmetric.ExemplarSlice
},
) {
	oddPoint(p)
	p.SetCount(math.MaxInt64)
	p.SetSum(-2.5)
	p.SetMin(-100)
	p.SetMax(1e21)
	oddExemplars(p.Exemplars())
}

func oddExemplars(all pmetric.ExemplarSlice) {
	e := all.AppendEmpty()
	e.SetTimestamp(pcommon.Timestamp(began + 999_999_999))
	e.SetDoubleValue(0.125)
	e.SetTraceID(pcommon.TraceID{1, 15: 2})
	e.SetSpanID(pcommon.SpanID{3, 7: 4})
	oddAttributes(e.FilteredAttributes())
	e = all.AppendEmpty()
	e.SetTimestamp(pcommon.Timestamp(began))
	e.SetIntValue(-7) // It has ids, because the exporter writes zeros where an exemplar has none.
	e.SetTraceID(pcommon.TraceID{1, 15: 3})
	e.SetSpanID(pcommon.SpanID{3, 7: 5})
}
