// Package server is a long-running ingestion server: events and telemetry over HTTP, the Stream API, health checks, orders on a loopback
// address, and an orderly shutdown.
//
// It prints one line "ready api=HOST:PORT ingest=HOST:PORT" when it takes requests, then commands to try it. When its context ends it stops
// accepting, answers the requests in progress and moves what waits to the tables. Rows that still wait after
// Config.ShutdownTimeout stay on disk and go on at the next start; nothing that was acknowledged is lost either way.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// Parts are the parts of a server that the program provides. The zero value is a server with tables in folders, without metrics.
type Parts struct {
	// Target and Staging are the drivers, which the caller closes after [Run]. Nil: folders in the data directory, with
	// Config.Tables.
	Target  buffer.Target
	Staging buffer.Staging
	// Archive keeps raw records; nil: sources cannot keep them. The caller closes it after [Run].
	Archive forebay.Archive
	// StagingText is the value of the flag -staging of inspect for Staging, and Inspect the command that runs inspect. The answer to the
	// order of a checkpoint has both.
	StagingText, Inspect string
	// DropTable deletes the table of a sink that is created again; nil deletes none. Without Target it is not used.
	DropTable func(ctx context.Context, table string) error
	// Meter gets the metrics of the engine, and Metrics answers GET /metrics on the address of the API. Both may be nil.
	Meter   metric.Meter
	Metrics http.Handler
	// Logger gets what an operator should see.
	Logger *slog.Logger
	// Define, if not nil, defines the sources. Of the Stream API only the part is then served that changes no definition: quarantines, held
	// files and shadows.
	Define func(ctx context.Context, eng *forebay.Engine) error
	// Listen, if not nil, starts more servers. events is the handler of the address of events.
	Listen func(eng *forebay.Engine, events http.Handler) ([]Listener, error)
}

// Listener is one more server.
type Listener struct {
	// Name is printed with the address in the first line.
	Name string
	*web.Server
}

// Run serves until ctx ends.
func Run(ctx context.Context, cfg Config, parts Parts, out io.Writer) (err error) {
	logger := cmp.Or(parts.Logger, slog.New(slog.DiscardHandler))
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	if parts.Target == nil {
		tables := dir.TablesWith(filepath.Join(cfg.Dir, "tables"), cfg.Tables)
		parts.Target, parts.DropTable = tables, tables.Drop
	}
	eng, err := forebay.Open(cfg.Dir, forebay.Options{
		Target: parts.Target, Staging: parts.Staging, Archive: parts.Archive, Logger: logger, Meter: parts.Meter, Buffer: cfg.Tuning,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()

	ingestListener, err := listen("addr", cfg.Addr)
	if err != nil {
		return err
	}
	defer ingestListener.Close()
	apiListener, err := listen("api-addr", cfg.APIAddr)
	if err != nil {
		return err
	}
	defer apiListener.Close()
	ingestAddr, apiAddr := ingestListener.Addr().String(), apiListener.Addr().String()
	cfg.Stream.Logger = logger
	m := &management{cfg: cfg, eng: eng, drop: parts.DropTable, logger: logger}
	var api http.Handler
	if parts.Define != nil {
		var on *catalog.Maintenance
		if api, on, err = m.maintain("http://"+apiAddr, "http://"+ingestAddr); err == nil {
			defer on.Close()
			err = parts.Define(ctx, eng)
		}
	} else if api, err = m.open("http://"+apiAddr, "http://"+ingestAddr); err == nil {
		defer func() { err = errors.Join(err, m.cat.Close()) }()
	}
	if err != nil {
		return err
	}
	endConsole := func() {}
	if cfg.UI {
		var c *console.Console
		if api, c, err = m.withConsole(api, "http://"+apiAddr); err != nil {
			return err
		}
		endConsole = func() { _ = c.Close() }
		defer endConsole()
	}
	if parts.Metrics != nil {
		api = withMetrics(parts.Metrics, api)
	}

	var draining atomic.Bool
	ingest := handler(stream.Ingest(eng, cfg.Stream), stream.Ready(eng), draining.Load)
	eventServer, err := eventServer(cfg, ingest, logger)
	if err != nil {
		return err
	}
	servers := []Listener{
		{"ingest", serve(ingestListener, eventServer, eventConnections(cfg.MaxConnections, fileHandles(), logger))},
		{"api", serve(apiListener, usualServer("api", api, logger), apiConnections)},
	}
	defer func() {
		for _, s := range servers {
			s.Close()
		}
	}()
	if cfg.Admin != "" {
		admin, err := serveAdmin(m, parts)
		if err != nil {
			return err
		}
		defer admin.Close()
	}
	ready := fmt.Sprintf("ready api=%s ingest=%s", apiAddr, ingestAddr)
	if parts.Listen != nil {
		more, err := parts.Listen(eng, ingest)
		servers = append(servers, more...)
		if err != nil {
			return err
		}
		for _, l := range more {
			ready += " " + l.Name + "=" + l.Addr
		}
	}
	if err := m.tryOut(ctx, out, ready); err != nil {
		return err
	}
	logger.Info("serving", "events", ingestAddr, "api", apiAddr, "directory", cfg.Dir)

	ended := make(chan struct{}, len(servers))
	for _, s := range servers {
		go func() {
			<-s.Done
			ended <- struct{}{}
		}()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	draining.Store(true)
	endConsole() // its streams would hold up the server
	logger.Info("stopping", "timeout", cfg.ShutdownTimeout)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ShutdownTimeout)
	defer cancel()
	for _, s := range servers {
		if cut := s.Stop(end); cut != nil {
			logger.Warn("requests in progress were cut off", "server", s.Name, "error", cut)
		}
		if failed := s.Err(); failed != nil {
			err = errors.Join(err, fmt.Errorf("server %s on %s: %w", s.Name, s.Addr, failed))
		}
	}
	if err := eng.FlushAll(end); err != nil {
		logger.Warn("not all rows are in the tables yet, they go on at the next start", "error", err)
	}
	logTotals(logger, eng.Stats())
	return err
}

// listen says which flag has the address that cannot be used.
func listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-%s: %w; choose another address, port 0 for any free one", flag, err)
	}
	return l, nil
}

// eventServer takes small requests over kept connections, which is what package fastserver is for.
func eventServer(cfg Config, h http.Handler, logger *slog.Logger) (web.HTTP, error) {
	if cfg.NetHTTP {
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

// Logger returns the log that the options describe. A nil level stands for the one in the options.
func (cfg *Config) Logger(w io.Writer, level slog.Leveler) *slog.Logger {
	if level == nil {
		level = cfg.LogLevel
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
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
