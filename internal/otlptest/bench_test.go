package otlptest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

// BenchmarkLogs exports batches of 100 log records, which are encoded once, over loopback to an engine on a real disk. 64
// requests are in flight, and each waits until its rows are there: one on each connection, or, as HTTP/2 can, several. Both
// protocols have the same records and senders of the same kind in this process, so that they can be compared.
func BenchmarkLogs(b *testing.B) {
	const records, flying = 100, 64
	for _, size := range []int{150, 1024} {
		data := encoded(b, records, size)
		for _, c := range []struct {
			protocol    string
			connections int
		}{{"http", flying}, {"grpc", flying}, {"grpc", 8}} {
			b.Run(fmt.Sprintf("body=%d/over=%s/connections=%d", size, c.protocol, c.connections), func(b *testing.B) {
				eng, address := serve(b, c.protocol)
				var senders []sender
				for range c.connections {
					open := func() (sender, error) {
						if c.protocol == "http" {
							return newHTTPSender(address, "/otlp/1/app/"+secret+"/v1/logs", data)
						}
						return newGRPCSender(address, "/opentelemetry.proto.collector.logs.v1.LogsService/Export", secret, data, flying/c.connections)
					}
					s, err := open()
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					senders = append(senders, s)
				}
				b.SetBytes(int64(len(data)))
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for _, s := range senders {
					wg.Go(func() {
						if err := s.run(func() bool { return left.Add(-1) >= 0 }); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
				if got := eng.Stats().Sinks[0].Accepted; got != int64(b.N*records) {
					b.Errorf("%d rows of %d records", got, b.N*records)
				}
			})
		}
	}
}

// serve listens for a protocol in front of an engine on disk.
func serve(b *testing.B, protocol string) (eng *forebay.Engine, address string) {
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
		Sinks: []forebay.Sink{{ID: "logs", Table: forebay.Table{ID: "in.c-app.logs", Columns: mapping.Columns{
			mapping.UUID("id"), mapping.Datetime("at"),
			mapping.Path("service", `resource["service.name"]`, mapping.RawString()), mapping.Path("severity", "severity_text", mapping.RawString()),
			mapping.Path("message", "body", mapping.RawString()),
		}}}},
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

// encoded is a request with log records of the given size.
func encoded(b *testing.B, records, size int) []byte {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "checkout")
	rl.Resource().Attributes().PutStr("host.name", "ip-10-3-7-21")
	all := rl.ScopeLogs().AppendEmpty().LogRecords()
	for i := range records {
		r := all.AppendEmpty()
		r.SetTimestamp(1_700_000_000_000_000_000)
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		r.Body().SetStr(strings.Repeat("the gate opens when the basin is full ", size/38+1)[:size])
		r.SetTraceID(pcommon.TraceID{1, byte(i)})
		r.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
		r.Attributes().PutInt("http.response.status_code", 200)
		r.Attributes().PutInt("order.id", int64(i))
	}
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// noStaging accepts nothing until the engine gives up.
type noStaging struct{}

func (noStaging) Put(ctx context.Context, _ buffer.Object, _ buffer.Source) error {
	<-ctx.Done()
	return ctx.Err()
}

func (noStaging) Open(context.Context, buffer.Object) (io.ReadCloser, error) { return nil, io.EOF }
func (noStaging) Delete(context.Context, ...buffer.Object) error             { return nil }
