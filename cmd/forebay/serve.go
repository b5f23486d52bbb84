package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/duration"
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
	// fromFile are the values of flags that the file has, by name; see parseServe.
	fromFile map[string]string
	// needsOTLP is set if the server has no use without a port of OTLP.
	needsOTLP bool
	// sources come from the file; nil if it has none.
	sources []forebay.Source
	// telemetry names the tables of each source that has columns of otlpflat, for views.
	telemetry []otlpflat.ViewOptions
}

func (cfg *serveConfig) register(flags *flag.FlagSet) {
	cfg.Register(flags)
	cfg.places.register(flags)
	cfg.nodeFlags.register(flags)
	flags.StringVar(&cfg.file, "config", "", "YAML or JSON file with any of these flags, by name, and the sources; flags and environment win")
	flags.StringVar(&cfg.archive, "archive", "", "where sources keep their raw records if they say so: "+stagingForms()+" (default: none)")
	duration.Var(flags, &cfg.archiveFor, "archive-keep-for", 0, "age at which raw records are removed, for example 90d (default: never)")
	flags.StringVar(&cfg.otlpGRPC, "otlp-grpc", "127.0.0.1:4317", "address of OTLP over gRPC; off: none")
	flags.StringVar(&cfg.otlpHTTP, "otlp-http", "127.0.0.1:4318", "address of OTLP over HTTP, besides -addr; off: none")
}

// parseServe reads flags, then the environment, then the file: the first that has a value wins. The error joins everything that is
// wrong.
func (p process) parseServe(name string, args []string, more func(*flag.FlagSet)) (*serveConfig, error) {
	return p.parse(name, args, verbFlags{register: more})
}

// verbFlags are what a verb adds to the flags of serve. Each may be nil.
type verbFlags struct {
	register func(*flag.FlagSet)
	// complete may set further flags before all are checked. given names the flags that the command line or the environment has set.
	complete func(cfg *serveConfig, given map[string]bool) error
	// rest gets the arguments after the flags; nil: there must be none.
	rest *[]string
}

// parse is parseServe for a verb with flags of its own.
func (p process) parse(name string, args []string, verb verbFlags) (*serveConfig, error) {
	cfg := new(serveConfig)
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error, without a usage that hides it
	cfg.register(flags)
	if verb.register != nil {
		verb.register(flags)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			p.printFlags(flags, verb.register)
			return nil, err
		}
		return nil, fmt.Errorf("%w; \"forebay %s -h\" shows all", err, name)
	}
	env := &variables{getenv: p.getenv}
	given, problems := server.Environment(flags, func(name string) string {
		value, _ := env.lookup(name)
		return value
	})
	cfg.secret, _ = p.getenv(secretVariable)
	if verb.rest != nil {
		*verb.rest = flags.Args()
		if err := api.Misplaced(flags); err != nil {
			problems = append(problems, err)
		}
	} else if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q: flags begin with a dash", flags.Arg(0)))
	}
	var read *decoder // of the file; nil: there is none, or it cannot be read
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

// printFlags shows the flags of a verb. If the verb adds flags to those of serve, it shows the added flags only.
func (p process) printFlags(all *flag.FlagSet, register func(*flag.FlagSet)) {
	shown := flag.NewFlagSet(all.Name(), flag.ContinueOnError)
	shown.SetOutput(p.stderr)
	of := flag.NewFlagSet("", flag.ContinueOnError)
	new(serveConfig).register(of)
	all.VisitAll(func(f *flag.Flag) {
		if register == nil || of.Lookup(f.Name) == nil || of.Lookup(f.Name).Usage != f.Usage || f.Name == "config" {
			shown.Var(f.Value, f.Name, f.Usage)
		}
	})
	fmt.Fprintln(p.stderr, "Flags. Each has an environment variable, such as FOREBAY_API_ADDR for -api-addr:")
	shown.PrintDefaults()
	if register != nil {
		fmt.Fprintln(p.stderr, "It takes the flags of \"forebay serve -h\" too.")
	}
}

func (p process) serve(ctx context.Context, args []string) int {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // here alone: other verbs end when their terminal is closed
	defer signal.Stop(hangups)
	p.reload = hangups
	cfg, err := p.parseServe("serve", args, nil)
	if err != nil {
		return p.end("serve", err, wrongUsage)
	}
	return p.end("serve", p.serveConfig(ctx, args, cfg), failed)
}

// warn logs what check would report of the sources of the file without asking the target. Defining the sources asks it.
func (cfg *serveConfig) warn(logger *slog.Logger) {
	tables, err := cfg.sinkTables()
	if err != nil {
		return // defining the source reports it
	}
	for _, text := range cfg.misfits(tables) {
		logger.Warn("configuration does not fit the tables", "reason", text)
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
		Target: st.Target, Staging: st.Staging, Archive: archive, StagingText: cfg.staging, Inspect: "forebay inspect", DropTable: st.Drop,
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
	if err := cfg.refreshViews(logger); err != nil {
		return err
	}
	return server.Run(ctx, cfg.Config, parts, p.stdout)
}
