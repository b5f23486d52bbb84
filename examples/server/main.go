// Command server is a long-running ingestion server with one source. Every flag has an environment variable with the prefix
// FOREBAY_, for example FOREBAY_ADDR for -addr; the flag wins.
//
//	go run ./examples/server -addr 127.0.0.1:8080 -dir data
//
// It prints the address of the source with commands to try it, and logs to standard error. On SIGTERM or an interrupt
// it stops accepting, answers the requests in progress, moves what waits to the tables and ends with status 0. When
// -shutdown-timeout is over before that, rows that still wait stay on disk and go on at the next start; nothing that
// was acknowledged is lost either way. A second signal ends it at once.
//
// With -admin 127.0.0.1:8081 it takes orders of the machine it runs on: a POST to /checkpoint copies the data directory
// while events flow, and answers where the copy is. examples/inspect looks into that.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
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

type config struct {
	addr, dir, source, secret string
	stream                    stream.Options
	logLevel                  slog.Level
	logFormat                 string
	shutdownTimeout           time.Duration
	admin                     string
	maxConnections            int
}

func parseConfig(args []string, getenv func(string) string, usage io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&cfg.addr, "addr", "127.0.0.1:8080", "address to listen on")
	flags.StringVar(&cfg.admin, "admin", "", "loopback address to take orders on, such as a checkpoint (default: none are taken)")
	flags.IntVar(&cfg.maxConnections, "max-connections", 1000, "greatest number of connections at once; others wait")
	flags.StringVar(&cfg.dir, "dir", "data", "data directory; the tables are in the folder tables of it")
	flags.StringVar(&cfg.source, "source", "web", "id of the source, which is also a part of the names of its tables")
	flags.StringVar(&cfg.secret, "secret", "", "secret of the source (default: made at the first start, kept in DIR/secret)")
	flags.IntVar(&cfg.stream.ProjectID, "project", 1, "project id in the URL")
	flags.IntVar(&cfg.stream.MaxBodyBytes, "max-body-bytes", stream.DefaultMaxBodyBytes, "greatest body of a request")
	flags.Func("trusted-proxies", "networks or addresses whose X-Forwarded-For is believed, e.g. 10.0.0.0/8,fd00::1", func(s string) (err error) {
		cfg.stream.TrustedProxies, err = parseNetworks(s)
		return err
	})
	flags.TextVar(&cfg.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.StringVar(&cfg.logFormat, "log-format", "text", "text or json")
	flags.DurationVar(&cfg.shutdownTimeout, "shutdown-timeout", 30*time.Second, "longest time to end in")

	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var problems []error
	flags.VisitAll(func(f *flag.Flag) {
		name := "FOREBAY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := getenv(name)
		if value == "" || given[f.Name] {
			return
		}
		if err := f.Value.Set(value); err != nil {
			problems = append(problems, fmt.Errorf("invalid value %q of %s: %w", value, name, err))
			_ = f.Value.Set(f.DefValue) // one problem is enough
		}
	})
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	if cfg.logFormat != "text" && cfg.logFormat != "json" {
		problems = append(problems, fmt.Errorf("-log-format is %q, must be text or json", cfg.logFormat))
	}
	if cfg.maxConnections < 1 {
		problems = append(problems, fmt.Errorf("-max-connections is %d, must be positive", cfg.maxConnections))
	}
	if err := checkAdmin(cfg.admin); err != nil {
		problems = append(problems, err)
	}
	if cfg.stream.ProjectID == 0 { // which the options take for the default
		problems = append(problems, errors.New("-project is 0, must be positive"))
	}
	problems = append(problems, cfg.stream.Validate(), source(cfg.source, cfg.secret).Validate())
	return cfg, errors.Join(problems...)
}

// parseNetworks reads networks that are separated by commas. An address stands for the network of it alone.
func parseNetworks(s string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if addr, err := netip.ParseAddr(part); err == nil && addr.Zone() == "" {
			networks = append(networks, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is neither a network nor an address", part)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// run serves until ctx ends.
func run(ctx context.Context, cfg config, out, logs io.Writer) (err error) {
	logger := newLogger(cfg, logs)
	if err := os.MkdirAll(cfg.dir, 0o755); err != nil {
		return err
	}
	secret, err := sourceSecret(cfg)
	if err != nil {
		return err
	}
	eng, err := forebay.Open(cfg.dir, forebay.Options{Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := eng.Define(ctx, source(cfg.source, secret)); err != nil {
		return err
	}

	var draining atomic.Bool
	cfg.stream.Logger = logger
	srv := stream.Server(cfg.addr, handler(stream.Ingest(eng, cfg.stream), draining.Load))
	srv.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	listener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		return err
	}
	if cfg.admin != "" {
		stop, err := serveAdmin(cfg, eng, logger)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer stop()
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(stream.LimitConnections(listener, cfg.maxConnections)) }()

	endpoint := fmt.Sprintf("http://%s/stream/%d/%s/%s",
		listener.Addr(), cfg.stream.ProjectID, url.PathEscape(cfg.source), url.PathEscape(secret))
	fmt.Fprintf(out, welcome, endpoint)
	logger.Info("serving", "address", listener.Addr().String(), "directory", cfg.dir, "source", cfg.source)

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}

	draining.Store(true)
	logger.Info("stopping", "timeout", cfg.shutdownTimeout)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		logger.Warn("requests in progress were cut off", "error", err)
		srv.Close()
	}
	<-served
	if err := eng.FlushAll(end); err != nil {
		logger.Warn("not all rows are in the tables yet, they go on at the next start", "error", err)
	}
	logTotals(logger, eng.Stats())
	return nil
}

// welcome is printed at the start.
const welcome = `Post events to %[1]s

  curl -i -H 'Content-Type: application/json' -d '{"user":{"id":42}}' '%[1]s'

An event without user.id is answered 422: the table of whole events has it, the table of fields does not.

  curl -i -H 'Content-Type: application/json' -d '{"kind":"click"}' '%[1]s'

`

// handler answers the health check, and gives all else to ingest. It is no [http.ServeMux]: see [stream.Ingest].
func handler(ingest http.Handler, draining func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health-check" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			ingest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "draining")
			return
		}
		fmt.Fprint(w, "OK")
	})
}

// source stores every event as it is, and the fields of JSON events in a second table. The raw table rejects nothing;
// the second one needs user.id, which has no default.
func source(id, secret string) forebay.Source {
	return forebay.Source{ID: id, Secret: secret, Sinks: []forebay.Sink{
		{ID: "raw", Table: forebay.Table{ID: "in.c-" + id + ".raw", Columns: mapping.Columns{
			mapping.UUID("id"), mapping.Datetime("received_at"), mapping.IP("ip"), mapping.Headers("headers"), mapping.Body("body"),
		}}},
		{ID: "events", Table: forebay.Table{ID: "in.c-" + id + ".events", Columns: mapping.Columns{
			mapping.UUID("id"),
			mapping.Datetime("received_at"),
			mapping.Path("user", "user.id"),
			mapping.Path("kind", "kind", mapping.Default("unknown"), mapping.RawString()),
			mapping.Template("agent", `std.asciiLower(Header("User-Agent", "none"))`, mapping.RawString()),
		}}},
	}}
}

// sourceSecret makes a secret at the first start and keeps it, so that the URL survives restarts.
func sourceSecret(cfg config) (string, error) {
	if cfg.secret != "" {
		return cfg.secret, nil
	}
	path := filepath.Join(cfg.dir, "secret")
	b, err := os.ReadFile(path)
	if err == nil {
		secret := strings.TrimSpace(string(b))
		if secret == "" {
			return "", fmt.Errorf("%s is empty: write the secret of the source into it, or delete it and a new one is made", path)
		}
		return secret, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	secret := rand.Text() + rand.Text()
	return secret, writeDurably(path, secret+"\n")
}

// writeDurably makes a file that only its owner can read, there as a whole or not at all, also after a power cut.
func writeDurably(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
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
