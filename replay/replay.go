// Package replay maps the raw records of an archive again, with the current definition of a sink. An engine runs a replay:
//
//	progress, err := engine.Sink("web", "events").Replay(ctx, replay.Options{Run: "2026-11-typo"})
//
// The rows of a commit and the position after them are one batch of the buffer, so each record is stored once whatever fails.
package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/ids"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

var (
	// ErrNoArchive is returned by an engine that has no archive.
	ErrNoArchive = errors.New("the engine keeps no raw records: set Options.Archive")
	// ErrRuns is returned for a run that is in progress in this process.
	ErrRuns = errors.New("the run is in progress")
	// ErrOther is returned for a run that has begun with another archive or time range. Nothing was stored.
	ErrOther = errors.New("the run has begun with other options")
	// ErrElsewhere is returned for a run that another engine of the service has begun, or may have. Nothing was stored.
	ErrElsewhere = errors.New("the run is at another node")
	// ErrUnknownArchive is returned for an archive that has no records if no defined source keeps it. Nothing was stored.
	ErrUnknownArchive = errors.New("no such archive of raw records")
)

// Options limit the records of a run, and its speed.
type Options struct {
	// Run names the run: 1 to 48 characters of a-z, 0-9, '-' and '_', starting and ending with a letter or digit. A call with the same name
	// continues an interrupted run. A new name reads, and stores, everything again.
	Run string
	// Archived is the id of the source whose archive is read. The source may be removed. Default: the source of the sink.
	Archived string
	// Generation is the Source.Generation of that source, if it was removed. It is ignored for a source that is defined. Default: none.
	Generation string
	// From and To bound the arrival times. To is outside. Defaults: no lower bound, and the time when the run begins.
	From, To time.Time
	// RowsPerSecond bounds the rows and quarantined records in a second, on average. Default: 0, no bound.
	RowsPerSecond float64
	// Progress, if not nil, is called after each commit, by the goroutine of the call.
	Progress func(Progress)
}

// Validate reports all problems at once.
func (o Options) Validate() error {
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("ReplayOptions."+format, args...))
	}
	if err := ids.Validate(o.Run); err != nil {
		report("Run: %w", err)
	}
	if o.Archived != "" {
		if err := ids.Validate(o.Archived); err != nil {
			report("Archived: %w", err)
		}
	}
	if o.Generation != "" {
		if err := ids.Validate(o.Generation); err != nil {
			report("Generation: %w", err)
		}
	}
	if !o.To.IsZero() && !o.From.Before(o.To) {
		report("To is %s, which is not after From, %s", o.To, o.From)
	}
	if !(o.RowsPerSecond >= 0) {
		report("RowsPerSecond is %v, must not be negative", o.RowsPerSecond)
	}
	return errors.Join(problems...)
}

// Progress is how far a run has come. All of it is on disk.
type Progress struct {
	// Run is the name of the run, and Archived the source whose archive is read, with its Generation.
	Run        string `json:"run"`
	Archived   string `json:"archived"`
	Generation string `json:"generation,omitempty"`
	// From and To bound the arrival times.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Began is when the run began. Ended is when it was done, and zero before.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Records counts the records in the time range that were read. Each is Stored as a row, Rejected because it cannot be mapped,
	// Quarantined for the same reason in a sink with a quarantine, or Skipped because the sink does not take its signal.
	Records     int64 `json:"records"`
	Stored      int64 `json:"stored"`
	Rejected    int64 `json:"rejected"`
	Quarantined int64 `json:"quarantined"`
	Skipped     int64 `json:"skipped"`
	// Gone counts the objects that the retention of the archive removed before they were read to their end.
	Gone int64 `json:"gone"`
	// Object is the object that is read, and Row the number of its rows that were read.
	Object string `json:"object"`
	Row    int64  `json:"row"`
}

// archive names the archive that is read.
func (p Progress) archive() string { return kept.ArchiveID(p.Archived, p.Generation) }

// Done reports whether the run has ended.
func (p Progress) Done() bool { return !p.Ended.IsZero() }

// Archive is the part of the archive of an engine that a replay reads. The engine's Archive has the contract.
type Archive interface {
	// Objects returns the names of the objects that may have records of a time range, in ascending order.
	Objects(ctx context.Context, archive string, from, to time.Time) ([]string, error)
	// Open returns the rows of an object as CSV.
	Open(ctx context.Context, archive, object string) (io.ReadCloser, error)
}

// Host is the engine of a sink, as its replays need it.
type Host interface {
	// Sink returns the sink as it is defined now, if it accepts records.
	Sink(ctx context.Context) (Sink, error)
	// Source returns the settings of a source that a replay needs, or false if it is not defined.
	Source(id string) (Source, bool)
	// Elsewhere returns an error that matches [ErrElsewhere] if another engine of the service has begun a run for the sink, or may have.
	Elsewhere(ctx context.Context, run string) error
	// FlushArchive returns when the archive of a defined source has all records that were accepted before the call.
	FlushArchive(ctx context.Context, source string) error
	// Known puts the ids of the sink into the error of the buffer for an unknown sink. It returns other errors as they are.
	Known(err error) error
}

// Source is a defined source.
type Source struct {
	// Generation is the Source.Generation of the engine.
	Generation string
	// Archives is set if the source keeps its raw records.
	Archives bool
}

// Sink is one definition of a sink.
type Sink struct {
	// Handle is the sink in the buffer.
	Handle *buffer.DefinedSink
	// Mapper maps its records, to rows of at most MaxRowBytes.
	Mapper      *mapping.Mapper
	MaxRowBytes int
	// Takes reports whether the sink accepts records of a signal. The signal is empty for records that are no telemetry.
	Takes func(signal string) bool
	// Reject makes the entry of the quarantine for a record. It is nil for a sink without a quarantine.
	Reject func(rec *mapping.Record, cause error) (buffer.Reject, error)
	// Rejected counts a record that was not mapped.
	Rejected func(cause error)
}

// Replays are the replays of an engine. Use New to make them. They are safe for concurrent use.
type Replays struct {
	buf     *buffer.Buffer
	archive Archive
	runs    sync.Map // by runKey
}

// New returns the replays of an engine. archive is nil if it has none.
func New(buf *buffer.Buffer, archive Archive) *Replays { return &Replays{buf: buf, archive: archive} }

func runKey(sinkID, name string) string { return sinkID + "/" + name }

// Begin begins a run for a sink, by its name in the buffer. The caller calls [Run.Do] and then [Run.End].
func (r *Replays) Begin(ctx context.Context, sinkID string, host Host, opts Options) (*Run, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if r.archive == nil {
		return nil, ErrNoArchive
	}
	run := &Run{of: r, host: host, sinkID: sinkID, opts: opts}
	if err := run.link(ctx); err != nil {
		return nil, err
	}
	if _, runs := r.runs.LoadOrStore(run.key(), true); runs {
		return nil, fmt.Errorf("%w: %q: wait for its end, or use a different name", ErrRuns, opts.Run)
	}
	return run, nil
}

// None returns an error that matches [ErrRuns] while a run is in progress.
func (r *Replays) None() (err error) {
	r.runs.Range(func(key, _ any) bool {
		err = fmt.Errorf("%w: %s: wait for its end, or cancel it", ErrRuns, key)
		return false
	})
	return err
}

// List returns the runs that a sink remembers, in the order of their first start. Errors are of the buffer.
func (r *Replays) List(ctx context.Context, sinkID string) ([]Progress, error) {
	positions, err := r.buf.Sink(sinkID).Positions(ctx)
	if err != nil {
		return nil, err
	}
	var all []Progress
	for name, value := range positions {
		if !strings.HasPrefix(name, buffer.RunPosition) {
			continue
		}
		p, err := parseProgress(value)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Progress) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Run, b.Run)) })
	return all, nil
}

// Has reports whether a sink remembers a run, whether it is in progress in this process, or arrives from another engine. Errors are of the buffer.
func (r *Replays) Has(ctx context.Context, sinkID, name string) (bool, error) {
	if _, runs := r.runs.Load(runKey(sinkID, name)); runs {
		return true, nil
	}
	value, err := r.buf.Sink(sinkID).Position(ctx, buffer.RunPosition+name)
	switch {
	case errors.Is(err, buffer.ErrUnknownSink):
		return false, nil
	case errors.Is(err, buffer.ErrPositionArrives):
		return true, nil
	}
	return value != nil, err
}

// Forget deletes the position of a run, done or not. A later run of this name begins from the start. Errors are of the buffer, and [ErrRuns].
func (r *Replays) Forget(ctx context.Context, sinkID, name string) error {
	key := runKey(sinkID, name)
	if _, runs := r.runs.LoadOrStore(key, true); runs {
		return fmt.Errorf("%w: %q: wait for its end", ErrRuns, name)
	}
	defer r.runs.Delete(key)
	return r.buf.Sink(sinkID).SetPosition(ctx, buffer.Position{Name: buffer.RunPosition + name})
}

func parseProgress(value []byte) (p Progress, err error) {
	if err := json.Unmarshal(value, &p); err != nil {
		return p, fmt.Errorf("forebay: the position of a run cannot be read: %w", err)
	}
	return p, nil
}
