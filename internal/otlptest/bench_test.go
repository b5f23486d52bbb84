package otlptest

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

var fewColumns = mapping.Columns{
	mapping.UUID("id"), mapping.Datetime("at"),
	mapping.Path("service", `resource["service.name"]`, mapping.RawString()), mapping.Path("severity", "severity_text", mapping.RawString()),
	mapping.Path("message", "body", mapping.RawString()),
}

// BenchmarkLogs compares OTLP over HTTP and over gRPC, with batches of 100 log records, which are encoded before, over loopback to
// an engine on a real disk. 64 requests are in flight, and each waits until its rows are there. Each connection has one of them, or, as
// HTTP/2 can, several. The senders of both protocols are of the same kind and run in a separate process, so that the CPU of
// the server is measured separately.
//
// A round is a burst over each of the ways, in turns, because the speed of a machine changes by more than they differ.
// Ratios to the first are medians of the ratios within each round. Measure at least 8 rounds: -benchtime 60x.
func BenchmarkLogs(b *testing.B) {
	const records, flying, burst = 100, 64, 400
	for _, c := range []struct {
		name    string
		columns mapping.Columns
		size    int
	}{{"few", fewColumns, 150}, {"few", fewColumns, 1024}, {"preset", otlpflat.LogsTable(), 150}} {
		b.Run(fmt.Sprintf("columns=%s/body=%d", c.name, c.size), func(b *testing.B) {
			ways := []*way{{protocol: "http", connections: 64}, {protocol: "grpc", connections: 64}, {protocol: "grpc", connections: 8}, {protocol: "grpc", connections: 2}}
			for _, w := range ways {
				eng, address := serve(b, w.protocol, c.columns)
				w.eng = eng
				w.load = startLoad(b, load{
					Protocol: w.protocol, Address: address, Connections: w.connections, Calls: flying / w.connections, Records: records, Size: c.size,
				})
				w.load.run(b, burst) // warms up, and says early if it does not work
			}
			b.ResetTimer()
			for round := range b.N {
				for i := range ways {
					ways[(round+i)%len(ways)].measure(b, burst, records)
				}
			}
			b.StopTimer()
			for _, w := range ways {
				name := fmt.Sprintf("%s%d-", w.protocol, w.connections)
				b.ReportMetric(median(w.rate), name+"records/s")
				b.ReportMetric(median(w.server), name+"server-ns/record")
				b.ReportMetric(median(w.sender), name+"sender-ns/record")
				if w != ways[0] {
					b.ReportMetric(median(ratios(w.rate, ways[0].rate)), name+"rate-of-http")
					b.ReportMetric(median(ratios(w.server, ways[0].server)), name+"CPU-of-http")
				}
				if got, want := w.eng.Stats().Sinks[0].Accepted, int64((b.N+1)*burst*records); got != want {
					b.Errorf("%s: got %d rows of %d records, want %v", name, got, want, want)
				}
			}
		})
	}
}

// way is one side of the comparison, with the figures of each round.
type way struct {
	protocol    string
	connections int

	eng                  *forebay.Engine
	load                 *loader
	rate, server, sender []float64
}

func (w *way) measure(b *testing.B, requests, records int) {
	begin, cpu := time.Now(), cputime.Process()
	spent := w.load.run(b, requests)
	took, used := time.Since(begin), cputime.Process()-cpu
	n := float64(requests * records)
	w.rate = append(w.rate, n/took.Seconds())
	w.server = append(w.server, float64(used.Nanoseconds())/n)
	w.sender = append(w.sender, float64(spent.Nanoseconds())/n)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func ratios(values, of []float64) (list []float64) {
	for i, v := range values {
		list = append(list, v/of[i])
	}
	return list
}

// serve listens for a protocol and ingests into an engine on disk.
func serve(b testing.TB, protocol string, columns mapping.Columns) (eng *forebay.Engine, address string) {
	eng, err := forebay.Open(b.TempDir(), forebay.Options{Staging: noStaging{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := eng.Close(); err != nil {
			b.Error(err)
		}
	})
	err = eng.Define(b.Context(), forebay.Source{
		ID: "app", Type: forebay.OTLP, Secret: secret, Settings: forebay.Settings{Upload: trigger.Upload().Max},
		Sinks: []forebay.Sink{{ID: "logs", Table: forebay.Table{ID: "in.c-app.logs", Columns: columns}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	if protocol == "http" {
		srv := stream.Server("", stream.Ingest(eng, stream.Options{}))
		go func() { _ = srv.Serve(listener) }()
		b.Cleanup(func() { _ = srv.Close() })
	} else {
		srv := otlpgrpc.Server(eng, otlpgrpc.Options{})
		go func() { _ = srv.Serve(listener) }()
		b.Cleanup(srv.Stop)
	}
	return eng, listener.Addr().String()
}

// requestMark is in each request once. Senders write another number in its place each time, because a repeated request of the last day is
// recognised and not stored, and no exporter sends the same one.
var requestMark = pcommon.SpanID{0xf0, 0x9d, 0x91, 0x8a, 0xb7, 0x6c, 0x2e, 0x53}

var lastMark atomic.Uint64

// newMark returns a different number each time. Because the step is odd, none repeats.
func newMark() uint64 { return lastMark.Add(0x9e3779b97f4a7c15) }

// encoded is a request with log records of the given size, and of now.
func encoded(records, size int) ([]byte, error) {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "checkout")
	rl.Resource().Attributes().PutStr("host.name", "ip-10-3-7-21")
	all := rl.ScopeLogs().AppendEmpty().LogRecords()
	for i := range records {
		r := all.AppendEmpty()
		r.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		r.Body().SetStr(strings.Repeat("the gate opens when the basin is full ", size/38+1)[:size])
		r.SetTraceID(pcommon.TraceID{1, byte(i)})
		if i == 0 {
			r.SetSpanID(requestMark)
		}
		r.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
		r.Attributes().PutInt("http.response.status_code", 200)
		r.Attributes().PutInt("order.id", int64(i))
	}
	return (&plog.ProtoMarshaler{}).MarshalLogs(batch)
}

// noStaging accepts nothing until the engine gives up.
type noStaging struct{}

func (noStaging) Put(ctx context.Context, _ driver.Object, _ driver.Content) error {
	<-ctx.Done()
	return ctx.Err()
}

func (noStaging) Open(context.Context, driver.Object) (io.ReadCloser, error) { return nil, io.EOF }
func (noStaging) Delete(context.Context, ...driver.Object) error             { return nil }
