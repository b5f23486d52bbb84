package buffer

import (
	"context"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// queueCleanup asks for Staging.Delete of the objects of an ended file.
func (b *Buffer) queueCleanup(f *file) {
	b.cleanups.add(f.sink.num, job{key: f.num, run: func(ctx context.Context) { b.cleanup(ctx, f) }})
}

func (b *Buffer) cleanup(ctx context.Context, f *file) {
	b.mu.RLock()
	id := b.fileID(f)
	var objs []driver.Object
	again, e := false, b.cleanupErrand(f)
	for _, sl := range f.slices {
		objs = append(objs, b.object(sl))
		again = again || sl.rec.Retry.Attempt > 0
	}
	b.mu.RUnlock()
	if !b.enter(e, again, time.Time{}) {
		return
	}
	defer b.leave(ctx, e)
	if len(objs) == 0 {
		return
	}
	err := b.attempt(ctx, "clean-up", f.sink.id, f.target, func(ctx context.Context) error {
		return b.opts.Staging.Delete(ctx, objs...)
	}, nil)
	if err == nil {
		b.succeeded(e)
		_ = b.do(ctx, func(t *txn) { t.cleaned(f) })
		return
	}
	b.attemptFailed(ctx, e, id, err, func(t *txn) *format.Retry {
		if len(f.slices) == 0 {
			return nil
		}
		t.touchSlice(f.slices[0]) // an expired file keeps the reason of its end
		return &f.slices[0].rec.Retry
	})
}
