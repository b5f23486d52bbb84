package buffer

import (
	"context"
	"fmt"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
)

// Forget ends the memory of a sink that was dropped: its ledger begins at zero and its list of files is empty, as if there
// had never been one. It is for a sink whose table was deleted with it: the ledger of a sink that still has its table is
// what [Buffer.Verify] compares the table with. A sink that is defined in this process, or of which rows wait, is
// [ErrSinkInUse]. It may be repeated.
func (b *Buffer) Forget(ctx context.Context, sinkID string) error {
	inUse := false
	err := b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		waits := func(f *file) bool { return !f.done() }
		if inUse = s.def != nil && !s.rec.Dropped || slices.ContainsFunc(s.files, waits); inUse {
			return
		}
		s.rec = format.Sink{ID: s.id, Dropped: true, Life: s.rec.Life + 1}
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
