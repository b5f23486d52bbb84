package buffer

import (
	"cmp"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/trigger"
)

// maxSlices closes a file whatever its conditions say, so that one import has a bounded number of objects.
const maxSlices = 100

// history is how many ended files of a sink are listed, for each way to end.
const history = 31

// timerKind is the kind of work that is due.
type timerKind uint8

const (
	timerSlice    timerKind = iota // the step-1 interval of a slice
	timerFile                      // the step-2 interval of a file
	timerProbe                     // the next probe of a queue
	timerImport                    // the end of the retention of a file that could not be imported
	timerDamage                    // the end of the retention of a record of damage
	timerReceipts                  // the end of the oldest receipts
	timerCompact                   // the next call of Compactor for a sink
	timerRejects                   // the end of the oldest rejected record of a sink
)

type timerKey struct {
	kind timerKind
	num  uint64
}

// openFile opens the file of a sink with its first row.
func (t *txn) openFile(s *sinkState, def *format.Definition) {
	b := t.b
	b.mu.lastFile++
	f := &file{num: b.mu.lastFile, sink: s, target: def.Table.Target, rec: format.File{
		Instance: b.instance, Sink: s.num, SinkID: s.id, State: format.FileWriting, Def: def, Opened: t.now,
	}}
	b.mu.files[f.num] = f
	s.files = append(s.files, f)
	s.file = f
	t.counters = true
	t.touchFile(f)
	at := f.rec.Opened.Add(def.Import.Interval)
	t.onDurable(func() { b.timers.Set(timerKey{timerFile, f.num}, at) })
}

// openSlice opens a slice in the sink's writing file.
func (t *txn) openSlice(s *sinkState) {
	b := t.b
	f := s.file
	b.mu.lastSlice++
	sl := &slice{num: b.mu.lastSlice, file: f, rec: format.Slice{Instance: b.instance, File: f.num, State: format.SliceWriting, Opened: t.now}}
	b.mu.slices[sl.num] = sl
	f.slices = append(f.slices, sl)
	s.slice = sl
	t.counters = true
	t.touchSlice(sl)
	at := sl.rec.Opened.Add(f.rec.Def.Upload.Interval)
	t.onDurable(func() { b.timers.Set(timerKey{timerSlice, sl.num}, at) })
}

// sealSlice ends the writing of a slice. Its totals are final, and it waits for its upload.
func (t *txn) sealSlice(sl *slice, why trigger.Reason) {
	b := t.b
	s := sl.file.sink
	if s.slice == sl {
		s.slice = nil
	}
	sl.rec.State, sl.rec.Closed, sl.rec.Reason = format.SliceUploading, t.now, why.String()
	sl.rec.Tally = sl.Tally
	sl.small.Store(sl.Raw <= maxLightUpload)
	sl.rec.Chunks = sl.chunks
	s.rec.Sealed.Add(sl.Rows, sl.Raw)
	t.touchSlice(sl)
	t.touchSink(s)
	t.onDurable(func() {
		b.timers.Remove(timerKey{timerSlice, sl.num})
		b.metrics.triggered(s.id, sl.file.target, "upload", why)
		b.queueUpload(sl)
	})
	id, rows := b.sliceID(sl), sl.Rows
	t.onDurable(func() { b.log.Debug("slice sealed", "sink", s.id, "slice", id, "reason", why, "rows", rows) })
}

// checkFile closes the sink's writing file when one of its conditions is met.
func (t *txn) checkFile(s *sinkState, now time.Time) {
	f := s.file
	if f == nil {
		return
	}
	sum := f.tally()
	why := f.rec.Def.Import.Due(trigger.Load{Since: f.rec.Opened, Size: sum.Stored, Count: sum.Rows}, now)
	if why == trigger.None && len(f.slices) >= maxSlices && s.slice == nil {
		why = trigger.Full
	}
	if why != trigger.None {
		t.closeFile(f, why)
	}
}

// closeFile ends the writing of a file and of its open slice.
func (t *txn) closeFile(f *file, why trigger.Reason) {
	b := t.b
	s := f.sink
	if s.slice != nil && s.slice.file == f {
		t.sealSlice(s.slice, why)
	}
	s.file = nil
	b.admission.gathering.Add(-f.gathered)
	f.gathered = 0
	f.rec.State, f.rec.Closed, f.rec.Reason = format.FileClosing, t.now, why.String()
	t.touchFile(f)
	t.onDurable(func() {
		b.timers.Remove(timerKey{timerFile, f.num})
		b.metrics.triggered(s.id, f.target, "import", why)
	})
	n := len(f.slices)
	t.onDurable(func() { b.log.Debug("file closed", "sink", s.id, "file", b.fileID(f), "reason", why, "slices", n) })
	t.checkUploaded(f)
}

// checkUploaded starts the import of a closed file once all its slices are in staging.
func (t *txn) checkUploaded(f *file) {
	if f.rec.State != format.FileClosing {
		return
	}
	for _, sl := range f.slices {
		if sl.rec.State != format.SliceUploaded {
			return
		}
	}
	if len(f.slices) == 0 {
		t.ended(f, format.FileImported) // everything in it was damaged
		return
	}
	f.rec.State, f.rec.Sealed, f.rec.Retry = format.FileImporting, t.now, format.Retry{}
	f.size.Store(f.tally().Raw)
	t.touchFile(f)
	t.onDurable(func() { t.b.queueImport(f) })
}

// uploaded records that a slice is in staging and frees its local rows.
func (t *txn) uploaded(sl *slice) {
	if sl.rec.State != format.SliceUploading {
		return
	}
	sl.rec.State, sl.rec.Retry = format.SliceUploaded, format.Retry{}
	t.touchSlice(sl)
	t.wipe = append(t.wipe, sl.num)
	t.freed += sl.Stored
	t.staged += sl.Stored
	t.touchFile(sl.file)
	t.checkUploaded(sl.file)
}

// ended records that a file was imported, expired or discarded. Its staged objects are cleaned up afterwards.
func (t *txn) ended(f *file, state format.FileState) {
	if f.done() {
		return
	}
	b := t.b
	s := f.sink
	sum := f.tally()
	f.rec.Tally = sum
	f.rec.State, f.rec.Finished, f.rec.Progress = state, t.now, nil
	rest := t.endSplit(f, state, sum)
	switch state {
	case format.FileImported:
		f.rec.Retry = format.Retry{}
		s.rec.Imported.Add(rest.Rows, rest.Raw)
		s.rec.StoredImported += sum.Stored
		if s.rec.FirstAt == 0 || sum.First < s.rec.FirstAt {
			s.rec.FirstAt = sum.First
		}
		s.rec.LastAt = max(s.rec.LastAt, sum.Last)
		oldest, id := format.Time(sum.First), b.fileID(f)
		t.onDurable(func() {
			waited := time.Since(oldest)
			b.metrics.delivered(s.id, f.target, waited)
			b.opts.Hooks.delivered(DeliveredEvent{s.id, id, sum.Rows, sum.Raw, waited})
		})
	case format.FileDiscarded:
		s.rec.Discarded.Add(rest.Rows, rest.Raw)
	default:
		s.rec.Expired.Add(rest.Rows, rest.Raw)
	}
	for _, sl := range f.slices {
		if sl.rec.State == format.SliceUploading { // only a discarded file still has local rows
			t.wipe = append(t.wipe, sl.num)
			t.freed += sl.Stored
		}
		sl.rec.State, sl.rec.Retry = format.SliceImported, format.Retry{}
		t.touchSlice(sl)
	}
	t.touchFile(f)
	t.touchSink(s)
	t.onDurable(func() {
		b.timers.Remove(timerKey{timerImport, f.num})
		b.queueCleanup(f)
		if state == format.FileImported {
			b.queueCompact(s)
		}
	})
}

// cleaned removes the slices of an ended file, and the oldest ended files of its sink.
func (t *txn) cleaned(f *file) {
	for _, sl := range f.slices {
		t.staged -= sl.Stored
		t.drop = append(t.drop, sl)
		delete(t.b.mu.slices, sl.num)
	}
	f.slices = nil
	s := f.sink
	s.recount(t.b.opts.MaxSinkBytes)
	ended := map[format.FileState]int{}
	for _, o := range s.files {
		if o.done() && len(o.slices) == 0 {
			ended[o.rec.State]++
		}
	}
	s.files = slices.DeleteFunc(s.files, func(o *file) bool {
		if ended[o.rec.State] <= history && !o.rec.Forgotten || !o.done() || len(o.slices) > 0 {
			return false
		}
		ended[o.rec.State]--
		delete(t.b.mu.files, o.num)
		t.dropFile = append(t.dropFile, o)
		return true
	})
}

// retryFailed repeats all failed work of a sink at once.
func (t *txn) retryFailed(s *sinkState) {
	for _, f := range s.files {
		t.retryFile(f)
	}
}

func (t *txn) retryFile(f *file) {
	if s := f.rec.Split; s != nil && s.Imports+int(s.Took) > 0 && f.rec.State == format.FileImporting {
		split := s.Clone()
		split.Imports, split.Took = 0, 0
		f.rec.Split = split
		t.touchFile(f)
	}
	if f.rec.State == format.FileImporting {
		t.again(t.b.importErrand(f))
	}
	for _, sl := range f.slices {
		if sl.rec.State == format.SliceUploading {
			t.again(t.b.uploadErrand(sl))
		}
	}
}

// again asks for an attempt that does not wait for its turn. It follows one that runs.
func (t *txn) again(e errand) {
	b := t.b
	t.onDurable(func() {
		b.probes.force(e.key, e.num)
		e.run()
	})
}

// fire runs on the scheduler's goroutine when a timer is due.
func (b *Buffer) fire(k timerKey) {
	_, _ = b.post(&operation{run: func(t *txn) {
		switch k.kind {
		case timerSlice:
			if sl := b.mu.slices[k.num]; sl != nil && sl.rec.State == format.SliceWriting {
				t.intervalOfSlice(sl)
			}
		case timerFile:
			if f := b.mu.files[k.num]; f != nil && f.rec.State == format.FileWriting {
				t.intervalOfFile(f)
			}
		case timerProbe:
			t.onDurable(func() {
				if e, ok := b.probes.due(k.num); ok {
					e.run()
				}
			})
		case timerImport:
			if f := b.mu.files[k.num]; f != nil && f.rec.State == format.FileImporting {
				t.again(b.importErrand(f))
			}
		case timerDamage:
			t.onDurable(b.queueExpireDamage)
		case timerReceipts:
			b.receipts.mu.Lock()
			t.forgetReceipts()
			b.receipts.mu.Unlock()
		case timerCompact:
			if s := b.mu.byNum[uint32(k.num)]; s != nil {
				t.onDurable(func() { b.queueCompact(s) })
			}
		case timerRejects:
			if s := b.mu.byNum[uint32(k.num)]; s != nil {
				t.expireRejects(s)
			}
		}
	}}) // with an error the buffer is closing or has failed. Recovery sets the timers again
}

// intervalOfSlice seals a slice whose interval has passed. A clock that was set back makes it wait again.
func (t *txn) intervalOfSlice(sl *slice) {
	load := trigger.Load{Since: sl.rec.Opened, Size: sl.Stored, Count: sl.Rows}
	if why := sl.file.rec.Def.Upload.Due(load, t.now); why != trigger.None {
		t.sealSlice(sl, why)
		return
	}
	at := sl.file.rec.Def.Upload.Deadline(load)
	t.onDurable(func() { t.b.timers.Set(timerKey{timerSlice, sl.num}, at) })
}

func (t *txn) intervalOfFile(f *file) {
	if t.checkFile(f.sink, t.now); f.rec.State != format.FileWriting {
		return
	}
	at := f.rec.Def.Import.Deadline(trigger.Load{Since: f.rec.Opened, Count: f.tally().Rows})
	t.onDurable(func() { t.b.timers.Set(timerKey{timerFile, f.num}, at) })
}

func (b *Buffer) fileID(f *file) string {
	return format.FileID(cmp.Or(f.rec.Instance, b.instance), cmp.Or(f.rec.Number, f.num))
}

func (b *Buffer) sliceID(sl *slice) string {
	return format.SliceID(cmp.Or(sl.rec.Instance, b.instance), cmp.Or(sl.rec.Number, sl.num), sl.rec.Revision)
}

// object describes a slice to a driver. Call it with mu held or on a slice that is sealed.
func (b *Buffer) object(sl *slice) driver.Object {
	return driver.Object{
		ID: b.sliceID(sl), FileID: b.fileID(sl.file), SinkID: sl.file.sink.id, Encoding: driver.Encoding(sl.file.rec.Def.Encoding),
		Rows: sl.Rows, RawBytes: sl.Raw,
	}
}
