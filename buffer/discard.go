package buffer

import (
	"context"
	"fmt"
	"math"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/trigger"
)

// discardJob sets the keys of jobs that discard apart from the keys of uploads and imports, which are numbers of slices and
// files.
const discardJob = 1 << 63

// Discard gives up a file that is not in its table yet. Its rows leave the buffer and the ledger counts them as
// discarded. It is for data that can never be imported and should not wait until Tuning.Retention. The ids come from
// [SinkStats]. A file that has ended, or that the sink does not have, is [ErrUnknownFile].
//
// A running upload or import of the sink ends first, so a file that turns out to be imported is not discarded. But a
// target that stored the rows of an earlier attempt and failed afterwards keeps them. That attempt counts as failed.
// An abandoned call of the target that has not returned may still store the rows. Then the file is not discarded, and
// the error is [ErrImportRuns]. When ctx ends during the wait the outcome is unknown.
func (h SinkHandle) Discard(ctx context.Context, fileID string) error {
	return h.b.discardUpTo(ctx, h.id, fileID, math.MaxInt64)
}

// DiscardUpTo is Discard for a caller that has agreed to lose a number of rows. A file that has more of them when its turn comes is not
// discarded, and the error is a [*FileGrewError]. A file that is written may receive rows while the call waits.
func (h SinkHandle) DiscardUpTo(ctx context.Context, fileID string, rows int64) error {
	return h.b.discardUpTo(ctx, h.id, fileID, rows)
}

func (b *Buffer) discardUpTo(ctx context.Context, sinkID, fileID string, most int64) error {
	unknown := unknownFile(sinkID, fileID)
	result := make(chan error, 1)
	known, epoch := false, uint64(0)
	err := b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		epoch = b.store.Now().Epoch
		for _, f := range s.files {
			if !f.done() && b.fileID(f) == fileID {
				known = true
				t.onDurable(func() { b.queueDiscard(f, most, func(err error) { result <- err }, unknown) })
			}
		}
	})
	switch {
	case err != nil:
		return err
	case !known:
		return unknown
	}
	for {
		b.mu.RLock()
		changed, again := b.waitChange(), b.store.Now().Epoch != epoch
		b.mu.RUnlock()
		if f := b.failure(); f != nil {
			return f
		}
		if again { // the job is gone with the workers
			return errReopened
		}
		select {
		case err := <-result:
			return err
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.closed:
			return ErrClosed
		}
	}
}

func unknownFile(sinkID, fileID string) error {
	return fmt.Errorf("%w: sink %q has no file %q that waits", ErrUnknownFile, sinkID, fileID)
}

// queueDiscard waits for the turns of the sink at both kinds of workers, so that no call of a driver runs meanwhile. It waits for the turn of imports
// first. Otherwise an import that hangs would keep a worker for uploads, which all targets share. Uploads never wait for imports, so the order
// cannot deadlock.
func (b *Buffer) queueDiscard(f *file, most int64, done func(error), unknown error) {
	key := discardJob | b.discards.Add(1)
	uploads := b.uploads
	b.importsOf(f).add(f.sink.num, job{key: key, run: func(ctx context.Context) {
		ended := make(chan struct{})
		uploads.add(f.sink.num, job{key: key, run: func(ctx context.Context) {
			defer close(ended)
			done(b.discard(ctx, f, most, unknown))
		}})
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}})
}

func (b *Buffer) discard(ctx context.Context, f *file, most int64, unknown error) error {
	over, runs, moves, grew := false, false, false, int64(0)
	err := b.do(ctx, func(t *txn) {
		if over = b.mu.files[f.num] != f || f.done(); over {
			return
		}
		if moves = f.rec.Leaving; moves {
			return
		}
		if runs = b.late.runs(f.num); runs {
			return
		}
		if rows := f.tally().Rows; rows > most {
			grew = rows
			return
		}
		if f.rec.State == format.FileWriting {
			t.closeFile(f, trigger.Requested)
		}
		t.ended(f, format.FileDiscarded)
		rows := f.rec.Rows
		t.onDurable(func() {
			// No next: the caller asked for it, and the rows are gone.
			b.log.Warn("file discarded", "sink", f.sink.id, "file", b.fileID(f), "rows", rows)
		})
	})
	if err == nil && over {
		err = unknown
	}
	if err == nil && moves {
		err = fileMoves(b.fileID(f))
	}
	if err == nil && runs {
		err = fmt.Errorf("%w: file %s", ErrImportRuns, b.fileID(f))
	}
	if err == nil && grew > 0 {
		err = &FileGrewError{Sink: f.sink.id, File: b.fileID(f), Rows: grew}
	}
	return err
}
