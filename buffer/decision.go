package buffer

import (
	"context"
	"fmt"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/missing"
)

// Decisions of the caller about a file whose target refuses some of its rows. The decision is on disk, in the record of the file, before the
// first call of the target that follows from it. After a crash, the next process or the instance's adopter continues with it.

// SplitFile continues with a file that is held because its target refuses rows of it and the cause is probably not in the rows. The rows that
// the target takes are imported, and the refused rows go to the quarantine. It overrides QuarantineBounds.HoldFiles for this file. The file is tried
// at once; SplitFile does not wait for it.
//
// Errors: [ErrUnknownSink], [ErrUnknownFile], [ErrNotHeld]. ErrNotHeld is also the error after a call of QuarantineFile.
func (h SinkHandle) SplitFile(ctx context.Context, fileID string) error {
	b, sinkID := h.b, h.id
	return b.decide(ctx, sinkID, fileID, b.mayDecide, func(t *txn, f *file, split *format.Split) error {
		switch {
		case split.Rest != nil:
			return fmt.Errorf("%w: file %s goes to the quarantine, as was asked before", ErrNotHeld, fileID)
		case f.rec.Retry.Refused == nil:
			return fmt.Errorf("%w: the last import of file %s has not failed because of its rows, so a split does not help: remove the cause and retry the file, or move it to the quarantine", ErrNotHeld, fileID)
		}
		split.Asked = 1
		split.Imports, split.Took = 0, 0
		why := f.rec.Retry.Reason
		t.onDurable(func() {
			b.log.Warn("held file split", "sink", sinkID, "file", fileID, "reason", why, "next", "accepted rows are imported; refused rows go to the quarantine")
		})
		return nil
	})
}

// QuarantineFile moves all rows of a file that are not in its table yet to the quarantine of the sink, with the words of the target, and ends
// the file. Its imports must have failed, for whatever reason. Rows that turn out to be in the table stay there. There the rows can be edited,
// and replayed when the cause is fixed. It does not wait for that.
//
// Errors: [ErrUnknownSink], [ErrUnknownFile], [ErrNotHeld], an [*OverloadError] if the quarantine has no room for so many.
func (h SinkHandle) QuarantineFile(ctx context.Context, fileID string) error {
	b, sinkID := h.b, h.id
	return b.decide(ctx, sinkID, fileID, b.mayDecide, func(t *txn, f *file, split *format.Split) error {
		switch {
		case split.Rest != nil:
			return nil // asked twice
		case f.rec.Retry.Attempt == 0:
			return fmt.Errorf("%w: no import of file %s has failed", ErrNotHeld, fileID)
		}
		if err := f.roomForRest(split); err != nil {
			return err
		}
		words := format.RefusedRow{Reason: "notImported"}
		if r := f.rec.Retry.Refused; r != nil {
			words = *r
		}
		held := driver.RowError{Message: "the file was held: " + f.rec.Retry.Reason}
		words.Row, words.Message = -1, held.Shown().Message
		split.Rest = &words
		rows, why := f.tally().Rows-split.Imported(), f.rec.Retry.Reason
		t.onDurable(func() {
			b.log.Warn("file moved to the quarantine", "sink", sinkID, "file", fileID, "rows", rows, "reason", why, "next", "replay or discard its records")
		})
		return nil
	})
}

// roomForRest returns an [*OverloadError] if the quarantine has no room for the rows that are not imported.
func (f *file) roomForRest(split *format.Split) error {
	s, q, sum := f.sink, &f.sink.rec.Quarantine, f.tally()
	rows := sum.Rows - split.Imported() - int64(split.Kept)
	size := rows*format.RejectOverhead + int64(float64(sum.Raw)*float64(rows)/float64(max(1, sum.Rows)))
	held, used := int64(s.held.len()), s.heldBytes
	if q.DropOldest { // all others may go for it
		held, used = 0, 0
	}
	if used+size <= q.MaxBytes && held+rows <= int64(q.MaxRecords) {
		return nil
	}
	return fmt.Errorf("the rest of the file has %d rows and about %d bytes: %w", rows, size,
		&OverloadError{Resource: "quarantine", Used: s.heldBytes, Limit: q.MaxBytes, RetryAfter: 0})
}

// decide changes the split of a file that waits for its import, and tries the file at once. split is a copy, of the whole file if it was not
// split yet. may says why nothing can be decided about the file. After an error nothing is changed.
func (b *Buffer) decide(ctx context.Context, sinkID, fileID string, may func(*file) error, change func(t *txn, f *file, split *format.Split) error) error {
	var refused error
	err := b.withSink(ctx, sinkID, func(_ *txn, s *sinkState) { _, refused = b.decidable(s, fileID, may) })
	if err == nil { // else the committer may still set refused
		err = refused
	}
	if err == nil {
		err = b.upgradeFor(format.Kept)
	}
	if err != nil {
		return err
	}
	err = b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		var f *file
		if f, refused = b.decidable(s, fileID, may); refused != nil {
			return
		}
		t.openQuarantine(s)
		split := format.Whole(fileID, f.tally().Rows)
		if f.rec.Split != nil {
			split = f.rec.Split.Clone()
		}
		if refused = change(t, f, split); refused != nil {
			return
		}
		t.setSplit(f, split)
		t.again(b.importErrand(f))
	})
	if err == nil {
		err = refused
	}
	return err
}

// decidable finds a file. The error says why nothing can be decided about it. Called with mu held.
func (b *Buffer) decidable(s *sinkState, fileID string, may func(*file) error) (*file, error) {
	for _, f := range s.files {
		if !f.done() && b.fileID(f) == fileID {
			return f, may(f)
		}
	}
	return nil, unknownFile(s.id, fileID)
}

// mayDecide says why nothing can be decided about a file. Called with mu held.
func (b *Buffer) mayDecide(f *file) error {
	target := b.targetOfFile(f)
	away, gone := target.(missing.Target)
	switch _, ok := target.(driver.Voider); {
	case gone:
		return fmt.Errorf("%w: %w", ErrNotHeld, away.Reason)
	case !ok:
		return fmt.Errorf("%w: its target cannot rule out an import: change the table so that it takes the rows and retry the file, or discard the file", ErrNotHeld)
	case f.rec.Leaving:
		return fileMoves(b.fileID(f))
	case f.rec.State != format.FileImporting:
		return fmt.Errorf("%w: file %s is not in staging yet", ErrNotHeld, b.fileID(f))
	}
	return nil
}
