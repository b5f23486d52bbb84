package catalog

import (
	"context"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// SinkHandle is one sink: its quarantine, its files, its counters, its token and its shadow. See [Catalog.Handle] and [Maintenance.Handle]. A handle costs nothing
// and is safe for concurrent use. Each method with an error returns [SourceNotFound] or [SinkNotFound] for a sink that does not exist.
type SinkHandle struct {
	on  maintained
	ref Ref
}

// Handle returns a handle of a sink. The sink need not exist.
func (c *Catalog) Handle(sourceID, id string) SinkHandle { return SinkHandle{c, Ref{sourceID, id}} }

// Handle returns a handle of a sink. The sink need not exist.
func (m *Maintenance) Handle(sourceID, id string) SinkHandle { return SinkHandle{m, Ref{sourceID, id}} }

// maintained has the quarantines, files, counters, tokens and shadows of sinks: a [Catalog] or a [Maintenance].
type maintained interface {
	listRejected(ctx context.Context, ref Ref, f forebay.RejectedFilter, limit int) (RejectedPage, error)
	rejectedRecord(ctx context.Context, ref Ref, recordID string) (forebay.RejectedContent, error)
	editRejected(ctx context.Context, by By, ref Ref, recordID string, revision int, body []byte) error
	testRejected(ctx context.Context, ref Ref, recordID string) ([]TestedCell, error)
	replayRejected(ctx context.Context, ref Ref, recordID string) (RejectsResult, error)
	discardRejected(ctx context.Context, by By, ref Ref, recordID, reason string) error
	replayRejects(ref Ref, s RejectedSelection) (Task, error)
	discardRejects(by By, ref Ref, s RejectedSelection, reason string) (Task, error)
	cancelRejects(ctx context.Context, ref Ref) (Task, error)
	sinkStatistics(ctx context.Context, ref Ref) (Statistics, error)
	shadow(ctx context.Context, ref Ref, change shadowChange, opts forebay.ShadowOptions) (forebay.ShadowReport, error)
	shadowReport(ref Ref) (forebay.ShadowReport, error)
	endShadow(ref Ref) (forebay.ShadowReport, error)
	onFile(ctx context.Context, r request) error
	token(ref Ref) (Token, bool)
}

// Rejected lists the quarantine of a sink, at most limit records that f selects. f.After is the Next of the page before. The work of each
// instance is bounded as in [forebay.SinkQuarantine.Page]. Only with f.Content does it read the content of records.
// On a store that several catalogs share it asks all nodes, and waits 2 s at most.
func (h SinkHandle) Rejected(ctx context.Context, f forebay.RejectedFilter, limit int) (RejectedPage, error) {
	return h.on.listRejected(ctx, h.ref, f, limit)
}

// RejectedRecord returns a record of a quarantine with its content. On a store that several catalogs share it may be at any node.
func (h SinkHandle) RejectedRecord(ctx context.Context, recordID string) (forebay.RejectedContent, error) {
	return h.on.rejectedRecord(ctx, h.ref, recordID)
}

// EditRejected replaces the body of a record. See [forebay.SinkQuarantine.Edit]. The error is [RecordChanged] if revision is not the last one.
// A body for another node must be below 1 MB when it is compressed. The record keeps the name of by.
func (h SinkHandle) EditRejected(ctx context.Context, by By, recordID string, revision int, body []byte) error {
	return h.on.editRejected(ctx, by, h.ref, recordID, revision, body)
}

// TestRejected maps a record by the definition of now and stores nothing. The error is [SinkDisabled] for a sink that accepts no events.
func (h SinkHandle) TestRejected(ctx context.Context, recordID string) ([]TestedCell, error) {
	return h.on.testRejected(ctx, h.ref, recordID)
}

// ReplayRejected replays one record at once. See [forebay.SinkQuarantine.Replay]. The record becomes one row, however often it is called.
func (h SinkHandle) ReplayRejected(ctx context.Context, recordID string) (RejectsResult, error) {
	return h.on.replayRejected(ctx, h.ref, recordID)
}

// DiscardRejected deletes one record permanently. The log of its node has the caller and the reason, which may be empty.
func (h SinkHandle) DiscardRejected(ctx context.Context, by By, recordID, reason string) error {
	return h.on.discardRejected(ctx, by, h.ref, recordID, reason)
}

// ReplayRejects starts a task that replays the records of a selection. See [forebay.SinkQuarantine.Replay]. Each becomes one row, whatever
// fails and however often it is started. Records that are rejected after its start wait for the next one. Its Task.Rejects counts the records,
// even if the task has failed. [SinkHandle.CancelRejects] ends it. One replay or discard of a sink excludes others, and no change of the sink.
func (h SinkHandle) ReplayRejects(s RejectedSelection) (Task, error) {
	return h.on.replayRejects(h.ref, s)
}

// DiscardRejects starts a task that permanently deletes the records of a selection, as [SinkHandle.ReplayRejects] replays them. Task.Discard has
// the caller and the reason, which may be empty, and so has a line in the log when the task ends.
func (h SinkHandle) DiscardRejects(by By, s RejectedSelection, reason string) (Task, error) {
	return h.on.discardRejects(by, h.ref, s, reason)
}

// CancelRejects ends the replay of rejected records that runs for a sink, at whichever node, and returns its task, which ends soon, between two of
// its steps, so each record is a row or still in the quarantine, and Task.Rejects counts the result. If none runs it returns the last one that
// is kept. Without one the error is [TaskNotFound], and a [*MissingError] if the node that has it does not respond.
func (h SinkHandle) CancelRejects(ctx context.Context) (Task, error) {
	return h.on.cancelRejects(ctx, h.ref)
}

// Token returns the token that imports the rows of the sink. This is its own token or, for the remaining rows of a sink that accepts no
// events, the last one it had. It reports false if there is none, which is always so in a [Maintenance].
func (h SinkHandle) Token() (Token, bool) { return h.on.token(h.ref) }

// Statistics returns the counters of a sink. See [Catalog.Statistics].
func (h SinkHandle) Statistics(ctx context.Context) (Statistics, error) {
	return h.on.sinkStatistics(ctx, h.ref)
}

// RetryFile is [Catalog.Retry] for one file of a sink.
func (h SinkHandle) RetryFile(ctx context.Context, fileID string) error {
	return h.onFile(ctx, opRetry, fileID)
}

// DiscardFile gives up a file of a sink that is not in its table yet, see [forebay.SinkHandle.Discard]. Its rows are lost, and
// counted as discarded. On a store that several catalogs share the file may be at any node. If the nodes that respond do not have it
// and one does not respond, the error is a [*MissingError].
func (h SinkHandle) DiscardFile(ctx context.Context, fileID string) error {
	return h.onFile(ctx, opDiscard, fileID)
}

// SplitFile continues with a file that is held because the target refuses rows of it, see [forebay.SinkHandle.SplitFile]. A file that is not held for
// that is refused with [FileNotHeld]. On a store that several catalogs share it is like [SinkHandle.DiscardFile].
func (h SinkHandle) SplitFile(ctx context.Context, fileID string) error {
	return h.onFile(ctx, opSplitFile, fileID)
}

// QuarantineFile moves the rows of a file that are not in its table to the quarantine of the sink, see [forebay.SinkHandle.QuarantineFile]. It is
// refused with [FileNotHeld] or [QuarantineFull]. On a store that several catalogs share it is like [SinkHandle.DiscardFile].
func (h SinkHandle) QuarantineFile(ctx context.Context, fileID string) error {
	return h.onFile(ctx, opQuarantineFile, fileID)
}

func (h SinkHandle) onFile(ctx context.Context, op, fileID string) error {
	return h.on.onFile(ctx, request{Op: op, Source: h.ref.Source, Sinks: []string{h.ref.Sink}, File: fileID})
}

// Shadow runs other columns of a sink next to its own, on the records that arrive at the engine of this catalog. See
// [forebay.SinkHandle.Shadow]. Nothing is stored. The report is for users who may see records.
//
// Errors: [BadRequest] for columns or options that break a rule, [SinkDisabled], [ShadowRuns], [ShadowLimit].
func (h SinkHandle) Shadow(ctx context.Context, columns mapping.Columns, opts forebay.ShadowOptions) (forebay.ShadowReport, error) {
	return h.on.shadow(ctx, h.ref, withColumns(columns), opts)
}

// ShadowReport returns the findings of the last shadow of a sink so far. Without one since [Open] the error is [ShadowNotFound].
func (h SinkHandle) ShadowReport() (forebay.ShadowReport, error) { return h.on.shadowReport(h.ref) }

// ShadowCopy is [SinkHandle.Shadow] with the table of another sink of the source, which is a copy. It uses the columns
// of the copy and the limits of its target. So the report compares the rows that the two tables get, before [Catalog.SwitchToCopy].
// Further errors: [SinkNotFound] for the copy.
func (h SinkHandle) ShadowCopy(ctx context.Context, copyID string, opts forebay.ShadowOptions) (forebay.ShadowReport, error) {
	return h.on.shadow(ctx, h.ref, withTableOf(copyID), opts)
}

// EndShadow ends the shadow of a sink, waits until the records that wait are compared, and returns the last report, which [SinkHandle.ShadowReport]
// has from then on. It may be repeated. Without a shadow since [Open] the error is [ShadowNotFound].
func (h SinkHandle) EndShadow() (forebay.ShadowReport, error) { return h.on.endShadow(h.ref) }
