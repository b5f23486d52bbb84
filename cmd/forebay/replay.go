package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/replay"
)

// replay replays through the Stream API, or with sources of a file in an engine of this process.
func (p process) replay(ctx context.Context, args []string) int {
	named := func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && name == "config"
	}
	var err error
	if slices.ContainsFunc(args, named) {
		err = p.replayHere(ctx, args)
	} else {
		err = replay.Run(ctx, args, p.environment())
	}
	return p.endAPI("replay", err)
}

// replayHere is the action start with the sources of a configuration file. It opens the data directory, which no server may have open.
func (p process) replayHere(ctx context.Context, args []string) (err error) {
	if args[0] != "start" {
		return api.Wrong("with -config the action is start: the server has to be stopped, so there is nothing to list or to cancel")
	}
	var what replay.Selection
	var rest []string
	cfg, err := p.parse("replay", args[1:], verbFlags{register: what.Register, rest: &rest})
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err != nil {
		return api.Wrong("%w", err)
	}
	if len(rest) != 1 {
		return api.Wrong("name one sink as SOURCE/SINK, after the flags")
	}
	source, sink, err := api.SinkOf(rest[0])
	if err != nil {
		return err
	}
	o, err := what.Options()
	if err != nil {
		return err
	}
	at := indexOf(cfg.sources, source)
	if at < 0 || !slices.ContainsFunc(cfg.sources[at].Sinks, func(s forebay.Sink) bool { return s.ID == sink }) {
		return api.Wrong("%s has no sink %q of a source %q: name a sink of the file", cfg.file, sink, source)
	}
	if cfg.archive == "" {
		return api.Wrong("there is no archive: -archive, or the key archive of the file, says where it is")
	}
	return p.replayInto(ctx, cfg, source, sink, o)
}

// replayInto opens an engine, replays, and returns when the rows are in their table.
func (p process) replayInto(ctx context.Context, cfg *serveConfig, source, sink string, o forebay.ReplayOptions) (err error) {
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
	logger := cfg.Logger(p.stderr, nil)
	eng, err := forebay.Open(cfg.Dir, forebay.Options{Target: st.Target, Targets: st.Targets, Staging: st.Staging, Archive: archive, Logger: logger, Buffer: cfg.Tuning, MaxSources: cfg.MaxSources})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	// All sources are defined, so that waiting rows of the others continue too.
	if err := (&definitions{eng: eng, logger: logger}).apply(ctx, cfg.sources); err != nil {
		return fmt.Errorf("%s: %w", cfg.file, err)
	}
	shown := replay.Progress{Out: p.stderr}
	o.Progress = func(r forebay.ReplayProgress) { shown.Show(r.Records, r.Stored) }
	done, err := eng.Sink(source, sink).Replay(ctx, o)
	if err != nil {
		return fmt.Errorf("%d records were read before, and %d stored; the same -run continues there: %w", done.Records, done.Stored, err)
	}
	if err := eng.Flush(ctx, source, sink); err != nil {
		return fmt.Errorf("the run is done, but its rows are not in their table yet; the server brings them there: %w", err)
	}
	fmt.Fprintln(p.stdout, catalog.ArchiveReplay{Progress: done}.Sentence())
	return nil
}
