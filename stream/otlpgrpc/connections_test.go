package otlpgrpc_test

import (
	"net"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// A limit of connections that is not reached resets no call. Window updates of the server and frames of a large message cross on
// the wire, most of all on a new connection.
func TestLimitedConnectionsResetNoCall(t *testing.T) {
	eng, _, _ := start(t, otlpgrpc.Options{}, nil, app(sink("rows", mapping.Template("n", `Header("X-Kind")`))))
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := otlpgrpc.Server(eng, otlpgrpc.Options{BatchWindow: -1})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(stream.LimitConnections(inner, 100)) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	calls, perConnection, failed := casetest.Of(2000, 200, 100), 2, 0
	message := logs(strings.Repeat("x", 1<<20))
	for range calls / perConnection {
		conn, err := grpc.NewClient(inner.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
		if err != nil {
			t.Fatal(err)
		}
		for range perConnection {
			if _, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), message); err != nil {
				if failed++; failed == 1 {
					t.Errorf("the first call that failed: %v", err)
				}
			}
		}
		_ = conn.Close()
	}
	if failed > 0 {
		t.Errorf("%d of %d calls of 1 MB failed, want none", failed, calls)
	}
	if got := eng.Stats().Sinks[0].Accepted; got != int64(calls) {
		t.Errorf("got %d stored rows, want one of each of %d calls", got, calls)
	}
}
