package buffer

import (
	"context"
	"errors"
	"io/fs"
)

// takeStaged finds out whether a slice that was found in a damaged store is in staging: its records may be older than
// its upload. Put leaves nothing that is not whole, so an object that can be read counts, with the rows in it. Else
// what is on the local level is uploaded, under an id that no other rows can have.
func (b *Buffer) takeStaged(ctx context.Context, sl *slice, obj Object) {
	var rows, raw int64
	there := false
	err := b.attempt(ctx, "upload", obj.SinkID, func(ctx context.Context) (err error) {
		rows, raw, err = b.countStaged(ctx, obj)
		there = err == nil
		if unreadable := (*stagedError)(nil); errors.Is(err, fs.ErrNotExist) || errors.As(err, &unreadable) {
			err = nil
		}
		return err
	})
	if err != nil {
		b.uploadFailed(ctx, sl, obj, err)
		return
	}
	_ = b.do(ctx, func(t *txn) {
		if sl.rec.State != SliceUploading || !sl.rec.Salvaged || b.sliceID(sl) != obj.ID {
			return
		}
		s := sl.file.sink
		sl.rec.Salvaged = false
		t.touchSlice(sl)
		switch {
		case there:
			s.rec.Sealed.add(rows-sl.rows, raw-sl.raw)
			sl.rows, sl.raw = rows, raw
			sl.rec.setTally(sl.tally)
			t.touchSink(s)
			t.uploaded(sl)
		case sl.rows == 0:
			d := Damage{
				SinkID: obj.SinkID, FileID: obj.FileID, SliceID: obj.ID, FirstChunk: -1, LastChunk: -1, At: t.now, Uncounted: true,
				Reason: "nothing is left of the slice, neither on the local level nor in staging",
			}
			t.lose(sl, examination{bad: []Damage{d}})
			t.then(func() { logDamage(b.log, d) })
		default:
			sl.rec.Revision++
			sl.rec.Instance = b.instance
			t.then(func() { b.queueUpload(sl) })
		}
	})
}

// takeImported finds out whether a file that was found in a damaged store is in its table already, perhaps with other
// rows than the records say. A target that cannot be asked gets the file under its old id, which it takes once.
func (b *Buffer) takeImported(ctx context.Context, f *file, arg *File) bool {
	counter, ok := b.opts.Target.(Counter)
	if !ok {
		return false
	}
	var n int64
	err := b.attempt(ctx, "import", arg.SinkID, func(ctx context.Context) (err error) {
		n, err = counter.CountFile(ctx, arg.Table, arg.ID)
		return err
	})
	if err != nil || n == 0 {
		return false
	}
	return b.do(ctx, func(t *txn) {
		if f.rec.State != FileImporting {
			return
		}
		more := n - arg.Rows // which the records had forgotten, or had too many
		f.sink.rec.Sealed.add(more, 0)
		f.slices[0].rows += more
		t.ended(f, FileImported)
	}) == nil
}
