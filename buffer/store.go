package buffer

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/internal/pebblestore"
)

// store is one opening of the database of the local level. After a failure it is closed and another one is opened.
type store struct {
	db *pebble.DB
	fs *pebblestore.FS

	mu      sync.Mutex
	closed  bool
	readers sync.WaitGroup
	close1  sync.Once
}

// errStoreClosed is returned to readers that come too late.
var errStoreClosed = errors.New("the local level is closed or being reopened")

// openStore opens the database, with again only one that exists. failed is called once, with locks of the store held, when it has to end later.
func openStore(dir string, opts Options, again bool, failed func(*store, error)) (*store, error) {
	s := &store{}
	s.fs = pebblestore.New(opts.FS, dir, func(err error) { failed(s, err) })
	s.fs.FillLogs(opts.MemTableBytes)
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	o := &pebble.Options{
		FS:                          s.fs,
		ErrorIfNotExists:            again,
		Cache:                       cache,
		Logger:                      s.fs.Logger(opts.Logger),
		EventListener:               pebblestore.Listener(opts.Logger),
		MemTableSize:                uint64(opts.MemTableBytes),
		MemTableStopWritesThreshold: 3,
		FormatMajorVersion:          pebble.FormatNewest,
		// Rows that wait are deleted soon: to merge their tables is to write them once more for nothing. The store's own
		// thresholds (4, 12) do that: they wrote 1.3 to 1.5 bytes of tables for each byte held, these 0.75 to 0.85, with
		// a tenth less CPU. A wider level costs an upload a few more tables to look into. Where the store would stop
		// writes moves along, so that a backlog does not come near it.
		L0CompactionThreshold: 16,
		L0StopWritesThreshold: 64,
	}
	// A table that lies across others is merged with them, so chunks and records get tables of their own: the last table of
	// a flush would else hold its newest chunks and all records. What is deleted lies across what lives in one table of each
	// flush; a flush has about 30. Slices of 6 s at full speed, 2 cores and ext4: 1.37 bytes of tables for each byte without
	// this, 0.99 with it.
	o.TargetFileSizes[0] = max(opts.MemTableBytes/32, 64<<10)
	o.Experimental.SpanPolicyFunc = pebble.MakeStaticSpanPolicyFunc(
		bytes.Compare, pebble.KeyRange{Start: []byte{prefixChunk}, End: []byte{prefixChunk + 1}}, pebble.SpanPolicy{},
	)
	// The usual scheduler wakes ten times a second to look whether more compactions may run at once. Here few run, and
	// each looks for the next when it ends, so an idle buffer can sleep. The name says that the store itself needs this one
	// for tests alone; it is the usual one without the goroutine that wakes, and the only such one that the store exports.
	o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	db, err := pebble.Open(dir, o)
	if err != nil {
		if e := s.fs.Failure(); e != nil {
			err = errors.Join(err, e)
		}
		return nil, err
	}
	s.db = db
	if err := s.fs.Failure(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// read keeps the store open until the reader calls release.
func (s *store) read() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStoreClosed
	}
	s.readers.Add(1)
	return nil
}

func (s *store) release() { s.readers.Done() }

// waitForReaders gives up after a while: a driver that never returns must not hold up Close for ever.
func (s *store) waitForReaders() error {
	idle := make(chan struct{})
	go func() {
		s.readers.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-time.After(2 * abandonAfter):
		return errors.New("a driver still reads from the local level: its files stay open until that ends, nothing is lost")
	}
}

// close waits for the readers and for what still changes the disk, and closes the database. It may be called again.
func (s *store) close() (err error) {
	s.close1.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		if err = s.waitForReaders(); err != nil {
			// The database cannot be closed under its readers. Until the last of them ends it stays open, cut off from the
			// disk, so that whoever opens the folder next has it alone.
			s.fs.Cut(err)
			s.fs.Settle()
			go func() {
				s.readers.Wait()
				_ = s.db.Close() // nothing of it reaches the disk
			}()
			return
		}
		err = s.db.Close()
		s.fs.Settle()
		if e := s.fs.Failure(); e != nil {
			err = e // what the store says after its end is of no interest
		}
	})
	return err
}
