package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/forebay/forebay/internal/program/duration"
)

// leftoverFlags are the flags of the verb orphans in addition to the flags of serve.
type leftoverFlags struct {
	remove          bool
	uploads, slices time.Duration
}

func (f *leftoverFlags) register(flags *flag.FlagSet) {
	flags.BoolVar(&f.remove, "remove", false, "remove the listed objects; without it, nothing changes")
	duration.Var(flags, &f.uploads, "uploads-older-than", 24*time.Hour, "least age of an open upload, a duration longer than any upload takes (e.g. 3d)")
	duration.Var(flags, &f.slices, "slices-older-than", 8*24*time.Hour, "least age of a slice, a duration in which you would notice a damaged data directory (e.g. 30d)")
}

func (p process) orphans(ctx context.Context, args []string) int {
	var f leftoverFlags
	var rest []string
	cfg, err := p.parse("orphans", args, verbFlags{register: f.register, rest: &rest})
	if err == nil && len(rest) > 1 {
		err = errors.New("name one data directory, after the flags")
	}
	if err != nil {
		return p.end("orphans", err, wrongUsage)
	}
	return p.sweep(ctx, cfg, f, rest)
}
