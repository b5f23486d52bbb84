package collectortest

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

const (
	secret = "a-secret-of-the-collector"
	source = "otel"
)

// server is Forebay with a table for each signal. Its ports are open from the start, but no request gets a response before serve.
type server struct {
	t                  *testing.T
	engine             *forebay.Engine
	tables             *dir.TableDir
	grpc, http         net.Listener
	grpcAddr, httpAddr string
}

var presets = map[forebay.Signal]mapping.Columns{
	forebay.SignalLogs: otlpflat.LogsTable(), forebay.SignalMetrics: otlpflat.MetricsTable(), forebay.SignalTraces: otlpflat.TracesTable(),
}

func newServer(t *testing.T) *server {
	t.Helper()
	folder := t.TempDir()
	s := &server{t: t, tables: dir.Tables(filepath.Join(folder, "tables"))}
	var err error
	if s.engine, err = forebay.Open(filepath.Join(folder, "data"), forebay.Options{Target: s.tables}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	src := forebay.Source{ID: source, Type: forebay.OTLP, Secret: secret}
	for signal, columns := range presets {
		src.Sinks = append(src.Sinks, forebay.Sink{
			ID: string(signal), AllowedSignals: []forebay.Signal{signal}, Table: forebay.Table{ID: string(signal), Columns: columns},
		})
	}
	if err := s.engine.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*net.Listener{&s.grpc, &s.http} {
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	s.grpcAddr, s.httpAddr = s.grpc.Addr().String(), s.http.Addr().String()
	return s
}

// serve serves requests until the test ends.
func (s *server) serve() {
	web := stream.Server("", stream.Ingest(s.engine, stream.Options{}))
	rpc := otlpgrpc.Server(s.engine, otlpgrpc.Options{})
	go func() { _ = web.Serve(s.http) }()
	go func() { _ = rpc.Serve(s.grpc) }()
	s.t.Cleanup(func() {
		rpc.Stop()
		_ = web.Close()
	})
}

// wait waits until each table has been sent n rows at least.
func (s *server) wait(n int, logs fmt.Stringer) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		all := true
		for _, sink := range s.engine.Stats().Sinks {
			all = all && sink.Accepted >= int64(n)
		}
		if all {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("got %+v, want %d accepted rows of each sink\n%s", s.engine.Stats().Sinks, n, logs)
		}
	}
	if err := s.engine.Flush(s.t.Context(), source); err != nil {
		s.t.Fatal(err)
	}
}

// rows reads a table, each row by the names of its columns.
func (s *server) rows(signal forebay.Signal) (all []map[string]string) {
	s.t.Helper()
	for row, err := range s.tables.Rows(string(signal)) {
		if err != nil {
			s.t.Fatal(err)
		}
		cells := map[string]string{}
		for i, c := range presets[signal] {
			cells[c.Name] = row[i]
		}
		all = append(all, cells)
	}
	return all
}

// check compares the tables with n records of each signal.
func (s *server) check(n int) {
	s.t.Helper()
	for _, signal := range []forebay.Signal{forebay.SignalLogs, forebay.SignalMetrics, forebay.SignalTraces} {
		seen := map[int]bool{}
		for _, row := range s.rows(signal) {
			attributes := row["LogAttributes"] + row["SpanAttributes"] + row["Attributes"]
			var a struct {
				N int `json:"test.n"`
			}
			if err := json.Unmarshal([]byte(attributes), &a); err != nil {
				s.t.Fatalf("got %v, want JSON in %v", err, row)
			}
			if seen[a.N] {
				s.t.Fatalf("%s: record %d is there twice", signal, a.N)
			}
			seen[a.N] = true
			want := map[string]string{"ServiceName": "shop", "ScopeName": "test", "TimeUnixNano": strconv.FormatInt(int64(began)+int64(a.N), 10)}
			switch signal {
			case forebay.SignalLogs:
				want["Body"], want["SeverityText"] = fmt.Sprint("line ", a.N), "INFO"
			case forebay.SignalTraces:
				want["SpanName"], want["Duration"], want["SpanKind"] = "GET", strconv.Itoa(a.N), "Server"
			case forebay.SignalMetrics:
				want["MetricName"], want["Value"], want["MetricType"] = "orders", strconv.Itoa(a.N), "sum"
			}
			for column, value := range want {
				if row[column] != value {
					s.t.Errorf("%s: record %d has %s %q, want %q", signal, a.N, column, row[column], value)
				}
			}
			if s.t.Failed() {
				return
			}
		}
		if len(seen) != n {
			s.t.Errorf("%s: %d records, want %d", signal, len(seen), n)
		}
	}
}

// began is the time of record 0 in nanoseconds. It is recent, because repeated batches are recognised while their records are younger than a day.
var began = int(time.Now().Truncate(time.Second).UnixNano()) + 1

func resource(r pcommon.Resource) { r.Attributes().PutStr("service.name", "shop") }

func logs(from, to int) plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	resource(rl.Resource())
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("test")
	for n := from; n < to; n++ {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(pcommon.Timestamp(began + n))
		r.SetSeverityText("INFO")
		r.Body().SetStr(fmt.Sprint("line ", n))
		r.Attributes().PutInt("test.n", int64(n))
	}
	return batch
}

func traces(from, to int) ptrace.Traces {
	batch := ptrace.NewTraces()
	rs := batch.ResourceSpans().AppendEmpty()
	resource(rs.Resource())
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("test")
	for n := from; n < to; n++ {
		s := ss.Spans().AppendEmpty()
		s.SetName("GET")
		s.SetKind(ptrace.SpanKindServer)
		s.SetTraceID(pcommon.TraceID{1, 14: byte(n >> 8), 15: byte(n)})
		s.SetSpanID(pcommon.SpanID{1, 6: byte(n >> 8), 7: byte(n)})
		s.SetStartTimestamp(pcommon.Timestamp(began + n))
		s.SetEndTimestamp(pcommon.Timestamp(began + 2*n))
		s.Attributes().PutInt("test.n", int64(n))
	}
	return batch
}

func metrics(from, to int) pmetric.Metrics {
	batch := pmetric.NewMetrics()
	rm := batch.ResourceMetrics().AppendEmpty()
	resource(rm.Resource())
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName("test")
	m := sm.Metrics().AppendEmpty()
	m.SetName("orders")
	sum := m.SetEmptySum()
	for n := from; n < to; n++ {
		p := sum.DataPoints().AppendEmpty()
		p.SetTimestamp(pcommon.Timestamp(began + n))
		p.SetIntValue(int64(n))
		p.Attributes().PutInt("test.n", int64(n))
	}
	return batch
}
