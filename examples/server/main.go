// Command server is a long-running ingestion server, managed by the Stream API. Every flag has an environment variable
// with the prefix FOREBAY_, for example FOREBAY_ADDR for -addr. The flag wins.
//
//	cd examples/server && go run . -dir data -addr 127.0.0.1:8080 -api-addr 127.0.0.1:8081
//
// It is a separate module because of its metrics exporter.
//
// It prints one line "ready api=HOST:PORT ingest=HOST:PORT" when it accepts requests, then commands to try it, and logs
// to standard error. Requests to the API need the token of DIR/token or of -token. With -source web it makes a source
// with two tables first, so that you can try it without the API.
//
// On SIGTERM or an interrupt it stops accepting, completes the requests in progress, moves waiting rows to the tables and
// ends with status 0. Rows that still wait after -shutdown-timeout stay on disk and continue at the next start. Nothing that
// was acknowledged is lost either way. A second signal ends it at once.
//
// Package fastserver takes the events. With -net-http the server of net/http does, which needs more CPU for each.
//
// GET /metrics on the address of the API gives the metrics of docs/metrics.md to Prometheus. It needs no token and shows
// the ids and counters of sources and sinks, so keep that address private.
//
// The tables are folders of CSV files, and of nothing else. For a database or for Parquet pass another Options.Target to forebay.Open,
// as examples/analytics does. With -partition-by received_at they have a folder for each day, if they have such a column of
// type date or timestamp; -merge-to 67108864 merges small files, and -keep-for 720h removes old ones. With -extend the tables of
// new sinks get the columns that a changed sink has.
//
// With -admin 127.0.0.1:8082 it takes orders from its own machine. A POST to /checkpoint copies the data directory while
// events flow, and responds with the place of the copy, for examples/inspect.
//
// The verb serve of cmd/forebay is the same server with more targets, OTLP over gRPC and a configuration file. Their code is in
// internal/program/server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/forebay/forebay/internal/program/server"
)

func main() {
	cfg, err := parseConfig(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	if err := run(ctx, cfg, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg server.Config, out, logs io.Writer) (err error) {
	measured, err := newMetrics()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, measured.provider.Shutdown(context.WithoutCancel(ctx))) }()
	return server.Run(ctx, cfg, server.Parts{Logger: cfg.Logger(logs, nil), Meter: measured.meter(), Metrics: measured.handler}, out)
}

func parseConfig(args []string, getenv func(string) string, usage io.Writer) (server.Config, error) {
	var cfg server.Config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error, without a usage that hides it
	cfg.Register(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(usage, "Usage of server:")
			flags.SetOutput(usage)
			flags.PrintDefaults()
		}
		return cfg, err
	}
	_, problems := server.Environment(flags, getenv)
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	return cfg, errors.Join(append(problems, cfg.Check()...)...)
}
