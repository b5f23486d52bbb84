// Package server is a long-running ingestion server for events and telemetry over HTTP, the Stream API, health checks, orders on a loopback
// address, and an orderly shutdown.
//
// It prints one line "ready api=HOST:PORT ingest=HOST:PORT" when it accepts requests, then commands to try it. When its context ends it
// stops accepting, completes the requests in progress and moves waiting rows to the tables. Rows that still wait after
// Config.ShutdownTimeout stay on disk and are moved after the next start. No acknowledged row is lost either way.
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
	"path/filepath"
	"sync/atomic"
	"syscall"

	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// Parts are the parts of a server that the program provides. The zero value is a server with tables in folders, without metrics.
type Parts struct {
	// Target and Staging are the drivers, which the caller closes after [Run]. Nil means folders in the data directory, with
	// Config.Tables.
	Target  driver.Target
	Staging driver.Staging
	// Targets are additional targets by name. The caller closes them after [Run].
	Targets map[string]driver.Target
	// Archive keeps raw records. If it is nil, sources cannot keep them. The caller closes it after [Run].
	Archive forebay.Archive
	// StagingText is the value of the flag -staging of inspect for Staging, and Inspect the command that runs inspect. The response to
	// the order of a checkpoint has both.
	StagingText, Inspect string
	// DropTable deletes the table of a sink that is created again. Nil deletes none. Without Target it is not used.
	DropTable func(ctx context.Context, table string) error
	// DropTables are functions as DropTable for the tables in Targets, by name.
	DropTables map[string]func(ctx context.Context, table string) error
	// Meter gets the metrics of the engine, and Metrics serves GET /metrics on the address of the API. Both may be nil.
	Meter   metric.Meter
	Metrics http.Handler
	// Logger gets what an operator should see.
	Logger *slog.Logger
	// Define, if not nil, defines the sources. Of the Stream API only the part is then served that changes no definition: quarantines, held
	// files and shadows.
	Define func(ctx context.Context, eng *forebay.Engine) error
	// Ready, if not nil, is called when all servers accept requests. A node that opens again calls it again.
	Ready func()
	// Listen, if not nil, starts more servers. events is the handler of the address of events.
	Listen func(eng *forebay.Engine, events http.Handler) ([]Listener, error)
	// OpenNode, if not nil, opens a node of a cluster. The server serves the node's engine and definitions in place of the data
	// directory's engine and definitions. The server calls it again when the node has lost its instance. Define must be nil then.
	OpenNode func(ctx context.Context, opts NodeOptions) (Node, error)
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
	if err := keep.Folder("dir", cfg.Dir, 0o755); err != nil {
		return err
	}
	if parts.Target == nil {
		tables := dir.TablesWith(filepath.Join(cfg.Dir, "tables"), cfg.Tables)
		parts.Target, parts.DropTable = tables, tables.Drop
	}
	opts := forebay.Options{
		Target: parts.Target, Targets: parts.Targets, Staging: parts.Staging, Archive: parts.Archive, Logger: logger, Meter: parts.Meter, Buffer: cfg.Tuning, MaxSources: cfg.MaxSources,
	}
	cfg.Stream.Logger = logger
	if parts.OpenNode != nil {
		return runNode(ctx, cfg, parts, opts, logger, out)
	}
	eng, err := forebay.Open(cfg.Dir, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()

	at, err := listenBoth(cfg, logger)
	if err != nil {
		return err
	}
	defer at.close()
	m := &management{cfg: cfg, eng: eng, drop: parts.DropTable, drops: parts.DropTables, logger: logger}
	var api http.Handler
	if parts.Define != nil {
		var on *catalog.Maintenance
		if api, on, err = m.maintain(at.apiURL(), at.eventsURL()); err == nil {
			defer on.Close()
			err = parts.Define(ctx, eng)
		}
	} else if api, err = m.open(at.apiURL(), at.eventsURL()); err == nil {
		defer func() { err = errors.Join(err, m.cat.Close()) }()
	}
	if err != nil {
		return err
	}
	return m.serve(ctx, parts, service{events: at.events, api: at.api, handler: api, ready: stream.Ready(eng)}, out)
}

// service is what an engine is served with.
type service struct {
	// events and api are the listeners, which the server closes, and handler serves the calls of the API.
	events, api net.Listener
	handler     http.Handler
	// ready serves /readiness-check.
	ready http.Handler
	// lost is closed when the engine cannot continue. Nil means never.
	lost <-chan struct{}
}

// serve serves the engine until ctx ends, or until it is lost, and moves waiting rows to the tables.
func (m *management) serve(ctx context.Context, parts Parts, s service, out io.Writer) (err error) {
	cfg, eng, logger, api := m.cfg, m.eng, m.logger, s.handler
	ingestAddr, apiAddr := s.events.Addr().String(), s.api.Addr().String()
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
		api = withMetrics(parts.Metrics, api, hostsOf(cfg.APIURL)...)
	}

	var draining atomic.Bool
	ingest := handler(stream.Ingest(eng, cfg.Stream), s.ready, draining.Load)
	eventServer, err := eventServer(cfg, ingest, logger)
	if err != nil {
		return err
	}
	servers := []Listener{
		{"ingest", serve(s.events, eventServer, eventConnections(cfg.MaxConnections, fileHandles(), logger))},
		{"api", serve(s.api, usualServer("api", api, logger), apiConnections)},
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
	if parts.Ready != nil {
		parts.Ready()
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
	case <-s.lost:
	case <-ctx.Done():
	}
	draining.Store(true)
	endConsole() // its streams would hold up the server
	logger.Info("stopping", "timeout", cfg.ShutdownTimeout)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ShutdownTimeout)
	defer cancel()
	for _, s := range servers {
		if cut := s.Stop(end); cut != nil {
			logger.Warn("requests cut off at shutdown", "server", s.Name, "cause", cut, "next", "raise -shutdown-timeout")
		}
		if failed := s.Err(); failed != nil {
			err = errors.Join(err, fmt.Errorf("server %s on %s: %w", s.Name, s.Addr, failed))
		}
	}
	if err := eng.FlushAll(end); err != nil {
		logger.Warn("rows left for the next start", "cause", err, "next", "start the server again; the rows wait on disk")
	}
	logTotals(logger, eng.Stats())
	return err
}

// listeners are the two that every server has.
type listeners struct{ events, api net.Listener }

func listenBoth(cfg Config, logger *slog.Logger) (l listeners, err error) {
	if l.events, err = cfg.listen("addr", cfg.Addr, logger); err != nil {
		return l, err
	}
	if l.api, err = cfg.listen("api-addr", cfg.APIAddr, logger); err != nil {
		l.events.Close()
	}
	return l, err
}

func (l listeners) apiURL() string    { return urlOf(l.api.Addr()) }
func (l listeners) eventsURL() string { return urlOf(l.events.Addr()) }

// urlOf returns the URL of a listener. A listener on all interfaces has no host that a client could use, so its URL names this machine.
func urlOf(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d", tcp.Port)
	}
	return "http://" + addr.String()
}

// close closes what no server has closed.
func (l listeners) close() {
	l.events.Close()
	l.api.Close()
}

// listen is [Listen]. If an optional port is in use, it listens on a free port and logs a warning.
func (cfg *Config) listen(flag, addr string, logger *slog.Logger) (net.Listener, error) {
	l, err := Listen(flag, addr)
	if err == nil || !cfg.Optional[flag] || !inUse(err) {
		return l, err
	}
	host, _, _ := net.SplitHostPort(addr) // Check has split it
	free, other := Listen(flag, net.JoinHostPort(host, "0"))
	if other != nil {
		return nil, errors.Join(err, other)
	}
	logger.Warn("port in use and a free one taken", "flag", "-"+flag, "address", addr, "taken", free.Addr().String(), "next", "free the port, or set a different one")
	return free, nil
}

// Listen listens on the address of a flag. The error names the flag, and who may hold the port.
func Listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case inUse(err):
		return nil, fmt.Errorf("-%s: %w; another program listens there, perhaps a second forebay or a collector: end it, or choose another address with -%[1]s, port 0 for any free one", flag, err)
	case err != nil:
		return nil, fmt.Errorf("-%s: %w; choose another address, port 0 for any free one", flag, err)
	}
	return l, nil
}

// inUse reports whether a port could not be opened because another socket listens on it.
func inUse(err error) bool {
	const onWindows = 10048 // WSAEADDRINUSE, a number that no other system has
	number, ok := errors.AsType[syscall.Errno](err)
	return ok && (number == syscall.EADDRINUSE || number == onWindows)
}

// eventServer takes small requests over kept connections, which is what package fastserver is for.
func eventServer(cfg Config, h http.Handler, logger *slog.Logger) (web.HTTP, error) {
	if cfg.NetHTTP {
		return usualServer("events", h, logger), nil
	}
	return fastserver.New(web.Named(h), fastserver.Options{Logger: logger.With("server", "events")})
}

func usualServer(name string, h http.Handler, logger *slog.Logger) web.HTTP {
	s := stream.Server("", web.Named(h))
	s.ErrorLog = slog.NewLogLogger(logger.With("server", name).Handler(), slog.LevelWarn)
	return s
}

// serve bounds the connections of a server. Connections that check its health have priority.
func serve(l net.Listener, h web.HTTP, connections int) *web.Server {
	return web.Start(stream.LimitConnections(l, connections, "/health-check", "/readiness-check"), h)
}

// handler serves the checks of health and readiness, and gives all else to ingest. It is no [http.ServeMux], see
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
