package pebblestore

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// files follows the files of one opening: logs that can be written over, tables that nothing refers to yet, and how much
// compactions may write.
//
// A log whose rows are in tables is kept as a spare and written over by a later one, because a sync is much cheaper where
// the blocks of the file exist. The database can do the same, but it never gives such files back. Here they are deleted
// when the room is needed, when the store is idle, and when it is closed.
type files struct {
	mu     sync.Mutex
	own    map[string]bool // logs of this opening, by base name
	spares []string        // paths, the oldest first
	saving bool            // no spares, nothing written ahead
	tables map[string]bool // tables of this opening that the list of tables cannot name; true: complete
	quota  int64           // what compactions may still write
	ended  chan struct{}   // closed when the opening is being closed
	end    sync.Once
}

// maxSpares is how many logs are kept: with as many write buffers as the database may have, all of its logs are written
// over.
const maxSpares = 4

// unlimited is the quota while nothing is known of the room.
const unlimited = 1 << 62

// fullPause follows a compaction that had no room. The database repeats it at once.
const fullPause = time.Second

func (f *files) init() {
	f.own, f.tables = make(map[string]bool), make(map[string]bool)
	f.quota = unlimited
	f.ended = make(chan struct{})
}

// fileKind is what a file of the store holds.
type fileKind uint8

const (
	kindOther fileKind = iota
	kindLog
	kindTable
	kindList // the list of tables
)

// optionsPrefix begins the names of the files in which the database notes its settings.
const optionsPrefix = "OPTIONS-"

func kindOf(path string) fileKind {
	switch base := path[strings.LastIndexAny(path, `/\`)+1:]; {
	case strings.HasSuffix(base, ".log"):
		return kindLog
	case strings.HasSuffix(base, ".sst"):
		return kindTable
	case strings.HasPrefix(base, "MANIFEST-"):
		return kindList
	}
	return kindOther
}

// rewrites reports whether a file is one that a compaction makes. When it cannot be written nothing is lost, and the
// database tries again.
func rewrites(c vfs.DiskWriteCategory) bool { return c == "pebble-compaction" }

// isFull reports whether an error says that the disk, or what this user may have of it, is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// cleaner has the database remove each log that it needs no longer, in place of keeping it for itself. The database asks
// only whether its cleaner has the method by which the cleaner that keeps everything is known.
type cleaner struct {
	pebble.DeleteCleaner
	keepsEverything
}

type keepsEverything struct{ pebble.ArchiveCleaner }

// made is told of every file that was made.
func (f *files) made(file *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch file.kind {
	case kindLog:
		f.own[file.name] = true
	case kindTable:
		f.tables[file.name] = false
	}
}

// written is told before something is written. The database completes a table before it lists it, so a table that is not
// complete when the list changes is not in it.
func (f *files) written(file *file) {
	if file.kind != kindList {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, complete := range f.tables {
		if complete {
			delete(f.tables, name)
		}
	}
}

func (f *files) closed(file *file) {
	if file.kind != kindTable {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.tables[file.name]; ok {
		f.tables[file.name] = true
	}
}

// keepSpare reports whether a file that is to be removed is kept to be written over.
func (f *files) keepSpare(path string) bool {
	if kindOf(path) != kindLog {
		return false
	}
	base := path[strings.LastIndexAny(path, `/\`)+1:]
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.own[base]
	delete(f.own, base)
	// An earlier version may have written the others in another format.
	if !own || f.saving || len(f.spares) >= maxSpares {
		return false
	}
	f.spares = append(f.spares, path)
	return true
}

// takeSpare returns the path of a log to write over, "" when there is none.
func (f *files) takeSpare() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spares) == 0 {
		return ""
	}
	path := f.spares[0]
	f.spares = f.spares[1:]
	return path
}

// save says whether to do without spares and without what is written ahead.
func (f *files) save(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saving = on
}

func (f *files) frugal() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saving
}

// allow sets how much compactions may write.
func (f *files) allow(quota int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quota = quota
}

// deduct takes n bytes from what compactions may write, or all that is left.
func (f *files) deduct(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quota = max(0, f.quota-n)
}

// claim takes n bytes of what compactions may write.
func (f *files) claim(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quota < int64(n) {
		return errNoRoomToRewrite
	}
	if f.quota < unlimited {
		f.quota -= int64(n)
	}
	return nil
}

// errNoRoomToRewrite keeps a compaction from the room that the logs need to become tables.
var errNoRoomToRewrite = errors.New("no room is left to rewrite tables: it is tried again")

// pause waits before the database hears that a compaction had no room.
func (f *files) pause() {
	timer := time.NewTimer(fullPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ended:
	}
}

// stop ends all pauses.
func (f *files) stop() { f.end.Do(func() { close(f.ended) }) }

// DropSpares deletes the logs that are kept to be written over. It reports how many there were.
func (s *FS) DropSpares() (n int) {
	for path := s.files.takeSpare(); path != ""; path = s.files.takeSpare() {
		// An error leaves a file that the next opening removes.
		s.change(func() error { _ = s.FS.Remove(path); return nil })
		n++
	}
	return n
}

// sweep removes the tables that this opening has begun and that nothing refers to. The opening must have ended, and
// nothing of it run any more. Without it every failed opening of a full disk would take more of the disk.
func (s *FS) sweep() {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	for name := range s.files.tables {
		_ = s.FS.Remove(s.FS.PathJoin(s.dir, name)) // the next opening removes what is left
	}
	clear(s.files.tables)
}
