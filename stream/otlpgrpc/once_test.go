package otlpgrpc_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// A batch that is sent again with its key is stored once. Without a key, an equal batch is a new batch if the response to the first has arrived.
func TestRepeatedBatchIsStoredOnce(t *testing.T) {
	recent := func(bodies ...string) plogotlp.ExportRequest {
		req := logs(bodies...)
		records := req.Logs().ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
		for i := range records.Len() {
			records.At(i).SetObservedTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		}
		return req
	}
	same := recent("a")
	for _, tt := range []struct {
		name     string
		opts     otlpgrpc.Options
		requests [2]plogotlp.ExportRequest
		metadata [2][]string
		rows     int
		second   codes.Code
	}{
		{"the same", otlpgrpc.Options{}, [2]plogotlp.ExportRequest{same, same}, [2][]string{}, 2, codes.OK},
		{"switched off", otlpgrpc.Options{BatchWindow: -1}, [2]plogotlp.ExportRequest{same, same}, [2][]string{}, 2, codes.OK},
		{"another record", otlpgrpc.Options{}, [2]plogotlp.ExportRequest{same, recent("a")}, [2][]string{}, 2, codes.OK},
		{"another tenant", otlpgrpc.Options{}, [2]plogotlp.ExportRequest{same, same}, [2][]string{nil, {"x-scope-orgid", "b"}}, 2, codes.OK},
		{"records without time", otlpgrpc.Options{}, [2]plogotlp.ExportRequest{logs("a"), logs("a")}, [2][]string{}, 2, codes.OK},
		{
			"one key",
			otlpgrpc.Options{},
			[2]plogotlp.ExportRequest{logs("a"), logs("a")},
			[2][]string{{"idempotency-key", "k"}, {"idempotency-key", "k"}},
			1, codes.OK,
		},
		{
			"one key for two",
			otlpgrpc.Options{},
			[2]plogotlp.ExportRequest{logs("a"), logs("b")},
			[2][]string{{"idempotency-key", "k"}, {"idempotency-key", "k"}},
			1, codes.InvalidArgument,
		},
		{"two keys", otlpgrpc.Options{}, [2]plogotlp.ExportRequest{same, same}, [2][]string{nil, {"idempotency-key", "a", "idempotency-key", "b"}}, 1, codes.InvalidArgument},
	} {
		eng, mem, conn := start(t, tt.opts, nil, app(sink("rows", mapping.Path("body", "body"))))
		for i, req := range tt.requests {
			ctx := metadata.AppendToOutgoingContext(with(t.Context(), "bearer "+secret), tt.metadata[i]...)
			_, err := plogotlp.NewGRPCClient(conn).Export(ctx, req)
			if want := [2]codes.Code{codes.OK, tt.second}[i]; status.Code(err) != want {
				t.Errorf("got %s, request %d: %v, want %s", tt.name, i, err, want)
			}
		}
		if err := eng.Flush(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
		if n := len(mem.Rows("in.c-app.rows")); n != tt.rows {
			t.Errorf("%s: got %d rows, want %d", tt.name, n, tt.rows)
		}
	}
}
