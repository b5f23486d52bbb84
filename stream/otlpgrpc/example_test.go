package otlpgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

func Example() {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	eng, err := forebay.Open(data, forebay.Options{Target: dir.Tables(data + "/tables")})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	err = eng.Define(ctx, forebay.Source{
		ID: "shop", Type: forebay.OTLP, Secret: "use-a-long-random-one",
		Sinks: []forebay.Sink{{
			ID: "messages", AllowedSignals: []forebay.Signal{forebay.SignalLogs},
			Table: forebay.Table{ID: "in.c-shop.messages", Columns: mapping.Columns{mapping.Path("message", "body", mapping.RawString())}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	srv := otlpgrpc.Server(eng, otlpgrpc.Options{})
	defer srv.GracefulStop() // before the engine is closed
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := srv.Serve(listener); err != nil {
			log.Print(err)
		}
	}()

	// What an exporter does.
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	batch := plog.NewLogs()
	batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("paid")
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer use-a-long-random-one")
	if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(batch)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(eng.Stats().Sinks[0].Accepted, "row")
	// Output: 1 row
}
