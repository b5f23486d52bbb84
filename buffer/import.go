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
	"github.com/forebay/forebay/driver"
)

// queueImport asks for Target.Import of a file whose slices are all in staging.
func (b *Buffer) queueImport(f *file) {
	b.importsOf(f).add(f.sink.num, job{key: f.num, run: func(ctx context.Context) { b.importFile(ctx, f) }, share: b.shareOf(f)})
}

func (b *Buffer) importFile(ctx context.Context, f *file) {
	b.mu.RLock()
	due := f.rec.State == format.FileImporting && f.holds == 0 && !f.rec.Leaving
	arg, tally := b.describe(f), f.tally()
	size, event := tally.Stored, eventOf("import", arg.SinkID, arg.ID, tally)
	split, copied, salvaged := f.rec.Split, f.rec.Copied, f.rec.Salvaged
	retry, e := f.rec.Retry, b.importErrand(f)
	whole, reads := arg, b.stagedReads(f)
	b.mu.RUnlock()
	if !b.enter(e, due && retry.Attempt > 0, retry.FirstFailed) {
		return
	}
	defer b.leave(ctx, e)
	if !due {
		return
	}
	attempt := f.attempts.Add(1)
	if salvaged && b.takeImported(ctx, f, arg, false) {
		return
	}
	arg.OpenSlice = reads.open
	omitted := int64(0) // erased rows, if the target cannot rule out that an earlier import has stored them
	if split != nil {
		var err error
		if arg, err = b.splitStep(ctx, f, e, arg, split); arg == nil {
			if err != nil {
				b.importFailed(ctx, f, e, attempt, b.fileID(f), err, false)
			}
			return
		}
		if _, voids := b.targetOf(arg.SinkID, arg.Table.Target).(driver.Voider); !voids && arg.ID == whole.ID {
			omitted = whole.Rows - arg.Rows
		}
	}
	if !b.beginImport(f, split) {
		return
	}
	arg.SaveProgress = b.saveProgress(f, arg.ID)
	target, begin := b.targetOf(arg.SinkID, arg.Table.Target), time.Now()
	f.calling.Store(begin.UnixMilli())
	defer f.calling.Store(0)
	var gone atomic.Bool                                                   // a staged object
	var stored atomic.Int64                                                // rows, if some of them were erased
	event.FileID, event.Rows, event.Bytes = arg.ID, arg.Rows, arg.RawBytes // of a part, if the file is split
	err := b.attemptOf(ctx, event, f.target, func(ctx context.Context) error {
		return b.alone(ctx, arg.Table, importPatience, func(ctx context.Context) error {
			err := b.withRoom(target, size, arg.RawBytes, func() error { return target.Import(ctx, arg) })
			if omitted > 0 {
				has, cerr := storedRows(ctx, target, arg)
				if cerr != nil {
					return cmp.Or(err, cerr)
				}
				if has == whole.Rows || err == nil && has > arg.Rows {
					stored.Store(has)
					return cmp.Or(err, errStoredErased)
				}
			}
			missing := errors.Is(err, fs.ErrNotExist)
			if copied && missing && b.targetHas(ctx, arg) {
				return nil
			}
			gone.Store(missing)
			return arg.Table.HintExtend(target, driver.HintUnreachable(placed(arg, err)))
		})
	}, &lateEnd{func() { b.late.add(f.num, 1) }, func(err error) { b.importedLate(f.num, arg, err) }})
	took := time.Since(begin)
	if rows := stored.Load(); rows > 0 {
		b.succeeded(e)
		_ = b.do(ctx, func(t *txn) { t.importedErased(f, split, rows) })
		return
	}
	if err == nil {
		f.leased.Store(nil)
		if split == nil {
			f.sink.alone.Store(false)
		}
		b.succeeded(e)
		_ = b.do(ctx, func(t *txn) {
			t.imported(f, arg.ID, took)
			t.onDurable(func() {
				b.log.Debug("file imported", "sink", arg.SinkID, "file", arg.ID, "rows", arg.Rows, "bytes", arg.RawBytes, "slices", len(arg.Slices))
			})
		})
		return
	}
	if salvaged && gone.Load() && b.takeImported(ctx, f, whole, true) {
		b.succeeded(e)
		return
	}
	taken, err := b.takeDamaged(ctx, f, arg, reads, err)
	if taken {
		b.succeeded(e)
		return
	}
	if refused, ok := errors.AsType[*rowsRefused](err); ok {
		f.sink.alone.Store(true)
		if err = b.takeRefusal(ctx, f, e, arg, split, refused, took); err == nil {
			return
		}
	}
	b.importFailed(ctx, f, e, attempt, arg.ID, err, gone.Load())
}

// beginImport notes that an import of a file begins. It reports false while rows of the file are being erased. The end of the erasure asks for the
// import again. It reports false too if the split of the file has changed since the caller has read it.
func (b *Buffer) beginImport(f *file, split *format.Split) bool {
	b.mu.RLock()
	changed := f.rec.Split != split
	ok := !changed && f.holds == 0
	if ok {
		f.began.Store(true)
	}
	b.mu.RUnlock()
	if changed {
		b.queueImport(f)
	}
	return ok
}

// errStoredErased ends an import without erased rows if an earlier one has stored the file with some of them after all.
var errStoredErased = errors.New("an earlier import has stored rows that were erased afterwards")

// storedRows returns how many rows of a file the target has after an import without erased rows. A number above the rows of the import says that
// an earlier import, of a process that has ended, was on its way when rows were erased. It is 0 if the target cannot tell.
func storedRows(ctx context.Context, target driver.Target, arg *driver.File) (int64, error) {
	counter, ok := target.(driver.Counter)
	if !ok {
		return 0, nil
	}
	return counter.CountFile(ctx, arg.Table, arg.ID)
}

// importedErased records that the target has so many rows of a file, also rows that were erased too late. The others were erased before.
func (t *txn) importedErased(f *file, split *format.Split, rows int64) {
	if t.stands(f, split) {
		all := f.tally().Rows
		after := format.Whole(t.b.fileID(f), all)
		part := &after.Parts[0]
		part.Imported, part.Gone = true, max(0, all-rows)
		after.Kept, after.Erased = int(part.Gone), int(part.Gone)
		t.step(f, after)
	}
}

// saveProgress returns File.SaveProgress of a file that is imported under an id.
func (b *Buffer) saveProgress(f *file, id string) func(context.Context, []byte) error {
	return func(ctx context.Context, note []byte) error {
		if len(note) > 4<<10 {
			return fmt.Errorf("buffer: progress note of %d bytes, at most 4096 are kept", len(note))
		}
		note = append([]byte(nil), note...)
		over := false
		err := b.do(ctx, func(t *txn) {
			if over = b.mu.files[f.num] != f || f.rec.State != format.FileImporting || !b.importsAs(f, id); over {
				return
			}
			f.rec.Progress = note
			t.touchFile(f)
		})
		if err == nil && over {
			err = fmt.Errorf("buffer: file %s: its import has ended", id)
		}
		return err
	}
}

// importFailed records a failed attempt. gone says that a staged object is missing. If another process has the lease of the table, the file waits without a failure.
func (b *Buffer) importFailed(ctx context.Context, f *file, e errand, attempt int64, id string, err error, gone bool) {
	leased, waits := errors.AsType[*driver.LeasedError](err)
	if f.leased.Store(leased); waits {
		b.queueImport(f) // after the other work that waits for a turn
		return
	}
	f.tried.Store(true)
	if driver.IsPermanent(err) || gone {
		f.sink.alone.Store(true)
	}
	b.attemptFailed(ctx, e, id, err, func(t *txn) *format.Retry {
		if f.rec.State != format.FileImporting {
			return nil
		}
		t.touchFile(f)
		f.failed = max(f.failed, attempt)
		f.rec.Retry.Refused = nil
		if refused, ok := errors.AsType[*rowsRefused](err); ok {
			f.rec.Retry.Refused, f.rec.RowsRefused = new(refused.rows[0]), true
			if refused.patience > 0 && f.rec.Patient.IsZero() {
				f.rec.Patient = t.now
			}
		}
		return &f.rec.Retry
	})
}

// imported records that the target has the rows of an id, the id of the file or of a part of it. The call took so long.
func (t *txn) imported(f *file, id string, took time.Duration) (news bool) {
	if f.rec.State != format.FileImporting {
		return false
	}
	if f.rec.Split == nil {
		if news = id == t.b.fileID(f); news {
			t.ended(f, format.FileImported)
		}
		return news
	}
	i := f.rec.Split.Find(id)
	if i < 0 || f.rec.Split.Parts[i].Imported || f.rec.Split.Parts[i].GivenUp {
		return false
	}
	split := f.rec.Split.Clone()
	split.Parts[i].Imported, split.Parts[i].Refused = true, nil
	split.Imports++
	split.Took += took.Milliseconds()
	t.step(f, split)
	return true
}

// targetHas reports whether the target has a file whose staged objects are gone. This happens when one engine
// was restored from a checkpoint of another engine that has since imported the file and cleaned up. See [Buffer.Checkpoint].
func (b *Buffer) targetHas(ctx context.Context, f *driver.File) bool {
	counter, ok := b.targetOf(f.SinkID, f.Table.Target).(driver.Counter)
	if !ok {
		return false
	}
	n, err := counter.CountFile(ctx, f.Table, f.ID)
	return err == nil && n == f.Rows
}

// describe makes the argument of Import. Called with mu held.
func (b *Buffer) describe(f *file) *driver.File {
	out := &driver.File{ID: b.fileID(f), SinkID: f.sink.id, Table: f.table(), Progress: f.rec.Progress, Copied: f.rec.Copied}
	for _, sl := range f.slices {
		out.Slices = append(out.Slices, b.object(sl))
		out.Rows += sl.Rows
		out.RawBytes += sl.Raw
	}
	return out
}

// table returns the table of a file for Import, as the definition had it when the file was opened. If the sink's table has grown since,
// the rows find their columns by name, because the target would refuse them as soon as it has one more. Called with mu held.
func (f *file) table() driver.Table {
	t := tableOf(f.rec.Def)
	if now := f.sink.rec.Def; now != nil && now.Table.Extend && now.Table.Is(f.rec.Def.Table) {
		byName := t
		byName.Extend = true
		if byName.CheckNames() == nil {
			return byName
		}
	}
	return t
}

// expire gives up a file whose retention has passed. Its rows leave the buffer, counted and logged.
func (t *txn) expire(f *file) {
	t.ended(f, format.FileExpired)
	log, rows, retry := t.b.log, f.rec.Rows, f.rec.Retry
	t.onDurable(func() {
		log.Error("file expired", "sink", f.sink.id, "file", t.b.fileID(f), "rows", rows,
			"first_failed", retry.FirstFailed, "attempts", retry.Attempt, "reason", retry.Reason, "next", "repair the target; these rows are lost")
	})
}

// takeImported finds out whether a file that was found in a damaged store is in its table already, perhaps with other
// rows than the records say. A target that cannot be asked gets the file under its old id, which it takes once. So does a target with fewer rows,
// because a driver may store a file in several steps, of which a crash has kept the last ones. gone means that staged objects of the file are
// gone, which are deleted only after its end, so that any number of rows is all that the file had.
func (b *Buffer) takeImported(ctx context.Context, f *file, arg *driver.File, gone bool) bool {
	counter, ok := b.targetOf(arg.SinkID, arg.Table.Target).(driver.Counter)
	if !ok {
		return false
	}
	var n int64
	err := b.attempt(ctx, "import", arg.SinkID, f.target, func(ctx context.Context) (err error) {
		return b.alone(ctx, arg.Table, importPatience, func(ctx context.Context) error {
			n, err = counter.CountFile(ctx, arg.Table, arg.ID)
			return err
		})
	}, nil)
	if err != nil || n == 0 || n < arg.Rows && !gone {
		return false
	}
	taken := false
	err = b.do(ctx, func(t *txn) {
		if taken = f.done(); taken || f.rec.State == format.FileWriting || len(f.slices) == 0 {
			return
		}
		taken = true
		f.rec.Split = nil          // the target has all of it
		more := n - f.tally().Rows // which the records had forgotten, or had too many
		f.sink.rec.Sealed.Add(more, 0)
		f.slices[0].Rows += more
		t.ended(f, format.FileImported)
	})
	return taken && err == nil
}

// placed adds to a [driver.RowsError] in which slice its first row is, for tools that show the rows of a slice.
func placed(f *driver.File, err error) error {
	var refused *driver.RowsError
	if !errors.As(err, &refused) || len(refused.Rows) == 0 || refused.Rows[0].Row < 0 {
		return err
	}
	row := refused.Rows[0].Row
	for _, obj := range f.Slices {
		if row < obj.Rows {
			return fmt.Errorf("%w (row %d of the slice %s)", err, row, obj.ID)
		}
		row -= obj.Rows
	}
	return err
}
