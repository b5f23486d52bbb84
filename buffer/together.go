package buffer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// Small files of different sinks are imported with one call of [driver.ManyImporter], because a transaction costs more than their rows. The
// workers gather files that wait for the same target. The target imports all files of the call or none, each under its own id.
//
//	wait for a worker ─▶ read from staging ─▶ ImportMany ─┬─ succeeds ─▶ one commit records all files
//	                        │ a slice fails               │
//	                        ▼                             ▼ fails, or its outcome is unknown
//	                     alone                          alone, each
//
// A failed call counts as an attempt of none of its files. Each file is then imported alone, as if it had never been in a call with others, and
// its id tells the target whether its rows are there already. So only Target.Import decides whether a file is at fault.
//
// A sink whose import was refused is imported alone until an import of it succeeds. Otherwise each of its files would fail a call for others.

const (
	// maxSharedFile bounds the bytes, before compression, of a file that is imported with others.
	maxSharedFile = 128 << 10
	// readTogether is how many slices are read from staging at once for a call, readPatience how long the call waits for them.
	readTogether = 8
	readPatience = 5 * time.Second
)

// shareOf says with which other files a file can be imported.
func (b *Buffer) shareOf(f *file) share {
	size := f.size.Load()
	if size <= 0 || size > maxSharedFile || f.sink.alone.Load() || b.ownTarget(f.sink.id) != nil {
		return share{}
	}
	target := b.targetNamed(f.target)
	if _, ok := target.(driver.ManyImporter); !ok {
		return share{}
	}
	if _, ok := target.(driver.Exclusive); ok && b.opts.Leases != nil {
		return share{}
	}
	if f.tried.Load() {
		return share{sharesAgain, size, f}
	}
	return share{sharesFirst, size, f}
}

// sharedFile is a file of a call with others.
type sharedFile struct {
	*file
	arg    *driver.File
	errand errand
	event  DriverEvent
	stored int64
	reads  *stagedReads
	slices []readSlice
}

// readSlice is a slice in memory.
type readSlice struct {
	obj  driver.Object
	data []byte
	err  error
}

// importTogether imports files of one target and of different sinks.
func (b *Buffer) importTogether(ctx context.Context, files []*file) {
	var shared []*sharedFile
	var alone []*file
	for _, f := range files {
		s, again, firstFailed := b.shareFile(f)
		switch {
		case s == nil:
			alone = append(alone, f)
		case b.enter(s.errand, again, firstFailed):
			shared = append(shared, s)
		}
	}
	shared, unread := b.readShared(ctx, shared)
	shared = slices.DeleteFunc(shared, func(s *sharedFile) bool { // rows of which are being erased, or were meanwhile
		begun := b.beginImport(s.file, nil)
		if !begun {
			b.leave(ctx, s.errand)
		}
		return !begun
	})
	if len(shared) > 0 && !b.importShared(ctx, shared) {
		unread = append(unread, shared...)
	}
	for _, s := range unread { // they keep their turn, even a retry that an operator requested
		b.probes.force(s.errand.key, s.errand.num)
		alone = append(alone, s.file)
	}
	for _, f := range alone {
		b.queueAlone(f)
	}
}

// queueAlone asks for Target.Import of a file without others.
func (b *Buffer) queueAlone(f *file) {
	b.importsOf(f).add(f.sink.num, job{key: f.num, run: func(ctx context.Context) { b.importFile(ctx, f) }})
}

// shareFile describes a file for a call with others, or nil if the file must be imported alone.
func (b *Buffer) shareFile(f *file) (s *sharedFile, again bool, firstFailed time.Time) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if f.rec.State != format.FileImporting || f.holds != 0 || f.rec.Leaving || f.rec.Split != nil || f.rec.Copied || f.rec.Salvaged {
		return nil, false, time.Time{}
	}
	arg, tally := b.describe(f), f.tally()
	s = &sharedFile{file: f, arg: arg, errand: b.importErrand(f), event: eventOf("import", arg.SinkID, arg.ID, tally), stored: tally.Stored, reads: b.stagedReads(f)}
	arg.SaveProgress = b.saveProgress(f, arg.ID)
	for _, obj := range arg.Slices {
		s.slices = append(s.slices, readSlice{obj: obj})
	}
	return s, f.rec.Retry.Attempt > 0, f.rec.Retry.FirstFailed
}

// readShared reads the slices of files into memory, so that the transaction does not wait for staging. It returns the files that it has read.
func (b *Buffer) readShared(ctx context.Context, files []*sharedFile) (read, unread []*sharedFile) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	type place struct{ file, slice int }
	var places []place
	for i, s := range files {
		for k := range s.slices {
			places = append(places, place{i, k})
		}
	}
	type result struct {
		place
		readSlice
	}
	results := make(chan result, 2*len(places)) // with room for both results of each read, so that a read that hangs blocks no goroutine
	var next atomic.Int64
	for range min(readTogether, len(places)) {
		go func() {
			for n := int(next.Add(1)) - 1; n < len(places) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				p := places[n]
				s := files[p.file]
				err := runAttempt(ctx, readPatience, func(ctx context.Context) error {
					data, err := s.reads.all(ctx, s.slices[p.slice].obj)
					results <- result{p, readSlice{s.slices[p.slice].obj, data, err}}
					return nil
				}, nil)
				if err != nil {
					results <- result{p, readSlice{err: err}}
				}
			}
		}()
	}
	good := make([]int, len(files))
	for range places {
		select {
		case r := <-results:
			if r.err == nil {
				files[r.file].slices[r.slice] = r.readSlice
				good[r.file]++
			}
		case <-ctx.Done():
		}
	}
	for i, s := range files {
		if good[i] == len(s.slices) {
			read = append(read, s)
		} else {
			unread = append(unread, s)
		}
	}
	return read, unread
}

// all reads an object.
func (r *stagedReads) all(ctx context.Context, obj driver.Object) ([]byte, error) {
	src, err := r.open(ctx, obj)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(src)
	return data, errors.Join(err, src.Close())
}

// open is File.OpenSlice.
func (s *sharedFile) open(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
	for _, sl := range s.slices {
		if sl.obj.ID == obj.ID {
			return io.NopCloser(bytes.NewReader(sl.data)), nil
		}
	}
	return nil, errNoSuchSlice
}

var errNoSuchSlice = errors.New("the file has no such slice")

// importShared imports files with one call, and reports whether it has.
func (b *Buffer) importShared(ctx context.Context, files []*sharedFile) bool {
	var args []*driver.File
	var stored, raw int64
	for _, s := range files {
		s.arg.OpenSlice = s.open
		args = append(args, s.arg)
		stored, raw = stored+s.stored, raw+s.arg.RawBytes
	}
	begin := time.Now()
	for _, s := range files {
		s.calling.Store(begin.UnixMilli())
		defer s.calling.Store(0)
	}
	target := b.targetNamed(files[0].target).(driver.ManyImporter)
	took, err := b.call(ctx, "import", files[0].arg.SinkID, func(ctx context.Context) error {
		return b.withRoom(target, stored, raw, func() error { return target.ImportMany(ctx, args) })
	}, &lateEnd{
		func() {
			for _, s := range files {
				b.late.add(s.num, 1)
			}
		},
		func(err error) {
			for _, s := range files {
				b.importedLate(s.num, s.arg, err)
			}
		},
	})
	if err != nil {
		b.log.Debug("import of several files failed", "files", len(files), "cause", err, "next", "none; each file is imported alone")
		return false
	}
	for _, s := range files {
		b.called(s.event, s.target, took, nil)
		b.succeeded(s.errand)
	}
	_ = b.do(ctx, func(t *txn) {
		for _, s := range files {
			t.imported(s.file, s.arg.ID, took)
		}
		t.onDurable(func() {
			for _, s := range files {
				b.log.Debug("file imported", "sink", s.arg.SinkID, "file", s.arg.ID, "rows", s.arg.Rows, "bytes", s.arg.RawBytes, "slices", len(s.arg.Slices), "together", len(files))
			}
		})
	})
	for _, s := range files {
		b.leave(ctx, s.errand)
	}
	return true
}
