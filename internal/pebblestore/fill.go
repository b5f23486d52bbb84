package pebblestore

import "sync"

// A filler writes zeros behind the end of a log, so that the syncs to come find blocks that were written before. A sync
// of a file that grows must also commit the new size and blocks to the journal of the file system, which takes it twice as
// long and more; so does one of room that was reserved and never written. The store writes over old logs for this reason,
// but an opening has none before it has filled the first ones: a process with a few rows a second never gets there.
//
// The store stops reading a log at zeros as at the rest of an older log, so they may be there after a crash.
//
// The design that lost: spare files that are written when the store is opened and get the name of a log later. They need
// a place in everything that lists the files of the store, and the first log, which matters most to a process with few
// rows, is there before them.
type filler struct {
	mu      sync.Mutex
	limit   int64 // no zeros behind it: a log that long is full
	pos     int64 // where the next write goes
	synced  int64 // pos at the last sync
	written int64 // the file has been written up to here
}

const (
	// fillMost is how many bytes are written ahead at once. The sync that follows pays for them.
	fillMost = 1 << 20
	// fillFor is the largest sync that others are prepared for. A log that fills faster would write as many zeros as data
	// for little: the larger a sync, the smaller its share of the journal.
	fillFor = 64 << 10
)

var zeros [64 << 10]byte

// FillLogs has the logs that are made from then on written ahead, up to size, where they are synced often.
func (s *FS) FillLogs(size int64) { s.fill.Store(size) }

// newFiller returns the filler of a log that was just made or is to be written over, nil if there is none.
func (f *file) newFiller() *filler {
	limit := f.fs.fill.Load()
	if f.kind != kindLog || limit <= 0 || f.fs.files.frugal() {
		return nil
	}
	info, err := f.File.Stat()
	if err != nil {
		return nil
	}
	return &filler{limit: limit, written: info.Size()}
}

// writeLog writes, and keeps zeros away from where it writes.
func (f *file) writeLog(p []byte) (int, error) {
	l := f.filler
	if l == nil {
		return f.File.Write(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := f.File.Write(p)
	l.pos += int64(n)
	return n, err
}

// fill is called before a sync. What it writes is an advice to the disk: an error ends it and nothing else, for one that
// matters comes back from the sync.
func (f *file) fill() {
	l := f.filler
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size := l.pos - l.synced
	l.synced = l.pos
	l.written = max(l.written, l.pos)
	if size > fillFor || l.written-l.pos >= size {
		return
	}
	end := min(l.written+min(fillMost, l.limit/8), l.limit) &^ 4095
	for l.written < end {
		n := min(end-l.written, int64(len(zeros)))
		if _, err := f.File.WriteAt(zeros[:n], l.written); err != nil {
			l.limit = 0
			return
		}
		l.written += n
	}
}
