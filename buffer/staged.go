package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/driver"
)

// The record of an uploaded slice holds the checksum of its object in staging. Each reading of the object is compared with it at the end of the
// object, whatever the encoding is.
//
// A failed import examines the objects that it did not read to a good end. An object with wrong bytes is given up at once. A missing object may
// come back, so it is given up after Tuning.UnreadableAfter, and only while staging still returns a different object of the file. If staging
// returns none, its volume may be unavailable. The file keeps its id and is imported without the slice. That is safe because a target stores the
// rows of an id once. If an earlier attempt has stored all rows, the later attempt adds none.
//
// A compressed object with a different checksum is intact if it decodes to the rows and bytes of the record. Two attempts to upload a slice may
// encode its rows differently, and staging keeps one of the two objects.

// stagedError says that an object exists but its bytes are not the bytes given to Put.
type stagedError struct{ err error }

func (e *stagedError) Error() string { return e.err.Error() }
func (e *stagedError) Unwrap() error { return e.err }

// stagedReader compares an object with its checksum.
type stagedReader struct {
	io.ReadCloser
	want, got format.Checksum // want is zero if the checksum is unknown
	sound     func()          // called at the end of an object with the right checksum
	failed    error           // of the source
}

func (r *stagedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.got.Write(p[:n])
	end := errors.Is(err, io.EOF)
	switch {
	case err != nil && !end:
		r.failed = err
	case !r.want.Known():
	case r.got.Size > r.want.Size || end && r.got != r.want:
		return n, &stagedError{fmt.Errorf("the object in staging has other bytes than were uploaded: %s, want %s", r.got, r.want)}
	case end:
		r.sound()
	}
	return n, err
}

// openStaged opens an object. The reading fails at the end if the object has a different checksum.
func (b *Buffer) openStaged(ctx context.Context, obj driver.Object, want format.Checksum) (*stagedReader, error) {
	src, err := b.opts.Staging.Open(ctx, obj)
	if err != nil {
		return nil, err
	}
	return &stagedReader{ReadCloser: src, want: want, sound: func() {}}, nil
}

// countStaged reads an object. A [*stagedError] says that its bytes are wrong. Other errors may pass.
func (b *Buffer) countStaged(ctx context.Context, obj driver.Object, want format.Checksum) (rows, raw int64, got format.Checksum, err error) {
	src, err := b.openStaged(ctx, obj, want)
	if err != nil {
		return 0, 0, got, err
	}
	if rows, raw, err = countRows(obj.Encoding, src); err != nil {
		if failed := errors.Join(context.Cause(ctx), src.failed); failed != nil {
			err = failed
		} else {
			err = &stagedError{err}
		}
	}
	return rows, raw, src.got, err
}

// countRows counts the rows of stored bytes, and their bytes before compression. It closes src.
func countRows(e driver.Encoding, src io.ReadCloser) (rows, size int64, err error) {
	plain, err := driver.Decode(e, src)
	if err != nil {
		return 0, 0, err
	}
	defer plain.Close()
	in := driver.NewRowReader(plain)
	for row, ok := in.NextStored(); ok; row, ok = in.NextStored() {
		size += int64(len(row))
	}
	return in.Rows(), size, in.Err()
}

// stagedReads are the readings of one import.
type stagedReads struct {
	b    *Buffer
	want map[string]format.Checksum // by the id of the object

	mu sync.Mutex
	// sound contains the objects that were opened. It is true for an object that was read to its end and has the right checksum.
	sound map[string]bool
}

// stagedReads returns the readings of a new import. It is called with mu held.
func (b *Buffer) stagedReads(f *file) *stagedReads {
	r := &stagedReads{b: b, want: map[string]format.Checksum{}, sound: map[string]bool{}}
	for _, sl := range f.slices {
		r.want[b.sliceID(sl)] = sl.rec.Object
	}
	return r
}

func (r *stagedReads) note(id string, sound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sound[id] = sound
}

// open is File.OpenSlice.
func (r *stagedReads) open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	r.note(obj.ID, false)
	src, err := r.b.openStaged(ctx, obj, r.want[obj.ID])
	if err != nil {
		return nil, err
	}
	src.sound = func() { r.note(obj.ID, true) }
	return src, nil
}

// suspect reports whether an object may have made the import fail. If the target has refused rows, an object that it has not read to the end is
// suspect too, because a wrong bit may be the cause.
func (r *stagedReads) suspect(id string, refused bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	sound, read := r.sound[id]
	return !sound && (read || refused)
}

// stagedFinding is what an examination has found out about an object.
type stagedFinding struct {
	sl  *slice
	obj driver.Object
	// got is the checksum of an intact object.
	got format.Checksum
	// wrong is nil if the object is intact. away is set if the object may come back.
	wrong error
	away  bool
}

// examineObject reads an object to its end. An error means that staging failed.
func (b *Buffer) examineObject(ctx context.Context, sl *slice, obj driver.Object, want format.Checksum) (x stagedFinding, err error) {
	x.sl, x.obj = sl, obj
	if obj.Encoding != driver.None {
		want = format.Checksum{} // see the head of this file
	}
	rows, raw, got, err := b.countStaged(ctx, obj, want)
	wrong := (*stagedError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.wrong, x.away = err, true
	case errors.As(err, &wrong):
		x.wrong = err
	case err != nil:
		return x, err
	case rows != obj.Rows || raw != obj.RawBytes:
		x.wrong = fmt.Errorf("the object in staging has %d rows of %d bytes, want %d of %d", rows, raw, obj.Rows, obj.RawBytes)
	default:
		x.got = got
	}
	return x, nil
}

// takeDamaged looks for damaged objects after a failed import, and gives them up. It reports whether the import of the file then continues. If
// not, the error says why the import has failed.
func (b *Buffer) takeDamaged(ctx context.Context, f *file, arg *driver.File, reads *stagedReads, cause error) (taken bool, err error) {
	_, refused := errors.AsType[*rowsRefused](cause)
	type pair struct {
		sl   *slice
		obj  driver.Object
		want format.Checksum
	}
	var suspects, others []pair
	b.mu.RLock()
	for _, sl := range f.slices {
		p := pair{sl, b.object(sl), sl.rec.Object}
		if reads.suspect(p.obj.ID, refused) {
			suspects = append(suspects, p)
		} else {
			others = append(others, p)
		}
	}
	b.mu.RUnlock()
	_, leased := errors.AsType[*driver.LeasedError](cause)
	if len(suspects) == 0 || leased || errors.Is(cause, errLeftAlone) || ctx.Err() != nil {
		return false, cause
	}
	var result atomic.Pointer[[]stagedFinding]
	var alive, held atomic.Bool // held means that an earlier attempt has stored all rows
	err = b.attempt(ctx, "read", arg.SinkID, f.target, func(ctx context.Context) error {
		var found []stagedFinding
		bad, away := false, false
		for _, p := range suspects {
			x, err := b.examineObject(ctx, p.sl, p.obj, p.want)
			if err != nil {
				return err
			}
			found = append(found, x)
			bad, away = bad || x.wrong != nil, away || x.away
			if !x.away {
				alive.Store(true)
			}
		}
		for i := 0; i < len(others) && away && !alive.Load(); i++ {
			if src, err := b.opts.Staging.Open(ctx, others[i].obj); err == nil {
				alive.Store(true)
				_ = src.Close()
			}
		}
		result.Store(&found)
		if !bad {
			return nil
		}
		return b.alone(ctx, arg.Table, importPatience, func(ctx context.Context) error {
			held.Store(b.targetHas(ctx, arg))
			return nil
		})
	}, nil)
	switch {
	case err == nil && held.Load():
		return b.do(ctx, func(t *txn) { t.imported(f, arg.ID, 0) }) == nil, cause
	case err != nil && refused:
		return false, err // the refusal may be about wrong bytes
	case err != nil:
		return false, cause
	}
	return b.settleDamaged(ctx, f, *result.Load(), alive.Load(), cause)
}

// settleDamaged records the findings of an examination.
func (b *Buffer) settleDamaged(ctx context.Context, f *file, found []stagedFinding, alive bool, cause error) (bool, error) {
	wrong, taken := false, false
	err := b.do(ctx, func(t *txn) {
		if b.mu.files[f.num] != f || f.rec.State != format.FileImporting {
			return
		}
		mayLose := f.rec.Split == nil || f.rec.Split.MayLose()
		for _, x := range found {
			rec := &x.sl.rec
			if b.mu.slices[x.sl.num] != x.sl || rec.State != format.SliceUploaded {
				continue
			}
			wrong = wrong || x.wrong != nil
			since := rec.Unreadable
			switch {
			case x.wrong == nil:
				if rec.Object != x.got || !since.IsZero() {
					rec.Object, rec.Unreadable = x.got, time.Time{}
					t.touchSlice(x.sl)
				}
			case x.away && since.IsZero():
				rec.Unreadable = t.now
				t.touchSlice(x.sl)
			case x.away && (!alive || t.now.Sub(since) < b.opts.UnreadableAfter):
			case !mayLose, b.late.runs(f.num): // the row numbers of its parts include the rows of the slice, or a call may still store them
			default:
				t.loseStaged(x)
				taken = true
			}
		}
		if taken {
			t.continueWithout(f)
		}
	})
	switch _, refused := errors.AsType[*rowsRefused](cause); {
	case err != nil:
		return false, cause
	case wrong && !taken && refused:
		for _, x := range found {
			if x.wrong != nil {
				return false, fmt.Errorf("slice %s: %w", x.obj.ID, x.wrong)
			}
		}
	}
	return taken, cause
}

// loseStaged records the damage of a slice whose object in staging is wrong or gone, and removes the slice from its file. The object stays in
// staging, so that an operator can read its intact bytes.
func (t *txn) loseStaged(x stagedFinding) {
	b, sl, f := t.b, x.sl, x.sl.file
	d := format.Damage{
		SinkID: x.obj.SinkID, FileID: x.obj.FileID, SliceID: x.obj.ID, FirstChunk: -1, LastChunk: -1,
		Rows: sl.Rows, Bytes: sl.Raw, At: t.now, Reason: "staging: " + x.wrong.Error(),
	}
	f.sink.rec.Damaged.Add(sl.Rows, sl.Raw)
	t.staged -= sl.Stored
	lost := rowRange{to: sl.Rows}
	for _, before := range f.slices[:slices.Index(f.slices, sl)] {
		lost.from += before.Rows
		lost.to += before.Rows
	}
	f.lost = append(f.lost, lost)
	if f.rec.Split != nil {
		f.rec.Split = f.rec.Split.Lose(lost.from, sl.Rows)
	}
	t.takeFromFile(sl)
	t.touchSink(f.sink)
	num, revision := sl.num, sl.rec.Revision+1
	t.addToBatch(func(batch *pebble.Batch) {
		b.damages.Add(1)
		_ = batch.Set(format.DamageKey(num, revision, 0), format.Encode(&d), nil)
	})
	t.onDurable(func() { salvage.Log(b.log, d) })
}

// continueWithout imports the remaining slices of a file.
func (t *txn) continueWithout(f *file) {
	b := t.b
	f.rec.Retry = format.Retry{}
	t.touchFile(f)
	t.onDurable(b.queueExpireDamage) // which sets its timer
	if len(f.slices) == 0 {
		t.ended(f, format.FileImported) // everything in it was damaged
		return
	}
	t.onDurable(func() { b.queueImport(f) })
}

// confirmKept compares an object with its source after a Put that has not read the source to its end, because the driver has kept an object that an
// earlier attempt stored. If the object contains other rows it is deleted, so that the next attempt stores the right rows.
func (b *Buffer) confirmKept(ctx context.Context, obj driver.Object, src *sliceSource) error {
	if src.complete.Load() != nil || src.damage.Load() != nil || src.unreadable.Load() {
		return nil
	}
	var want format.Checksum
	if obj.Encoding == driver.None { // each attempt has the same bytes
		if _, err := src.WriteTo(io.Discard); err != nil {
			return err
		}
		want = *src.complete.Load()
	}
	rows, raw, got, err := b.countStaged(ctx, obj, want)
	if err == nil && (rows != obj.Rows || raw != obj.RawBytes) {
		err = &stagedError{fmt.Errorf("it has %d rows of %d bytes, want %d of %d", rows, raw, obj.Rows, obj.RawBytes)}
	}
	if wrong := (*stagedError)(nil); errors.As(err, &wrong) {
		return errors.Join(fmt.Errorf("an earlier attempt has left other bytes in staging, they are put again: %w", err), b.opts.Staging.Delete(ctx, obj))
	}
	if err == nil {
		src.complete.Store(&got)
	}
	return err
}

// takeFromFile removes a slice from its file, because no more of the slice will be imported.
func (t *txn) takeFromFile(sl *slice) {
	sl.rec.State = format.SliceImported
	t.drop = append(t.drop, sl)
	delete(t.b.mu.slices, sl.num)
	// A copy, because others may read the old list.
	sl.file.slices = slices.DeleteFunc(slices.Clone(sl.file.slices), func(o *slice) bool { return o == sl })
}
