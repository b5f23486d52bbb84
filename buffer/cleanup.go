package buffer

import (
	"context"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// queueCleanup asks for Staging.Delete of the objects of an ended file. The objects of small files are deleted with one call.
func (b *Buffer) queueCleanup(f *file) {
	j := b.cleanupJob(f)
	if size := f.size.Load(); size > 0 && size <= maxSharedFile {
		j.share = share{kind: sharesFirst, file: f}
	}
	b.cleanups.add(f.sink.num, j)
}

func (b *Buffer) cleanupJob(f *file) job {
	return job{key: f.num, run: func(ctx context.Context) { b.cleanup(ctx, f) }}
}

// cleanupTogether deletes the objects of several files. If that fails, the objects of each file are deleted alone.
func (b *Buffer) cleanupTogether(ctx context.Context, files []*file) {
	var objs []driver.Object
	var failed, shared []*file
	b.mu.RLock()
	for _, f := range files {
		if len(f.slices) > 0 && f.slices[0].rec.Retry.Attempt > 0 {
			failed = append(failed, f)
			continue
		}
		shared = append(shared, f)
		for _, sl := range f.slices {
			objs = append(objs, b.object(sl))
		}
	}
	b.mu.RUnlock()
	if len(objs) > 0 {
		took, err := b.call(ctx, string(stepCleanup), files[0].sink.id, func(ctx context.Context) error {
			return b.opts.Staging.Delete(ctx, objs...)
		}, nil)
		if err != nil {
			failed, shared = files, nil
		}
		for _, f := range shared {
			b.called(DriverEvent{SinkID: f.sink.id, Step: string(stepCleanup)}, f.target, took, nil)
			b.succeeded(b.cleanupErrand(f))
		}
		if len(shared) > 0 {
			_ = b.do(ctx, func(t *txn) {
				for _, f := range shared {
					t.cleaned(f)
				}
			})
		}
	}
	for _, f := range failed {
		b.cleanups.add(f.sink.num, b.cleanupJob(f))
	}
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
