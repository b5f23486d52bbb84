package pebblestore

import "sync"

// A filler writes zeros after the end of a log, so that later syncs find blocks that were written before. The sync of a growing
// file must also commit the new size and blocks to the journal of the file system, which takes at least twice as long. The same
// holds for blocks that were reserved and never written. Spare logs have such blocks, but there are none until the first logs
// are full, and a process with a few rows a second never gets there.
//
// Pebble stops reading a log at zeros, as it does at the rest of an older log, so they may be there after a crash.
//
// The design that lost was spare files that are written at the opening and become logs later. Everything that lists the files of the
// store would have to know them, and the first log, which matters most to a process with few rows, is made before them.
type filler struct {
	mu      sync.Mutex
	limit   int64 // no zeros are written from here on because a log of this length is full
	pos     int64 // where the next write goes
	synced  int64 // pos at the last sync
	written int64 // the file has been written up to here
}

const (
	// fillMost is how many bytes are written ahead at once. The next sync pays for them.
	fillMost = 1 << 20
	// fillFor is the largest sync after which zeros are written. A log that grows faster would write as many zeros as data for
	// little gain, because the larger a sync, the smaller the journal's share of it.
	fillFor = 64 << 10
)

var zeros [64 << 10]byte

// FillLogs sets how far new logs are written ahead. 0 means not at all.
func (s *FS) FillLogs(size int64) { s.fill.Store(size) }

// newFiller returns the filler of a new log, or nil.
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

// writeLog writes to the end of the log. No zeros are written meanwhile.
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

// fill is called before a sync. An error only ends the filling. One that matters comes back from the sync.
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
