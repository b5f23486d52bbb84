package forebay

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/forebay/forebay/buffer"
)

// Ready returns nil when the engine can accept records, a [*buffer.FailedError] while the local level is reopened after a
// failure of its disk, a [*buffer.FencedError] permanently once another owner has the changelog, and [ErrClosed] after
// Close. It checks the bounds of the disk only with [buffer.Tuning] UnreadyWhenFull, and never the bounds of memory.
func (e *Engine) Ready() error {
	if e.closed.Load() {
		return ErrClosed
	}
	return e.buf.Ready()
}

// Forget deletes the counters of removed sinks, so that a new sink of the same id begins at zero and has no files. If the source is not
// defined either, the count of its dropped records is deleted too. Without sink ids only this count is deleted.
//
// The error is [buffer.ErrSinkInUse] for a sink that is defined or has rows on their way, and, without sink ids, for a source that
// is defined. Forget waits for calls that change definitions until ctx ends.
func (e *Engine) Forget(ctx context.Context, sourceID string, sinkIDs ...string) error {
	if err := e.lockDefinitions(ctx); err != nil { // or a new definition would count in a deleted counter
		return err
	}
	defer func() { <-e.define }()
	for _, sinkID := range sinkIDs {
		id, h := bufferID(sourceID, sinkID), e.Sink(sourceID, sinkID)
		if err := h.known(e.buf.Sink(id).Forget(ctx)); err != nil {
			return err
		}
		e.counts.Delete(id)
		e.slots.Delete(id)
		e.spans.Forget(id)
	}
	if _, defined := e.Source(sourceID); !defined {
		e.dropped.Delete(sourceID)
	} else if len(sinkIDs) == 0 {
		return fmt.Errorf("forget source %q: it is defined, remove it first: %w", sourceID, buffer.ErrSinkInUse)
	}
	return nil
}

// Checkpoint writes a copy of the data directory into a new folder while events keep flowing. See
// [buffer.Buffer.Checkpoint] for its contents. Open accepts the copy. It contains no staging and no tables, even if they
// are folders of the data directory, so open it with the Staging and Target of the original.
func (e *Engine) Checkpoint(ctx context.Context, dir string) error {
	local, err := localOf("checkpoint", dir)
	if err != nil {
		return err
	}
	return e.buf.Checkpoint(ctx, local)
}

// Snapshot writes a copy of the data directory into a new folder, for [Restore], and returns which batches of Options.Changelog are
// in it. See [buffer.Buffer.Snapshot].
func (e *Engine) Snapshot(ctx context.Context, dir string) (buffer.LogPosition, error) {
	local, err := localOf("snapshot", dir)
	if err != nil {
		return buffer.LogPosition{}, err
	}
	return e.buf.Snapshot(ctx, local)
}

// Restore rebuilds the data directory of another machine in dir from a folder of [Engine.Snapshot] or [Engine.Checkpoint], or none
// (""), and the later batches of its Options.Changelog. See [buffer.Restore]. Open it with the Staging and Target of the original.
func Restore(dir, checkpoint string, batches iter.Seq2[buffer.LogBatch, error], t buffer.Tuning) error {
	return restore(buffer.Restore, dir, checkpoint, batches, t)
}

// RestoreIncomplete is [Restore] for a log that has lost the batches after the last one. See [buffer.RestoreIncomplete].
func RestoreIncomplete(dir, checkpoint string, batches iter.Seq2[buffer.LogBatch, error], t buffer.Tuning) error {
	return restore(buffer.RestoreIncomplete, dir, checkpoint, batches, t)
}

type batches = iter.Seq2[buffer.LogBatch, error]

func restore(by func(dir, checkpoint string, _ batches, _ buffer.Tuning) error, dir, checkpoint string, list batches, t buffer.Tuning) error {
	local, err := localOf("restore", dir)
	if err != nil {
		return err
	}
	if checkpoint != "" {
		checkpoint = filepath.Join(checkpoint, localFolder)
	}
	return by(local, checkpoint, list, t)
}

// Inspect opens a checkpoint, or the data directory of a closed engine, read-only. See [buffer.Inspect]. Sinks are named
// "source/sink".
func Inspect(dir string, opts buffer.InspectOptions) (*buffer.Inspection, error) {
	if opts.TargetOf == nil {
		opts.TargetOf = Options{}.targetOf // an archive is not counted
	}
	return buffer.Inspect(filepath.Join(dir, localFolder), opts)
}
