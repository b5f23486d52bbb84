package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/forebay/forebay/internal/localdisk"
)

// StoreConfig says how a [Store] is opened.
type StoreConfig struct {
	Config
	// Name is the store's name in the log.
	Name string
	// ReadOnly changes nothing in the folder, which must exist, except for the lock.
	ReadOnly bool
	// InstanceKey is the key of a random id that tells this store from every other one. It is the first key. Default: Check
	// tells.
	InstanceKey string
	// Prepare is called before each opening, with the folder locked. Optional.
	Prepare func() error
	// Check is called with each opening before it is used. again is set when it must be the store that was open before. Its
	// error ends the opening. Optional.
	Check func(o *Opening, again bool) error
	// Repair is called when the store is damaged. When it returns nil, the store is opened once more, and may be a different
	// store. Otherwise the opening fails with its error. Optional.
	Repair func(*DamageError) error
	// Salvage replaces a damaged store by one with everything in it that is whole, when it is opened first. The records of the store
	// have no order among each other, and each may be older than it was, or missing. Not with Repair. Open reads the whole store.
	Salvage bool
	// Final reports whether a failure is permanent. Then the store is not opened again. Optional.
	Final func() bool
	// Failed is called when the store has failed, with locks of the database held, so it must neither block nor use the store.
	// Optional.
	Failed func()
	// Install takes up the opening that ends a reopening. It calls [Store.Install], now or later, or closes the opening.
	// Default: [Store.Install].
	Install func(*Opening)
	// Closed is called when the database was closed without an error and the folder is still locked. Optional.
	Closed func()
	// Delay is the time from a failed attempt to reopen the store to the next one. Attempts count from 1. Default: 100 ms to
	// 10 s, doubling.
	Delay func(attempt int) time.Duration
}

// Store is a database that outlives failures of the disk. A failed opening is cut off from the disk, and a new one is opened
// from the disk. [Phase] has the states. It is safe for concurrent use.
//
// One mechanism serves two kinds of owners. Owners that call View and Update reopen the store by their next call. The first
// call makes the attempt, and others wait for its outcome. A failed attempt refuses calls until the next one is due. An owner
// with its own work in the background, as package buffer has, ends that first and calls [Store.ReopenInBackground].
//
// A commit of Update is durable, and View shows only durable data.
type Store struct {
	conf     StoreConfig
	lock     io.Closer // keeps others out, over all openings
	life     life
	now      atomic.Pointer[Opening] // the last one that was in use
	known    bool                    // the store was open once. Only that one is opened again
	instance string

	attempting sync.Mutex // held during an attempt to reopen, guards what follows
	attempts   int        // that failed since the store has failed
	next       time.Time  // the next attempt
	failure    error      // of the last attempt

	stopped    chan struct{} // closed by Stop
	background sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error

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

// InUseError says that another store, perhaps of another process, has the folder open.
type InUseError struct{ Err error }

func (e *InUseError) Error() string { return e.Err.Error() }
func (e *InUseError) Unwrap() error { return e.Err }

// NewStore returns a store that is not open yet: Open comes first. It is on the real disk if the configuration names none.
func NewStore(c StoreConfig) *Store {
	s := &Store{conf: c, stopped: make(chan struct{})}
	if c.FS == nil {
		s.conf.FS = localdisk.Real()
	}
	if c.Install == nil {
		s.conf.Install = func(o *Opening) { s.Install(o, func() {}) }
	}
	if c.Delay == nil {
		s.conf.Delay = delay
	}
	return s
}

// Open opens the store, creating its folder if need be. It is called once. Errors are an [*InUseError], a [*DamageError], a
// [*RoomError], and errors of the functions of the configuration and of the file system.
func (s *Store) Open() error {
	c := &s.conf
	if !c.ReadOnly {
		if err := MakeDir(c.FS, c.Dir); err != nil {
			return err
		}
	}
	var err error
	if s.lock, err = LockDir(c.FS, c.Dir); err != nil {
		return err
	}
	o, err := s.open()
	if err != nil {
		return errors.Join(err, s.lock.Close())
	}
	s.now.Store(o)
	s.used(o)
	return nil
}

// Now returns the condition of the store. It is one atomic load.
func (s *Store) Now() Condition { return s.life.current() }

// Opening returns the opening that is in use, or was in use last.
func (s *Store) Opening() *Opening { return s.now.Load() }

// used handles the failure that an opening has reported before it was in use.
func (s *Store) used(o *Opening) {
	if err := o.Failure(); err != nil {
		s.failed(o, err)
	}
}

// failed is called by the database, with locks held.
func (s *Store) failed(o *Opening, err error) {
	// An opening that is not in use was given up, or is being opened, and then the attempt reports it.
	if s.life.fail(err, func() bool { return s.now.Load() == o }) && s.conf.Failed != nil {
		s.conf.Failed()
	}
}

// open makes one attempt to open the database. All that can be read then is durable, because pebble writes the rows it reads
// from a log to a table before it is open.
func (s *Store) open() (*Opening, error) {
	o, err := s.try(s.known)
	if damage, ok := errors.AsType[*DamageError](err); ok && s.conf.Repair != nil {
		if err = s.conf.Repair(damage); err == nil {
			o, err = s.try(false)
		}
	} else if ok && s.conf.Salvage && !s.known {
		if err = (&salvager{conf: s.conf.Config, name: s.conf.Name}).run(damage); err == nil {
			o, err = s.try(false)
		} else {
			err = fmt.Errorf("%w; the salvage failed: %w", damage, err)
		}
	}
	if err != nil {
		return nil, err
	}
	s.known = true
	return o, nil
}

// try opens the database, with again only the store that was open before.
func (s *Store) try(again bool) (o *Opening, err error) {
	defer func() { err = MarkDamage(s.conf.FS, s.conf.Dir, err) }()
	c := s.conf.Config
	c.Exists, c.failed = again, s.failed
	if s.conf.Salvage {
		for _, prepare := range []func(vfs.FS, string) error{FinishSwap, CheckClosed, ForgetClosed} {
			if err := prepare(c.FS, c.Dir); err != nil {
				return nil, err
			}
		}
	}
	if s.conf.Prepare != nil {
		if err := s.conf.Prepare(); err != nil {
			return nil, err
		}
	}
	open := Open
	if s.conf.ReadOnly {
		open = OpenReadOnly
	}
	if o, err = open(c); err != nil {
		return nil, err
	}
	if s.conf.Salvage && !again {
		err = readAll(o.DB)
	}
	if err == nil && s.conf.InstanceKey != "" {
		err = s.identify(o)
	}
	if err == nil && s.conf.Check != nil {
		err = s.conf.Check(o, again)
	}
	if e := o.Failure(); e != nil {
		err = e
	}
	if err != nil {
		o.fs.Cut(err)
		_ = o.Close() // it would only repeat the known error
		return nil, err
	}
	return o, nil
}

// identify gives a new store its instance, and refuses one that has replaced another.
func (s *Store) identify(o *Opening) error {
	key := []byte(s.conf.InstanceKey)
	found, err := Get(o.DB, key)
	if err != nil {
		return err
	}
	if s.instance != "" {
		if string(found) != s.instance {
			return errors.New("the folder holds another store now: close this one and open it again")
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

// marked is an error of the database that a function of a call has marked.
func (s *Store) marked(err error) error {
	if err = MarkDamage(s.conf.FS, s.conf.Dir, err); IsDamage(err) {
		return err
	}
	return &FailedError{Err: err}
}

// View calls read with a snapshot of the database. An error that read has marked with [Failed] becomes a [*FailedError] or a
// [*DamageError]. Its other errors are returned unchanged. Unless View returns a [*FailedError], all that read has seen is
// durable.
func (s *Store) View(read func(pebble.Reader) error) error {
	o, err := s.acquire()
	if err != nil {
		return err
	}
	defer o.Release()
	snap := o.DB.NewSnapshot()
	err = read(snap)
	if e := snap.Close(); err == nil && e != nil {
		err = Failed(e)
	}
	if e := s.awaitDurable(o); e != nil {
		return e
	}
	if marked, ok := errors.AsType[*readFailure](err); ok {
		return s.marked(marked.err)
	}
	return err
}

// awaitDurable waits until all that could be read is durable, because a snapshot shows commits that are still being synced.
func (s *Store) awaitDurable(o *Opening) error {
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
// [ErrNotCommitted] means that nothing was written. It wraps the error of change, or one that [Store.View] returns. After any
// other error the outcome is unknown until the store is open again.
func (s *Store) Update(change func(*pebble.Batch) error) error {
	o, err := s.acquire()
	if err != nil {
		return &notCommitted{err}
	}
	defer o.Release()
	if err := s.lacksRoom(o); err != nil {
		return &notCommitted{err}
	}
	batch := o.DB.NewIndexedBatch()
	defer batch.Close()
	if err := change(batch); err != nil {
		if marked, ok := errors.AsType[*readFailure](err); ok {
			err = s.marked(marked.err)
		}
		return &notCommitted{err}
	}
	if batch.Empty() {
		return s.awaitDurable(o)
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
		Dir: s.conf.Dir, Free: max(0, full.Limit-full.Used), Needed: min(full.Limit/reservePart, mostReserve), For: "to rewrite its content",
	}}
}

// notCommitted is an error after which nothing was written.
type notCommitted struct{ err error }

func (e *notCommitted) Error() string        { return e.err.Error() }
func (e *notCommitted) Unwrap() error        { return e.err }
func (e *notCommitted) Is(target error) bool { return target == ErrNotCommitted }

// Ready returns nil when the store takes changes, else why not, after it has tried to reopen itself.
func (s *Store) Ready() error {
	o, err := s.acquire()
	if err != nil {
		return err
	}
	defer o.Release()
	if err := o.Failure(); err != nil {
		return &FailedError{Err: err}
	}
	return s.lacksRoom(o)
}

// Checkpoint writes a copy with all that was committed before the call. The folder must not exist.
func (s *Store) Checkpoint(dir string) error {
	o, err := s.acquire()
	if err != nil {
		return err
	}
	defer o.Release()
	s.copying.Lock()
	defer s.copying.Unlock()
	err = o.Checkpoint(dir, nil)
	if e := o.Failure(); e != nil {
		err = &FailedError{Err: e}
	}
	return err
}

// Stop begins Close. It ends reopenings, and refuses calls of View and Update. start runs when reopenings can no longer begin or
// end. It reports false when it was called before.
func (s *Store) Stop(start func()) bool {
	return s.life.stop(func() {
		close(s.stopped)
		start()
	})
}

// Drain says, after Stop, that the owner has ended all calls accepted before. It waits for the end of a reopening in
// the background.
func (s *Store) Drain() {
	s.background.Wait()
	s.life.drain()
}

// Close waits for running calls and closes the store. Later calls get [ErrClosed]. It may be called again.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.Stop(func() {})
		s.Drain()
		s.attempting.Lock() // from here on no call reopens the store
		o := s.now.Load()
		s.attempting.Unlock()
		err := o.Close()
		if c := s.Now(); c.Failure != nil {
			err = &FailedError{Err: c.Failure}
		} else if err == nil {
			s.closed()
		}
		s.closeErr = errors.Join(err, s.lock.Close())
	})
	return s.closeErr
}

// closed is called when the database was closed without an error.
func (s *Store) closed() {
	if s.conf.Salvage {
		if err := NoteClosed(s.conf.FS, s.conf.Dir); err != nil {
			s.conf.Log.Warn("clean close not recorded", "store", s.conf.Name, "cause", err, "next", "none; the next start recovers as after a crash") // Open then takes it for a crash
		}
	}
	if s.conf.Closed != nil {
		s.conf.Closed()
	}
}
