package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/missing"
	"github.com/forebay/forebay/trigger"
)

// A row that waits is erased as a row that the target refuses. Its file is imported without it. See poison.go. It is on disk which rows are erased
// before anything follows from it, so a crash loses no erasure that EraseRows has reported. The row is not put into the quarantine, and counts as
// discarded. The target gets a part of the file, of which OpenSlice leaves the row out, so no target needs an ability for it.
//
// If no import of the file has begun, that is all, because the target has never seen the row. Otherwise an import that was interrupted could have
// stored it. A [driver.Voider] rules out the id of that import, and the part gets a new id. A [driver.Counter] counts its rows of the file, while
// no import of it runs. If it counts none, the part keeps the id, because a target stores an id once. An import that was still on its way then
// stores all or nothing, and the target is asked again after the next one. Otherwise the rows arrive in the table, and count as moved.
//
// The design that lost writes the objects in staging again without the row. It needs ids, checksums and clean-up for two objects of one slice, and the
// same questions to a target whose import has begun.

// ErasedRows is what [SinkHandle.EraseRows] has found and done.
type ErasedRows struct {
	// Rows were read, and Found of them were selected.
	Rows, Found int64
	// Erased rows are gone, or leave staging with their file in a moment. Moved rows are in the table, because their import had begun before. The
	// others wait.
	Erased, Moved int64
	// Marked rows still wait, and no import of them has begun. They never reach the table, even after a crash. Of the others that wait, the target
	// may have some.
	Marked int64
	// Why is the reason that rows wait, or nil if no rows wait.
	Why error
}

// erasedFile is a file in which rows are looked for.
type erasedFile struct {
	f      *file
	id     string
	slices []driver.Object // of which the rows were read
	rows   []int64         // selected, ascending
	marked int             // of them, while no import had begun
	lost   int             // slices that the file had lost before
}

// rowRange are rows of a file. to is outside.
type rowRange struct{ from, to int64 }

// EraseRows erases the rows of a sink that select selects, as far as they wait. The file that gathers rows is closed, and the files are imported
// without these rows. It waits until the files are in staging, and then until their imports have ended, but not longer than until a time. Then the result
// says which rows wait. Rows that arrive during the call may be looked at or not.
//
// select gets the table of a row and its cells, nil for NULL. It must not keep or modify them, and must not wait.
//
// Errors: [ErrUnknownSink], [ErrFileMoves], a [*FailedError], [ErrClosed], the error of ctx, and one that names the slices that could not be read.
// Their rows are not erased. After an error some rows may be erased. The call may be repeated.
func (h SinkHandle) EraseRows(ctx context.Context, until time.Time, selects func(t driver.Table, cells [][]byte) bool) (res ErasedRows, err error) {
	b, sinkID := h.b, h.id
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	files, epoch, err := b.holdFiles(ctx, sinkID)
	if err != nil {
		return res, err
	}
	held := files
	release := func() {
		_ = b.do(context.WithoutCancel(ctx), func(t *txn) { // with an error the buffer closes or is reopened, and nothing is held
			for _, e := range held {
				if b.mu.files[e.f.num] != e.f {
					continue
				}
				if e.f.holds--; e.f.rec.State == format.FileImporting {
					t.onDurable(func() { b.queueImport(e.f) })
				}
			}
		})
	}
	defer func() { release() }()
	ready := func(e *erasedFile) bool { return e.f.rec.State == format.FileImporting || e.f.done() }
	if err := b.awaitFiles(wait, epoch, files, ready); err != nil {
		return res, err
	}
	var problems, unread []error
	for _, e := range files {
		if err := b.selectRows(ctx, e, &res, selects); err != nil {
			unread = append(unread, err)
		}
		if err := b.markRows(ctx, sinkID, e); err != nil {
			problems = append(problems, err)
		}
		if ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
		res.Found += int64(len(e.rows))
	}
	release()
	release = func() {}
	if err := b.awaitFiles(wait, epoch, files, func(e *erasedFile) bool { return e.f.done() || len(e.rows) == 0 || b.mu.files[e.f.num] != e.f }); err != nil {
		return res, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range files {
		why := b.countErased(e, &res)
		if why != nil {
			problems = append(problems, why)
		}
	}
	res.Why = errors.Join(problems...)
	return res, errors.Join(unread...)
}

// countErased counts what became of the rows of a file. Called with mu held.
func (b *Buffer) countErased(e *erasedFile, res *ErasedRows) error {
	found := int64(len(e.rows))
	switch {
	case found == 0:
		return nil
	case !e.f.done():
		res.Marked += int64(e.marked)
		if e.f.rec.Leaving {
			return fileMoves(e.id)
		}
		if h := b.held(e.f); h != nil {
			return h
		}
		if e.marked == 0 && e.f.rec.Split != nil {
			return fmt.Errorf("file %s waits until its target says whether an earlier import has stored the rows", e.id)
		}
		return fmt.Errorf("file %s waits for its %s", e.id, map[bool]string{true: "import", false: "upload"}[e.f.rec.State == format.FileImporting])
	}
	for _, row := range e.rows {
		row, gone := e.now(row)
		if _, left := slices.BinarySearch(e.f.omitted, row); gone || left || !e.f.mayHaveImported(row) {
			res.Erased++
		} else {
			res.Moved++
		}
	}
	return nil
}

// now returns the number of a row after the loss of slices, or true if the row was in one of them. Called with mu held.
func (e *erasedFile) now(row int64) (now int64, gone bool) {
	for _, r := range e.f.lost[e.lost:] {
		switch {
		case row >= r.to:
			row -= r.to - r.from
		case row >= r.from:
			return 0, true
		}
	}
	return row, false
}

// mayHaveImported reports whether the table may have a row of a file that has ended. The table may have all rows, or the rows of some parts if
// the file was discarded or has expired. Called with mu held.
func (f *file) mayHaveImported(row int64) bool {
	if f.rec.State == format.FileImported {
		return true
	}
	return f.rec.Split != nil && slices.ContainsFunc(f.rec.Split.Parts, func(p format.Part) bool { return p.Imported && row >= p.From && row < p.To })
}

// holdFiles closes the file that gathers rows of a sink, and lets no import of its files begin.
func (b *Buffer) holdFiles(ctx context.Context, sinkID string) (files []*erasedFile, epoch uint64, err error) {
	var moving error
	// The operation runs even if ctx has ended, so the caller must learn which files it holds.
	err = b.withSink(context.WithoutCancel(ctx), sinkID, func(t *txn, s *sinkState) {
		epoch = b.store.Now().Epoch
		if n := len(s.arrivingFiles); n > 0 {
			moving = fmt.Errorf("%w: %d files arrive in sink %q", ErrFileMoves, n, sinkID)
			return
		}
		for _, f := range s.files {
			if f.rec.Leaving && !f.done() {
				moving = fileMoves(b.fileID(f))
				return
			}
		}
		if s.file != nil {
			t.closeFile(s.file, trigger.Requested)
		}
		for _, f := range s.files {
			if f.done() {
				continue
			}
			f.holds++
			files = append(files, &erasedFile{f: f, id: b.fileID(f)})
		}
	})
	return files, epoch, cmp.Or(err, moving)
}

// awaitFiles waits until all files are as they should be, or ctx ends.
func (b *Buffer) awaitFiles(ctx context.Context, epoch uint64, files []*erasedFile, is func(*erasedFile) bool) error {
	for {
		b.mu.RLock()
		changed, again := b.waitChange(), b.store.Now().Epoch != epoch
		all := !slices.ContainsFunc(files, func(e *erasedFile) bool { return !is(e) })
		b.mu.RUnlock()
		switch f := b.failure(); {
		case f != nil:
			return f
		case again:
			return errReopened
		case all:
			return nil
		}
		select {
		case <-changed:
		case <-b.closed:
			return ErrClosed
		case <-ctx.Done():
			return nil
		}
	}
}

// selectRows reads the rows of a file. It continues with the other slices if it cannot read one.
func (b *Buffer) selectRows(ctx context.Context, e *erasedFile, res *ErasedRows, selects func(t driver.Table, cells [][]byte) bool) error {
	b.mu.RLock()
	if !e.f.done() {
		e.slices, e.lost = b.slicesOf(e.f), len(e.f.lost)
	}
	table := tableOf(e.f.rec.Def)
	b.mu.RUnlock()
	first := int64(0) // row of the slice
	var problem error
	for _, obj := range e.slices {
		var found atomic.Pointer[[]int64] // the call may be left alone
		var gone atomic.Bool
		begin := first
		err := b.read(ctx, e.f.sink.id, e.f.target, func(ctx context.Context) error {
			var rows []int64
			number := begin
			err := b.ReadSlice(ctx, obj.ID, func(cells [][]byte) error {
				if selects(table, cells) {
					rows = append(rows, number)
				}
				number++
				return nil
			})
			if read := number - begin; err == nil && read != obj.Rows { // the numbers of later rows would be others
				err = fmt.Errorf("the slice has %d rows, its record says %d", read, obj.Rows)
			}
			gone.Store(errors.Is(err, ErrUnknownSlice))
			found.Store(&rows)
			return err
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if gone.Load() { // an import that had begun before has ended, or has given up the slice
			b.mu.RLock()
			ended := e.f.done()
			b.mu.RUnlock()
			if ended {
				return nil
			}
		}
		if err == nil {
			res.Rows += obj.Rows
			e.rows = append(e.rows, *found.Load()...)
		} else if problem == nil { // the slice may have had other rows
			problem = fmt.Errorf("read slice %s of file %s: %w", obj.ID, e.id, err)
		}
		first += obj.Rows
	}
	return problem
}

// slicesOf returns the slices of a file. Called with mu held.
func (b *Buffer) slicesOf(f *file) (list []driver.Object) {
	for _, sl := range f.slices {
		list = append(list, b.object(sl))
	}
	return list
}

// errNoRows says that nothing is to be marked.
var errNoRows = errors.New("no row is new")

// markRows notes which rows of a file are left out.
func (b *Buffer) markRows(ctx context.Context, sinkID string, e *erasedFile) error {
	if len(e.rows) == 0 {
		return nil
	}
	err := b.decide(ctx, sinkID, e.id, b.mayErase, func(t *txn, f *file, split *format.Split) error {
		if !slices.Equal(b.slicesOf(f), e.slices) { // an import that had begun before has given up a slice
			return errors.New("a slice of the file was lost while its rows were read, so their numbers are others: repeat the call")
		}
		n := split.Erase(e.rows)
		if n == 0 {
			return errNoRows
		}
		if !f.mayBeImported() { // it has one part
			e.marked = n
			split.Parts[0] = split.Parts[0].Omit()
		}
		return nil
	})
	switch {
	case errors.Is(err, errNoRows), errors.Is(err, ErrUnknownFile):
		return nil
	case err != nil:
		return fmt.Errorf("rows of file %s are not left out: %w", e.id, err)
	}
	return nil
}

// mayBeImported reports whether an import of the file has begun, here or perhaps in another process or engine. Called with mu held.
func (f *file) mayBeImported() bool { return f.began.Load() || f.rec.Copied || f.rec.Salvaged }

// mayErase says why no rows of a file can be erased. Called with mu held.
func (b *Buffer) mayErase(f *file) error {
	target := b.targetOfFile(f)
	_, voids := target.(driver.Voider)
	_, counts := target.(driver.Counter)
	switch away, gone := target.(missing.Target); {
	case gone:
		return away.Reason
	case f.rec.Leaving: // the copies of its records would lack the mark
		return fileMoves(b.fileID(f))
	case f.rec.State != format.FileImporting:
		return fmt.Errorf("file %s is not in staging yet", b.fileID(f))
	case !voids && !counts && f.mayBeImported():
		return fmt.Errorf("an import of file %s has begun, and its target cannot tell whether it has stored rows", b.fileID(f))
	}
	return nil
}

// Sync returns when all rows are on disk whose Append had returned before the call. It fails with a [*FailedError], [ErrClosed] or the error
// of ctx.
func (b *Buffer) Sync(ctx context.Context) error { return b.do(ctx, func(*txn) {}) }

// Purge rewrites the store of the local level without the deleted records, so that its files no longer contain their bytes. It reads and writes all
// waiting rows, and needs disk space for a second copy of them. The old files are deleted soon after the call. It fails with a [*FailedError],
// [ErrClosed] or the error of ctx. Other errors say why the old files stay.
func (b *Buffer) Purge(ctx context.Context) error {
	o := b.store.Opening()
	if o.Read() != nil {
		return cmp.Or(b.failure(), ErrClosed)
	}
	defer o.Release()
	if err := o.Purge(ctx); err != nil {
		return fmt.Errorf("buffer: rewrite the store: %w", err)
	}
	return nil
}
