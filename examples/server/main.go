// Command server is a long-running ingestion server, managed by the Stream API. Every flag has an environment variable
// with the prefix FOREBAY_, for example FOREBAY_ADDR for -addr; the flag wins.
//
//	cd examples/server && go run . -dir data -addr 127.0.0.1:8080 -api-addr 127.0.0.1:8081
//
// It is a separate module because of its metrics exporter.
//
// It prints one line "ready api=HOST:PORT ingest=HOST:PORT" when it takes requests, then commands to try it, and logs to
// standard error. Requests to the API need the token of DIR/token or of -token. With -source web it makes a
// source with two tables first, so that you can try it without the API.
//
// On SIGTERM or an interrupt it stops accepting, answers the requests in progress, moves what waits to the tables and
// ends with status 0. Rows that still wait after -shutdown-timeout stay on disk and go on at the next start; nothing that
// was acknowledged is lost either way. A second signal ends it at once.
//
// Package fastserver takes the events; with -net-http the server of net/http does, which needs more CPU for each.
//
// GET /metrics on the address of the API gives the metrics of docs/operations.md to Prometheus. It needs no token and shows
// the ids and counters of sources and sinks: keep that address private.
//
// The tables are folders of CSV files. With -partition-by received_at they have a folder for each day, if they have such a column of
// type date or timestamp; -merge-to 67108864 merges small files, and -keep-for 720h removes old ones. With -extend the tables of
// new sinks get the columns that a changed sink has.
//
// With -admin 127.0.0.1:8082 it takes orders from its own machine: a POST to /checkpoint copies the data directory while
// events flow, and answers with the place of the copy, for examples/inspect.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/examples/internal/keep"
	"github.com/forebay/forebay/examples/internal/web"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
	"github.com/forebay/forebay/stream/streamapi"
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

// tokenFile is in the data directory.
const tokenFile = "token"

func apiOptions(cfg config, apiURL, ingestURL, token string) streamapi.Options {
	return streamapi.Options{
		Auth: streamapi.StaticToken(token, cfg.stream.ProjectID), Ingest: cfg.stream,
		URL: cmp.Or(cfg.apiURL, apiURL), IngestURL: cmp.Or(cfg.ingestURL, ingestURL),
	}
}

// run serves until ctx ends.
func run(ctx context.Context, cfg config, out, logs io.Writer) (err error) {
	logger := newLogger(cfg, logs)
	if err := os.MkdirAll(cfg.dir, 0o755); err != nil {
		return err
	}
	token := cfg.token
	if token == "" {
		var err error
		if token, err = keep.Secret(filepath.Join(cfg.dir, tokenFile)); err != nil {
			return err
		}
	}
	tables := dir.TablesWith(filepath.Join(cfg.dir, "tables"), cfg.tables)
	measured, err := newMetrics()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, measured.provider.Shutdown(context.WithoutCancel(ctx))) }()
	eng, err := forebay.Open(cfg.dir, forebay.Options{
		Target: tables, Logger: logger, Meter: measured.meter(),
		Buffer: buffer.Tuning{MaxDiskBytes: cfg.maxDiskBytes, MaxSinkBytes: cfg.maxSinkBytes},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	cat, err := catalog.Open(filepath.Join(cfg.dir, catalogFolder), eng, catalog.Options{
		BranchID: cfg.stream.BranchID, Extend: cfg.extend, DropTable: tables.Drop, Logger: logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cat.Close()) }()

	ingestListener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		return err
	}
	defer ingestListener.Close()
	apiListener, err := net.Listen("tcp", cfg.apiAddr)
	if err != nil {
		return err
	}
	defer apiListener.Close()
	var draining atomic.Bool
	cfg.stream.Logger = logger
	ingestAddr, apiAddr := ingestListener.Addr().String(), apiListener.Addr().String()
	opts := apiOptions(cfg, "http://"+apiAddr, "http://"+ingestAddr, token)
	api, err := streamapi.New(cat, opts)
	if err != nil {
		return err
	}
	eventServer, err := eventServer(cfg, handler(stream.Ingest(eng, cfg.stream), stream.Ready(eng), draining.Load), logger)
	if err != nil {
		return err
	}
	events := serve(ingestListener, eventServer, eventConnections(cfg.maxConnections, fileHandles(), logger))
	defer events.Close()
	management := serve(apiListener, usualServer("api", measured.before(api), logger), apiConnections)
	defer management.Close()
	if cfg.admin != "" {
		admin, err := serveAdmin(cfg, eng, cat, logger)
		if err != nil {
			return err
		}
		defer admin.Close()
	}
	if err := tryOut(ctx, cfg, cat, opts, out, ingestAddr, apiAddr); err != nil {
		return err
	}
	logger.Info("serving", "events", ingestAddr, "api", apiAddr, "directory", cfg.dir)

	select {
	case <-events.Done:
	case <-management.Done:
	case <-ctx.Done():
	}
	draining.Store(true)
	logger.Info("stopping", "timeout", cfg.shutdownTimeout)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.shutdownTimeout)
	defer cancel()
	if cut := errors.Join(events.Stop(end), management.Stop(end)); cut != nil {
		logger.Warn("requests in progress were cut off", "error", cut)
	}
	if failed := errors.Join(events.Err(), management.Err()); failed != nil {
		err = fmt.Errorf("server on %s or %s: %w", ingestAddr, apiAddr, failed)
	}
	if err := eng.FlushAll(end); err != nil {
		logger.Warn("not all rows are in the tables yet, they go on at the next start", "error", err)
	}
	logTotals(logger, eng.Stats())
	return err
}

// eventServer takes small requests over kept connections, which is what package fastserver is for.
func eventServer(cfg config, h http.Handler, logger *slog.Logger) (web.HTTP, error) {
	if cfg.netHTTP {
		return usualServer("events", h, logger), nil
	}
	return fastserver.New(h, fastserver.Options{Logger: logger.With("server", "events")})
}

func usualServer(name string, h http.Handler, logger *slog.Logger) web.HTTP {
	s := stream.Server("", h)
	s.ErrorLog = slog.NewLogLogger(logger.With("server", name).Handler(), slog.LevelWarn)
	return s
}

// serve bounds the connections of a server. Those that check its health have priority.
func serve(l net.Listener, h web.HTTP, connections int) *web.Server {
	return web.Start(stream.LimitConnections(l, connections, "/health-check", "/readiness-check"), h)
}

// tryOut prints that the server is ready, and commands to try it.
func tryOut(ctx context.Context, cfg config, cat *catalog.Catalog, opts streamapi.Options, out io.Writer, ingestAddr, apiAddr string) error {
	var events string
	if cfg.source != "" {
		secret, err := exampleSource(ctx, cat, cfg.source)
		if err != nil {
			return err
		}
		events = fmt.Sprintf("%s/stream/%d/%s/%s", opts.IngestURL, opts.Ingest.ProjectID, cfg.source, secret)
	}
	fmt.Fprintf(out, "ready api=%s ingest=%s\n\n", apiAddr, ingestAddr)
	token := "$TOKEN" // a token that was given is not printed
	if cfg.token == "" {
		token = fmt.Sprintf("$(cat '%s')", filepath.Join(cfg.dir, tokenFile))
	}
	if events == "" {
		fmt.Fprintf(out, useAPI, opts.URL, token, streamapi.DefaultTableType, filepath.Join(cfg.dir, "tables"))
		return nil
	}
	fmt.Fprintf(out, useSource, events, opts.URL, token, cfg.source)
	return nil
}

const useAPI = `Create a source with a table; the answer is a task, whose outputs have the address of the source:

  curl -H "X-StorageApi-Token: %[2]s" -H 'Content-Type: application/json' %[1]s/v1/branches/default/sources -d '{
    "type": "http", "name": "Web", "sinks": [{"type": "table", "name": "Events", "table": {
      "type": "%[3]s", "tableId": "in.c-web.events", "mapping": {"columns": [
        {"type": "uuid", "name": "id", "dataType": "uuid"}, {"type": "datetime", "name": "at", "dataType": "timestamp"},
        {"type": "path", "name": "user", "path": "user.id", "dataType": "int64"}, {"type": "body", "name": "body"}]}}}]}'
  curl -H "X-StorageApi-Token: %[2]s" %[1]s/v1/branches/default/sources/web

Post an event to the url in the second answer. A minute later, or when the server is stopped, it is a row in a CSV file in %[4]s:

  curl -i -H 'Content-Type: application/json' -d '{"user":{"id":42}}' URL

What waits for its table, and why: add /sinks/events/statistics/files to the second address. All operations: %[1]s/v1/documentation

`

const useSource = `Post events to %[1]s

  curl -i -H 'Content-Type: application/json' -d '{"user":{"id":42}}' '%[1]s'

An event without user.id is answered 422: the table of whole events has it, the table of fields does not.

  curl -i -H 'Content-Type: application/json' -d '{"kind":"click"}' '%[1]s'

What waits for its table, and why:

  curl -H "X-StorageApi-Token: %[3]s" %[2]s/v1/branches/default/sources/%[4]s/sinks/events/statistics/files

`

// handler answers the checks of health and readiness, and gives all else to ingest. It is no [http.ServeMux]: see
// [stream.Ingest].
func handler(ingest, ready http.Handler, draining func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check := r.URL.Path == "/health-check" || r.URL.Path == "/readiness-check"
		if !check || r.Method != http.MethodGet && r.Method != http.MethodHead {
			ingest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		switch {
		case draining():
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "draining")
		case r.URL.Path == "/readiness-check":
			ready.ServeHTTP(w, r)
		default:
			fmt.Fprint(w, "OK")
		}
	})
}

// exampleSource creates a source that stores every event as it is, and the fields of JSON events in a second table. The
// raw table rejects nothing; the second one requires user.id. A source that exists stays as it is.
func exampleSource(ctx context.Context, cat *catalog.Catalog, id string) (secret string, err error) {
	s, err := cat.Source(id)
	if err == nil {
		return s.Secret, nil
	}
	table := func(name string) string { return "in.c-" + id + "." + name }
	task, err := cat.CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{ID: id, Name: id, Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{Name: "raw", TableID: table("raw"), Columns: mapping.Columns{
			mapping.UUID("id", mapping.DataType(datatype.UUID)),
			mapping.Datetime("received_at", mapping.DataType(datatype.Timestamp)),
			mapping.IP("ip", mapping.DataType(datatype.String)),
			mapping.Headers("headers", mapping.DataType(datatype.JSON)),
			mapping.Body("body"), // any bytes
		}},
		{Name: "events", TableID: table("events"), Columns: mapping.Columns{
			mapping.UUID("id", mapping.DataType(datatype.UUID)),
			mapping.Datetime("received_at", mapping.DataType(datatype.Timestamp)),
			mapping.Path("user", "user.id", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Path("kind", "kind", mapping.DataType(datatype.String), mapping.Default("unknown")),
			mapping.Template("agent", `std.asciiLower(Header("User-Agent", "none"))`, mapping.DataType(datatype.String)),
		}},
	}})
	if err != nil {
		return "", err
	}
	if task, err = cat.Wait(ctx, task.ID); err != nil {
		return "", err
	}
	if task.Status != catalog.Succeeded {
		return "", errors.New(task.Failure)
	}
	s, err = cat.Source(id)
	return s.Secret, err
}

func newLogger(cfg config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.logLevel}
	if cfg.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func logTotals(logger *slog.Logger, stats forebay.Stats) {
	for _, s := range stats.Sinks {
		logger.Info("sink", "id", s.ID, "accepted", s.Accepted, "local", s.Local.Rows, "staging", s.Staging.Rows,
			"table", s.Target.Rows, "expired", s.Expired.Rows, "rejected", s.Rejected)
	}
}
