package otlpgrpc_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc/metadata"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/spantest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// The sender of a batch is the parent of the span of its call. Malformed metadata is ignored. Metadata that is hidden from mappings still names the sender.
func TestSenderIsTheParentOfTheCall(t *testing.T) {
	const sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tracer := new(spantest.Tracer)
	_, _, conn := startEngine(t, forebay.Options{Tracer: tracer}, otlpgrpc.Options{HiddenHeaders: []string{"traceparent"}}, nil, app(sink("rows", mapping.Path("body", "body"))))
	for i, header := range [][]string{{"traceparent", sender}, {"traceparent", sender[:50]}, nil} {
		ctx := metadata.AppendToOutgoingContext(with(t.Context(), "bearer "+secret), header...)
		if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, logs("a")); err != nil {
			t.Fatal(err)
		}
		calls := tracer.Named("forebay.ingest")
		if len(calls) != i+1 {
			t.Fatalf("there are %d calls, want %d", len(calls), i+1)
		}
		parent := calls[i].Parent
		if parent.IsValid() != (i == 0) || i == 0 && (parent.TraceID().String() != sender[3:35] || parent.SpanID().String() != sender[36:52] || !parent.IsRemote()) {
			t.Errorf("with %q the parent is %v %v", header, parent.TraceID(), parent.SpanID())
		}
	}
}
