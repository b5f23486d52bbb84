package buffer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The three calls to drivers. Each follows from a state that is on disk, may be repeated after a crash, and ends in an
// operation that records its outcome.

// queueUpload asks for Staging.Put of a sealed slice.
func (b *Buffer) queueUpload(sl *slice) {
	b.uploads.add(sl.file.sink.num, job{key: sl.num, run: func(ctx context.Context) { b.upload(ctx, sl) }})
}

func (b *Buffer) upload(ctx context.Context, sl *slice) {
	b.mu.RLock()
	due, salvaged := sl.rec.State == SliceUploading, sl.rec.Salvaged
	since := sl.rec.Unreadable
	obj, ext := b.object(sl), sl.rec.extent()
	again, e := sl.rec.Retry.Attempt > 0, b.uploadErrand(sl)
	b.mu.RUnlock()
	if !b.enter(e, due && again, time.Time{}) {
		return
	}
	defer b.leave(ctx, e)
	if !due {
		return
	}
	if salvaged {
		b.takeStaged(ctx, sl, obj)
		return
	}
	if mutant == mutantEarlyWipe && obj.Rows%2 == 0 {
		_ = b.do(ctx, func(t *txn) { t.wipe = append(t.wipe, sl.num) })
	}
	src := &sliceSource{b: b, slice: sl.num, obj: obj, ext: ext}
	err := b.attempt(ctx, "upload", obj.SinkID, func(ctx context.Context) error { return b.opts.Staging.Put(ctx, obj, src) })
	src.end()
	giveUp := src.unreadable.Load() && !since.IsZero() && b.now().Sub(since) >= b.opts.UnreadableAfter
	if src.damaged.Load() || giveUp {
		// A driver that reports success all the same has stored less than all: it is put again without the damage.
		if err = b.attempt(ctx, "set-aside", obj.SinkID, func(ctx context.Context) error { return b.setAside(ctx, sl, giveUp) }); err == nil {
			return
		}
	}
	if err == nil {
		b.succeeded(e)
		_ = b.do(ctx, func(t *txn) {
			if b.sliceID(sl) == obj.ID {
				t.uploaded(sl)
			} else { // damage was set aside meanwhile: what is in staging is not what the slice is now
				t.then(func() { b.queueUpload(sl) })
			}
		})
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
	b.uploadFailed(ctx, sl, obj, err)
}

func (b *Buffer) uploadFailed(ctx context.Context, sl *slice, obj Object, err error) {
	b.attemptFailed(ctx, b.uploadErrand(sl), obj.ID, err, func(t *txn) *retryRecord {
		if sl.rec.State != SliceUploading {
			return nil
		}
		t.touchSlice(sl)
		t.changed = true
		sl.file.failures++
		return &sl.rec.Retry
	})
}

// queueImport asks for Target.Import of a file whose slices are all in staging.
func (b *Buffer) queueImport(f *file) {
	b.imports.add(f.sink.num, job{key: f.num, run: func(ctx context.Context) { b.importFile(ctx, f) }})
}

func (b *Buffer) importFile(ctx context.Context, f *file) {
	b.mu.RLock()
	due := f.rec.State == FileImporting
	arg := b.describe(f)
	copied, salvaged := f.rec.Copied, f.rec.Salvaged
	retry, e := f.rec.Retry, b.importErrand(f)
	b.mu.RUnlock()
	if !b.enter(e, due && retry.Attempt > 0, retry.FirstFailed) {
		return
	}
	defer b.leave(ctx, e)
	if !due {
		return
	}
	if salvaged && b.takeImported(ctx, f, arg) {
		return
	}
	arg.OpenSlice = b.opts.Staging.Open
	arg.SaveProgress = func(ctx context.Context, note []byte) error {
		if len(note) > 4<<10 {
			return fmt.Errorf("buffer: progress note of %d bytes, at most 4096 are kept", len(note))
		}
		note = append([]byte(nil), note...)
		over := false
		err := b.do(ctx, func(t *txn) {
			if over = b.mu.files[f.num] != f || f.rec.State != FileImporting; over {
				return
			}
			f.rec.Progress = note
			t.touchFile(f)
		})
		if err == nil && over {
			err = fmt.Errorf("buffer: file %s: its import has ended", arg.ID)
		}
		return err
	}
	if mutant == mutantNewID {
		arg.ID = fmt.Sprintf("%s-%d", arg.ID, b.now().UnixNano())
	}
	if mutant == mutantReverse {
		slices.Reverse(arg.Slices)
	}
	err := b.attemptWatched(ctx, "import", arg.SinkID, func(ctx context.Context) error {
		err := b.opts.Target.Import(ctx, arg)
		if copied && errors.Is(err, fs.ErrNotExist) && b.holds(ctx, arg) {
			return nil
		}
		return err
	}, func() { b.late.add(f.num, 1) }, func(err error) { b.importedLate(f.num, arg, err) })
	if err == nil && mutant == mutantEarlyDelete {
		_ = b.opts.Staging.Delete(ctx, arg.Slices...)
	}
	if err == nil {
		b.succeeded(e)
		_ = b.do(ctx, func(t *txn) {
			t.ended(f, FileImported)
			t.then(func() {
				b.log.Debug("file imported", "sink", arg.SinkID, "file", arg.ID, "rows", arg.Rows, "bytes", arg.RawBytes, "slices", len(arg.Slices))
			})
		})
		return
	}
	b.attemptFailed(ctx, e, arg.ID, err, func(t *txn) *retryRecord {
		if f.rec.State != FileImporting {
			return nil
		}
		t.touchFile(f)
		f.failures++
		return &f.rec.Retry
	})
}

// holds reports whether the target has a file whose staged objects are gone. So it is when two engines have the file,
// one restored from a checkpoint of the other, and the other has imported it and cleaned up: see [Buffer.Checkpoint].
func (b *Buffer) holds(ctx context.Context, f *File) bool {
	counter, ok := b.opts.Target.(Counter)
	if !ok {
		return false
	}
	n, err := counter.CountFile(ctx, f.Table, f.ID)
	return err == nil && n == f.Rows
}

// describe makes the argument of Import. Called with mu held.
func (b *Buffer) describe(f *file) *File {
	out := &File{ID: b.fileID(f), SinkID: f.sink.id, Table: f.rec.Def.Table, Progress: f.rec.Progress}
	for _, sl := range f.slices {
		out.Slices = append(out.Slices, b.object(sl))
		out.Rows += sl.rows
		out.RawBytes += sl.raw
	}
	return out
}

// expire gives up a file whose retention has passed: its rows leave the buffer, counted and logged.
func (t *txn) expire(f *file) {
	t.ended(f, FileExpired)
	log, rows, retry := t.b.log, f.rec.Rows, f.rec.Retry
	t.then(func() {
		log.Error("file expired: its rows are given up", "sink", f.sink.id, "file", t.b.fileID(f), "rows", rows,
			"first_failed", retry.FirstFailed, "attempts", retry.Attempt, "reason", retry.Reason)
	})
}

// queueCleanup asks for Staging.Delete of the objects of an ended file.
func (b *Buffer) queueCleanup(f *file) {
	b.cleanups.add(f.sink.num, job{key: f.num, run: func(ctx context.Context) { b.cleanup(ctx, f) }})
}

func (b *Buffer) cleanup(ctx context.Context, f *file) {
	b.mu.RLock()
	id := b.fileID(f)
	var objs []Object
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
	if mutant == mutantLeakObject {
		objs = objs[1:]
	}
	err := b.attempt(ctx, "clean-up", f.sink.id, func(ctx context.Context) error {
		return b.opts.Staging.Delete(ctx, objs...)
	})
	if err == nil {
		b.succeeded(e)
		_ = b.do(ctx, func(t *txn) { t.cleaned(f) })
		return
	}
	b.attemptFailed(ctx, e, id, err, func(t *txn) *retryRecord {
		if len(f.slices) == 0 {
			return nil
		}
		t.touchSlice(f.slices[0]) // an expired file keeps the reason of its end
		return &f.slices[0].rec.Retry
	})
}

// abandonAfter is how long a driver may go on after its context has ended. Then its call counts as failed, and is left
// alone: the contract lets the next attempt run beside it.
const abandonAfter = 10 * time.Second

// maxReason bounds the text of a failure, which is kept in the records.
const maxReason = 4 << 10

// attemptError is a failed call of a driver, reduced to what is recorded. The driver's own error may be of any kind: its
// methods are called once, where a panic is caught.
type attemptError struct {
	text      string
	permanent bool
}

func (e *attemptError) Error() string { return e.text }

// attempt calls a driver with a bound on its time. Whatever the driver does, panics included, is a failure of this
// attempt alone.
func (b *Buffer) attempt(ctx context.Context, step, sinkID string, call func(context.Context) error) error {
	return b.attemptWatched(ctx, step, sinkID, call, func() {}, func(error) {})
}

// attemptWatched is attempt for calls whose late end matters: left is called when the call is left alone, and late when
// it returns all the same.
func (b *Buffer) attemptWatched(ctx context.Context, step, sinkID string, call func(context.Context) error, left func(), late func(error)) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.opts.AttemptTimeout)
	defer cancel()
	result := make(chan *attemptError, 1)
	var decided atomic.Bool // by the end of the call, or by leaving it alone
	go func() {
		failure := &attemptError{text: "the driver ended its goroutine"}
		defer func() {
			if r := recover(); r != nil {
				failure = &attemptError{text: fmt.Sprintf("the driver panicked: %.1000v", r)}
			}
			result <- failure
			if !decided.CompareAndSwap(false, true) {
				late(failure.err())
			}
		}()
		// When the log of the store is shorter later, what the call does outside is newer than the records.
		b.store.Load().NoteReach()
		err := call(ctx)
		if err == nil {
			failure = nil
			return
		}
		failure = &attemptError{text: "the driver returned an error that cannot be printed"}
		text := err.Error()
		if len(text) > maxReason {
			text = text[:maxReason] + "…"
		}
		failure = &attemptError{text: strings.ToValidUTF8(text, "\ufffd"), permanent: IsPermanent(err)}
	}()
	var failure *attemptError
	select {
	case failure = <-result:
	case <-ctx.Done():
		select {
		case failure = <-result:
		case <-time.After(abandonAfter):
			left()
			if !decided.CompareAndSwap(false, true) {
				failure = <-result
				late(failure.err())
				break
			}
			failure = &attemptError{text: fmt.Sprintf("the driver did not return within %s of the end of its context", abandonAfter)}
			b.log.Error("driver does not return", "sink", sinkID, "step", step, "since", begin)
		}
	}
	err := failure.err()
	b.metrics.called(sinkID, step, time.Since(begin), err)
	return err
}

// err returns the failure as an error, nil when there is none.
func (e *attemptError) err() error {
	switch {
	case e == nil:
		return nil
	case e.permanent:
		return Permanent(e)
	}
	return e
}

// sliceSource reads the stored bytes of a sealed slice: compressed chunks as they are, runs of raw ones packed into
// members.
type sliceSource struct {
	b     *Buffer
	slice uint64
	obj   Object
	ext   extent
	// damaged is set when a reading met damage.
	damaged atomic.Bool
	// unreadable is set when the disk gave an error for a chunk.
	unreadable atomic.Bool

	mu      sync.Mutex
	over    bool
	readers []*io.PipeReader
}

// errSourceOver is returned to a driver that reads after its Put has returned.
var errSourceOver = errors.New("the call of Put that this source belongs to is over")

// end closes what the driver has left open, and refuses further reading.
func (s *sliceSource) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, r := range s.readers {
		_ = r.CloseWithError(errSourceOver)
	}
}

func (s *sliceSource) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Open implements [Source].
func (s *sliceSource) Open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil, errSourceOver
	}
	s.readers = append(s.readers, r)
	s.mu.Unlock()
	reader := &sliceReader{PipeReader: r, ended: make(chan struct{})}
	go func() {
		defer close(reader.ended)
		_, err := s.WriteTo(w)
		w.CloseWithError(err)
	}()
	return reader, nil
}

// sliceReader ends with its writer: after Close nothing reads from the store any more.
type sliceReader struct {
	*io.PipeReader
	ended chan struct{}
}

func (r *sliceReader) Close() error {
	err := r.PipeReader.Close()
	<-r.ended
	return err
}

// packBytes is how many raw bytes of small chunks make one member.
const packBytes = 1 << 20

// WriteTo implements [Source].
func (s *sliceSource) WriteTo(w io.Writer) (n int64, err error) {
	var (
		packer = compressor{gzipLevel: s.b.opts.GzipLevel}
		run    []byte // raw rows that wait to be packed
	)
	write := func(p []byte) error {
		if s.isOver() {
			return errSourceOver
		}
		k, err := w.Write(p)
		n += int64(k)
		return err
	}
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		err := write(packer.member(s.obj.Encoding, run))
		packer.reset()
		run = run[:0]
		return err
	}
	rows := int64(0)
	err = s.b.eachChunk(s.slice, s.ext, func(_ int, h chunkHeader, data []byte) error {
		rows += h.rows
		if h.encoding == s.obj.Encoding {
			if err := flush(); err != nil {
				return err
			}
			return write(data)
		}
		run = append(run, data...)
		if len(run) >= packBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && rows != s.obj.Rows {
		err = &DamageError{Chunk: -1, Rows: s.obj.Rows - rows, Err: errors.New("chunks are missing")}
	}
	var unreadable *readError
	if errors.As(err, &unreadable) {
		s.unreadable.Store(true)
	}
	var damage *DamageError
	if errors.As(err, &damage) {
		damage.SinkID, damage.SliceID = s.obj.SinkID, s.obj.ID
		s.damaged.Store(true)
	}
	return n, err
}

// eachChunk calls fn with the chunks of a slice in order, without those that were set aside: their part of the store
// may still be unreadable. The payload is valid during the call. Damage is a [*DamageError]; other errors of reading may
// pass.
func (b *Buffer) eachChunk(slice uint64, ext extent, fn func(seq int, h chunkHeader, payload []byte) error) error {
	st := b.store.Load()
	if err := st.Read(); err != nil {
		return fmt.Errorf("read slice: %w", err)
	}
	defer st.Release()
	from, to := chunkBounds(slice)
	it, err := st.DB.NewIter(iterBounds(from, to))
	if err != nil {
		return fmt.Errorf("read slice: %w", err)
	}
	defer it.Close()
	var key [chunkKeySize]byte
	// A mere SeekGE would step there through the part that cannot be read.
	seek := func(seq uint32) bool {
		putChunkKey(key[:], slice, seq)
		it.SetBounds(key[:], to)
		return it.First()
	}
	next, more := ext.next(0)
	for ok := more && seek(next); more; {
		seq := next
		var value []byte
		switch {
		case ok:
			seq = binary.BigEndian.Uint32(it.Key()[9:])
			if value, err = it.ValueAndErr(); err != nil {
				return damageOf(int(seq), err)
			}
		case it.Error() == nil:
			return nil
		default:
			if value = storedChunk(st.DB, slice, seq); value == nil {
				return damageOf(int(seq), it.Error())
			}
		}
		h, payload, err := parseChunk(value)
		if err != nil {
			return damageOf(int(seq), err)
		}
		if err := fn(int(seq), h, payload); err != nil {
			return err
		}
		next, more = ext.next(seq + 1)
		if ok && next == seq+1 {
			ok = it.Next()
		} else {
			ok = more && seek(next)
		}
	}
	return nil
}

// storedChunk returns a copy of one chunk that an iterator could not come to, nil when it is not there or cannot be read. An
// iterator fails when any part of the store that may hold the key is damaged, also one beside it; this ends at the newest
// part that has it.
func storedChunk(db *pebble.DB, slice uint64, seq uint32) []byte {
	var key [chunkKeySize]byte
	putChunkKey(key[:], slice, seq)
	value, closer, err := db.Get(key[:])
	if err != nil {
		return nil
	}
	defer closer.Close()
	return bytes.Clone(value)
}
