package buffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/missing"
)

// A file whose target refuses rows of it is imported in steps. Each is one turn of the sink's imports, and ends with a commit before the next
// one begins:
//
//	            Import of the part whose turn it is ◀────────────────────┐
//	             │ nil            │ RowsError                            │ the new parts, with their
//	             ▼                ▼                                      │ ids, are on disk
//	        part imported   result is on disk ──▶ Void of its id ── no ──┘
//	             │                                 │ it was imported
//	             ▼                                 ▼
//	  all parts are done ◀──────────────────────────
//	             │
//	             ▼
//	  refused rows go to the quarantine, at most keepBytes in a commit; the last one ends the file
//
// A crash repeats the interrupted step. It does no harm: Import and Void may be repeated under their ids, and rows enter the quarantine in the
// commit that counts them. Void is between a refused id and the ids that are derived from it, because the refusal may be the result of a later
// attempt while an earlier one, whose response was lost, still runs somewhere. The design that lost waits for it, and cannot know for how long.
//
// Erased rows leave a file in the same steps, but do not enter the quarantine. See eraserows.go.
//
// Errors other than a [*driver.RowsError] leave the state as it is. The step is repeated like any import. So an outage sends no row to the
// quarantine.
//
// When the caller asks that the rest goes to the quarantine ([SinkHandle.QuarantineFile]), no more parts are imported: Void is called at once, and a
// part that was not imported is abandoned.

const (
	// maxSplitImports and maxSplitTime bound how many imports of parts of one file come one after the other, and how long they keep the target
	// busy. Then the file waits like after a failure, and continues.
	maxSplitImports = 256
	maxSplitTime    = time.Hour
	// systematicFrom is the least number of rows of a file that is held if all of them are refused.
	systematicFrom = 16
	// keepBytes and keepRows bound the rows that go to the quarantine in one commit. A larger row comes alone.
	keepBytes = 1 << 20
	keepRows  = 4096
)

// rowsRefused is a [*driver.RowsError] reduced to the recorded parts.
type rowsRefused struct {
	error
	rows []format.RefusedRow
	// unsure and patience are as in [driver.RowsError].
	unsure   bool
	patience time.Duration
}

func (e *rowsRefused) Unwrap() error { return driver.Permanent(e.error) }

// refusalOf copies the rows of a [*driver.RowsError] in err, or nil if there is none. plain is the text of err.
func refusalOf(err, plain error) *rowsRefused {
	e, ok := errors.AsType[*driver.RowsError](err)
	if !ok || len(e.Rows) == 0 {
		return nil
	}
	rows := make([]format.RefusedRow, 0, min(len(e.Rows), driver.MaxRowErrors))
	for _, r := range e.Rows[:cap(rows)] {
		r = r.Shown()
		rows = append(rows, format.RefusedRow{Row: r.Row, Column: r.Column, Reason: r.Reason, Message: r.Message})
	}
	slices.SortStableFunc(rows, func(a, b format.RefusedRow) int { return int(max(-1, min(1, a.Row-b.Row))) })
	rows = slices.CompactFunc(rows, func(a, b format.RefusedRow) bool { return a.Row == b.Row })
	return &rowsRefused{plain, rows, e.Unsure, e.Patience}
}

// mayBeSplit reports whether the file may be imported without refused rows. Called with mu held.
func (b *Buffer) mayBeSplit(f *file) bool {
	_, ok := b.targetOfFile(f).(driver.Voider)
	q := &f.sink.rec.Quarantine
	return ok && (!q.On || !q.HoldFiles || f.rec.Split != nil && f.rec.Split.Asked > 0)
}

// openQuarantine prepares the quarantine of a sink for rows that the target refuses. A sink that never had a quarantine gets the default bounds.
// The caller has called upgradeFor.
func (t *txn) openQuarantine(s *sinkState) {
	t.upgrade(format.Kept)
	if q := &s.rec.Quarantine; q.MaxAge == 0 {
		boundQuarantine(q, QuarantineBounds{}.withDefaults(t.b.opts.Tuning))
		t.touchSink(s)
	}
}

// splitLast imports the rows that the target takes of a file whose retention has passed. It reports false if the file expires, because the target
// never refused rows of the file, the sink wants the file whole, only refused rows are left, or the file was split for the last time before.
// takeRefusal has called upgradeFor.
func (t *txn) splitLast(f *file, cause error) bool {
	b, split := t.b, f.rec.Split
	if !f.rec.RowsRefused || !b.mayBeSplit(f) || split != nil && (split.Last || split.Rest != nil || split.Next() < 0) {
		return false
	} else if split == nil {
		split = format.Whole(b.fileID(f), f.tally().Rows)
	}
	last := split.Clone()
	last.Last, last.Asked, last.Imports = true, 1, 0
	t.openQuarantine(f.sink)
	t.setSplit(f, last)
	t.again(b.importErrand(f))
	t.onDurable(func() {
		b.log.Warn("retention passed and refused rows left out", "sink", f.sink.id, "file", b.fileID(f),
			"cause", cause, "next", "replay the refused rows from the quarantine")
	})
	return true
}

// endsWith reports whether a failure ends a file whose retention has passed. It does if the record of the file has no room for more refused rows.
func (f *file) endsWith(cause error) bool {
	_, ok := errors.AsType[*rowsRefused](cause)
	return ok && f.rec.Split != nil && f.rec.Split.Last
}

// step records the next state of a split and asks for the next step.
func (t *txn) step(f *file, split *format.Split) {
	t.setSplit(f, split)
	t.onDurable(func() { t.b.queueImport(f) })
}

// setSplit replaces the split of a file, and forgets its failures. The note of the driver stays as long as the id stays whose turn it is, because
// an earlier attempt may have stored rows under it, and a driver without its note would take the next attempt for the first.
func (t *txn) setSplit(f *file, split *format.Split) {
	if t.turn(f, f.rec.Split) != t.turn(f, split) {
		f.rec.Progress = nil
	}
	f.rec.Split, f.rec.Retry = split, format.Retry{}
	t.touchFile(f)
}

// turn returns the id whose turn it is, "" if all parts are done.
func (t *txn) turn(f *file, split *format.Split) string {
	if split == nil {
		return t.b.fileID(f)
	}
	if i := split.Next(); i >= 0 {
		return split.Parts[i].ID
	}
	return ""
}

// stands reports whether a split is unchanged since a step began. If not, a retry was requested or a late call has ended, and the step is
// repeated.
func (t *txn) stands(f *file, split *format.Split) bool {
	if t.b.mu.files[f.num] != f || f.rec.State != format.FileImporting {
		return false
	}
	if f.rec.Split != split {
		t.onDurable(func() { t.b.queueImport(f) })
		return false
	}
	return true
}

// changeSplit replaces a split.
func (b *Buffer) changeSplit(ctx context.Context, f *file, before, after *format.Split) error {
	return b.do(ctx, func(t *txn) {
		if t.stands(f, before) {
			t.openQuarantine(f.sink)
			t.step(f, after)
		}
	})
}

// importsAs reports whether an id is the one under which the file, or a part of it, is imported now.
func (b *Buffer) importsAs(f *file, id string) bool {
	if f.rec.Split == nil {
		return id == b.fileID(f)
	}
	i := f.rec.Split.Find(id)
	return i >= 0 && !f.rec.Split.Parts[i].Imported && f.rec.Split.Parts[i].Refused == nil
}

// takeRefusal processes the error of a target that refuses rows of a file or part, after a call that took so long. It returns why the file is
// held or waits, nil if it continues.
func (b *Buffer) takeRefusal(ctx context.Context, f *file, e errand, arg *driver.File, before *format.Split, refusal *rowsRefused, took time.Duration) error {
	b.mu.RLock()
	ok, changed, waited := b.mayBeSplit(f), f.rec.Split != before, time.Duration(0)
	if since := f.rec.Patient; !since.IsZero() {
		waited = b.now().Sub(since)
	}
	id, rows := b.fileID(f), f.tally().Rows
	b.mu.RUnlock()
	switch {
	case changed: // a caller has decided about the file
		b.queueImport(f)
		return nil
	case !ok:
		return refusal
	}
	if err := b.upgradeFor(format.Kept); err != nil {
		return fmt.Errorf("%w: %v", err, refusal.error)
	}
	split := before
	if split == nil {
		split = format.Whole(id, rows)
	}
	split = split.Clone()
	i := split.Find(arg.ID)
	if i < 0 {
		return refusal
	}
	split.Parts[i].Refused = refusal.inFile(&split.Parts[i])
	split.Imports++
	split.Took += took.Milliseconds()
	why := reasonToHold(split, i, rows)
	switch {
	case why != "" || split.Asked > 0:
	case refusal.unsure:
		why = "the target cannot tell whether the cause is in the rows, an operator must decide"
	case waited < refusal.patience:
		why = fmt.Sprintf("the cause may pass by itself, rows leave the file after %s", refusal.patience)
	}
	if why != "" {
		return &rowsRefused{error: fmt.Errorf("%s: %w", why, refusal.error), rows: split.Parts[i].Refused, patience: refusal.patience}
	}
	imports, busy := split.Imports, time.Duration(split.Took)*time.Millisecond
	pause := imports >= maxSplitImports || busy > maxSplitTime
	if pause {
		split.Imports, split.Took = 0, 0
	}
	b.succeeded(e) // the target responds
	_ = b.changeSplit(ctx, f, before, split)
	if pause {
		return fmt.Errorf("%d imports of parts of the file, in %s, have found %d rows that the target refuses, and it still refuses some; it continues by itself: %w",
			imports, busy, split.Poison(), refusal.error)
	}
	return nil
}

// inFile returns the rows by their numbers in the file. Without a number that is in the part, the target has named none.
func (e *rowsRefused) inFile(p *format.Part) (rows []format.RefusedRow) {
	for _, r := range e.rows {
		if r.Row >= 0 && r.Row < p.Left() {
			r.Row = p.Row(r.Row)
			rows = append(rows, r)
		}
	}
	if rows == nil {
		rows = e.rows[:1:1]
		rows[0].Row = -1
	}
	return rows
}

// reasonToHold says why a file is held instead of being split further. It is empty if the split continues. The part at i has the newest result.
func reasonToHold(s *format.Split, i int, rows int64) string {
	p := &s.Parts[i]
	rows -= s.Poison() - s.Refused() // without the erased rows
	named := int64(len(p.Refused))
	if p.Refused[0].Row < 0 && p.Left() > 1 {
		named = 0
	}
	switch size := s.Size(); {
	case size > format.MaxSplit:
		return fmt.Sprintf("the target refuses %d rows of the file in so many places that a record of %d bytes cannot name more, and they are not in the quarantine",
			s.Poison()-int64(s.Kept), size)
	case s.Asked == 0 && s.Refused()+named >= rows && rows >= systematicFrom:
		return "the target refuses all rows of the file, so the cause is probably not in the rows"
	}
	return ""
}

// splitStep does the next step of a split file. If that is an import, it returns the file for it. Otherwise it is nil, and err says why the step
// has failed.
func (b *Buffer) splitStep(ctx context.Context, f *file, e errand, whole *driver.File, split *format.Split) (next *driver.File, err error) {
	to := split.Parts[len(split.Parts)-1].To
	switch {
	case to == whole.Rows:
	case split.Untouched(whole.ID): // it has no parts yet, so the rest is the whole file
		after := split.Clone()
		after.Parts[0].To = whole.Rows
		_ = b.changeSplit(ctx, f, split, after)
		return nil, nil
	default:
		return nil, driver.Permanent(fmt.Errorf("buffer: file %s has %d rows, its parts have %d: slices of it are lost", whole.ID, whole.Rows, to))
	}
	i := split.Next()
	if i >= 0 && split.Rest == nil && split.Imported() > 0 && split.Ready() >= driver.MaxRowErrors && b.keepPoison(ctx, f, whole, split) == nil {
		return nil, nil
	} // a full quarantine does not delay good rows
	switch {
	case i < 0:
		err = b.keepPoison(ctx, f, whole, split)
	case split.Parts[i].Refused == nil && split.Rest == nil:
		return partOf(whole, &split.Parts[i]), nil
	default:
		err = b.replacePart(ctx, f, whole, split, i)
	}
	if err == nil {
		b.succeeded(e)
	}
	return nil, err
}

// replacePart rules out the id of a part that the target refuses, or that no longer has to be imported, and replaces the part. For erased rows, a
// target that cannot rule out an id need only count. If it has nothing of the part, the part keeps its id, under which the target stores rows once.
func (b *Buffer) replacePart(ctx context.Context, f *file, whole *driver.File, split *format.Split, i int) error {
	target, p := b.targetOf(whole.SinkID, whole.Table.Target), &split.Parts[i]
	voider, voids := target.(driver.Voider)
	counter, counts := target.(driver.Counter)
	switch away, gone := target.(missing.Target); {
	case gone:
		return driver.Permanent(away.Reason)
	case voids:
	case !counts || !p.OnlyErased() || split.Rest != nil:
		return driver.Permanent(errors.New("buffer: an earlier target took parts of the file, this one cannot rule out an import: it is no Voider"))
	case b.late.runs(f.num):
		return fmt.Errorf("buffer: rows of file %s were erased, and a call of the target that may store them has not returned", whole.ID)
	}
	// A target never accepts rows by that id again, so the record of the split comes first.
	if err := b.do(ctx, func(*txn) {}); err != nil {
		return err
	}
	var imported atomic.Bool
	err := b.attempt(ctx, "void", whole.SinkID, f.target, func(ctx context.Context) error {
		return b.alone(ctx, whole.Table, importPatience, func(ctx context.Context) (err error) {
			var done bool
			if voids {
				done, err = voider.Void(ctx, whole.Table, p.ID)
			} else {
				var n int64
				n, err = counter.CountFile(ctx, whole.Table, p.ID)
				done = n > 0
			}
			imported.Store(done)
			return err
		})
	}, nil)
	switch {
	case err != nil:
		return err
	case imported.Load() && voids: // the response to an earlier attempt was lost
		_ = b.do(ctx, func(t *txn) { t.imported(f, p.ID, 0) })
		return nil
	}
	after := split.Clone()
	switch {
	case imported.Load(): // at least in part, so the import is repeated with all rows
		after.Parts[i].Refused = nil
	case split.Rest != nil:
		after.Parts[i] = p.GiveUp()
	case voids:
		after.Replace(i, whole.ID)
	default:
		after.Parts[i] = p.Omit()
	}
	_ = b.changeSplit(ctx, f, split, after)
	return nil
}

// keepPoison moves refused rows to the quarantine. The file ends with the last refused row. While parts wait for their import, only the refused
// rows of earlier parts move.
func (b *Buffer) keepPoison(ctx context.Context, f *file, whole *driver.File, split *format.Split) error {
	most, last := int64(keepRows), split.Next() < 0
	if !last {
		most = min(most, split.Ready())
	}
	if err := b.stillNoRoom(f, split); err != nil {
		return err
	}
	left, poison := split.PoisonFrom(int64(split.Kept), int(most)), split.Poison()
	var numbers []int64 // an erased row is not read
	for i := range left {
		if left[i].Reason != format.ReasonErased {
			numbers = append(numbers, left[i].Row)
		}
	}
	var found atomic.Pointer[[][]byte]
	err := b.attempt(ctx, "read", whole.SinkID, f.target, func(ctx context.Context) error {
		rows, err := rowsOf(ctx, whole, numbers, keepBytes)
		found.Store(&rows)
		return err
	}, nil)
	if err != nil {
		return err
	}
	read := *found.Load()
	rows := make([][]byte, 0, len(left)) // nil for an erased row
	for i := range left {
		if left[i].Reason == format.ReasonErased {
			rows = append(rows, nil)
			continue
		}
		if len(read) == 0 {
			break
		}
		rows, read = append(rows, read[0]), read[1:]
	}
	var full error
	err = b.do(ctx, func(t *txn) {
		if !t.stands(f, split) {
			return
		}
		if full = t.addPoison(f, left[:len(rows)], rows); full != nil {
			return
		}
		after := split.Clone()
		after.Kept += len(rows)
		for i := range left[:len(rows)] {
			if left[i].Reason == format.ReasonErased {
				after.Erased++
				f.omitted = append(f.omitted, left[i].Row)
			}
		}
		if !last || int64(after.Kept) < poison {
			after.Forget()
			t.step(f, after)
			return
		}
		f.rec.Split = after
		t.ended(f, format.FileImported)
		if after.Kept > after.Erased {
			var first format.RefusedRow
			if i := slices.IndexFunc(left, func(r format.RefusedRow) bool { return r.Reason != format.ReasonErased }); i >= 0 { // else earlier commits have moved all of them
				first = left[i]
			}
			now := t.now
			t.onDurable(func() {
				key := queueKey{stepImport, whole.SinkID, refusedRows + whole.Table.ID} // of no queue of errands
				if files, _, ok := b.probes.speak(key, first.Column+" "+first.Reason, now); ok {
					b.log.Warn("file imported without refused rows", "sink", whole.SinkID, "file", whole.ID,
						"rows", after.Kept-after.Erased, "of", whole.Rows, "reason", first.Reason, "column", first.Column, "files", files, "next", "replay or discard the refused rows in the quarantine")
				}
			})
		}
	})
	if err != nil {
		return nil // the buffer closes or is reopened
	}
	return full
}

// refusedRows begins the keys that thin log lines about refused rows. Log lines about failed imports use other keys.
const refusedRows = "refused rows of "

// addPoison puts rows of a file into the quarantine of its sink. The error says that it is full, and then nothing is done.
func (t *txn) addPoison(f *file, words []format.RefusedRow, rows [][]byte) error {
	s := f.sink
	id, columns := t.b.fileID(f), f.rec.Def.Table.Columns
	heads := make([]*format.Reject, len(rows)) // nil for a row that was erased
	size, records := int64(0), 0
	for i := range rows {
		if words[i].Reason == format.ReasonErased {
			continue
		}
		records++
		heads[i] = &format.Reject{At: t.now.UnixMilli(), Poison: &format.Poison{File: id, RefusedRow: words[i], Columns: columns, Label: f.rec.Def.Label}, Came: int64(len(rows[i]))}
		size += heads[i].Size()
	}
	if records == 0 {
		return nil
	}
	if full := s.noRoom(records, size); full != nil {
		f.lacks = poisonSize{f.rec.Split.Kept, records, size}
		return full
	}
	for i := range rows {
		if heads[i] != nil {
			t.freed -= t.addReject(t.batch, s, heads[i], rows[i])
		}
	}
	t.dropOldest(s)
	return nil
}

// poisonSize is the size of refused rows for which the quarantine had no room, the rows after the first kept refused rows of the file. A step of the
// split compares it with the quarantine before it reads the rows again.
type poisonSize struct {
	kept, rows int
	bytes      int64
}

// stillNoRoom says that the quarantine still has no room for the next refused rows.
func (b *Buffer) stillNoRoom(f *file, split *format.Split) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if f.lacks.rows == 0 || f.lacks.kept != split.Kept {
		return nil
	}
	return f.sink.noRoom(f.lacks.rows, f.lacks.bytes)
}

// noRoom says that the quarantine has no room for so many refused rows, or nil if it has. Called with mu held.
func (s *sinkState) noRoom(rows int, bytes int64) error {
	q := &s.rec.Quarantine
	if q.DropOldest || s.heldBytes+bytes <= q.MaxBytes && s.held.len()+rows <= q.MaxRecords {
		return nil
	}
	return driver.Permanent(fmt.Errorf("the target refuses rows of the file, and the quarantine has no room for them: it has %d of %d records and %d of %d bytes",
		s.held.len(), q.MaxRecords, s.heldBytes, q.MaxBytes))
}

// endSplit counts the rows of a split file that was imported in part or without its refused rows, and returns the rows that are left to count
// for the state in which the file ends.
func (t *txn) endSplit(f *file, state format.FileState, sum format.Tally) (rest format.Tally) {
	split := f.rec.Split
	if split == nil {
		return sum
	}
	s := f.sink
	take := func(to *format.Count, rows int64) {
		bytes := rest.Raw
		if rows < rest.Rows {
			bytes = int64(float64(rest.Raw) * float64(rows) / float64(rest.Rows)) // the bytes of a part are not counted
		}
		to.Add(rows, bytes)
		rest.Rows -= rows
		rest.Raw -= bytes
	}
	rest = sum
	take(&s.rec.Poison, int64(split.Kept-split.Erased))
	take(&s.rec.Discarded, int64(split.Erased))
	if state != format.FileImported {
		take(&s.rec.Imported, split.Imported())
	}
	f.rec.Split = split.End()
	return rest
}
