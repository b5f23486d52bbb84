package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/forebay/forebay/internal/pebblestore"
)

// storeMemory bounds the memory of the default store: definitions are small.
const storeMemory = 1 << 20

// The store is opened anew after a failure, at most so often.
const (
	reopenFirst = 100 * time.Millisecond
	reopenLast  = 10 * time.Second
)

// instanceKey holds what tells a store from every other one. No prefix of the catalog covers it.
const instanceKey = "store/instance"

// pebbleStore is the default store. It outlives failures of the disk: the opening that failed is cut off from the disk,
// and the next call opens another one from what the disk has.
type pebbleStore struct {
	fs       vfs.FS
	dir      string
	log      *slog.Logger
	lock     io.Closer // keeps other processes out, over all openings
	instance string

	mu      sync.Mutex
	closed  bool
	now     *opening // nil after a failure
	failure error    // why now is nil
	attempt int
	next    time.Time // the next attempt to open
	calls   sync.WaitGroup
	copying sync.Mutex // held by Checkpoint
}

// opening is one opening of the database. mu of the store protects users and gone.
type opening struct {
	db    *pebble.DB
	fs    *pebblestore.FS
	users int
	gone  bool // the last user closes it
}

// OpenStore opens the default store: a pebble database in a folder, which it creates if need be. One process has it open
// at a time; others get an [*InUseError]. A store whose files are not what they were gives a [*DamageError].
//
// When the disk fails, calls return a [*FailedError] until the store could open itself anew.
func OpenStore(dir string, log *slog.Logger) (Store, error) {
	return openStore(dir, log, vfs.Default)
}

func openStore(dir string, log *slog.Logger, disk vfs.FS) (Store, error) {
	s := &pebbleStore{fs: disk, dir: filepath.Clean(dir), log: log}
	if err := pebblestore.MakeDir(disk, s.dir); err != nil {
		return nil, fmt.Errorf("catalog: create %s: %w", dir, err)
	}
	var err error
	if s.lock, err = disk.Lock(disk.PathJoin(s.dir, "LOCK")); err != nil { // the name is the database's
		if pebblestore.IsLocked(err) {
			return nil, &InUseError{Dir: s.dir, Err: err}
		}
		return nil, fmt.Errorf("catalog: lock %s: %w", dir, err)
	}
	if s.now, err = s.open(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// open opens the database; once it is known, only that of the instance. What it returns is durable: the database writes
// what it reads from a log to a table before it is open.
func (s *pebbleStore) open() (*opening, error) {
	if err := pebblestore.CheckFiles(s.fs, s.dir); err != nil {
		return nil, s.damage(fmt.Errorf("catalog: open %s: %w", s.dir, err))
	}
	o := &opening{fs: pebblestore.New(s.fs, s.dir, func(error) {})}
	options := &pebble.Options{
		FS:                 o.fs,
		ErrorIfNotExists:   s.instance != "", // a volume that is away leaves an empty folder
		MemTableSize:       storeMemory,
		CacheSize:          storeMemory,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             o.fs.Logger(s.log),
		EventListener:      pebblestore.Listener(s.log),
	}
	// The usual scheduler wakes ten times a second; this is the same without that (see package buffer).
	options.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	var err error
	if o.db, err = pebble.Open(s.dir, options); err == nil {
		err = s.identify(o)
		if e := o.fs.Failure(); e != nil {
			err = e
		}
		if err != nil {
			err = errors.Join(err, o.db.Close())
		}
	} else if e := o.fs.Failure(); e != nil {
		err = errors.Join(err, e)
	}
	if err != nil {
		return nil, s.damage(fmt.Errorf("catalog: open %s: %w", s.dir, err))
	}
	return o, nil
}

// identify gives a new store its instance, and refuses one that has come into the place of another.
func (s *pebbleStore) identify(o *opening) error {
	found, err := o.get(instanceKey)
	if err != nil {
		return err
	}
	if s.instance != "" {
		if string(found) != s.instance {
			return errors.New("the folder was replaced by that of another store: close the catalog and open it again")
		}
		return nil
	}
	if found == nil {
		found = []byte(uuid.NewString())
		if err := o.db.Set([]byte(instanceKey), found, pebble.Sync); err != nil {
			return err
		}
		// The first log of a new database does not yet say how much of it was on disk, by which damage is told from a write
		// that a crash has torn; the next ones do.
		if err := o.db.Flush(); err != nil {
			return err
		}
	}
	s.instance = string(found)
	return nil
}

// damage returns err as a [*DamageError] when it says that files are not what they were. Other errors may pass.
func (s *pebbleStore) damage(err error) error {
	text := err.Error()
	var files *pebblestore.Damage
	var options pebble.ErrMissingWALRecoveryDir // the file of options names folders of logs, which this store never has
	switch {
	case errors.As(err, &files), errors.As(err, &options), pebble.IsCorruptionError(err), errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk),
		errors.Is(err, record.ErrUnexpectedEOF), strings.Contains(text, "object size mismatch"),
		strings.Contains(text, "not pristine"),   // a marker is missing
		strings.Contains(text, "name from file"), // the file of options is not what it was
		strings.Contains(text, "invalid OPTIONS"), strings.Contains(text, "pebble: unknown"):
		return &DamageError{Dir: s.dir, Err: err}
	case errors.Is(err, fs.ErrNotExist):
		// Without any file it is the folder that is away.
		if names, e := s.fs.List(s.dir); e == nil && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.") }) {
			return &DamageError{Dir: s.dir, Err: err}
		}
	}
	return err
}

// use returns the current opening, or opens one. The caller releases it.
func (s *pebbleStore) use() (*opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.now != nil {
		if s.failure = s.now.fs.Failure(); s.failure != nil {
			s.log.Error("store of the catalog failed, it is opened anew", "dir", s.dir, "error", s.failure)
			s.abandon()
		}
	}
	if s.now == nil {
		if err := s.reopen(); err != nil {
			return nil, err
		}
	}
	s.now.users++
	s.calls.Add(1)
	return s.now, nil
}

// abandon gives up the current opening, which has failed. Nothing of it reaches the disk any more, so that another one
// can follow while calls still read from it.
func (s *pebbleStore) abandon() {
	old := s.now
	s.now, old.gone = nil, true
	old.fs.Settle()
	if old.users == 0 {
		_ = old.db.Close() // what it says after its end is of no interest
	}
}

// reopen opens the store after a failure, unless the last attempt was just now.
func (s *pebbleStore) reopen() error {
	if wait := time.Until(s.next); wait > 0 {
		return &FailedError{Dir: s.dir, RetryAfter: wait, Err: s.failure}
	}
	o, err := s.open()
	if err == nil {
		s.now, s.failure, s.attempt, s.next = o, nil, 0, time.Time{}
		s.log.Warn("store of the catalog is open again", "dir", s.dir)
		return nil
	}
	delay := min(reopenFirst<<min(s.attempt, 16), reopenLast)
	s.failure, s.next = err, time.Now().Add(delay)
	s.attempt++
	s.log.Error("store of the catalog cannot be opened anew", "dir", s.dir, "attempt", s.attempt, "retry_after", s.next, "error", err)
	var damaged *DamageError
	if errors.As(err, &damaged) {
		return err
	}
	return &FailedError{Dir: s.dir, RetryAfter: delay, Err: err}
}

func (s *pebbleStore) release(o *opening) {
	s.mu.Lock()
	o.users--
	last := o.gone && o.users == 0
	s.mu.Unlock()
	if last {
		_ = o.db.Close()
	}
	s.calls.Done()
}

// readError marks an error of reading.
func (s *pebbleStore) readError(err error) error {
	if err == nil {
		return nil
	}
	var damaged *DamageError
	if err = s.damage(err); errors.As(err, &damaged) {
		return err
	}
	return &FailedError{Dir: s.dir, Err: err}
}

func (s *pebbleStore) Get(key string) ([]byte, error) {
	o, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.release(o)
	value, err := o.get(key)
	if e := o.fs.Failure(); e != nil {
		err = e // what it has in memory may not be on disk
	}
	if err != nil {
		return nil, s.readError(err)
	}
	return value, nil
}

// get returns a copy of a record, nil when there is none.
func (o *opening) get(key string) ([]byte, error) {
	v, closer, err := o.db.Get([]byte(key))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	record := append([]byte{}, v...)
	return record, closer.Close()
}

func (s *pebbleStore) Scan(prefix string, visit func(key string, record []byte) error) (err error) {
	o, err := s.use()
	if err != nil {
		return err
	}
	defer s.release(o)
	it, err := o.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: after(prefix)})
	if err != nil {
		return s.readError(err)
	}
	var visited error
	for valid := it.First(); valid && visited == nil; valid = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			break // it is that of Close
		}
		visited = visit(string(it.Key()), v)
	}
	err = it.Close()
	if e := o.fs.Failure(); e != nil {
		err = e
	}
	return errors.Join(visited, s.readError(err))
}

// after returns the first key that has not the prefix; nil when there is no bound.
func after(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

func (s *pebbleStore) Commit(records map[string][]byte) error {
	o, err := s.use()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCommitted, err)
	}
	defer s.release(o)
	batch := o.db.NewBatch()
	defer batch.Close()
	for key, record := range records {
		if record == nil {
			err = batch.Delete([]byte(key), nil)
		} else {
			err = batch.Set([]byte(key), record, nil)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotCommitted, err)
		}
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		o.fs.End(err) // readers must not see what may not be on disk
	}
	if err := o.fs.Failure(); err != nil {
		return &FailedError{Dir: s.dir, Err: err}
	}
	return nil
}

// Checkpoint implements [Checkpointer].
func (s *pebbleStore) Checkpoint(dir string) (err error) {
	o, err := s.use()
	if err != nil {
		return err
	}
	defer s.release(o)
	s.copying.Lock()
	defer s.copying.Unlock()
	dir = filepath.Clean(dir)
	switch _, err := s.fs.Stat(dir); {
	case err == nil:
		return fmt.Errorf("the folder exists: %w", fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := s.fs.PathDir(dir)
	if err := s.fs.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	// The folder gets its name when everything is in it.
	partial := dir + ".partial"
	if err := s.fs.RemoveAll(partial); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.fs.RemoveAll(partial))
		}
	}()
	if err := pebblestore.Checkpoint(o.db, s.fs, partial); err != nil {
		return err
	}
	if err := o.fs.Failure(); err != nil {
		return &FailedError{Dir: s.dir, Err: err} // the copy would be one of what is in memory
	}
	if err := s.fs.Rename(partial, dir); err != nil {
		return err
	}
	return pebblestore.SyncDir(s.fs, parent)
}

func (s *pebbleStore) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	var err error
	if o := s.now; o != nil {
		// Tables have checksums for all that is in them, while the end of a log may be one that a crash has torn.
		err = errors.Join(o.db.Flush(), o.db.Close())
		o.fs.Settle()
		if e := o.fs.Failure(); e != nil {
			err = &FailedError{Dir: s.dir, Err: e}
		}
	}
	return errors.Join(err, s.lock.Close())
}
