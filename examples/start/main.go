// Command start is the program of docs/start.md, an HTTP service that stores each event it receives in a table.
//
//	cd examples
//	go run ./start
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/trigger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", "localhost:8080")
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, "data", listener); err != nil {
		log.Fatal(err)
	}
}

// run stores events until ctx ends. It completes the requests in progress before it closes the engine.
func run(ctx context.Context, dir string, listener net.Listener) (err error) {
	eng, err := forebay.Open(dir, forebay.Options{Logger: slog.Default()})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, eng.Close()) }()

	err = eng.Define(ctx, forebay.Source{
		ID:     "web",
		Secret: "change-me", // the last part of the URL
		Settings: forebay.Settings{
			Upload: trigger.Conditions{Interval: 5 * time.Second},  // to staging
			Import: trigger.Conditions{Interval: 30 * time.Second}, // to the table
		},
		Sinks: []forebay.Sink{{
			ID: "signups",
			Table: forebay.Table{ID: "in.c-web.signups", Columns: mapping.Columns{
				mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user_id", "user.id"), mapping.Body("event"),
			}},
		}},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}

	server := stream.Server("", stream.Ingest(eng, stream.Options{}))
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
