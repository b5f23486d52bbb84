// Package extract pulls records from an HTTP API, as a JSON configuration says, into tables of an embedded engine.
//
// The program waits for the disk after every page, and then saves the position. So a record that it has read comes to its table, whatever
// happens.
package extract

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/internal/program/show"
	"github.com/forebay/forebay/internal/program/store"
)

// Options are the differences between programs.
type Options struct {
	// Flags adds flags. Nil adds none.
	Flags func(*flag.FlagSet)
	// Open opens the tables of the engine. Nil is [store.Folders].
	Open store.Open
}

// usageError is a mistake in the flags or the files that they name.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ExitStatus is 0 without an error, 1 when the configuration, the API or the data must be looked at, and 2 for every other failure.
func ExitStatus(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return 1
	}
	return extractor.ExitStatus(err)
}

// verbs are the commands, which precede the flags.
var verbs = []struct{ name, summary string }{
	{"check", "log in, ask for the first page of each job, and say what ends it"},
	{"preview", "show the first records of each job as a table"},
	{"discover", "propose columns with types that the first records of each job fit"},
}

// Words are the most used words of a configuration, for a help text.
const Words = `
  api.authentication  login, basic, bearer, apiKey, query, oauth2, hmac
  api.pagination      response.url, response.link, response.param, response.header, offset, cursor
  api.http            format (json, ndjson, csv, xml), answerRules, trustedOrigins
  config.jobs         method (GET, POST, PUT, PATCH, FORM), incremental, windows, children
`

// usage shows the commands.
func usage(out io.Writer) {
	fmt.Fprint(out, "\nWithout a command, extract pulls all records. A command, before the flags, stores nothing:\n")
	for _, v := range verbs {
		fmt.Fprintf(out, "  %-10s %s\n", v.name, v.summary)
	}
}

type options struct {
	// verb is check, preview or discover, "" for a whole run.
	verb    string
	records int

	config, baseURL, state, out, data, columns string
	public, debug, strict                      bool
	open                                       store.Open
}

func parseFlags(args []string, stderr io.Writer, p Options) (options, error) {
	var o options
	for _, v := range verbs {
		if len(args) > 0 && args[0] == v.name {
			o.verb, args = v.name, args[1:]
			break
		}
	}
	flags := flag.NewFlagSet("extract", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.config, "config", "", "file with the configuration (default a bundled one; e.g. pull.json)")
	flags.StringVar(&o.baseURL, "base-url", "", "URL that replaces api.baseUrl (default api.baseUrl; e.g. http://127.0.0.1:9000)")
	flags.StringVar(&o.state, "state", "", "file with the state of runs, read and replaced (default none; e.g. state.json)")
	flags.StringVar(&o.out, "out", "", "folder for CSV and manifests, without an engine (default none; e.g. files)")
	flags.StringVar(&o.data, "data", "", "data directory of the engine (default a new temporary one; e.g. data)")
	flags.StringVar(&o.columns, "columns", "", "file with the output of discover, the columns of tables (default one column; e.g. columns.json)")
	flags.IntVar(&o.records, "records", 0, "records of each job that preview shows or discover reads (default 10 for preview, 1000 for discover; e.g. 50)")
	flags.BoolVar(&o.public, "public-only", false, "refuse connections to private addresses")
	flags.BoolVar(&o.strict, "strict", false, "fail where the log would warn that records may be missing")
	flags.BoolVar(&o.debug, "debug", false, "log every request")
	var own []string
	flags.VisitAll(func(f *flag.Flag) { own = append(own, f.Name) })
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flagtext.Parse(flags, args, own...); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			usage(stderr)
			return o, err
		}
		return o, usageError{err}
	}
	if flags.NArg() > 0 {
		return o, usageError{fmt.Errorf("there are no arguments, only flags, and check, preview or discover before them: %q", flags.Args())}
	}
	if o.columns != "" && (o.out != "" || o.verb != "") {
		return o, usageError{errors.New("-columns is for runs into an engine")}
	}
	if o.records < 0 || o.records > 0 && (o.verb == "" || o.verb == "check") {
		return o, usageError{errors.New("-records is a positive number for preview and discover")}
	}
	return o, nil
}

// Run is the whole program. [ExitStatus] says how it ends; [flag.ErrHelp] is no failure.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, p Options) error {
	o, err := parseFlags(args, stderr, p)
	if err != nil {
		return err
	}
	if o.open = p.Open; o.open == nil {
		o.open = store.Folders
	}
	text := toyConfig
	if o.config != "" {
		if text, err = keep.Read("config", o.config); err != nil {
			return usageError{err}
		}
	} else if o.baseURL == "" {
		toy, url, err := serveToy()
		if err != nil {
			return err
		}
		defer toy.Close()
		o.baseURL = url
	}
	cfg, err := extractor.ParseAt(text, o.baseURL)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if o.debug || cfg.Debug() {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	for _, w := range cfg.Warnings() {
		logger.Warn("configuration", "path", w.Path, "problem", w.Message)
	}
	return o.run(ctx, cfg, logger, stdout, stderr)
}

// run locks the files of the run and executes the verb.
func (o options) run(ctx context.Context, cfg *extractor.Config, logger *slog.Logger, stdout, stderr io.Writer) (err error) {
	file := stateFile(o.state)
	var locks runLock
	defer func() { err = errors.Join(err, locks.Close()) }()
	if file != "" {
		if err := locks.lock("the state "+o.state, o.state+".lock"); err != nil {
			return err
		}
	}
	state, err := file.load()
	if err != nil {
		return err
	}
	if file == "" && cfg.UsesRefreshToken() {
		const text = "the configuration has a refresh token, which the server may replace when it is used; without -state the new token is lost"
		if o.verb != "" {
			return usageError{errors.New(text + ": name a file with -state")}
		}
		logger.WarnContext(ctx, text)
	}
	opts := extractor.Options{Logger: logger, PublicOnly: o.public, Strict: o.strict}
	if o.verb != "" {
		if file != "" {
			opts.Checkpoint = func(_ context.Context, s extractor.State) error { return file.save(s) }
		}
		return look(ctx, cfg, state, opts, o, stdout)
	}
	line := show.NewProgress(stderr)
	opts.Progress = func(p extractor.Progress) {
		line.Show("%d pages, %d records, %.1f kB at %.1f kB/s, %d requests, %d retries",
			p.Pages, p.Records, float64(p.Bytes)/1000, p.BytesPerSecond()/1000, p.Requests, p.Retries)
	}
	if o.out != "" {
		if err := keep.Folder("out", o.out, 0o777); err != nil {
			return usageError{err}
		}
		if err := locks.lock("the folder "+o.out, filepath.Join(o.out, "extract.lock")); err != nil {
			return err
		}
		if file != "" { // the pulled pages are kept for a run that resumes
			opts.Spool = filepath.Join(o.out, "unfinished.pages")
			opts.Checkpoint = func(_ context.Context, s extractor.State) error { return file.save(s) }
		}
		state, err = extractor.RunTables(ctx, cfg, state, filepath.Join(o.out, "tables"), opts)
		line.End()
		if err != nil { // the state may have a new token
			return errors.Join(err, file.save(state))
		}
		fmt.Fprintf(stdout, "the tables are in %s\n", filepath.Join(o.out, "tables"))
		return file.save(state)
	}
	return pull(ctx, cfg, state, file, opts, o, stdout, line)
}

// pull runs the configuration into the tables of an engine.
func pull(
	ctx context.Context, cfg *extractor.Config, state extractor.State, file stateFile, opts extractor.Options, o options,
	stdout io.Writer, line *show.Progress,
) (err error) {
	if o.data == "" {
		if o.data, err = os.MkdirTemp("", "extract-*"); err != nil {
			return err
		}
		if file == "" {
			defer func() { err = errors.Join(err, os.RemoveAll(o.data)) }()
		} else { // the state counts on the rows that were read so far
			fmt.Fprintf(stdout, "the data directory of the engine is %s\n", o.data)
		}
	}
	e, err := openTables(o, state.Names, opts.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.eng.Close(), e.store.Close()) }()
	e.buckets = len(cfg.Buckets())
	opts.Emit = e.emit() // a page is on disk when Emit returns
	opts.Checkpoint = func(_ context.Context, s extractor.State) error {
		s.Names = e.source
		return file.save(s)
	}
	state, err = extractor.Run(ctx, cfg, state, opts)
	state.Names = e.source
	line.End()
	// After an error too, since the state then has the position at which the next run resumes.
	if err := errors.Join(err, file.save(state)); err != nil {
		return err
	}
	return e.report(ctx, stdout)
}
