package buffer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Files that wait for their import move from one engine to another in five steps, each of them durable before the next one:
//
//	BeginDeparture  no call of a driver for a file of the first engine runs or begins
//	ReceiveFiles    copies of the records are in the second engine, in no list: nothing imports them
//	the decision    is the caller's, outside of both engines, in one atomic write
//	EndArrival      the copies become files of the second engine, which imports them, or are deleted
//	EndDeparture    the first engine forgets its files, or imports them again
//
// Only records move. The objects of the slices stay where they are in staging, which both engines reach under the same names. A file keeps its ids, and
// the ids of its parts, by which staging and target know it. Its keys in the second engine are new. So an import that the first engine has begun
// before, and one by the second engine, are imports of one id, which a target takes once.
//
// A mark in the record of the file keeps the first engine from importing it, even after a restart. Without the mark, an engine that is opened between
// the decision and EndDeparture would import the file at the same time as the second engine. The target would store its rows once, but a split file
// would continue in two ways.

// arrivingFile is a file of another engine that does not belong to this one yet.
type arrivingFile struct {
	num  uint64 // of its key
	size int    // of its record
	rec  format.ArrivingFile
}

// fileMoves is the error of a call for a file that moves to another engine.
func fileMoves(id string) error {
	return fmt.Errorf("%w: file %s", ErrFileMoves, id)
}

// Moves moves the rejected records and the waiting files of one buffer to another. See [Buffer.Moves]. It is for a cluster, whose nodes take over what a
// lost node has left.
type Moves struct{ b *Buffer }

// Moves returns the moves to and from this buffer.
func (b *Buffer) Moves() Moves { return Moves{b} }

// BeginDeparture lets no import of the waiting files begin, durably, until [Moves.EndDeparture], and waits for running ones. It returns the number of
// files. Meanwhile, calls that would change such a file return [ErrFileMoves].
//
// It does nothing, and the error says why, if a file is not in staging, or if a call of its target has not returned in time and still runs. It
// also fails with a [*FailedError], [ErrClosed] or the error of ctx. After an error repeat the call, or call EndDeparture.
func (m Moves) BeginDeparture(ctx context.Context) (files int, err error) {
	b := m.b
	b.mu.RLock()
	leaving, stays := b.departure()
	b.mu.RUnlock()
	if stays != nil || len(leaving) == 0 {
		return 0, stays
	}
	if err := b.upgradeFor(format.Moves); err != nil {
		return 0, err
	}
	epoch := uint64(0)
	if err := b.do(ctx, func(t *txn) {
		epoch = b.store.Now().Epoch
		if leaving, stays = b.departure(); stays != nil {
			return
		}
		t.upgrade(format.Moves)
		for _, f := range leaving {
			if !f.rec.Leaving {
				f.rec.Leaving = true
				t.touchFile(f)
			}
		}
	}); err != nil {
		return 0, err // the committer may still set stays
	}
	if stays != nil {
		return 0, stays
	}
	if err := b.awaitImports(ctx, epoch, leaving); err != nil {
		return 0, err
	}
	b.mu.RLock()
	leaving, stays = b.departure()
	b.mu.RUnlock()
	if stays != nil {
		return 0, errors.Join(stays, m.EndDeparture(ctx, false))
	}
	return len(leaving), nil
}

// departure returns the files that wait for their import. The error says why one of them cannot leave. Called with mu held.
func (b *Buffer) departure() (leaving []*file, stays error) {
	for _, num := range slices.Sorted(maps.Keys(b.mu.files)) {
		f := b.mu.files[num]
		switch {
		case f.done():
			continue
		case f.rec.State != format.FileImporting || slices.ContainsFunc(f.slices, func(sl *slice) bool { return sl.rec.State != format.SliceUploaded }):
			return nil, fmt.Errorf("buffer: file %s of sink %q is not in staging yet", b.fileID(f), f.sink.id)
		case b.late.runs(f.num):
			return nil, fmt.Errorf("%w: file %s of sink %q", ErrImportRuns, b.fileID(f), f.sink.id)
		}
		leaving = append(leaving, f)
	}
	return leaving, nil
}

// awaitImports waits for the imports of files that are running. None begins.
func (b *Buffer) awaitImports(ctx context.Context, epoch uint64, files []*file) error {
	type turn struct {
		target string
		sink   uint32
	}
	waits := map[turn]chan struct{}{}
	for _, f := range files {
		at := turn{f.target, f.sink.num}
		if waits[at] != nil {
			continue
		}
		idle := make(chan struct{})
		waits[at] = idle
		// A sink has one import at a time.
		b.importsOf(f).add(f.sink.num, job{key: discardJob | b.discards.Add(1), run: func(context.Context) { close(idle) }})
	}
	for _, idle := range waits {
		for waiting := true; waiting; {
			b.mu.RLock()
			changed, again := b.waitChange(), b.store.Now().Epoch != epoch
			b.mu.RUnlock()
			switch f := b.failure(); {
			case f != nil:
				return f
			case again: // the job is gone with the workers
				return errReopened
			}
			select {
			case <-idle:
				waiting = false
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-b.closed:
				return ErrClosed
			}
		}
	}
	return nil
}

// EndDeparture ends what [Moves.BeginDeparture] has begun, durably, even in an engine that was opened since. moved says that the files belong to
// another engine. Then this one forgets them, and leaves their objects in staging. Otherwise it imports them again. It does nothing if no file leaves.
//
// It fails with a [*FailedError], [ErrClosed] or the error of ctx. After an error repeat it with the same
// decision.
func (m Moves) EndDeparture(ctx context.Context, moved bool) error {
	b := m.b
	leaves := func(f *file) bool { return f.rec.Leaving && !f.done() }
	b.mu.RLock()
	some := slices.ContainsFunc(slices.Collect(maps.Values(b.mu.files)), leaves)
	b.mu.RUnlock()
	if !some {
		return nil
	}
	return b.do(ctx, func(t *txn) {
		for _, s := range b.mu.sinks {
			for _, f := range s.files {
				switch {
				case !leaves(f):
				case moved:
					t.forgetMoved(f)
				default:
					f.rec.Leaving = false
					t.touchFile(f)
					t.onDurable(func() { b.queueImport(f) })
				}
			}
			if moved {
				s.files = slices.DeleteFunc(slices.Clone(s.files), func(f *file) bool { return b.mu.files[f.num] != f })
				s.recount(b.opts.MaxSinkBytes)
			}
		}
	})
}

// forgetMoved deletes the records of a file that belongs to another engine.
func (t *txn) forgetMoved(f *file) {
	b, sum := t.b, f.tally()
	f.sink.rec.Moved.Add(sum.Rows, sum.Raw)
	t.touchSink(f.sink)
	for _, sl := range f.slices {
		t.staged -= sl.Stored
		t.drop = append(t.drop, sl)
		delete(b.mu.slices, sl.num)
	}
	delete(b.mu.files, f.num)
	t.dropFile = append(t.dropFile, f)
	t.changed = true
	t.onDurable(func() { b.timers.Remove(timerKey{timerImport, f.num}) })
}

// ReceiveFiles copies the records of the files that leave another buffer into this one, durably, and returns how many there are. It is called after
// [Moves.BeginDeparture] of the other buffer. Staging and targets of the two are the same. The rows of the files count in no ledger of this buffer until
// EndArrival. ReceiveFiles first deletes the copies that an earlier call made for the instance.
//
// It fails if the files would take too much of MaxDiskBytes or MaxSinkBytes, or with a [*FailedError], [ErrClosed] or the error of ctx. After an
// error call EndArrival, or repeat the call.
func (m Moves) ReceiveFiles(ctx context.Context, other *Buffer, by Mover) (files int, err error) {
	b := m.b
	if other == nil || other.store == nil || by.Instance == "" {
		return 0, errors.New("buffer: the files of an open buffer move, and the mover names its instance")
	}
	from := format.Arrival(by)
	var list []format.ArrivingFile
	other.mu.RLock()
	for _, num := range slices.Sorted(maps.Keys(other.mu.files)) {
		if f := other.mu.files[num]; f.rec.Leaving && !f.done() {
			list = append(list, other.leaving(f, from))
		}
	}
	other.mu.RUnlock()
	if err := b.dropFiles(ctx, by.Instance); err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, nil
	}
	if err := b.roomForFiles(list); err != nil {
		return 0, err
	}
	if err := b.upgradeFor(format.Moves); err != nil {
		return 0, err
	}
	for rest := list; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < arrivalRecords && (n == 0 || size < keepBytes) {
			size += len(format.Encode(&rest[n]))
			n++
		}
		some := rest[:n]
		if err := b.do(ctx, func(t *txn) {
			t.upgrade(format.Moves)
			for i := range some {
				t.receiveFile(some[i])
			}
		}); err != nil {
			return 0, fmt.Errorf("buffer: receive %d files from instance %s: %w", len(list), by.Instance, err)
		}
		rest = rest[n:]
	}
	return len(list), nil
}

// leaving returns the records of a file as another buffer gets them. Called with mu held.
func (b *Buffer) leaving(f *file, from format.Arrival) format.ArrivingFile {
	a := format.ArrivingFile{From: from, File: f.rec}
	a.File.Instance, a.File.Number = cmp.Or(f.rec.Instance, b.instance), cmp.Or(f.rec.Number, f.num)
	a.File.SinkID, a.File.Leaving, a.File.Copied = f.sink.id, false, true
	for _, sl := range f.slices {
		rec := sl.rec
		rec.Instance, rec.Number, rec.Tally = cmp.Or(rec.Instance, b.instance), cmp.Or(rec.Number, sl.num), sl.Tally
		a.Slices = append(a.Slices, rec)
	}
	return a
}

// roomForFiles returns an error if files need too much room. Together with the waiting rows they may fill half of the bounds, so that the buffer can still accept rows.
func (b *Buffer) roomForFiles(list []format.ArrivingFile) error {
	sinks, all := map[string]int64{}, b.admission.used()
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.mu.sinks {
		sinks[s.id] = s.room.waiting.Load()
		for i := range s.arrivingFiles {
			n := s.arrivingFiles[i].rec.Sum().Stored
			sinks[s.id] += n
			all += n
		}
	}
	for i := range list {
		n := list[i].Sum().Stored
		sinks[list[i].File.SinkID] += n
		all += n
	}
	if limit := b.opts.MaxDiskBytes / 2; all > limit {
		return fmt.Errorf("buffer: with the files, %d bytes wait here, and files move up to %d bytes, half of MaxDiskBytes: repair the tables that refuse rows, or raise MaxDiskBytes", all, limit)
	}
	for _, a := range list {
		if n, limit := sinks[a.File.SinkID], b.opts.MaxSinkBytes/2; n > limit {
			return fmt.Errorf("buffer: with the files, %d bytes of sink %q wait here, and files move up to %d bytes, half of MaxSinkBytes: repair its table, or raise MaxSinkBytes", n, a.File.SinkID, limit)
		}
	}
	return nil
}

// receiveFile stores one arriving file.
func (t *txn) receiveFile(a format.ArrivingFile) {
	b := t.b
	s := t.sinkNamed(a.File.SinkID)
	a.File.Sink = s.num
	b.mu.lastFile++
	t.counters = true
	num, value := b.mu.lastFile, format.Encode(&a)
	s.arrivingFiles = append(s.arrivingFiles, arrivingFile{num, len(value), a})
	t.addToBatch(func(batch *pebble.Batch) { _ = batch.Set(format.ArrivalKey(num), value, nil) }) // a plain batch cannot fail
}

// sinkNamed returns a sink, which it makes if it was never defined here.
func (t *txn) sinkNamed(id string) *sinkState {
	b := t.b
	s := b.mu.sinks[id]
	if s == nil {
		b.mu.lastSink++
		s = &sinkState{num: b.mu.lastSink, id: id, rec: format.Sink{ID: id, Dropped: true}}
		b.mu.sinks[id], b.mu.byNum[s.num] = s, s
		t.touchSink(s)
	}
	return s
}

// filesFrom returns the number of files that arrive from an instance.
func (b *Buffer) filesFrom(instance string) (n int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.mu.sinks {
		for i := range s.arrivingFiles {
			if s.arrivingFiles[i].rec.From.Instance == instance {
				n++
			}
		}
	}
	return n
}

// dropFiles deletes the copies of files that arrive from an instance.
func (b *Buffer) dropFiles(ctx context.Context, instance string) error {
	return b.endFiles(ctx, instance, func(*txn, *sinkState, *arrivingFile) {})
}

// acceptFiles turns the arriving files of an instance into files of this buffer.
func (b *Buffer) acceptFiles(ctx context.Context, instance string) error {
	return b.endFiles(ctx, instance, (*txn).acceptFile)
}

// endFiles ends the arrival of files, many in a commit.
func (b *Buffer) endFiles(ctx context.Context, instance string, take func(*txn, *sinkState, *arrivingFile)) error {
	for b.filesFrom(instance) > 0 {
		if err := b.do(ctx, func(t *txn) {
			n, size := 0, 0
			for _, s := range b.mu.sinks {
				s.arrivingFiles = slices.DeleteFunc(slices.Clone(s.arrivingFiles), func(a arrivingFile) bool {
					if a.rec.From.Instance != instance || n >= arrivalRecords || size >= keepBytes {
						return false
					}
					n, size = n+1, size+a.size
					t.addToBatch(func(batch *pebble.Batch) { _ = batch.Delete(format.ArrivalKey(a.num), nil) })
					take(t, s, &a)
					return true
				})
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// acceptFile makes a file of this buffer of one that has arrived.
func (t *txn) acceptFile(s *sinkState, a *arrivingFile) {
	b, id := t.b, a.rec.ID()
	// A salvage may have found both the arrival and the file.
	if slices.ContainsFunc(s.files, func(f *file) bool { return b.fileID(f) == id }) {
		return
	}
	b.mu.lastFile++
	t.counters = true
	f := &file{num: b.mu.lastFile, sink: s, rec: a.rec.File}
	if f.rec.Def != nil {
		f.target = f.rec.Def.Table.Target
	}
	for _, rec := range a.rec.Slices {
		b.mu.lastSlice++
		rec.File = f.num
		sl := &slice{num: b.mu.lastSlice, file: f, rec: rec, Tally: rec.Tally}
		b.mu.slices[sl.num] = sl
		f.slices = append(f.slices, sl)
		t.staged += sl.Stored
		t.touchSlice(sl)
	}
	b.mu.files[f.num] = f
	s.files = append(s.files, f)
	sum := f.tally()
	s.rec.Sealed.Add(sum.Rows, sum.Raw)
	t.touchFile(f)
	t.touchSink(s)
	t.onDurable(func() { b.queueImport(f) })
}

// recoverArrivals reads the files of other engines that do not belong to this one yet.
func (r *recovery) recoverArrivals() error {
	return eachRecord(r.db, format.PrefixArrival, func(key, value []byte) error {
		a := arrivingFile{num: binary.BigEndian.Uint64(key), size: len(value)}
		if err := format.Decode(value, &a.rec); err != nil {
			return pebblestore.Damaged("record of the arriving file %d: %w", a.num, err)
		}
		s := r.byNum[a.rec.File.Sink]
		if s == nil {
			return pebblestore.Damaged("record of the arriving file %d: sink %d is unknown", a.num, a.rec.File.Sink)
		}
		s.arrivingFiles = append(s.arrivingFiles, a)
		return nil
	})
}
