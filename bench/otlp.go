package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
	"github.com/forebay/forebay/stream"
)

// telemetryRows is the number of records in an export request.
const telemetryRows = 100

// A telemetry is a stream of export requests of one signal.
type telemetry struct {
	// name is the last part of the names of its scenarios.
	name    string
	signal  forebay.Signal
	columns mapping.Columns
	// encode makes request n.
	encode func(n int) []byte
	// bodyBytes is the size of the body of a log record.
	bodyBytes int
	// rowsPerSecond is the goal of the requests over HTTP, 0 without one.
	rowsPerSecond float64
}

func telemetries() []telemetry {
	common := mapping.Columns{mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("service", `resource["service.name"]`, mapping.RawString())}
	logs := append(common[:3:3], mapping.Path("severity", "severity_text", mapping.RawString()), mapping.Path("message", "body", mapping.RawString()))
	all := []telemetry{
		{name: "logs/150B", signal: forebay.SignalLogs, columns: logs, bodyBytes: 150, rowsPerSecond: 400_000},
		{name: "logs/1KB", signal: forebay.SignalLogs, columns: logs, bodyBytes: 1024, rowsPerSecond: 250_000},
		{
			name: "metrics", signal: forebay.SignalMetrics, encode: encodeMetrics,
			columns: append(common[:3:3], mapping.Path("name", "metric_name", mapping.RawString()), mapping.Path("value", "value")),
		},
		{name: "tables/logs/150B", signal: forebay.SignalLogs, columns: otlpflat.LogsTable(), bodyBytes: 150, rowsPerSecond: 250_000},
		{name: "tables/metrics", signal: forebay.SignalMetrics, columns: otlpflat.MetricsTable(), encode: encodeMetrics},
		{name: "tables/traces", signal: forebay.SignalTraces, columns: otlpflat.TracesTable(), encode: encodeTraces},
		{
			name: "traces", signal: forebay.SignalTraces, encode: encodeTraces,
			columns: append(common[:3:3], mapping.Path("name", "name", mapping.RawString()), mapping.Path("route", `attributes["http.route"]`, mapping.RawString())),
		},
	}
	for i := range all {
		if t := &all[i]; t.encode == nil {
			size := t.bodyBytes
			t.encode = func(n int) []byte { return must((&plog.ProtoMarshaler{}).MarshalLogs(logBatch(n, size))) }
		}
	}
	return all
}

func setResource(r pcommon.Resource) {
	a := r.Attributes()
	a.PutStr("service.name", "checkout")
	a.PutStr("service.version", "2.14.3")
	a.PutStr("host.name", "ip-10-3-7-21")
	a.PutStr("deployment.environment.name", "production")
}

func setAttributes(a pcommon.Map, n int) {
	a.PutStr("http.route", "/api/v1/orders/{id}")
	a.PutInt("http.response.status_code", 200)
	a.PutInt("order.id", int64(n))
}

func traceID(n int) pcommon.TraceID { return pcommon.TraceID{1, byte(n >> 8), byte(n), 15: 1} }
func spanID(n int) pcommon.SpanID   { return pcommon.SpanID{1, byte(n >> 8), byte(n), 7: 1} }

// telemetryTime is now because an engine recognises a repeated request by the content of its records while they are younger than a day.
func telemetryTime() pcommon.Timestamp { return pcommon.NewTimestampFromTime(time.Now()) }

// requestMark is in each request once. The load generator writes another number in its place each time, because no exporter sends the same
// request again, and a repeated request is not stored.
var requestMark = pcommon.SpanID{0xf0, 0x9d, 0x91, 0x8a, 0xb7, 0x6c, 0x2e, 0x53}

// logBatch has records whose bodies are texts of the given size.
func logBatch(n, size int) plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	setResource(rl.Resource())
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("checkout/http")
	now := telemetryTime()
	for i := range telemetryRows {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(now)
		r.SetObservedTimestamp(now)
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		text := fmt.Sprintf("GET /api/v1/orders/%d finished with status 200: ", n*telemetryRows+i)
		r.Body().SetStr((text + strings.Repeat("the gate opens when the basin is full ", size/38+1))[:size])
		r.SetTraceID(traceID(n))
		if r.SetSpanID(spanID(i)); i == 0 {
			r.SetSpanID(requestMark)
		}
		setAttributes(r.Attributes(), i)
	}
	return batch
}

func encodeMetrics(n int) []byte {
	batch := pmetric.NewMetrics()
	rm := batch.ResourceMetrics().AppendEmpty()
	setResource(rm.Resource())
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	now := telemetryTime()
	for i := range 10 {
		m := metrics.AppendEmpty()
		m.SetName(fmt.Sprintf("http.server.request.count.%d", i))
		m.SetUnit("{request}")
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		for k := range telemetryRows / 10 {
			p := sum.DataPoints().AppendEmpty()
			p.SetStartTimestamp(now)
			p.SetTimestamp(now)
			if p.SetIntValue(int64(n*1000 + k)); i+k == 0 {
				p.SetIntValue(int64(binary.LittleEndian.Uint64(requestMark[:]))) // protobuf writes it like this
			}
			setAttributes(p.Attributes(), k)
		}
	}
	return must((&pmetric.ProtoMarshaler{}).MarshalMetrics(batch))
}

func encodeTraces(n int) []byte {
	batch := ptrace.NewTraces()
	rs := batch.ResourceSpans().AppendEmpty()
	setResource(rs.Resource())
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("checkout/http")
	now := telemetryTime()
	for i := range telemetryRows {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(traceID(n))
		if s.SetSpanID(spanID(i)); i == 0 {
			s.SetSpanID(requestMark)
		}
		s.SetParentSpanID(spanID(0))
		s.SetName("GET /api/v1/orders/{id}")
		s.SetKind(ptrace.SpanKindServer)
		s.SetStartTimestamp(now)
		s.SetEndTimestamp(now)
		setAttributes(s.Attributes(), i)
		e := s.Events().AppendEmpty()
		e.SetName("cache miss")
		e.SetTimestamp(now)
	}
	return must((&ptrace.ProtoMarshaler{}).MarshalTraces(batch))
}

func ofTelemetry() []scenario {
	var all []scenario
	for _, t := range telemetries() {
		var goals, cpu []goal
		if t.rowsPerSecond > 0 {
			goals = []goal{atLeast("rows_per_s", t.rowsPerSecond)}
		}
		if t.name == "logs/150B" {
			cpu = []goal{atMost("cpu_ns_per_row", 2000)}
		}
		all = append(all,
			scenario{name: "limit/http/otlp/" + t.name, group: "otlp/" + t.name, run: httpDiscard(t.traffic(), netHTTP)},
			scenario{name: "otlp/map/" + t.name, group: "otlp/" + t.name, run: t.mapped, goals: cpu},
			scenario{
				name: "otlp/" + t.name, group: "otlp/" + t.name, limit: "limit/http/otlp/" + t.name, fsync: true,
				run: overHTTP(t.source(), t.traffic(), netHTTP, stream.Options{}), goals: goals,
			})
		if t.signal == forebay.SignalLogs && !strings.HasPrefix(t.name, "tables/") { // the JSON is the same
			all = append(all, scenario{
				name: "otlp/flatten/" + t.name, group: "otlp/" + t.name, run: t.flattened, goals: []goal{atLeast("mb_per_s", 150)},
			})
		}
	}
	return append(all, scenario{
		name: "otlp/protocols", group: "otlp/protocols", run: protocols,
		goals: []goal{atLeast("rows_per_s", 250_000), atLeast("grpc8_rows_per_s", 250_000)},
	})
}

// traffic posts the requests in turn.
func (t telemetry) traffic() traffic {
	return traffic{
		name: "otlp/" + t.name, rows: telemetryRows, requests: 2, mark: requestMark[:], rowBytes: t.rowBytes,
		request: func(addr string, n int) []byte {
			path := "/otlp/1/" + sourceID + "/" + secret + "/v1/" + string(t.signal)
			return post(addr, path, http.Header{"Content-Type": {"application/x-protobuf"}, "User-Agent": {"OTel-OTLP-Exporter/1"}}, t.encode(n))
		},
	}
}

// rows decodes and maps one request, and stores nothing.
func (t telemetry) rows(dst []byte, m *mapping.Mapper, rec *mapping.Record, data []byte) ([]byte, int, error) {
	docs, err := documents(t.signal, data)
	if err != nil {
		return dst, 0, err
	}
	n := 0
	for doc := range docs {
		rec.Reset()
		rec.Document, rec.Received, rec.ClientIP = doc, received, clientIP
		if dst, err = m.AppendRow(dst, rec); err != nil {
			return dst, n, err
		}
		n++
	}
	return dst, n, nil
}

// documents reads a request as the handlers do.
func documents(signal forebay.Signal, data []byte) (iter.Seq[mapping.FieldDocument], error) {
	read := otlpflat.EncodedTraces
	switch signal {
	case forebay.SignalLogs:
		read = otlpflat.EncodedLogs
	case forebay.SignalMetrics:
		read = otlpflat.EncodedMetrics
	}
	docs, _, ok := read(data)
	if !ok {
		return nil, errors.New("the request is not one that exporters send")
	}
	return docs, nil
}

func (t telemetry) rowBytes() int {
	m := must(mapping.Compile(t.columns, mapping.Options{}))
	rows, n, err := t.rows(nil, m, new(mapping.Record), t.encode(0))
	return len(must(rows, err)) / n
}

// mapped reads, flattens and maps requests on one core, with nothing stored.
func (t telemetry) mapped(ctx context.Context, e *env) (*sample, error) {
	m := must(mapping.Compile(t.columns, mapping.Options{}))
	size, data := t.rowBytes(), t.encode(0)
	var rows []byte
	var rec mapping.Record
	return oneCore(ctx, e, size, 1, func() (n int, err error) {
		if rows, n, err = t.rows(rows[:0], m, &rec, data); err == nil && n != telemetryRows {
			err = fmt.Errorf("%d rows of %d records", n, telemetryRows)
		}
		return n, err
	})
}

// flattened writes the records of a request that was read as JSON on one core.
func (t telemetry) flattened(ctx context.Context, e *env) (*sample, error) {
	docs := must(documents(t.signal, t.encode(0)))
	write := func(out []byte) (_ []byte, err error) {
		for doc := range docs {
			if out, err = doc.AppendJSON(out); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	first, err := write(nil)
	if err != nil {
		return nil, err
	}
	var out []byte
	s, err := oneCore(ctx, e, len(first)/telemetryRows, 1, func() (int, error) {
		var err error
		if out, err = write(out[:0]); err == nil && len(out) != len(first) {
			err = fmt.Errorf("%d bytes of JSON, want %d", len(out), len(first))
		}
		return telemetryRows, err
	})
	if err == nil {
		s.Figures = map[string]float64{"mb_per_s": s.bytesPerSecond() / 1e6}
	}
	return s, err
}

// source takes the requests.
func (t telemetry) source() forebay.Source {
	return forebay.Source{Type: forebay.OTLP, Sinks: []forebay.Sink{
		{ID: sinkID, Table: forebay.Table{ID: "in.c-app." + string(t.signal), Columns: t.columns}},
	}}
}
