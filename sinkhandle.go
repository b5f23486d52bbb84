package forebay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/tailrows"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/quarantine"
	"github.com/forebay/forebay/replay"
	"github.com/forebay/forebay/shadow"
)

// SinkHandle is one sink of an engine. See [Engine.Sink]. Its methods act on the sink and its files. A handle costs
// nothing. It is safe for concurrent use, and stays valid while the sink is defined again.
type SinkHandle struct {
	e            *Engine
	source, sink string
}

// Sink returns a handle of a sink. Neither the source nor the sink has to be defined. The methods of the handle state their
// requirements.
func (e *Engine) Sink(sourceID, sinkID string) SinkHandle { return SinkHandle{e, sourceID, sinkID} }

// id is the name of the sink in the buffer.
func (h SinkHandle) id() string { return bufferID(h.source, h.sink) }

// open returns the sink as it is defined now, if it accepts records.
func (h SinkHandle) open(ctx context.Context) (*source, *sink, error) {
	src, err := h.e.open(ctx, h.source)
	if err != nil {
		return nil, nil, err
	}
	s := src.sink(h.sink)
	if s == nil {
		return nil, nil, unknownSink(h.source, h.sink)
	}
	return src, s, nil
}

// known names the sink in an error of the buffer.
func (h SinkHandle) known(err error) error {
	if errors.Is(err, buffer.ErrUnknownSink) {
		return unknownSink(h.source, h.sink)
	}
	return err
}

// Retry repeats failed work of a sink at once, instead of waiting for the backoff. Use it after the cause was fixed. The
// sink need no longer be defined.
func (h SinkHandle) Retry(ctx context.Context) error {
	return h.known(h.e.buf.Sink(h.id()).Retry(ctx))
}

// RetryFile is [SinkHandle.Retry] for one file, see [buffer.SinkHandle.RetryFile].
func (h SinkHandle) RetryFile(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.Sink(h.id()).RetryFile(ctx, fileID))
}

// SplitFile continues with a file that is held because the target refuses rows of it. It is imported without them, although the cause is
// probably not in the rows. See [buffer.SinkHandle.SplitFile]. The sink need no longer be defined.
func (h SinkHandle) SplitFile(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.Sink(h.id()).SplitFile(ctx, fileID))
}

// QuarantineFile moves all rows of a file that are not in its table to the quarantine of the sink. See [buffer.SinkHandle.QuarantineFile]. The sink
// need no longer be defined.
func (h SinkHandle) QuarantineFile(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.Sink(h.id()).QuarantineFile(ctx, fileID))
}

// Discard discards a file that is not in its table yet. See [buffer.SinkHandle.Discard]. The ledger counts its rows as
// discarded. The sink need no longer be defined.
func (h SinkHandle) Discard(ctx context.Context, fileID string) error {
	return h.known(h.e.buf.Sink(h.id()).Discard(ctx, fileID))
}

// DiscardUpTo is [SinkHandle.Discard] for a file with at most so many rows, else it returns a [*buffer.FileGrewError]. See
// [buffer.SinkHandle.DiscardUpTo].
func (h SinkHandle) DiscardUpTo(ctx context.Context, fileID string, rows int64) error {
	return h.known(h.e.buf.Sink(h.id()).DiscardUpTo(ctx, fileID, rows))
}

// Slices returns the slices of a sink that still exist, oldest first. See [buffer.SinkHandle.Slices]. [buffer.Buffer.ReadSlice] reads one of them. The
// sink need no longer be defined.
func (h SinkHandle) Slices() []buffer.SliceStats {
	return h.e.buf.Sink(h.id()).Slices()
}

// Compile is [Engine.Compile] for one table of the sink, with the limits of the target of the table. The source and the sink need not be
// defined. It returns the error of [mapping.Compile], or an error that lists the known names if the engine has no target with the name.
func (h SinkHandle) Compile(t Table) (*mapping.Mapper, error) {
	if err := h.e.opts.unknownTarget(t.Target); err != nil {
		return nil, err
	}
	return h.e.mappers.Get(h.id(), t.Target, t.Columns)
}

// TracedCall is a call that has put rows into a sink. See [SinkHandle.TracedCalls].
type TracedCall struct {
	// At is when the rows of the call were accepted, in milliseconds.
	At time.Time
	// Span is the span of the call. Its trace is the trace of the caller or sender, if there is one.
	Span trace.SpanContext
}

// TracedCalls returns the last sampled calls that have put rows into the sink since the engine was opened, oldest first: 256 at most. Rows that were
// accepted at the time of a call are in the files and slices whose Level has that time between FirstAt and LastAt. Without
// Options.Tracer there are none. The caller owns the list.
func (h SinkHandle) TracedCalls() []TracedCall {
	var list []TracedCall
	for at, span := range h.e.spans.Recent(h.id()) {
		list = append(list, TracedCall{At: at, Span: span})
	}
	return list
}

// The types of [SinkHandle.Shadow] are declared in package shadow.
type (
	// Shadow maps the records of a sink with a changed mapping too, and compares the rows.
	Shadow = shadow.Shadow
	// ShadowOptions bound a shadow. The zero value works.
	ShadowOptions = shadow.Options
	// ShadowReport is the result of a shadow.
	ShadowReport = shadow.Report
	// ShadowColumn is one column of a report.
	ShadowColumn = shadow.Column
	// ShadowExample is a record with different cells in one column.
	ShadowExample = shadow.Example
	// ShadowCell is the cell of one record.
	ShadowCell = shadow.Cell
	// ShadowRejection is a kind of rejection by one mapping.
	ShadowRejection = shadow.Rejection
	// ShadowEnd says why a shadow has ended.
	ShadowEnd = shadow.End
)

// The ends of a shadow.
const (
	// ShadowRuns means that the shadow has not ended.
	ShadowRuns = shadow.Runs
	// ShadowTime: ShadowOptions.For has passed.
	ShadowTime = shadow.Time
	// ShadowRecords: ShadowOptions.Records were compared.
	ShadowRecords = shadow.Records
	// ShadowClosed: [Shadow.Close] or [Engine.Close] was called.
	ShadowClosed = shadow.Closed
	// ShadowRedefined means that the sink got other columns, or it was disabled or removed.
	ShadowRedefined = shadow.Redefined
	// ShadowFailed means that a mapping panicked.
	ShadowFailed = shadow.Failed
)

var (
	// ErrShadowed is returned by [SinkHandle.Shadow] for a sink that has a shadow already.
	ErrShadowed = shadow.ErrShadowed
	// ErrTooManyShadows is returned by [SinkHandle.Shadow] while the engine has 8 shadows.
	ErrTooManyShadows = shadow.ErrTooManyShadows
)

// Shadow maps the records of a sink with a changed mapping too, and reports the differences. The sink must be
// defined and enabled, and changed must have its id. Of changed only the mapping is tried, with the limits of the target that its
// Table.Target names. Its settings and its AllowedSignals do not count, and the target is not asked about its table. Nothing is stored, and
// no record fails because of the shadow.
//
// Callers copy their record. One goroutine of the shadow runs both mappings, so callers never wait for it. When the copies fill
// ShadowOptions.MaxBytes, further records are not copied, and are counted as dropped.
//
// The shadow ends after ShadowOptions.For, when the sink gets other columns, and with the engine. ctx is for the call alone. The shadow and
// its report need little memory after the end. Shadows do not survive the process.
//
// Shadow fails if the id of changed is a different one, or with [ErrUnknownSource], [ErrUnknownSink], a [*DefinitionError] with all
// problems of changed, the error of [ShadowOptions.Validate], [ErrShadowed], [ErrTooManyShadows], [ErrClosed] or the error of ctx.
func (h SinkHandle) Shadow(ctx context.Context, changed Sink, opts ShadowOptions) (*Shadow, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if changed.ID != h.sink {
		return nil, fmt.Errorf("shadow: the changed sink has the id %q, want %q, the id of the sink that it is compared with", changed.ID, h.sink)
	}
	e := h.e
	if err := e.lockDefinitions(ctx); err != nil {
		return nil, err
	}
	defer func() { <-e.define }()
	src := e.sources.Get(h.source)
	if src == nil {
		return nil, unknownSource(h.source)
	}
	live, def := src.sink(h.sink), src.def
	if live == nil {
		return nil, unknownSink(h.source, h.sink)
	}
	def.Sinks = slices.Clone(def.Sinks)
	def.Sinks[slices.IndexFunc(def.Sinks, func(s Sink) bool { return s.ID == h.sink })] = changed
	compiled, err := e.Compile(def)
	if err != nil {
		return nil, err
	}
	c := shadow.Comparison{
		Source: h.source, Sink: h.sink, Live: live.mapper, CurrentColumns: live.columns, ChangedColumns: changed.Table.Columns,
		MaxRowBytes: e.opts.MaxRowBytes, WholeRows: changed.Table.Target != live.target,
		Problems: slices.DeleteFunc(compiled.Problems(), func(p TableProblem) bool { return p.Sink != h.sink }),
	}
	ofCurrent, ofChanged := shadow.Differing(live.columns, changed.Table.Columns)
	for _, m := range []struct {
		mapper  **mapping.Mapper
		name    string
		target  string
		columns mapping.Columns
	}{
		{&c.Current, " current", live.target, live.columns},
		{&c.Changed, " changed", changed.Table.Target, changed.Table.Columns},
		{&c.PartOfCurrent, " current part", live.target, ofCurrent},
		{&c.PartOfChanged, " changed part", changed.Table.Target, ofChanged},
	} {
		if len(m.columns) == 0 {
			continue
		}
		if *m.mapper, err = e.mappers.Get(h.id()+m.name, m.target, m.columns); err != nil {
			return nil, err
		}
	}
	return e.shadows.Start(live.shadow, c, opts)
}

// The types of [SinkHandle.Replay] are declared in package replay.
type (
	// ReplayOptions say what [SinkHandle.Replay] reads, and how fast.
	ReplayOptions = replay.Options
	// ReplayProgress is how far a run has come.
	ReplayProgress = replay.Progress
)

var (
	// ErrNoArchive is returned by [SinkHandle.Replay] and [Engine.EraseArchive] of an engine without Options.Archive.
	ErrNoArchive = replay.ErrNoArchive
	// ErrReplayRuns is returned by [SinkHandle.Replay] for a run that is in progress in this process.
	ErrReplayRuns = replay.ErrRuns
	// ErrOtherReplay is returned by [SinkHandle.Replay] for a run that has begun with another archive or time range. Nothing was stored.
	ErrOtherReplay = replay.ErrOther
	// ErrReplayElsewhere is returned by [SinkHandle.Replay] for a run that another engine of the service has begun, or may have. See
	// Options.ReplayElsewhere. Nothing was stored.
	ErrReplayElsewhere = replay.ErrElsewhere
	// ErrUnknownArchive is returned by [SinkHandle.Replay] for an archive that has no records if no defined source keeps it. Nothing was stored.
	ErrUnknownArchive = replay.ErrUnknownArchive
)

// Replay maps the raw records of an archive with the current definition of a sink and stores the rows, in the order of the archive, by hour of
// arrival, and within an hour by import. Other sinks are not touched. It returns when all records in the time range that have arrived before the
// run began are stored, durably. It first waits until the archive of a defined source has the accepted records. Records that arrive later may be
// part of the run or not. The rows have the arrival times of the records.
//
// Rows are stored exactly once, because the rows of a commit and the position after them are one batch. After an error, the end of ctx or of the
// process, call it again with the same Run, and it continues after the last commit. A run that is done stores nothing more. The sink remembers
// 16 runs, and forgets the oldest finished run for a new one. See [SinkHandle.ForgetReplay]. The first run upgrades the data directory to version 3
// of its format, which earlier releases refuse.
//
// The sink's OnReject decides about records that the sink cannot map. They are counted, or put into the quarantine. Replay waits for room of memory,
// disk and sink, and fails with a [*buffer.OverloadError] when the quarantine is full. An object that is removed by the retention of the archive
// meanwhile is counted.
//
// Errors in addition to the errors of the archive: [ErrUnknownSource], [ErrDisabledSource], [ErrUnknownSink], the error of [ReplayOptions.Validate],
// [ErrNoArchive], [ErrUnknownArchive], [ErrReplayRuns], [ErrReplayElsewhere], [ErrEraseRuns], [ErrOtherReplay], [buffer.ErrTooManyPositions] with 16 runs that are not
// done, a [*buffer.FailedError], [ErrClosed], the error of ctx. The progress says how many records were stored before.
func (h SinkHandle) Replay(ctx context.Context, opts ReplayOptions) (ReplayProgress, error) {
	run, err := h.e.replays.Begin(ctx, h.id(), replayHost{h}, opts)
	if err != nil {
		return ReplayProgress{}, err
	}
	defer run.End()
	if h.e.erasing.Load() > 0 { // see Engine.Erase
		return ReplayProgress{}, fmt.Errorf("%w: repeat the call with the same run when they are", ErrEraseRuns)
	}
	return run.Do(ctx)
}

// Replays returns the runs that a sink remembers, in the order of their first start. Errors: [ErrUnknownSink], a [*buffer.FailedError], [ErrClosed],
// the error of ctx.
func (h SinkHandle) Replays(ctx context.Context) ([]ReplayProgress, error) {
	all, err := h.e.replays.List(ctx, h.id())
	return all, h.known(err)
}

// HasReplay reports whether the engine has begun a run of a sink and has not forgotten it since, or receives it from another engine. Errors: a
// [*buffer.FailedError], [ErrClosed], the error of ctx.
func (h SinkHandle) HasReplay(ctx context.Context, name string) (bool, error) {
	return h.e.replays.Has(ctx, h.id(), name)
}

// ForgetReplay deletes the position of a run in a sink, even if the run is not done. A later run of this name begins from the start. Its errors are the errors of
// [SinkHandle.Replays], and [ErrReplayRuns].
func (h SinkHandle) ForgetReplay(ctx context.Context, name string) error {
	return h.known(h.e.replays.Forget(ctx, h.id(), name))
}

// replayHost is the engine for replays of a sink.
type replayHost struct{ SinkHandle }

// Sink implements [replay.Host].
func (h replayHost) Sink(ctx context.Context) (replay.Sink, error) {
	src, s, err := h.open(ctx)
	if err != nil {
		return replay.Sink{}, err
	}
	def := src.def.Sinks[slices.IndexFunc(src.def.Sinks, func(d Sink) bool { return d.ID == s.id })]
	out := replay.Sink{
		Handle: s.handle, Mapper: s.mapper, MaxRowBytes: h.e.opts.MaxRowBytes, Rejected: s.count.Reject,
		Takes: func(signal string) bool { return def.takes(Signal(signal)) },
	}
	if s.keeps {
		out.Reject = func(rec *mapping.Record, cause error) (buffer.Reject, error) {
			return kept.Reject(rec, cause, s.name, src.redactor)
		}
	}
	return out, nil
}

// Source implements [replay.Host].
func (h replayHost) Source(id string) (replay.Source, bool) {
	src, ok := h.e.Source(id)
	return replay.Source{Generation: src.Generation, Archives: src.Archive != nil}, ok
}

// Elsewhere implements [replay.Host].
func (h replayHost) Elsewhere(ctx context.Context, run string) error {
	if h.e.opts.ReplayElsewhere == nil {
		return nil
	}
	return h.e.opts.ReplayElsewhere(ctx, h.source, h.sink, run)
}

// FlushArchive implements [replay.Host].
func (h replayHost) FlushArchive(ctx context.Context, source string) error {
	return h.e.Flush(ctx, source, ArchiveSink)
}

// Known implements [replay.Host].
func (h replayHost) Known(err error) error { return h.known(err) }

// The types of [SinkHandle.Quarantine] are declared in package quarantine.
type (
	// SinkQuarantine is the quarantine of one sink.
	SinkQuarantine = quarantine.Quarantine
	// QuarantineNote says who edits or discards records of a quarantine, and why.
	QuarantineNote = quarantine.Note
	// RejectedRecord is a record in the quarantine of a sink, without its content.
	RejectedRecord = quarantine.RejectedRecord
	// RejectedContent is a record in the quarantine with its content.
	RejectedContent = quarantine.Content
	// RejectedFilter selects records. A zero field selects all.
	RejectedFilter = quarantine.Filter
	// RejectedPage is a part of a quarantine. See [SinkQuarantine.Page].
	RejectedPage = quarantine.Page
	// ReplayResult counts what became of the records of a replay.
	ReplayResult = quarantine.ReplayResult
	// EditError is the error of an edit that does not fit a row that the target has refused.
	EditError = quarantine.EditError
)

// Quarantine returns the quarantine of a sink. Its records stay when the sink is defined without a quarantine, or removed.
func (h SinkHandle) Quarantine() SinkQuarantine {
	return quarantine.New(h.e.buf, quarantineHost{h}, h.e.log, h.source, h.sink)
}

// quarantineHost is the engine for the quarantine of a sink.
type quarantineHost struct{ SinkHandle }

// Sink implements [quarantine.Host].
func (h quarantineHost) Sink(ctx context.Context) (quarantine.Sink, error) {
	_, s, err := h.open(ctx)
	if err != nil {
		return quarantine.Sink{}, err
	}
	return quarantine.Sink{
		Handle: s.handle, Mapper: s.mapper, Columns: s.columns, MaxRowBytes: h.e.opts.MaxRowBytes, Mapping: s.name.Mapping, Version: s.name.Version,
	}, nil
}

// Known implements [quarantine.Host].
func (h quarantineHost) Known(err error) error { return h.known(err) }

// ErrOtherColumns is returned by [SinkHandle.AppendTail] for rows that were mapped with other columns than the sink has. None of them was stored.
var ErrOtherColumns = errors.New("the rows have other columns than the sink")

// AppendTail stores rows that another engine has mapped, and that are lost with it, as new rows of a sink. The pieces come from
// [buffer.Inspection.Tail], of that sink, in their order. It returns when they are acknowledged. Each piece is stored once under a name of up to 50
// bytes, however often the call is repeated with the same pieces, even after a crash, because the engine keeps under the name how many it has, until
// [SinkHandle.EndTail]. stored are the rows of this call.
//
// The upload, the quarantine and the counters of the sink treat them like any rows. Errors in addition to the errors of the buffer:
// [ErrUnknownSource], [ErrDisabledSource], [ErrUnknownSink], [ErrOtherColumns], [ErrClosed].
func (h SinkHandle) AppendTail(ctx context.Context, name string, pieces []buffer.TailRows) (stored int64, err error) {
	_, s, err := h.open(ctx)
	if err != nil {
		return 0, err
	}
	if !s.mapped(pieces) {
		return 0, fmt.Errorf("%w %q of source %q", ErrOtherColumns, h.sink, h.source)
	}
	stored, err = tailrows.Append(ctx, h.e.buf, s.handle, name, pieces)
	return stored, h.known(err)
}

// mapped reports whether rows have the columns of the sink.
func (s *sink) mapped(pieces []buffer.TailRows) bool {
	return !slices.ContainsFunc(pieces, func(p buffer.TailRows) bool { return !slices.Equal(p.Columns, s.mapper.Columns()) })
}

// HasColumns reports whether [SinkHandle.AppendTail] accepts the columns of rows.
func (h SinkHandle) HasColumns(pieces []buffer.TailRows) bool {
	src := h.e.sources.Get(h.source)
	if src == nil {
		return false
	}
	s := src.sink(h.sink)
	return s != nil && s.mapped(pieces)
}

// EndTail forgets how much [SinkHandle.AppendTail] has stored under a name. A later call of that would store everything again.
func (h SinkHandle) EndTail(ctx context.Context, name string) error {
	return h.known(tailrows.End(ctx, h.e.buf, h.id(), name))
}
