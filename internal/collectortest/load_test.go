package collectortest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const (
	perRequest = 100
	bodyBytes  = 150
	inFlight   = 64
	exportLogs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	// marker is in each body, and nowhere else.
	marker = " finished with status 200"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	text, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not bytes", v)
	}
	return text, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	if to, ok := v.(*[]byte); ok {
		*to = bytes.Clone(data)
		return nil
	}
	return fmt.Errorf("%T is not a pointer to bytes", v)
}

// connect returns a function that sends encoded logs to a gRPC server.
func connect(tb testing.TB, addr string, options ...grpc.CallOption) (send func(request []byte) error) {
	tb.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	ctx := metadata.AppendToOutgoingContext(tb.Context(), "authorization", "Bearer "+secret)
	return func(request []byte) error {
		var answer []byte
		return conn.Invoke(ctx, exportLogs, request, &answer, options...)
	}
}

// runs makes each request of the process different because a repeated request would be stored once.
var runs atomic.Int64

// sendAll sends requests and returns when all have a response.
func sendAll(b *testing.B, addr string, requests int) {
	b.Helper()
	send := connect(b, addr)
	template := encoded(b, sample())
	at := bytes.Index(template, []byte("request-0000000000")) + len("request-")
	var next atomic.Int64
	var all sync.WaitGroup
	for range inFlight {
		all.Go(func() {
			request := bytes.Clone(template)
			for next.Add(1) <= int64(requests) && !b.Failed() {
				copy(request[at:], fmt.Sprintf("%010d", runs.Add(1)))
				if err := send(request); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// sample is a request as a service sends it.
func sample() plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	for k, v := range map[string]string{"service.name": "checkout", "service.version": "2.14.3", "host.name": "ip-10-3-7-21", "deployment.environment.name": "production"} {
		rl.Resource().Attributes().PutStr(k, v)
	}
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("checkout/http")
	for i := range perRequest {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(pcommon.Timestamp(began))
		r.SetObservedTimestamp(pcommon.Timestamp(began))
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		text := fmt.Sprintf("GET /api/v1/orders/%d%s: ", 100_000+i, marker)
		r.Body().SetStr((text + strings.Repeat("the gate opens when the basin is full ", 4))[:bodyBytes])
		r.SetTraceID(pcommon.TraceID{1, 15: byte(i)})
		r.SetSpanID(pcommon.SpanID{1, 7: byte(i)})
		r.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
		r.Attributes().PutInt("http.response.status_code", 200)
		if i == 0 {
			r.Attributes().PutStr("request", "request-0000000000")
		}
	}
	return batch
}

func encoded(tb testing.TB, batch plog.Logs) []byte {
	tb.Helper()
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
