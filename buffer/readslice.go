package buffer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Slices returns the slices of a sink that still exist, oldest first. They are the slices whose rows wait, and for a moment the slices whose file
// has ended. It reads memory alone.
func (h SinkHandle) Slices() []SliceStats {
	b, sinkID := h.b, h.id
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.mu.sinks[sinkID]
	if s == nil {
		return nil
	}
	var list []*slice
	for _, f := range s.files {
		list = append(list, f.slices...)
	}
	slices.SortFunc(list, func(x, y *slice) int { return cmp.Compare(x.num, y.num) })
	stats := make([]SliceStats, len(list))
	for i, sl := range list {
		stats[i] = b.sliceStats(sl)
	}
	return stats
}

// sliceStats is called with mu held.
func (b *Buffer) sliceStats(sl *slice) SliceStats {
	r := &sl.rec
	return SliceStats{
		ID: b.sliceID(sl), FileID: b.fileID(sl.file), SinkID: sl.file.sink.id, State: SliceState(r.State), OpenedAt: r.Opened,
		ClosedAt: r.Closed, Reason: r.Reason, Level: level(sl.Tally), Attempt: r.Retry.Attempt,
		RetryReason: r.Retry.Reason, RetryAfter: r.Retry.After,
	}
}

// ReadSlice calls fn with the cells of each row of a slice of [SinkHandle.Slices], in the order of the rows, from the local level or from staging.
// nil stands for NULL. FileStats.Table of its file has the columns. fn must not keep the cells, may modify them, and ends the reading
// with an error, which ReadSlice returns. Rows that arrive meanwhile may be missing. The slice may change its level meanwhile, but its rows are
// still given once.
//
// The local level cannot be closed or opened again while fn runs, so fn must not wait.
//
// Errors: [ErrUnknownSlice] if its file has ended, even while it was read; [*DamageError], [*FailedError], [ErrClosed], the error of ctx or of
// Staging.
func (b *Buffer) ReadSlice(ctx context.Context, sliceID string, fn func(cells [][]byte) error) error {
	read := sliceReading{ctx: ctx, fn: fn}
	for {
		sl, state, ext, obj, sum := b.waitingSlice(sliceID)
		var err error
		switch state {
		case format.SliceWriting, format.SliceUploading:
			err = b.readLocal(&read, sl, ext)
		case format.SliceUploaded:
			err = b.readStaged(&read, obj, sum)
		default:
			return fmt.Errorf("%w: %q", ErrUnknownSlice, sliceID)
		}
		if damage, ok := errors.AsType[*DamageError](err); ok {
			damage.SinkID, damage.SliceID = obj.SinkID, obj.ID
		}
		if read.stopped {
			return err
		}
		b.mu.RLock()
		now := sl.rec.State
		b.mu.RUnlock()
		gone := err == nil && read.rows < obj.Rows || errors.Is(err, fs.ErrNotExist)
		if !gone || now == state || now == format.SliceUploading && state == format.SliceWriting {
			return err
		}
		// Its rows were moved before all of them were read. The next place has the same rows in the same order.
		read.skip = read.rows
		read.rows = 0
	}
}

// waitingSlice returns a slice and its state of now.
func (b *Buffer) waitingSlice(id string) (sl *slice, state format.SliceState, ext format.Extent, obj driver.Object, sum format.Checksum) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, sl := range b.mu.slices {
		if b.sliceID(sl) == id {
			return sl, sl.rec.State, sl.rec.Extent(), b.object(sl), sl.rec.Object
		}
	}
	return nil, "", ext, obj, sum
}

// sliceReading is a call of ReadSlice.
type sliceReading struct {
	ctx context.Context
	fn  func([][]byte) error
	// rows are read from the place of now. The first skip of them were given before.
	rows, skip int64
	// stopped is set when fn or the context has ended it.
	stopped bool
}

// give calls fn with the rows of a reader.
func (r *sliceReading) give(src io.Reader) error {
	in := driver.NewRowReader(src)
	for in.Next() {
		if r.rows++; r.rows <= r.skip {
			continue
		}
		err := context.Cause(r.ctx)
		if err == nil {
			err = r.fn(in.Cells())
		}
		if err != nil {
			r.stopped = true
			return err
		}
	}
	return in.Err()
}

func (b *Buffer) readLocal(r *sliceReading, sl *slice, ext format.Extent) error {
	err := b.eachChunk(sl.num, ext, func(_ int, h format.ChunkHeader, payload []byte) error {
		plain, err := driver.Decode(driver.Encoding(h.Encoding), io.NopCloser(bytes.NewReader(payload)))
		if err != nil {
			return err
		}
		defer plain.Close()
		return r.give(plain)
	})
	if errors.Is(err, pebblestore.ErrClosed) {
		return cmp.Or(b.failure(), ErrClosed)
	}
	return err
}

func (b *Buffer) readStaged(r *sliceReading, obj driver.Object, sum format.Checksum) error {
	stored, err := b.openStaged(r.ctx, obj, sum)
	if err != nil {
		return err
	}
	plain, err := driver.Decode(obj.Encoding, stored)
	if err != nil {
		return err
	}
	defer plain.Close()
	return r.give(plain)
}
