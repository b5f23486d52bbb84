// Command server is a long-running ingestion server with one source. Every flag has an environment variable with the prefix
// FOREBAY_, for example FOREBAY_ADDR for -addr; the flag wins.
//
//	go run ./examples/server -addr 127.0.0.1:8080 -dir data
//
// It prints the address of the source with a command to try it, and logs to standard error. On SIGTERM or an interrupt
// it stops accepting, answers the requests in progress, moves what waits to the tables and ends with status 0. When
// -shutdown-timeout is over before that, rows that still wait stay on disk and go on at the next start; nothing that
// was acknowledged is lost either way. A second signal ends it at once.
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
	"os"
	"os/signal"
	"path/filepath"
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
}

func parseConfig(args []string, getenv func(string) string, usage io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&cfg.addr, "addr", "127.0.0.1:8080", "address to listen on")
	flags.StringVar(&cfg.dir, "dir", "data", "data directory; the tables are in the folder tables of it")
	flags.StringVar(&cfg.source, "source", "web", "id of the source")
	flags.StringVar(&cfg.secret, "secret", "", "secret of the source (default: made at the first start, kept in DIR/secret)")
	flags.IntVar(&cfg.stream.ProjectID, "project", 1, "project id in the URL")
	flags.IntVar(&cfg.stream.MaxBodyBytes, "max-body-bytes", stream.DefaultMaxBodyBytes, "greatest body of a request")
	flags.Func("trusted-proxies", "networks whose X-Forwarded-For is believed, e.g. 10.0.0.0/8,fd00::/8", func(s string) error {
		cfg.stream.TrustedProxies = nil
		for network := range strings.SplitSeq(s, ",") {
			p, err := netip.ParsePrefix(strings.TrimSpace(network))
			if err != nil {
				return err
			}
			cfg.stream.TrustedProxies = append(cfg.stream.TrustedProxies, p)
		}
		return nil
	})
	flags.TextVar(&cfg.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.StringVar(&cfg.logFormat, "log-format", "text", "text or json")
	flags.DurationVar(&cfg.shutdownTimeout, "shutdown-timeout", 30*time.Second, "longest time to end in")

	var problems []error
	flags.VisitAll(func(f *flag.Flag) {
		name := "FOREBAY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := getenv(name); value != "" {
			if err := f.Value.Set(value); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	if cfg.logFormat != "text" && cfg.logFormat != "json" {
		problems = append(problems, fmt.Errorf("-log-format is %q, must be text or json", cfg.logFormat))
	}
	problems = append(problems, cfg.stream.Validate())
	return cfg, errors.Join(problems...)
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
	mux := http.NewServeMux()
	mux.Handle("/", stream.Ingest(eng, cfg.stream))
	mux.HandleFunc("GET /health-check", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if draining.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "draining")
			return
		}
		fmt.Fprint(w, "OK")
	})
	srv := stream.Server(cfg.addr, mux)
	srv.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	listener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()

	url := fmt.Sprintf("http://%s/stream/%d/%s/%s", listener.Addr(), cfg.stream.ProjectID, cfg.source, secret)
	fmt.Fprintf(out, "Post events to %s\n\n  curl -i -H 'Content-Type: application/json' -d '{\"user\":{\"id\":42}}' '%s'\n\n", url, url)
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

// source stores every event as it is, and the fields of JSON events in a second table. Nothing is rejected there
// either: each path has a default.
func source(id, secret string) forebay.Source {
	return forebay.Source{ID: id, Secret: secret, Sinks: []forebay.Sink{
		{ID: "raw", Table: forebay.Table{ID: "in.c-" + id + ".raw", Columns: mapping.Columns{
			mapping.UUID("id"), mapping.Datetime("received_at"), mapping.IP("ip"), mapping.Headers("headers"), mapping.Body("body"),
		}}},
		{ID: "events", Table: forebay.Table{ID: "in.c-" + id + ".events", Columns: mapping.Columns{
			mapping.UUID("id"),
			mapping.Datetime("received_at"),
			mapping.Path("user", "user.id", mapping.Default(nil)),
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
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	secret := rand.Text() + rand.Text()
	return secret, os.WriteFile(path, []byte(secret+"\n"), 0o600)
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
