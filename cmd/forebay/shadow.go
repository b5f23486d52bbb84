package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/shadow"
	"github.com/forebay/forebay/mapping"
)

func (p process) shadow(ctx context.Context, args []string) int {
	return p.endAPI("shadow", shadow.Run(ctx, args, p.environment(), shadow.Options{Columns: p.columnsOf}))
}

// columnsOf returns the columns that a sink has in a configuration file, which must have no mistake.
func (p process) columnsOf(file, source, sink string) (mapping.Columns, error) {
	cfg, err := p.parseServe("shadow", []string{"-config=" + file}, nil)
	if err != nil {
		return nil, err
	}
	if at := indexOf(cfg.sources, source); at >= 0 {
		sinks := cfg.sources[at].Sinks
		if i := slices.IndexFunc(sinks, func(s forebay.Sink) bool { return s.ID == sink }); i >= 0 {
			return sinks[i].Table.Columns, nil
		}
	}
	return nil, fmt.Errorf("%s has no sink %q of a source %q: name a sink of the file", file, sink, source)
}
