package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/driver"
)

// maxLightUpload bounds the bytes, before compression, of a slice whose upload is light.
const maxLightUpload = 128 << 10

// queueUpload asks for Staging.Put of a sealed slice.
func (b *Buffer) queueUpload(sl *slice) {
	b.uploads.add(sl.file.sink.num, job{key: sl.num, run: func(ctx context.Context) { b.upload(ctx, sl) }, light: sl.small.Load()})
}

func (b *Buffer) upload(ctx context.Context, sl *slice) {
	b.mu.RLock()
	due, salvaged := sl.rec.State == format.SliceUploading, sl.rec.Salvaged
	if put := sl.put.Load(); put != nil && *put == b.sliceID(sl) {
		due = false
	}
	since := sl.rec.Unreadable
	obj, ext, stored := b.object(sl), sl.rec.Extent(), sl.Stored
	again, e := sl.rec.Retry.Attempt > 0, b.uploadErrand(sl)
	event := eventOf("upload", obj.SinkID, obj.FileID, sl.Tally)
	event.SliceID = obj.ID
	b.mu.RUnlock()
	if !b.enter(e, due && again, time.Time{}) {
		return
	}
	defer b.leave(ctx, e)
	if !due {
		return
	}
	attempt := sl.file.attempts.Add(1)
	if salvaged {
		b.takeStaged(ctx, sl, obj, attempt)
		return
	}
	src := &sliceSource{b: b, slice: sl.num, obj: obj, ext: ext}
	err := b.attemptOf(ctx, event, sl.file.target, func(ctx context.Context) error {
		return b.withRoom(b.opts.Staging, stored, obj.RawBytes, func() error {
			if err := b.opts.Staging.Put(ctx, obj, src); err != nil {
				return driver.HintUnreachable(err)
			}
			return b.confirmKept(ctx, obj, src)
		})
	}, nil)
	src.end()
	giveUp := src.unreadable.Load() && !since.IsZero() && b.now().Sub(since) >= b.opts.UnreadableAfter
	if damage := src.damage.Load(); damage != nil || giveUp {
		if damage != nil && b.reportDamage(damage) || giveUp && b.reportDamage(fmt.Errorf("slice %s: unreadable since %s: %w", obj.ID, since, err)) {
			return // the slice stays as it is
		}
		// A driver that reports success all the same has stored less than all, so it is put again without the damage.
		if err = b.attempt(ctx, "set-aside", obj.SinkID, sl.file.target, func(ctx context.Context) error { return b.setAside(ctx, sl, giveUp) }, nil); err == nil {
			return
		}
	}
	if err == nil {
		b.succeeded(e)
		// The worker does not wait for the disk, so that one commit records many uploads. If the record is lost, the upload is repeated.
		sl.put.Store(&obj.ID)
		_, _ = b.post(&operation{run: func(t *txn) {
			if b.sliceID(sl) == obj.ID {
				sl.rec.Object = *cmp.Or(src.complete.Load(), new(format.Checksum))
				t.uploaded(sl)
			} else { // damage was set aside meanwhile, so the object in staging no longer matches the slice
				t.onDurable(func() { b.queueUpload(sl) })
			}
		}})
		return
	}
	if unreadable := src.unreadable.Load(); unreadable == since.IsZero() {
		_ = b.do(ctx, func(t *txn) {
			if sl.rec.Unreadable = (time.Time{}); unreadable {
				sl.rec.Unreadable = t.now
			}
			t.touchSlice(sl)
		})
	}
	b.uploadFailed(ctx, sl, obj, attempt, err)
}

func (b *Buffer) uploadFailed(ctx context.Context, sl *slice, obj driver.Object, attempt int64, err error) {
	b.attemptFailed(ctx, b.uploadErrand(sl), obj.ID, err, func(t *txn) *format.Retry {
		if sl.rec.State != format.SliceUploading {
			return nil
		}
		t.touchSlice(sl)
		t.changed = true
		sl.file.failed = max(sl.file.failed, attempt)
		return &sl.rec.Retry
	})
}

// takeStaged finds out whether a slice that was found in a damaged store is in staging, because its records may be older than
// its upload. Put leaves nothing that is not whole, so an object that can be read counts, with the rows in it. Without an object the records may
// even be older than the import of the file, which deletes its objects. If the target does not have the file, the rows of the local level are
// uploaded, under an id that no other rows can have.
func (b *Buffer) takeStaged(ctx context.Context, sl *slice, obj driver.Object, attempt int64) {
	var rows, raw int64
	var sum format.Checksum
	there := false
	var gone atomic.Bool
	err := b.attempt(ctx, "upload", obj.SinkID, sl.file.target, func(ctx context.Context) (err error) {
		rows, raw, sum, err = b.countStaged(ctx, obj, format.Checksum{})
		there = err == nil
		gone.Store(errors.Is(err, fs.ErrNotExist))
		if unreadable := (*stagedError)(nil); gone.Load() || errors.As(err, &unreadable) {
			err = nil
		}
		return err
	}, nil)
	if err != nil {
		b.uploadFailed(ctx, sl, obj, attempt, err)
		return
	}
	if !there {
		b.mu.RLock()
		file := b.describe(sl.file)
		b.mu.RUnlock()
		if b.takeImported(ctx, sl.file, file, gone.Load()) {
			return
		}
	}
	_ = b.do(ctx, func(t *txn) {
		if sl.rec.State != format.SliceUploading || !sl.rec.Salvaged || b.sliceID(sl) != obj.ID {
			return
		}
		s := sl.file.sink
		sl.rec.Salvaged = false
		t.touchSlice(sl)
		switch {
		case there:
			s.rec.Sealed.Add(rows-sl.Rows, raw-sl.Raw)
			sl.Rows, sl.Raw = rows, raw
			sl.rec.Tally, sl.rec.Object = sl.Tally, sum
			t.touchSink(s)
			t.uploaded(sl)
		case sl.Rows == 0:
			d := format.Damage{
				SinkID: obj.SinkID, FileID: obj.FileID, SliceID: obj.ID, FirstChunk: -1, LastChunk: -1, At: t.now, Uncounted: true,
				Reason: "nothing is left of the slice, neither on the local level nor in staging",
			}
			t.lose(sl, examination{bad: []format.Damage{d}})
			t.onDurable(func() { salvage.Log(b.log, d) })
		default:
			sl.rec.Revision++
			sl.rec.Instance, sl.rec.Number = b.instance, 0
			t.onDurable(func() { b.queueUpload(sl) })
		}
	})
}
