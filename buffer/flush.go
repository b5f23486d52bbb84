package buffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/trigger"
)

// HeldError says why rows are not in their table yet.
type HeldError struct {
	// SinkID and FileID name the file that is held up; SliceID is set when it is an upload.
	SinkID, FileID, SliceID string
	// Attempt is the number of failed attempts, RetryAfter the time of the next.
	Attempt    int
	RetryAfter time.Time
	// Rows are the rows of the file.
	Rows int64
	// Err is the cause, the last failure of a driver as text or the end of the caller's context.
	Err error

	firstFailed time.Time
	permanent   bool
}

func (e *HeldError) Error() string {
	where := "file " + e.FileID
	if e.SliceID != "" {
		where = "slice " + e.SliceID
	}
	switch {
	case e.Attempt == 1:
		where += " after 1 failed attempt"
	case e.Attempt > 1:
		where += fmt.Sprintf(" after %d failed attempts", e.Attempt)
	}
	if e.Attempt > 0 && !e.firstFailed.IsZero() {
		where += " since " + e.firstFailed.UTC().Format(time.RFC3339)
	}
	rows := "1 row is"
	if e.Rows != 1 {
		rows = fmt.Sprintf("%d rows are", e.Rows)
	}
	return fmt.Sprintf("sink %q: %s not in the table yet: %s: %v", e.SinkID, rows, where, e.Err)
}

func (e *HeldError) Unwrap() error { return e.Err }

// Flush is a barrier. When it returns nil, every row of the sink whose Append had returned before the call is in the
// table, or in the quarantine if the target refuses it. It closes the writing file and repeats failed attempts at once. It ends early
// with a [*HeldError] when a driver says that a retry alone will not help, when rows expire, or when ctx ends.
func (h SinkHandle) Flush(ctx context.Context) error {
	b, sinkID := h.b, h.id
	var waiting []*file
	var before []int64 // the attempts of the waiting files that began before the call, whose cause may have passed
	epoch := uint64(0)
	err := b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		epoch = b.store.Now().Epoch
		t.retryFailed(s) // before the newer rows, so that they do not overtake
		if s.file != nil {
			t.closeFile(s.file, trigger.Requested)
		}
		for _, f := range s.files {
			if !f.done() {
				waiting = append(waiting, f)
				before = append(before, f.attempts.Load())
			}
		}
	})
	if err != nil {
		return err
	}
	for {
		b.mu.RLock()
		changed := b.waitChange()
		again := b.store.Now().Epoch != epoch
		var held *HeldError
		left, first, hopeless, keeps := 0, "", false, false
		rows := int64(0)
		for i, f := range waiting {
			if f.rec.State == format.FileImported {
				keeps = keeps || f.rec.Split != nil && f.rec.Split.Kept > 0
				continue
			}
			if left++; left == 1 {
				first, rows = b.fileID(f), f.tally().Rows
			}
			if h := b.held(f); h != nil && (held == nil || h.Attempt > held.Attempt) {
				held = h
			}
			hopeless = hopeless || f.hopeless() && (f.failed > before[i] || f.done())
		}
		b.mu.RUnlock()
		if f := b.failure(); f != nil {
			return f
		}
		if again {
			return errReopened
		}
		if left == 0 && keeps {
			return b.do(ctx, func(*txn) {}) // after the commit by which the refused rows were added to the quarantine
		}
		if left == 0 {
			return nil
		}
		if hopeless && held != nil {
			return held
		}
		select {
		case <-changed:
		case <-b.closed:
			if f := b.failure(); f != nil {
				return f
			}
			return ErrClosed
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if held == nil {
				held = &HeldError{SinkID: sinkID, FileID: first, Rows: rows, Err: cause}
			} else {
				held.Err = fmt.Errorf("%w; the call did not wait longer: %w", held.Err, cause)
			}
			return held
		}
	}
}

// held describes the failure of a file, nil when nothing of it failed. Called with mu held.
func (b *Buffer) held(f *file) *HeldError { return b.heldFile(f, b.fileID(f)) }

// heldFile is held of a file whose id the caller has.
func (b *Buffer) heldFile(f *file, id string) *HeldError {
	h := &HeldError{SinkID: f.sink.id, FileID: id, Rows: f.tally().Rows}
	r, e := &f.rec.Retry, b.importErrand(f)
	if f.rec.State == format.FileWriting || f.rec.State == format.FileClosing {
		for _, sl := range f.slices {
			if sl.rec.State == format.SliceUploading && sl.rec.Retry.Attempt > 0 {
				h.SliceID, r, e = b.sliceID(sl), &sl.rec.Retry, b.uploadErrand(sl)
				break
			}
		}
	}
	if f.rec.State == format.FileDiscarded {
		h.Attempt, h.Err = r.Attempt, errDiscarded
		return h
	}
	if r.Attempt == 0 {
		if leased := f.leased.Load(); leased != nil && f.rec.State == format.FileImporting {
			h.Err = leased
			return h
		}
		return nil
	}
	h.Attempt, h.RetryAfter, h.Err = r.Attempt, r.After, retryReason(r.Reason)
	h.firstFailed, h.permanent = r.FirstFailed, r.Permanent
	if next := b.probes.next(e.key); next.After(h.RetryAfter) {
		h.RetryAfter = next // of the queue, because it was probed with other work since
	}
	return h
}

// hopeless reports whether the file has been given up, or failed last in a way that needs someone to fix the cause.
func (f *file) hopeless() bool {
	if f.rec.State == format.FileExpired || f.rec.State == format.FileDiscarded || f.rec.Retry.Permanent {
		return true
	}
	return slices.ContainsFunc(f.slices, func(sl *slice) bool { return sl.rec.Retry.Permanent })
}

// retryReason is a recorded failure. Its type was lost with the process that met it.
type retryReason string

func (r retryReason) Error() string { return string(r) }

var errDiscarded = errors.New("the file was discarded")

// Retry repeats at once what failed before at this sink, instead of waiting for the backoff.
func (h SinkHandle) Retry(ctx context.Context) error {
	return h.b.withSink(ctx, h.id, func(t *txn, s *sinkState) { t.retryFailed(s) })
}

// RetryFile is [SinkHandle.Retry] for one file. A file that has not failed is left as it is. A file that has ended, or that the
// sink does not have, is [ErrUnknownFile].
func (h SinkHandle) RetryFile(ctx context.Context, fileID string) error {
	known := false
	err := h.b.withSink(ctx, h.id, func(t *txn, s *sinkState) {
		for _, f := range s.files {
			if !f.done() && h.b.fileID(f) == fileID {
				known = true
				t.retryFile(f)
			}
		}
	})
	if err == nil && !known {
		err = unknownFile(h.id, fileID)
	}
	return err
}

// CloseFile closes the file that gathers rows now, so that it is uploaded and imported without waiting for its
// conditions. why is kept as the reason.
func (h SinkHandle) CloseFile(ctx context.Context, why trigger.Reason) error {
	return h.b.withSink(ctx, h.id, func(t *txn, s *sinkState) {
		if s.file != nil {
			t.closeFile(s.file, why)
		}
	})
}

// Drop ends a sink. Waiting rows are imported at once, the ledger stays. Handles stay usable. Define takes it up again.
func (h SinkHandle) Drop(ctx context.Context) error {
	return h.b.withSink(ctx, h.id, func(t *txn, s *sinkState) {
		if s.file != nil {
			t.closeFile(s.file, trigger.Stopped)
		}
		s.rec.Dropped = true
		t.touchSink(s)
	})
}

func (b *Buffer) withSink(ctx context.Context, sinkID string, op func(*txn, *sinkState)) error {
	known := true
	err := b.do(ctx, func(t *txn) {
		s := b.mu.sinks[sinkID]
		if known = s != nil; known {
			op(t, s)
		}
	})
	if err == nil && !known {
		err = fmt.Errorf("%w: %q", ErrUnknownSink, sinkID)
	}
	return err
}
