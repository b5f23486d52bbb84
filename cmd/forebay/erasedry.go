package main

import (
	"context"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// stillTarget is a target during a dry run. No table is made or extended, and rows wait. It has no other optional interfaces, so nothing is
// compacted.
type stillTarget struct{ driver.Target }

// still returns a target that changes nothing.
func still(t driver.Target) driver.Target {
	if sql, ok := t.(driver.SQLTarget); ok {
		return stillSQL{stillTarget{t}, sql}
	}
	return stillTarget{t}
}

// Ensure implements [driver.Target].
func (stillTarget) Ensure(ctx context.Context, _ driver.Table) error { return context.Cause(ctx) }

// Extend implements [driver.Extender].
func (stillTarget) Extend(ctx context.Context, _ driver.Table) error { return context.Cause(ctx) }

// Import implements [driver.Target]. It waits for the end of the engine, so that no failure is recorded.
func (stillTarget) Import(ctx context.Context, _ *driver.File) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Limits implements [driver.Limiter].
func (t stillTarget) Limits() datatype.Limits {
	if l, ok := t.Target.(driver.Limiter); ok {
		return l.Limits()
	}
	return datatype.Limits{}
}

type stillSQL struct {
	stillTarget
	driver.SQLTarget
}

// stillArchive is an archive during a dry run.
type stillArchive struct {
	forebay.ArchiveReplacer
	stillTarget
}

// Ensure implements [driver.Target].
func (a stillArchive) Ensure(ctx context.Context, t driver.Table) error {
	return a.stillTarget.Ensure(ctx, t)
}

// Import implements [driver.Target].
func (a stillArchive) Import(ctx context.Context, f *driver.File) error {
	return a.stillTarget.Import(ctx, f)
}

// stillOptions makes the engine of a dry run change no table and no archive.
func stillOptions(o forebay.Options) forebay.Options {
	targets := make(map[string]driver.Target, len(o.Targets))
	for name, t := range o.Targets {
		targets[name] = still(t)
	}
	o.Target, o.Targets = still(o.Target), targets
	if a, ok := o.Archive.(forebay.ArchiveReplacer); ok {
		o.Archive = stillArchive{ArchiveReplacer: a}
	}
	return o
}
