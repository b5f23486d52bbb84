package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/otlpflat"
)

// serveConfig has the values of all flags, from the command line, the environment and the file, and the sources of the file.
type serveConfig struct {
	server.Config
	places
	nodeFlags
	file               string
	otlpGRPC, otlpHTTP string
	// archive is where sources keep their raw records, and archiveFor how long.
	archive    string
	archiveFor time.Duration
	// fromFile are the values of flags that the file has, by name. See parseServe.
	fromFile map[string]string
	// needsOTLP is set if the server has no use without a port of OTLP.
	needsOTLP bool
	// sources come from the file, or nil if it has none.
	sources []forebay.Source
	// telemetry names the tables of each source that has columns of otlpflat, for views.
	telemetry []otlpflat.ViewOptions
}

func (cfg *serveConfig) register(flags *flag.FlagSet) {
	cfg.Register(flags)
	cfg.places.register(flags)
	cfg.nodeFlags.register(flags)
	flags.StringVar(&cfg.file, "config", "", "YAML or JSON file with flags and sources; flags and environment take precedence (default none; e.g. forebay.yaml)")
	flags.StringVar(&cfg.archive, "archive", "", "location of the raw records of sources with \"archive: true\"; same forms as -staging (default none; e.g. s3://bucket/raw)")
	duration.Var(flags, &cfg.archiveFor, "archive-keep-for", 0, "age at which raw records are removed, a duration (default never; e.g. 90d)")
	flags.StringVar(&cfg.otlpGRPC, "otlp-grpc", "127.0.0.1:4317", "address for OTLP over gRPC, HOST:PORT, or off (e.g. 0.0.0.0:4317)")
	flags.StringVar(&cfg.otlpHTTP, "otlp-http", "127.0.0.1:4318", "additional address for OTLP over HTTP, HOST:PORT, or off (e.g. 0.0.0.0:4318)")
}

// parseServe reads flags, then the environment, then the file. The first that has a value wins. The error joins everything that is
// wrong.
func (p process) parseServe(name string, args []string, more func(*flag.FlagSet)) (*serveConfig, error) {
	return p.parse(name, args, verbFlags{register: more})
}

// verbFlags are the additions of a verb to the flags of serve. Each may be nil.
type verbFlags struct {
	register func(*flag.FlagSet)
	// complete may set further flags before all are checked. given names the flags that the command line or the environment has set.
	complete func(cfg *serveConfig, given map[string]bool) error
	// rest gets the arguments after the flags. Nil means that there must be none.
	rest *[]string
}

// parse is parseServe for a verb with additional flags.
func (p process) parse(name string, args []string, verb verbFlags) (*serveConfig, error) {
	cfg := new(serveConfig)
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	cfg.register(flags)
	main := serveFlags
	if verb.register != nil {
		before := flagTexts(flags)
		verb.register(flags)
		main = changed(before, flagTexts(flags))
	}
	if err := flagtext.Parse(flags, args, main...); err != nil {
		return nil, err
	}
	env := &variables{getenv: p.getenv}
	given, problems := server.Environment(flags, func(name string) string {
		value, _ := env.lookup(name)
		return value
	})
	cfg.secret, _ = p.getenv(secretVariable)
	if verb.rest != nil {
		*verb.rest = flags.Args()
		if err := flagtext.Misplaced(flags); err != nil {
			problems = append(problems, err)
		}
	} else if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q: flags begin with a dash", flags.Arg(0)))
	}
	var read *decoder // of the file, nil if there is none, or it cannot be read
	if cfg.file != "" {
		var err error
		if read, err = cfg.readFile(flags, given, env.lookup); err != nil {
			problems = append(problems, err)
		}
	}
	problems = append(problems, env.problems...)
	cfg.Optional = map[string]bool{}
	for _, name := range []string{"api-addr", "otlp-grpc", "otlp-http"} { // -addr takes the events, so serve needs it
		_, inFile := cfg.fromFile[name]
		cfg.Optional[name] = !given[name] && !inFile
	}
	for _, addr := range []*string{&cfg.otlpGRPC, &cfg.otlpHTTP} {
		if *addr == "off" {
			*addr = ""
		}
	}
	if verb.complete != nil {
		problems = append(problems, verb.complete(cfg, given))
	}
	cfg.tables = cfg.Tables
	wrong := append(append(cfg.Check(), cfg.places.check(cfg.Dir)...), cfg.checkArchive()...)
	wrong = append(wrong, cfg.checkNode()...)
	for _, one := range []struct{ flag, addr string }{{"otlp-grpc", cfg.otlpGRPC}, {"otlp-http", cfg.otlpHTTP}} {
		if one.addr != "" {
			wrong = append(wrong, server.CheckAddress(one.flag, one.addr))
		}
	}
	if cfg.sources != nil && cfg.Source != "" {
		wrong = append(wrong, server.WrongFlags("makes a source for the Stream API, which is off because the configuration file has sources: leave out one of them", "source"))
	}
	if read != nil {
		wrong = read.place(wrong, cfg.fromFile)
		if len(read.mistakes) > 0 {
			problems = append([]error{&mistakes{cfg.file, read.mistakes}}, problems...)
		}
	}
	return cfg, errors.Join(append(problems, wrong...)...)
}

// serveFlags are the flags that serve -h shows. The others follow with -h -all.
var serveFlags = []string{"addr", "api-addr", "config", "dir", "log-level", "max-disk-bytes", "source", "staging", "target", "ui"}

// flagTexts returns the usage of each flag by its name.
func flagTexts(flags *flag.FlagSet) map[string]string {
	texts := map[string]string{}
	flags.VisitAll(func(f *flag.Flag) { texts[f.Name] = f.Usage })
	return texts
}

// changed returns the names of flags that a verb has added or described again, and -config, -dir and -target.
func changed(before, after map[string]string) []string {
	names := []string{"config", "dir", "target"}
	for name, text := range after {
		if before[name] != text {
			names = append(names, name)
		}
	}
	return names
}

func (p process) serve(ctx context.Context, args []string) int {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // here alone, because other verbs end when their terminal is closed
	defer signal.Stop(hangups)
	p.reload = hangups
	cfg, err := p.parseServe("serve", args, nil)
	if err != nil {
		return p.end("serve", err, wrongUsage)
	}
	return p.end("serve", p.serveConfig(ctx, args, cfg), failed)
}

// warn logs the problems that check would report for the sources of the file without asking the target. Defining the sources asks it.
func (cfg *serveConfig) warn(logger *slog.Logger) {
	tables, err := cfg.sinkTables()
	if err != nil {
		return // defining the source reports it
	}
	for _, text := range cfg.misfits(tables) {
		logger.Warn("configuration does not fit the tables", "reason", text, "next", "change the sink or the table that the reason names")
	}
}

func (p process) serveConfig(ctx context.Context, args []string, cfg *serveConfig) (err error) {
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	logger := cfg.Logger(p.stderr, level)
	node, err := cfg.openNode(logger)
	if err != nil {
		return err
	}
	st, err := cfg.open(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	archive, closeArchive, err := cfg.openArchive(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeArchive()) }()
	meters, metrics, err := newMetrics()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, meters.Shutdown(context.WithoutCancel(ctx))) }()
	parts := server.Parts{
		Target: st.Target, Targets: st.Targets, Staging: st.Staging, Archive: archive, StagingText: cfg.staging, Inspect: "forebay inspect", DropTable: st.Drop, DropTables: st.Drops,
		Meter: meters.Meter("github.com/forebay/forebay"), Metrics: metrics, Logger: logger,
		OpenNode: node,
	}
	parts.Listen = func(eng *forebay.Engine, events http.Handler) ([]server.Listener, error) {
		return listenOTLP(cfg, eng, events, logger)
	}
	parts.Ready = func() { p.notify("READY=1", logger) }
	defer context.AfterFunc(ctx, func() { p.notify("STOPPING=1", logger) })()
	reloads, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	if cfg.sources != nil {
		parts.Define = func(ctx context.Context, eng *forebay.Engine) error {
			d := &definitions{eng: eng, logger: logger}
			if err := d.apply(ctx, cfg.sources); err != nil {
				switch refused := refusedLogin(err); {
				case refused != nil:
					return fmt.Errorf("-target: %w", refused)
				case cfg.file != "":
					err = fmt.Errorf("%s: %w", cfg.file, err)
				}
				return err
			}
			if cfg.file != "" {
				following.Go(func() { p.follow(reloads, args, cfg, d, level) })
			} else {
				following.Go(func() { p.refuse(reloads, logger) })
			}
			return nil
		}
	} else {
		following.Go(func() { p.refuse(reloads, logger) })
	}
	logger.Info("starting", "version", forebay.Version(), "target", cfg.kindName(), "config", cfg.file)
	cfg.warn(logger)
	cfg.refreshViews(logger)
	return server.Run(ctx, cfg.Config, parts, p.stdout)
}
