package forebay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay/buffer"
	dirdriver "github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/internal/ids"
	"github.com/forebay/forebay/internal/missing"
	"github.com/forebay/forebay/mapping"
)

// Options of an [Engine]. The zero value works. Rows end as CSV files in the folder "tables" of the data directory.
type Options struct {
	// Target holds the destination tables. Default: the directory driver on DIR/tables.
	Target driver.Target
	// Targets are additional targets by name. A name has the alphabet of Source.ID, and Table.Target refers to it. Each target has
	// buffer.Tuning.Imports workers, so a target that hangs does not delay the imports of other targets. A name must refer to the same target as long
	// as sinks or waiting rows use it. Rows that wait for a missing name are held and never expire, and Stats reports them. Default: all tables are in
	// Target.
	Targets map[string]driver.Target
	// Staging holds sealed slices until they are imported. Default: the directory driver on DIR/staging.
	Staging driver.Staging
	// Leases lets one process at a time use the tables of a Target that is [driver.Exclusive], while several processes feed them. Default: none.
	Leases driver.Leases
	// Archive keeps the raw records of sources with Source.Archive, for [SinkHandle.Replay]. Default: none. Then such sources are refused.
	Archive Archive
	// Changelog gets all batches of the local level, so that another machine can continue with [Restore] when this one is lost.
	// See [buffer.Options]. Default: none.
	Changelog buffer.Changelog
	// KnownElsewhere returns what calls with a key have stored at the other engines of one service, so that a call is recognized when it is repeated at
	// another engine, see [buffer.Buffer.Known]. It is asked for each call with a [Once] that has no Turn, after the call has its turn here. An error
	// refuses the call, see [ErrKeyUnclear]. Default: a call learns of calls to its engine alone. Package cluster sets it.
	KnownElsewhere func(ctx context.Context, key buffer.Key) ([]buffer.Receipt, error)
	// ReplayElsewhere returns an error that matches [ErrReplayElsewhere] if another engine of one service has begun a run of a sink, or may have. It is
	// asked before the engine begins a run that it does not remember. Default: an engine knows its own runs alone. Package cluster sets it.
	ReplayElsewhere func(ctx context.Context, source, sink, run string) error
	// OnDamage is called when the local level cannot be read back although the Changelog has it, and the engine stops. See
	// [buffer.Options]. Default: such rows are counted as damaged.
	OnDamage func(*buffer.StoreDamageError)
	// Logger gets what an operator should see. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
	// Meter gets the metrics of docs/metrics.md, with the attributes "source" and "sink". Default: nothing is
	// measured, at no cost.
	Meter metric.Meter
	// Hooks is a value that implements any of [CommitHook], [UploadHook], [ImportHook], [DeliverHook], [RejectHook] and [RefuseHook], for programs
	// with custom metrics. Default: none, at no cost.
	Hooks any
	// Tracer makes a span for each call that brings records, with a child span for its commit. It also makes a span for each upload and import. This
	// span links to the sampled calls whose rows it carries, at most 32 of the last 256 calls of its sink. docs/metrics.md lists the spans. Default:
	// nothing is traced, at no cost.
	Tracer trace.Tracer
	// Buffer tunes the bounds of memory and disk of the local level, its retries and its retention.
	Buffer buffer.Tuning
	// MaxRowBytes bounds one encoded row. Larger rows are rejected with a [*RowTooLargeError]. Default: 1536 KiB.
	MaxRowBytes int
	// MaxSources is the largest number of sources. Default: 100, the limit of a branch in the Stream API. Raise it, up to 100,000, for a service
	// with a source for each tenant.
	MaxSources int
	// Mapping are the budgets and compatibility switches of all mappers. The limits of a target that is a [driver.Limiter] are
	// added to Mapping.Limits.
	Mapping mapping.Options
}

// withDefaults returns a copy without zero fields.
func (o Options) withDefaults(dir string) Options {
	if o.Staging == nil {
		o.Staging = dirdriver.Staging(filepath.Join(dir, "staging"))
	}
	if o.Target == nil {
		o.Target = dirdriver.Tables(filepath.Join(dir, "tables"))
	}
	o.Targets = maps.Clone(o.Targets)
	o.Buffer = o.Buffer.WithDefaults()
	o.MaxRowBytes = cmp.Or(o.MaxRowBytes, 1536<<10)
	o.MaxSources = cmp.Or(o.MaxSources, DefaultMaxSources)
	o.Logger = warnlog.Or(o.Logger)
	return o
}

// Validate reports all problems at once. Zero fields count as their defaults.
func (o Options) Validate() error {
	o = o.withDefaults("")
	var problems []error
	if o.Hooks != nil && !isHook(o.Hooks) {
		problems = append(problems, fmt.Errorf("the value of Hooks is a %T, which implements no hook of this package", o.Hooks))
	}
	if o.MaxRowBytes < 1 || int64(o.MaxRowBytes) > 64<<20 {
		problems = append(problems, fmt.Errorf("MaxRowBytes is %d, allowed is 1 to %d", o.MaxRowBytes, 64<<20))
	}
	if o.MaxSources < 1 || o.MaxSources > 100_000 {
		problems = append(problems, fmt.Errorf("MaxSources is %d, allowed is 1 to 100000", o.MaxSources))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Targets)) {
		if err := ids.Validate(name); err != nil {
			problems = append(problems, fmt.Errorf("the name of a target in Targets: %w", err))
		} else if o.Targets[name] == nil {
			problems = append(problems, fmt.Errorf("the target %q in Targets is nil", name))
		}
	}
	return errors.Join(append(problems, o.Buffer.Validate(), o.Mapping.Validate())...)
}

// mapping returns the options of the mappers whose tables are in the named target.
func (o Options) mapping(name string) mapping.Options {
	m := o.Mapping
	if l, ok := o.TargetNamed(name).(driver.Limiter); ok {
		m.Limits = m.Limits.And(l.Limits())
	}
	return m
}

// TargetNamed returns the target with a name, as [Table] has it, for its abilities beyond [driver.Target], such as [driver.Querier]. The
// empty name is Options.Target. It returns nil for an unknown name. The engine alone imports.
func (o Options) TargetNamed(name string) driver.Target {
	if name == "" {
		return o.Target
	}
	return o.Targets[name]
}

// sharedMapping returns the options of the mappers of an engine by target.
func sharedMapping(o Options) func(target string) mapping.Options {
	all := map[string]mapping.Options{"": o.mapping("").Shared()}
	for name := range o.Targets {
		all[name] = o.mapping(name).Shared()
	}
	return func(target string) mapping.Options { return all[target] }
}

var errNoArchive = errors.New("raw records wait for an archive: open the engine with Options.Archive")

// targetOf returns the target of a sink that is not Options.Target.
func (o Options) targetOf(sinkID string) driver.Target {
	switch {
	case !strings.HasSuffix(sinkID, "/"+ArchiveSink):
		return nil
	case o.Archive == nil:
		return missing.Target{Reason: errNoArchive} // rows of an earlier process wait for it
	}
	return o.Archive
}

// unknownTarget returns the error for a table whose target is missing in the options.
func (o Options) unknownTarget(name string) error {
	if name == "" || o.Targets[name] != nil {
		return nil
	}
	if len(o.Targets) == 0 {
		return fmt.Errorf("Table.Target: %q, but the engine has no named targets: set Options.Targets, or leave Table.Target empty", name)
	}
	return fmt.Errorf("Table.Target: %q, must be one of %q or empty", name, slices.Sorted(maps.Keys(o.Targets)))
}
