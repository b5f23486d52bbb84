package pebblestore

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config says how a store is opened.
type Config struct {
	// Dir is the folder; FS the file system that it is on. [Open] creates the folder unless Exists is set.
	Dir string
	FS  vfs.FS
	// Log gets the messages of the database.
	Log *slog.Logger
	// MemTable bounds the write buffer, in bytes. With little room it is smaller.
	MemTable int64
	// Exists refuses to create a store. A volume that is away leaves an empty folder.
	Exists bool
	// FillLogs writes zeros ahead in logs while their syncs are small, see [filler].
	FillLogs bool
	// Tune changes the settings of the database. Nil means none.
	Tune func(*pebble.Options)
	// ClosingLogs is how many bytes of logs a store that was closed may keep. The rows in larger logs become tables. Tables
	// have checksums for all that is in them, while the end of a log may be one that a crash has torn.
	ClosingLogs int64
	// Limit bounds the bytes that the store takes, together with what Beside returns. 0 means that only the volume bounds them. Beside is
	// optional.
	Limit  int64
	Beside func() int64
	// Live returns how many bytes of the store are needed. The rest can be reclaimed. Nil means that all are needed.
	Live func() int64
	// Roomier is called when there is room again after [Opening.Full] has refused. Close waits for it. Optional.
	Roomier func()
	// Corrupted is called when a table is found damaged while it is read, even by the database itself, as long as the opening lives. It
	// may be called several times, with locks of the database held, so it must neither block nor use the store. Optional.
	Corrupted func(error)
	// Patience is how long an opening that is closed waits for its readers. By default, it waits as long as they take.
	Patience time.Duration

	// failed is called once, with locks of the database held, when a failure ends the opening. It must not block nor call the
	// database. Nil means no call.
	failed func(*Opening, error)
}

// Opening is one opening of a database. After a failure of the disk it is closed and a new one is opened. It is safe
// for concurrent use.
type Opening struct {
	// DB is the database. Users other than the owner call Read first.
	DB *pebble.DB

	fs   *FS
	conf Config
	room room

	mu      sync.Mutex
	closed  bool
	readers sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// ErrClosed is returned to readers that are too late.
var ErrClosed = errors.New("the store is closed or being reopened")

// The limits of the write buffer, and its share of the room. The logs and the tables of three of them, and four logs to
// be written over, take up to ten times as much.
const (
	leastMemTable = 256 << 10
	roomPerMem    = 64
)

// Open opens a store that no other process has open, creating it if need be. With a [*RoomError] nothing was changed
// except files that are not needed. Damage is a [*DamageError], or an error of the database (see [IsDamage]).
func Open(c Config) (*Opening, error) {
	// The room is measured before the database makes its folder, and a volume can only be asked about a folder that exists.
	if _, err := c.FS.Stat(c.Dir); errors.Is(err, fs.ErrNotExist) && !c.Exists {
		if err := MakeDir(c.FS, c.Dir); err != nil {
			return nil, err
		}
	}
	logs, err := inspectFiles(c.FS, c.Dir)
	if err != nil {
		return nil, err
	}
	o := &Opening{conf: c}
	space, err := o.checkRoom(logs)
	if err != nil {
		return nil, err
	}
	o.fs = New(c.FS, c.Dir, func(err error) {
		o.fs.files.stop()
		if c.failed != nil {
			c.failed(o, err)
		}
	})
	restrictAll(c.FS, c.Dir)
	removeOptions(c.FS, c.Dir)
	mem := c.MemTable
	if space > 0 {
		mem = max(min(mem, space/roomPerMem), leastMemTable)
	}
	if c.FillLogs {
		o.fs.FillLogs(mem)
	}
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	settings := &pebble.Options{
		FS: o.fs, Cache: cache, ErrorIfNotExists: c.Exists, Logger: o.fs.Logger(c.Log),
		EventListener: listener(c.Log, func(err error) {
			if c.Corrupted != nil && o.fs.Failure() == nil {
				c.Corrupted(err)
			}
			o.fs.files.slowDamage()
		}, o.fs.files.slowDamage),
		MemTableSize: uint64(mem), FormatMajorVersion: pebble.FormatNewest, Cleaner: cleaner{},
	}
	// The usual scheduler wakes ten times a second to look whether more compactions may run at once. Here few run, and
	// each looks for the next when it ends, so an idle store can sleep. The name says that the database itself needs this
	// one for tests alone. It is the usual one without the goroutine that wakes, and the only such one that is exported.
	settings.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	if c.Tune != nil {
		c.Tune(settings)
	}
	o.DB, err = pebble.Open(c.Dir, settings)
	if err != nil {
		o.fs.Cut(err)
		o.fs.Wait()
		o.fs.sweep()
		if e := o.fs.Failure(); e != nil && !errors.Is(err, e) {
			err = errors.Join(err, e)
		}
		return nil, err
	}
	if err := o.fs.Failure(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.room.start(o)
	return o, nil
}

// OpenReadOnly opens a store that no other process has open, to inspect it. It changes nothing.
func OpenReadOnly(c Config) (*Opening, error) {
	o := &Opening{conf: c, fs: New(c.FS, c.Dir, func(error) {})}
	var err error
	o.DB, err = pebble.Open(c.Dir, &pebble.Options{
		FS: o.fs, ReadOnly: true, ErrorIfNotExists: true, Logger: o.fs.Logger(c.Log), EventListener: listener(c.Log, func(error) {}, func() {}),
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Failure returns the error that ended the opening, nil while it lives. After a failure, the database's memory may
// differ from the disk.
func (o *Opening) Failure() error { return o.fs.Failure() }

// End ends the opening because of an error that the database itself did not take for one.
func (o *Opening) End(err error) { o.fs.End(err) }

// OnSync has fn called when a log was synced, or would have been after the end.
func (o *Opening) OnSync(fn func()) { o.fs.OnSync(fn) }

// Read keeps the database open until the reader calls Release.
func (o *Opening) Read() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	o.readers.Add(1)
	return nil
}

// Release ends what Read began.
func (o *Opening) Release() { o.readers.Done() }

// ErrStillRead is returned by [Opening.Close] when readers remain.
var ErrStillRead = errors.New("the store is still read from: its files stay open until that ends, nothing is lost")

// Close waits for the readers, gives back the room the store does not need, unless the disk has failed, and closes the
// database. From then on the folder is the next opening's, even after an error. It may be called again.
func (o *Opening) Close() error {
	o.closeOnce.Do(func() { o.closeErr = o.close() })
	return o.closeErr
}

func (o *Opening) close() error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.fs.files.stop()
	o.room.stop()
	defer o.fs.closeReach()
	if !o.drained() {
		// The database cannot be closed under its readers. Until the last of them ends it stays open, cut off from the disk,
		// so that whoever opens the folder next has it alone.
		o.fs.Cut(ErrStillRead)
		o.fs.Wait()
		go func() {
			o.readers.Wait()
			_ = o.DB.Close() // nothing of it reaches the disk
		}()
		return ErrStillRead
	}
	if o.fs.Failure() == nil {
		o.giveBack(o.conf.ClosingLogs, true)
	}
	rows := o.DB.Metrics().WAL.Size > 0 // none that are in tables already
	err := o.DB.Close()
	if o.fs.Failure() == nil {
		if rows {
			o.fs.noteReach() // no next log says that the end of the last one was synced
		}
		o.fs.DropSpares()
	}
	o.fs.Wait()
	o.fs.sweep()
	if e := o.fs.Failure(); e != nil {
		err = e // errors of the database after its end are of no interest
	}
	return err
}

// drained waits for the readers and reports whether they have ended.
func (o *Opening) drained() bool {
	if o.conf.Patience <= 0 {
		o.readers.Wait()
		return true
	}
	idle := make(chan struct{})
	go func() {
		o.readers.Wait()
		close(idle)
	}()
	timer := time.NewTimer(o.conf.Patience)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// LockDir keeps other openings of a folder out, in this process and in others, however its path is spelled. If a different opening holds the
// folder, the error is an [*InUseError]. The end of a process releases its locks.
func LockDir(disk vfs.FS, dir string) (io.Closer, error) {
	folder, err := lockFolder(disk, dir)
	if err != nil {
		return nil, err
	}
	path := disk.PathJoin(dir, "LOCK") // the name is pebble's
	lock, err := disk.Lock(path)
	if err != nil {
		if s := err.Error(); strings.Contains(s, "resource temporarily unavailable") || strings.Contains(s, "lock held by current process") {
			err = &InUseError{err}
		}
		return nil, errors.Join(err, folder.Close())
	}
	return closers{folder, lock}, nil
}

// closers are closed together, the last one first.
type closers []io.Closer

func (c closers) Close() error {
	var failed []error
	for _, closer := range slices.Backward(c) {
		failed = append(failed, closer.Close())
	}
	return errors.Join(failed...)
}

// restrictAll keeps other users from reading files that an earlier version made. New files are private. See [localdisk.Real].
func restrictAll(disk vfs.FS, dir string) {
	names, err := disk.List(dir)
	if err != nil || vfs.Root(disk) != vfs.Default {
		return
	}
	for _, name := range names {
		path := disk.PathJoin(dir, name)
		if info, err := disk.Stat(path); err == nil && info.Mode().IsRegular() {
			_ = os.Chmod(path, 0o600) // some file systems have no permissions
		}
	}
}

// WriteNote writes a small file durably, all of it or none.
func WriteNote(disk vfs.FS, dir, name, text string) error {
	path := disk.PathJoin(dir, name)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(text)); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := disk.Rename(path+".new", path); err != nil {
		return err
	}
	return SyncDir(disk, dir)
}

// ReadNote returns the first limit bytes of a file.
func ReadNote(disk vfs.FS, path string, limit int64) (string, error) {
	f, err := disk.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return string(text), err
}

// removeOptions removes the notes of settings that earlier openings have left, because no code reads them.
func removeOptions(disk vfs.FS, dir string) {
	names, err := disk.List(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, optionsPrefix) {
			_ = disk.Remove(disk.PathJoin(dir, name)) // it does no harm
		}
	}
}
