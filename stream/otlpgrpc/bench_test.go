package otlpgrpc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

// BenchmarkLogs exports batches of 100 log records, which are encoded once, over loopback to an engine on a real disk; each
// call waits until its rows are there. Client and server are in this process.
func BenchmarkLogs(b *testing.B) {
	for _, size := range []int{150, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			eng, err := forebay.Open(b.TempDir(), forebay.Options{Staging: noStaging{}})
			if err != nil {
				b.Fatal(err)
			}
			defer eng.Close()
			err = eng.Define(b.Context(), forebay.Source{
				ID: "app", Type: forebay.OTLP, Secret: secret, Settings: forebay.Settings{Upload: trigger.Upload().Max},
				Sinks: []forebay.Sink{sink("logs", mapping.UUID("id"), mapping.Datetime("at"),
					mapping.Path("service", `resource["service.name"]`, mapping.RawString()), mapping.Path("severity", "severity_text", mapping.RawString()),
					mapping.Path("message", "body", mapping.RawString()))},
			})
			if err != nil {
				b.Fatal(err)
			}
			srv := otlpgrpc.Server(eng, otlpgrpc.Options{})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go func() { _ = srv.Serve(listener) }()
			defer srv.Stop()
			conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			const records = 100
			data := encoded(b, records, size)
			ctx := with(b.Context(), "Bearer "+secret)
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := conn.Invoke(ctx, "/opentelemetry.proto.collector.logs.v1.LogsService/Export", raw(data), raw(nil)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
			if got := eng.Stats().Sinks[0].Accepted; got != int64(b.N*records) {
				b.Errorf("%d rows of %d records", got, b.N*records)
			}
		})
	}
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
