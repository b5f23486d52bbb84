package pebblestore

import (
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
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/google/uuid"
)

// After a failure a [Store] is reopened by the first call that comes later than a delay, which grows between these.
const (
	reopenFirst = 100 * time.Millisecond
	reopenLast  = 10 * time.Second
)

// StoreConfig says how a [Store] is opened.
type StoreConfig struct {
	Config
	// Name is what the log calls the store.
	Name string
	// InstanceKey is the key of a random id that tells this store from every other one. It is the first key.
	InstanceKey string
	// Check is called with each opening before it is used. Its error ends the opening. Nil: no check.
	Check func(*Opening) error
}

// Store is a database that outlives failures of the disk: a failed opening is cut off from the disk, and a later call opens
// another one from what the disk has. What Update has committed is durable, and View shows only what is durable. It is safe
// for concurrent use.
type Store struct {
	conf     StoreConfig
	lock     io.Closer // keeps others out, over all openings
	instance string

	mu      sync.Mutex
	closed  bool
	now     *Opening // nil after a failure
	failure error    // why now is nil
	attempt int
	next    time.Time // the next attempt to open
	calls   sync.WaitGroup
	copying sync.Mutex // held by Checkpoint
	// committing counts the commits that are on their way to the disk.
	committing atomic.Int64
}

// FailedError says that the disk below a store has failed, or is full. The store reopens itself.
type FailedError struct {
	// RetryAfter is the time until the next attempt; 0 when the next call makes it.
	RetryAfter time.Duration
	// Err is the cause.
	Err error
}

func (e *FailedError) Error() string { return fmt.Sprintf("the store has failed: %v", e.Err) }
func (e *FailedError) Unwrap() error { return e.Err }

// DamageError says that files of a store are not what they were. No retry fixes it.
type DamageError struct{ Err error }

func (e *DamageError) Error() string { return e.Err.Error() }
func (e *DamageError) Unwrap() error { return e.Err }

// InUseError says that another store, perhaps of another process, has the folder open.
type InUseError struct{ Err error }

func (e *InUseError) Error() string { return e.Err.Error() }
func (e *InUseError) Unwrap() error { return e.Err }

// OpenStore opens a store, creating its folder if need be. Errors are an [*InUseError], a [*DamageError], a [*RoomError],
// those of Check and those of the file system.
func OpenStore(c StoreConfig) (*Store, error) {
	if err := MakeDir(c.FS, c.Dir); err != nil {
		return nil, err
	}
	s := &Store{conf: c}
	var err error
	if s.lock, err = Lock(c.FS, c.Dir); err != nil {
		if IsLocked(err) {
			err = &InUseError{err}
		}
		return nil, err
	}
	if s.now, err = s.open(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// open opens the database; once the instance is known, only that one. All that can be read then is durable, because pebble
// writes what it reads from a log to a table before it is open.
func (s *Store) open() (*Opening, error) {
	c := s.conf.Config
	c.Exists = s.instance != ""
	o, err := Open(c)
	if err == nil {
		err = s.identify(o)
		if err == nil && s.conf.Check != nil {
			err = s.conf.Check(o)
		}
		if e := o.Failure(); e != nil {
			err = e
		}
		if err != nil {
			o.fs.Cut(err)
			_ = o.Close() // it would only repeat what is known
		}
	}
	if err != nil {
		return nil, s.classify(err)
	}
	return o, nil
}

// identify gives a new store its instance, and refuses a store that has replaced another one.
func (s *Store) identify(o *Opening) error {
	key := []byte(s.conf.InstanceKey)
	found, err := Get(o.DB, key)
	if err != nil {
		return err
	}
	if s.instance != "" {
		if string(found) != s.instance {
			return errors.New("the folder was replaced by that of another store: close this one and open it again")
		}
		return nil
	}
	if found == nil {
		found = []byte(uuid.NewString())
		if err := o.DB.Set(key, found, pebble.Sync); err != nil {
			return err
		}
		// Later logs say how much of them was synced, which tells damage from a write that a crash has torn. The first log
		// of a new database does not say it.
		if err := o.DB.Flush(); err != nil {
			return err
		}
	}
	s.instance = string(found)
	return nil
}

// Get returns a copy of the value of a key, nil when there is none.
func Get(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value := append([]byte{}, v...)
	return value, closer.Close()
}

// IsDamage reports whether an error of opening or reading means damage. Other errors may be temporary.
func IsDamage(err error) bool {
	var files *Damage
	var options pebble.ErrMissingWALRecoveryDir
	text := err.Error()
	return errors.As(err, &files) || errors.As(err, &options) || pebble.IsCorruptionError(err) ||
		errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk) || errors.Is(err, record.ErrUnexpectedEOF) ||
		strings.Contains(text, "object size mismatch") || strings.Contains(text, "not pristine") // a marker is missing
}

// classify marks damage.
func (s *Store) classify(err error) error {
	if IsDamage(err) {
		return &DamageError{err}
	}
	if errors.Is(err, fs.ErrNotExist) {
		// Without any file, the volume may be away.
		if names, e := s.conf.FS.List(s.conf.Dir); e == nil && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.") }) {
			return &DamageError{err}
		}
	}
	return err
}

// use returns the current opening, or opens one. The caller calls release.
func (s *Store) use() (*Opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.now != nil {
		if s.failure = s.now.Failure(); s.failure != nil {
			s.conf.Log.Error(s.conf.Name+" failed, it is opened anew", "dir", s.conf.Dir, "error", s.failure)
			s.abandon()
		}
	}
	if s.now == nil {
		if err := s.reopen(); err != nil {
			return nil, err
		}
	}
	if err := s.now.Read(); err != nil {
		return nil, err
	}
	s.calls.Add(1)
	return s.now, nil
}

// abandon gives up the current opening, which has failed. It cannot reach the disk any more, so another one can be opened
// while calls still read from it.
func (s *Store) abandon() {
	old := s.now
	s.now = nil
	old.fs.Settle()
	old.fs.sweep()
	go func() { _ = old.Close() }() // waits for its readers; the failure is known
}

// reopen opens the store after a failure, unless the last attempt was just now.
func (s *Store) reopen() error {
	if wait := time.Until(s.next); wait > 0 {
		return &FailedError{RetryAfter: wait, Err: s.failure}
	}
	o, err := s.open()
	if err == nil {
		s.now, s.failure, s.attempt, s.next = o, nil, 0, time.Time{}
		s.conf.Log.Warn(s.conf.Name+" is open again", "dir", s.conf.Dir)
		return nil
	}
	delay := min(reopenFirst<<min(s.attempt, 16), reopenLast)
	s.failure, s.next = err, time.Now().Add(delay)
	s.attempt++
	s.conf.Log.Error(s.conf.Name+" cannot be opened anew", "dir", s.conf.Dir, "attempt", s.attempt, "retry_after", s.next, "error", err)
	var damaged *DamageError
	if errors.As(err, &damaged) {
		return err
	}
	return &FailedError{RetryAfter: delay, Err: err}
}

func (s *Store) release(o *Opening) {
	o.Release()
	s.calls.Done()
}

// failed marks an error of the database.
func (s *Store) failed(err error) error {
	var damaged *DamageError
	if err = s.classify(err); errors.As(err, &damaged) {
		return err
	}
	return &FailedError{Err: err}
}

// View calls read with a snapshot of the database. An error that read has marked with [Failed] becomes a [*FailedError] or a
// [*DamageError]; its other errors are returned unchanged. Unless View returns a [*FailedError], all that read has seen is
// durable.
func (s *Store) View(read func(pebble.Reader) error) error {
	o, err := s.use()
	if err != nil {
		return err
	}
	defer s.release(o)
	snap := o.DB.NewSnapshot()
	err = read(snap)
	if e := snap.Close(); err == nil && e != nil {
		err = Failed(e)
	}
	if e := s.settled(o); e != nil {
		return e
	}
	var marked *readFailure
	if errors.As(err, &marked) {
		return s.failed(marked.err)
	}
	return err
}

// settled waits until all that could be read is durable: a snapshot shows commits that are still being synced.
func (s *Store) settled(o *Opening) error {
	if s.committing.Load() > 0 && o.Failure() == nil {
		if err := o.DB.LogData(nil, pebble.Sync); err != nil {
			o.End(err)
		}
	}
	if err := o.Failure(); err != nil {
		return &FailedError{Err: err}
	}
	return nil
}

// readFailure is an error of the database inside a call of View or Update.
type readFailure struct{ err error }

func (e *readFailure) Error() string { return e.err.Error() }
func (e *readFailure) Unwrap() error { return e.err }

// Failed marks err as an error of the database, for the functions given to [Store.View] and [Store.Update]. Nil stays nil.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return &readFailure{err}
}

// ErrNotCommitted is part of errors of [Store.Update] after which nothing was written.
var ErrNotCommitted = errors.New("nothing was written")

// Update calls change with an indexed batch and commits it. When it returns nil the change is durable. An error that is
// [ErrNotCommitted] means that nothing was written; it wraps the error of change, or one that [Store.View] returns. After any
// other error the outcome is unknown until the store is open again.
func (s *Store) Update(change func(*pebble.Batch) error) error {
	o, err := s.use()
	if err != nil {
		return &notCommitted{err}
	}
	defer s.release(o)
	if err := s.lacksRoom(o); err != nil {
		return &notCommitted{err}
	}
	batch := o.DB.NewIndexedBatch()
	defer batch.Close()
	if err := change(batch); err != nil {
		var marked *readFailure
		if errors.As(err, &marked) {
			err = s.failed(marked.err)
		}
		return &notCommitted{err}
	}
	if batch.Empty() {
		return s.settled(o)
	}
	size := batch.Len()
	s.committing.Add(1)
	err = batch.Commit(pebble.Sync)
	if err != nil {
		o.End(err) // readers must not see what may not be on disk
	}
	err = o.Failure()
	s.committing.Add(-1)
	if err != nil {
		return &FailedError{Err: err}
	}
	o.Stored(size)
	return nil
}

// lacksRoom returns an error while the disk works but has too little room.
func (s *Store) lacksRoom(o *Opening) error {
	full := o.Full()
	if full == nil {
		return nil
	}
	return &FailedError{RetryAfter: time.Second, Err: &RoomError{
		Dir: s.conf.Dir, Free: max(0, full.Limit-full.Used), Needed: min(full.Limit/reservePart, mostReserve), For: "to rewrite what it holds",
	}}
}

// notCommitted is an error after which nothing was written.
type notCommitted struct{ err error }

func (e *notCommitted) Error() string        { return e.err.Error() }
func (e *notCommitted) Unwrap() error        { return e.err }
func (e *notCommitted) Is(target error) bool { return target == ErrNotCommitted }

// Ready returns nil when the store takes changes, else why not, after it has tried to reopen itself.
func (s *Store) Ready() error {
	o, err := s.use()
	if err != nil {
		return err
	}
	defer s.release(o)
	if err := o.Failure(); err != nil {
		return &FailedError{Err: err}
	}
	return s.lacksRoom(o)
}

// Checkpoint writes a copy with all that was committed before the call. The folder must not exist.
func (s *Store) Checkpoint(dir string) error {
	o, err := s.use()
	if err != nil {
		return err
	}
	defer s.release(o)
	s.copying.Lock()
	defer s.copying.Unlock()
	err = o.Checkpoint(dir, nil)
	if e := o.Failure(); e != nil {
		err = &FailedError{Err: e}
	}
	return err
}

// Close waits for running calls and closes the store. Later calls get [ErrClosed]. It may be called again.
func (s *Store) Close() error {
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
		if o.Failure() == nil && o.fits(int64(o.DB.Metrics().WAL.Size)) {
			err = o.DB.Flush()
		}
		err = errors.Join(err, o.Close())
		if e := o.Failure(); e != nil {
			err = &FailedError{Err: e}
		}
	}
	return errors.Join(err, s.lock.Close())
}
