package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/forebay/forebay"
)

// definitions are the sources of a configuration file in an engine.
type definitions struct {
	eng    *forebay.Engine
	logger *slog.Logger
	// current are the sources that are in force, or nil before the first.
	current []forebay.Source
}

// apply replaces the sources as a whole. If one cannot be defined, all are as before. Events are taken meanwhile, by the old or by the
// new definition of their source.
func (d *definitions) apply(ctx context.Context, next []forebay.Source) (err error) {
	var compiled []*forebay.Definition
	for _, source := range next {
		c, err := d.eng.Compile(source)
		if err != nil {
			return err
		}
		compiled = append(compiled, c)
	}
	opts := forebay.ApplyOptions{Creation: "config-" + strings.ToLower(rand.Text())}
	if d.current != nil { // at the start a sink whose table refuses new columns continues with the last accepted columns
		opts.Refuse = func(p forebay.TableProblem) bool { return !p.Known }
	}
	done := 0
	defer func() {
		if d.current == nil && refusedLogin(err) != nil {
			return // at the start of the server, which made no table
		}
		if err != nil {
			err = errors.Join(err, d.restore(context.WithoutCancel(ctx), next[:done], next, opts.Creation))
		}
	}()
	for _, c := range compiled {
		if _, err := c.Apply(ctx, opts); err != nil {
			return err
		}
		done++
	}
	for _, old := range d.current {
		if indexOf(next, old.ID) < 0 {
			if err := d.eng.Remove(ctx, old.ID); err != nil {
				return fmt.Errorf("remove source %q: %w", old.ID, err)
			}
		}
	}
	d.current = slices.Clip(next)
	return nil
}

// restore defines the former sources again, and removes the tables that the change has created.
func (d *definitions) restore(ctx context.Context, changed, next []forebay.Source, creation string) error {
	var problems []error
	for _, source := range changed {
		if i := indexOf(d.current, source.ID); i >= 0 {
			problems = append(problems, d.eng.Define(ctx, d.current[i]))
		} else {
			problems = append(problems, d.eng.Remove(ctx, source.ID))
		}
	}
	type table struct{ target, id string }
	used := map[table]bool{}
	for _, source := range d.current {
		if _, ok := d.eng.Source(source.ID); !ok { // it was removed already
			problems = append(problems, d.eng.Define(ctx, source))
		}
		for _, s := range source.Sinks {
			used[table{s.Table.Target, s.Table.ID}] = true
		}
	}
	var tables []forebay.Table
	for _, source := range next {
		for _, s := range source.Sinks {
			if key := (table{s.Table.Target, s.Table.ID}); !used[key] {
				used[key] = true
				tables = append(tables, s.Table)
			}
		}
	}
	problems = append(problems, d.eng.Uncreate(ctx, creation, tables...))
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("the former sources could not be restored completely: %w", err)
	}
	return nil
}

func indexOf(sources []forebay.Source, id string) int {
	return slices.IndexFunc(sources, func(s forebay.Source) bool { return s.ID == id })
}

// follow reads the configuration again, each time it is asked to, until ctx ends. A file with a mistake changes nothing.
func (p process) follow(ctx context.Context, args []string, cfg *serveConfig, d *definitions, level *slog.LevelVar) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.reload:
		}
		next, err := p.parseServe("serve", args, nil)
		if err == nil {
			err = cfg.fixed(next)
		}
		if err == nil {
			before := d.current
			if err = d.apply(ctx, next.sources); err == nil {
				added, changed, removed := compare(before, next.sources)
				d.logger.Info("configuration reloaded", "config", cfg.file, "sources", len(next.sources), "added", added, "changed", changed, "removed", removed)
				next.refreshViews(d.logger)
			}
		}
		if err != nil {
			d.logger.Error("configuration not reloaded", "config", cfg.file, "cause", err, "next", "correct the file and reload again")
			continue
		}
		level.Set(next.LogLevel)
		cfg = next
	}
}

// compare returns the ids of the sources that a reload adds, changes and removes.
func compare(before, after []forebay.Source) (added, changed, removed []string) {
	for _, source := range after {
		switch i := indexOf(before, source.ID); {
		case i < 0:
			added = append(added, source.ID)
		case !reflect.DeepEqual(before[i], source):
			changed = append(changed, source.ID)
		}
	}
	for _, source := range before {
		if indexOf(after, source.ID) < 0 {
			removed = append(removed, source.ID)
		}
	}
	return added, changed, removed
}

// refuse rejects requests to reload if there is nothing to reload.
func (p process) refuse(ctx context.Context, logger *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.reload:
			logger.Warn("nothing to reload", "next", "start the server with sources in -config")
		}
	}
}

// fixed returns an error that names the keys which next changes although a running server cannot change them.
func (cfg *serveConfig) fixed(next *serveConfig) error {
	var names []string
	for name, value := range cfg.fromFile {
		if other, ok := next.fromFile[name]; !ok || other != value {
			names = append(names, name)
		}
	}
	for name := range next.fromFile {
		if _, ok := cfg.fromFile[name]; !ok {
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "log-level" })
	slices.Sort(names)
	if next.sources == nil {
		names = append(names, "sources (all were removed; write an empty list to have none)")
	}
	if len(names) > 0 {
		return fmt.Errorf("cannot change while the server runs: %s; restart it, or restore the former values", strings.Join(names, ", "))
	}
	return nil
}
