package buffer

import (
	"context"
	"fmt"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
)

// Forget deletes the counters and the list of files of a dropped sink. A new sink with the id begins at zero. Call it when the
// table is deleted too, because [Buffer.Verify] compares a table with these counters. The error is [ErrSinkInUse] if the sink
// is defined in this process, rows of it wait or arrive from another engine, or records are in its quarantine. Forget may be repeated.
func (h SinkHandle) Forget(ctx context.Context) error {
	b, sinkID := h.b, h.id
	inUse := false
	err := b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		waits := func(f *file) bool { return !f.done() }
		if inUse = s.def != nil && !s.rec.Dropped || slices.ContainsFunc(s.files, waits) || len(s.arrivingFiles) > 0 || s.held.len() > 0; inUse {
			return
		}
		t.dropArriving(s, func(*arriving) bool { return true })
		q := s.rec.Quarantine // handles of earlier definitions stay usable, so its bounds stay
		s.rec = format.Sink{ID: s.id, Dropped: true, Life: s.rec.Life + 1, Quarantine: format.Quarantine{
			MaxBytes: q.MaxBytes, MaxRecords: q.MaxRecords, MaxAge: q.MaxAge, DropOldest: q.DropOldest,
		}}
		t.touchSink(s)
		s.files = slices.DeleteFunc(s.files, func(f *file) bool {
			if len(f.slices) > 0 { // its staged objects are about to be deleted
				f.rec.Forgotten = true
				t.touchFile(f)
				return false
			}
			delete(b.mu.files, f.num)
			t.dropFile = append(t.dropFile, f)
			return true
		})
		t.onDurable(func() { b.log.Info("sink forgotten", "sink", s.id) })
	})
	if err == nil && inUse {
		err = fmt.Errorf("%w: %q", ErrSinkInUse, sinkID)
	}
	return err
}

// EndKeys says that the next definition of a sink is a different sink, which does not know the keys of the present sink. The keys are known
// until that definition. The ledger stays.
func (h SinkHandle) EndKeys(ctx context.Context) error {
	return h.b.withSink(ctx, h.id, func(t *txn, s *sinkState) {
		s.rec.KeysEnd = true
		t.touchSink(s)
	})
}
