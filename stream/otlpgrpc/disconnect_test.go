package otlpgrpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// A client that goes away during its call has all records of the batch stored, or none, and its memory is free for others.
func TestDisconnect(t *testing.T) {
	const records, clients = 20, 100
	// What a few of the batches cost would be more than this, if it were not given back.
	opts := otlpgrpc.Options{MaxMessageBytes: 128 << 10, MaxBufferedBytes: 2 << 20}
	entered := make(chan struct{})
	eng, mem, conn := start(t, opts, []grpc.ServerOption{grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			entered <- struct{}{}
			return next(ctx, req)
		})}, app(sink("rows", mapping.Path("b", "body", mapping.RawString()))))
	client := plogotlp.NewGRPCClient(conn)
	batch := func(name string) plogotlp.ExportRequest {
		bodies := make([]string, records)
		for i := range bodies {
			bodies[i] = name + " " + strings.Repeat("x", 5<<10)
		}
		return logs(bodies...)
	}
	for i := range clients {
		ctx, cancel := context.WithCancel(with(t.Context(), "Bearer "+secret))
		done := make(chan error, 1)
		go func() {
			_, err := client.Export(ctx, batch(fmt.Sprintf("gone-%d", i)))
			done <- err
		}()
		<-entered // the message is there, its records are not
		cancel()
		// On a busy machine earlier calls are in progress still, and this one is refused before it is canceled.
		if err := <-done; err != nil && status.Code(err) != codes.Canceled && status.Code(err) != codes.Unavailable {
			t.Fatalf("call %d: got %v, want no error, or that it was canceled or refused", i, err)
		}
	}
	for tries := 0; ; tries++ { // those above may be in progress still
		stays := make(chan error, 1)
		go func() {
			_, err := client.Export(with(t.Context(), "Bearer "+secret), batch("stays"))
			stays <- err
		}()
		<-entered
		err := <-stays
		if err == nil {
			break
		}
		if status.Code(err) != codes.Unavailable || tries == 10_000 {
			t.Fatal(err)
		}
	}
	if err := eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]int)
	for _, row := range mem.Rows("in.c-app.rows") {
		name, _, _ := strings.Cut(row[0], " ")
		rows[name]++
	}
	for name, n := range rows {
		if n != records {
			t.Errorf("got %d records of %s, want %v", n, name, records)
		}
	}
	if rows["stays"] != records {
		t.Error("the batch of a client that waited is not there")
	}
}
