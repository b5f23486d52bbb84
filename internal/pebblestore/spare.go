package pebblestore

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// files tracks the files of one opening, which are logs that can be written over, tables that nothing refers to yet, and how much
// compactions may write.
//
// A log whose rows are in tables is kept as a spare, and a later log is written over it, because a sync is much cheaper where the blocks
// of the file exist. Pebble can recycle logs itself, but never deletes them. Here they are deleted when room is short, when the
// store is idle, and when it is closed.
type files struct {
	mu      sync.Mutex
	own     map[string]*file // logs of this opening, by base name
	spares  []string         // paths, the oldest first
	saving  bool             // no spares, nothing written ahead
	tables  map[string]bool  // tables of this opening that the list of tables cannot name yet, true if complete
	swept   map[string]bool  // tables that sweep has removed. The next opening may give their names to others
	damaged atomic.Int64     // reads of damaged blocks by compactions
	quota   int64            // what compactions may still write
	spent   int64            // bytes that were taken from quotas since the opening
	ended   chan struct{}    // closed when the opening is being closed
	end     sync.Once
}

// maxSpares is how many logs are kept. Pebble has at most as many write buffers with their logs, so each new log can be written
// over an old one.
const maxSpares = 4

// unlimited is the quota while nothing is known of the room.
const unlimited = 1 << 62

// fullPause delays the error of a compaction that had no room, because pebble repeats it at once.
const fullPause = time.Second

func (f *files) init() {
	f.own, f.tables = make(map[string]*file), make(map[string]bool)
	f.quota = unlimited
	f.ended = make(chan struct{})
}

// fileKind is the kind of a file's content.
type fileKind uint8

const (
	kindOther fileKind = iota
	kindLog
	kindTable
	kindList // the list of tables
)

// optionsPrefix begins the names of the files in which pebble notes its options.
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

// rewrites reports whether a file is made by a compaction. If it cannot be written nothing is lost, and pebble tries again.
func rewrites(c vfs.DiskWriteCategory) bool { return c == "pebble-compaction" }

// isFull reports whether an error says that the disk, or the quota of this user, is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) }

// cleaner makes pebble remove each log that it no longer needs. With its own DeleteCleaner it would recycle logs itself. It does
// not where the cleaner has the method of an ArchiveCleaner, which is all that it checks.
type cleaner struct {
	pebble.DeleteCleaner
	keepsEverything
}

type keepsEverything struct{ pebble.ArchiveCleaner }

// made is called for each new file.
func (f *files) made(file *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch file.kind {
	case kindLog:
		f.own[file.name] = file
	case kindTable:
		f.tables[file.name] = false
	}
}

// log returns the log of a path, nil if this opening has not made it.
func (f *files) log(path string) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own[path[strings.LastIndexAny(path, `/\`)+1:]]
}

// isSwept reports whether sweep has removed the table with this path.
func (f *files) isSwept(path string) bool {
	if kindOf(path) != kindTable {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, swept := f.swept[path[strings.LastIndexAny(path, `/\`)+1:]]
	return swept
}

// written is called before each write. Pebble completes a table before it lists it, so a change of the list can name only the
// tables that are complete by then.
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

// keepSpare reports whether a file that pebble removes is kept as a spare.
func (f *files) keepSpare(path string) bool {
	if kindOf(path) != kindLog {
		return false
	}
	base := path[strings.LastIndexAny(path, `/\`)+1:]
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.own[base]
	delete(f.own, base)
	// Logs of earlier openings may have another format.
	if own == nil || own.purged || f.saving || len(f.spares) >= maxSpares {
		return false
	}
	f.spares = append(f.spares, path)
	return true
}

// purge keeps no log of now as a spare, when it is not needed any longer.
func (f *files) purge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, log := range f.own {
		log.purged = true
	}
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

// save says whether to do without spares and without writing ahead.
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

// taken returns how much was taken from quotas since the opening.
func (f *files) taken() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spent
}

// allow sets how much compactions may write since taken returned a value.
func (f *files) allow(quota, since int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quota = quota; quota < unlimited {
		f.quota = max(0, quota-(f.spent-since))
	}
}

// deduct takes n bytes from what compactions may write, or all that is left.
func (f *files) deduct(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spent += n
	if f.quota < unlimited {
		f.quota = max(0, f.quota-n)
	}
}

// claim takes n bytes of what compactions may write.
func (f *files) claim(n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quota < n {
		return errNoRoomToRewrite
	}
	f.spent += n
	if f.quota < unlimited {
		f.quota -= n
	}
	return nil
}

// errNoRoomToRewrite refuses a compaction the room that the logs need to become tables.
var errNoRoomToRewrite = errors.New("no room is left to rewrite tables: it is tried again")

// pause waits for fullPause, or until the opening is closed.
func (f *files) pause() {
	timer := time.NewTimer(fullPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ended:
	}
}

// damagedAtOnce is how many reads of damaged bytes jobs make without a pause, and between two of them.
const damagedAtOnce = 16

// slowDamage delays one in damagedAtOnce reads of damaged bytes by a job, each time by a second more, up to a minute. Pebble repeats a
// compaction that has met damage at once, for as long as the block is there, and after Open its job that reads the footers of the tables, too. They
// would keep a core busy, and fill the log. Other reads are never delayed.
func (f *files) slowDamage() {
	if !inJob() {
		return
	}
	if n := f.damaged.Add(1); n%damagedAtOnce == 0 {
		for range min(n/damagedAtOnce, 60) {
			f.pause()
		}
	}
}

// inJob reports whether a job of pebble calls that pebble repeats. The event of damaged bytes does not say who reads them.
func inJob() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if method, ok := strings.CutPrefix(frame.Function, "github.com/cockroachdb/pebble/v2.(*DB)."); ok && (method == "runCompaction" || method == "collectTableStats") {
			return true
		}
		if !more {
			return false
		}
	}
}

// stop ends all pauses.
func (f *files) stop() { f.end.Do(func() { close(f.ended) }) }

// DropSpares deletes the spare logs and returns how many there were.
func (s *FS) DropSpares() (n int) {
	for path := s.files.takeSpare(); path != ""; path = s.files.takeSpare() {
		// An error leaves a file that the next opening removes.
		s.change(func() error { _ = s.FS.Remove(path); return nil })
		n++
	}
	return n
}

// sweep removes the tables that this opening has begun and that nothing refers to. The opening must have ended, and [FS.Wait] returned.
// Without it each failed opening would take more of a full disk.
//
// The next opening may use the names again, while this one still has them in its list of tables in memory. It would read tables of
// the other, with rows that it also has in its own tables, and pebble panics where a compaction meets a row twice. So from now on
// [FS.Open] refuses these names.
func (s *FS) sweep() {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	for name := range s.files.tables {
		_ = s.FS.Remove(s.FS.PathJoin(s.dir, name)) // the next opening removes the remaining tables
	}
	s.files.swept, s.files.tables = s.files.tables, map[string]bool{}
}
