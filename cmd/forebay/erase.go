package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/erase"
)

// erase erases the records of a person through the Stream API, or with sources of a file in an engine of this process.
func (p process) erase(ctx context.Context, args []string) int {
	named := func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && name == "config"
	}
	var err error
	if slices.ContainsFunc(args, named) {
		err = p.eraseHere(ctx, args)
	} else {
		err = erase.Run(ctx, args, p.environment())
	}
	return p.endAPI("erase", err)
}

// eraseHere opens the data directory, which no server may have open.
func (p process) eraseHere(ctx context.Context, args []string) (err error) {
	var what erase.Selection
	var rest []string
	cfg, err := p.parse("erase", args, verbFlags{register: what.Register, rest: &rest})
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err != nil {
		return api.Wrong("%w", err)
	}
	if len(rest) > 0 {
		return api.Wrong("unexpected argument %q: erase has flags only", rest[0])
	}
	m, err := what.Match(p.stdin)
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
	logger := cfg.Logger(p.stderr, nil)
	opts := forebay.Options{Target: st.Target, Targets: st.Targets, Staging: st.Staging, Archive: archive, Logger: logger, Buffer: cfg.Tuning, MaxSources: cfg.MaxSources}
	if m.DryRun {
		opts = stillOptions(opts)
	}
	eng, err := forebay.Open(cfg.Dir, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := (&definitions{eng: eng, logger: logger}).apply(ctx, cfg.sources); err != nil {
		return fmt.Errorf("%s: %w", cfg.file, err)
	}
	found, err := eng.Erase(ctx, m)
	if err != nil && found.Match == "" {
		return err
	}
	report := erase.ReportOf(found, err)
	if !what.JSON() {
		return report.Show(p.stdout)
	}
	text, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s\n", text)
	return report.Err()
}
