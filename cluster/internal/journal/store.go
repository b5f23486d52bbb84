package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driverkit/ctxio"
)

const (
	// commitTimeout bounds a commit whose outcome is known. It is longer than an election in the log.
	commitTimeout = 15 * time.Second
	// snapshotBytes of entries are in the journal, or as many as the last snapshot has, before a node adds a snapshot of the state and
	// trims the entries before it.
	snapshotBytes = 8 << 20
	// snapshotTimeout bounds a snapshot, for which no caller waits.
	snapshotTimeout = time.Minute
)

// retryPause is the pause after an attempt to read or append that failed.
var retryPause = ctxio.Pause{First: 20 * time.Millisecond, Last: 5 * time.Second}

// Store is a [catalog.SharedStore] on a log that other nodes append to. All records are in memory.
type Store struct {
	journal changelog.Journal
	log     *slog.Logger
	// ctx ends with Close, which waits for work.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	// turn has one element while a goroutine reads the journal or appends to it. It guards the fields up to mu.
	turn   chan struct{}
	took   func(records map[string][]byte, own bool)
	reader entryReader
	// own is the commit that is being appended. stored is set when it was read.
	own    entryID
	stored bool
	// jumped is set when a snapshot replaced entries that were not read. The entry own may be among them.
	jumped bool
	// since counts the bytes after the last snapshot, and size the bytes of the snapshot. A new snapshot is due after snapshotAfter bytes.
	since, size, snapshotAfter int

	mu      sync.RWMutex
	next    changelog.Position // that of reader, for goroutines without the turn
	records map[string][]byte
}

var _ catalog.SharedStore = (*Store)(nil)

// Open reads the whole log, which the store keeps short. While the log does not respond it tries again until ctx ends. It fails with a
// [*FormatError] if a later release has written to the log.
//
// The records contain the secrets of sources and the tokens of sinks, as in every store.
func Open(ctx context.Context, journal changelog.Journal, log *slog.Logger) (*Store, error) {
	s := &Store{
		journal: journal, log: log, turn: make(chan struct{}, 1), took: func(map[string][]byte, bool) {},
		reader: entryReader{next: 1}, next: 1, records: map[string][]byte{}, snapshotAfter: snapshotBytes,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	err := s.readInTurn(ctx)
	if err != nil && ctx.Err() == nil && !final(err) {
		log.Warn("journal of definitions not readable", "cause", err, "next", "it is retried automatically")
		err = s.CatchUp(ctx)
	}
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("read the journal of definitions: %w", err)
	}
	return s, nil
}

// Get implements [catalog.Store].
func (s *Store) Get(key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return bytes.Clone(s.records[key]), nil
}

// Scan implements [catalog.Store].
func (s *Store) Scan(prefix string, visit func(key string, record []byte) error) error {
	found := map[string][]byte{}
	s.mu.RLock()
	for key, record := range s.records {
		if strings.HasPrefix(key, prefix) {
			found[key] = record
		}
	}
	s.mu.RUnlock()
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if err := visit(key, found[key]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [catalog.Store]. The outcome of a commit that is not known yet stays unknown.
func (s *Store) Close() error {
	s.cancel()
	s.work.Wait()
	return nil
}

// Follow implements [catalog.SharedStore].
func (s *Store) Follow(took func(records map[string][]byte, own bool)) {
	s.took = took // no goroutine reads yet
	s.work.Go(func() {
		pause := retryPause
		for s.ctx.Err() == nil {
			s.mu.RLock()
			last := s.next - 1
			s.mu.RUnlock()
			err := s.journal.Wait(s.ctx, last)
			if err == nil {
				err = s.readInTurn(s.ctx)
			}
			if err == nil {
				pause.Reset()
				continue
			}
			if s.ctx.Err() == nil {
				s.log.Warn("changes of other nodes not readable", "cause", err, "next", "it is retried automatically")
			}
			_ = pause.Wait(s.ctx) // the loop ends with it
		}
	})
}

// CatchUp implements [catalog.SharedStore].
func (s *Store) CatchUp(ctx context.Context) error {
	var before error
	for pause := retryPause; ; _ = pause.Wait(ctx) {
		err := s.readInTurn(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && before != nil:
			return &catalog.JournalError{Err: fmt.Errorf("%w, after %w", context.Cause(ctx), before)}
		case ctx.Err() != nil || final(err):
			return away(err)
		}
		before = err
	}
}

// final reports whether an error of reading stays until an operator acts.
func final(err error) bool {
	_, newer := errors.AsType[*FormatError](err)
	return newer || errors.Is(err, errEntry) || errors.Is(err, changelog.ErrMissing)
}

// away is the error of a call that the log has ended.
func away(err error) *catalog.JournalError { return &catalog.JournalError{Err: err, Final: final(err)} }

func (s *Store) readInTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	return s.read(ctx)
}

// read takes the entries that it does not have yet. The caller has the turn.
func (s *Store) read(ctx context.Context) error {
	for e, err := range s.journal.Read(ctx, s.reader.next) {
		if errors.Is(err, changelog.ErrTrimmed) {
			return s.readSnapshot(ctx)
		}
		if err == nil {
			err = s.take(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes the next entry. The caller has the turn.
func (s *Store) take(e changelog.JournalEntry) error {
	c, err := s.reader.take(e)
	if err != nil {
		return err
	}
	s.since += len(e.Data)
	if c.kind == snapshotKind { // which has the whole state
		s.since, s.size = 0, c.size
	}
	s.mu.Lock()
	s.next = s.reader.next
	if c.kind == commitKind {
		apply(s.records, c.records)
	}
	s.mu.Unlock()
	if c.kind == commitKind {
		own := c.id == s.own
		s.stored = s.stored || own
		s.took(c.records, own)
	}
	return nil
}

func apply(state, records map[string][]byte) {
	for key, record := range records {
		if record == nil {
			delete(state, key)
		} else {
			state[key] = record
		}
	}
}

// readSnapshot reads a journal that was trimmed beyond what this store has read.
func (s *Store) readSnapshot(ctx context.Context) error {
	var reader entryReader
	var state map[string][]byte
	since, size := 0, 0
	for e, err := range s.journal.Read(ctx, 0) {
		if err != nil {
			return err
		}
		if reader.next == 0 {
			reader.next = e.Position
		}
		c, err := reader.take(e)
		if err != nil {
			return err
		}
		since += len(e.Data)
		s.stored = s.stored || c.kind == commitKind && c.id == s.own
		switch {
		case c.kind == snapshotKind:
			state, since, size = c.records, 0, c.size
		case c.kind == commitKind && state == nil:
			return fmt.Errorf("%w: it was trimmed up to %d, where no snapshot begins", errEntry, e.Position)
		case c.kind == commitKind:
			apply(state, c.records)
		}
	}
	if reader.next <= s.reader.next || state == nil {
		return errors.New("the journal was trimmed while it was read") // or another replica has responded
	}
	changed := map[string][]byte{}
	s.mu.Lock()
	for key := range s.records {
		if state[key] == nil {
			changed[key] = nil
		}
	}
	for key, record := range state {
		if !bytes.Equal(record, s.records[key]) {
			changed[key] = record
		}
	}
	s.records, s.next = state, reader.next
	s.mu.Unlock()
	s.reader, s.since, s.size, s.jumped = reader, since, size, true
	s.took(changed, false)
	return nil
}

// commit is a commit in progress.
type commit struct {
	check   func() error
	records map[string][]byte
	// done is closed when err is the outcome, unsure when the commit takes too long and its outcome is not known. Then pending is its error.
	done, unsure chan struct{}
	err          error
	pending      *catalog.PendingError
	settle       func(outcome error)
}

// Commit implements [catalog.Store].
func (s *Store) Commit(records map[string][]byte) error {
	return s.CommitIf(func() error { return nil }, records)
}

// CommitIf implements [catalog.SharedStore].
func (s *Store) CommitIf(check func() error, records map[string][]byte) error {
	c := &commit{check: check, records: records, done: make(chan struct{}), unsure: make(chan struct{})}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, commitTimeout)
		defer cancel()
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			c.err = s.refused(context.Cause(ctx))
			close(c.done)
			return
		}
		c.err = s.append(ctx, c)
		if c.settle != nil {
			c.settle(c.err)
		}
		close(c.done)
		s.snapshot()
	})
	select {
	case <-c.done:
		if c.err == nil || errors.Is(c.err, catalog.ErrNotCommitted) {
			return c.err
		}
		pending, settle := catalog.NewPendingError(c.err)
		settle(c.err)
		return pending
	case <-c.unsure:
		return c.pending
	}
}

// refused is the error of a commit that was given up.
func (s *Store) refused(err error) error {
	if s.ctx.Err() != nil {
		return &refusedError{catalog.ErrClosed}
	}
	return &refusedError{away(err)}
}

// append appends a commit. Until its outcome is known it ends with the store only. The caller has the turn.
func (s *Store) append(ctx context.Context, c *commit) error {
	s.own, s.stored, s.jumped = newEntryID(), false, false
	defer func() { s.own = entryID{} }()
	parts := encodeEntries(commitKind, s.own, c.records)
	asked, behind := false, changelog.Position(0) // an Append after this position may have been stored, or will be
	pause, reading, unsure := retryPause, ctx, false
	for {
		before := s.reader.next
		err := s.read(reading)
		if s.jumped && asked && !s.stored {
			return errJumped
		}
		for err == nil && !s.stored {
			end, i := s.reader.next-1, s.reader.standing(s.own)
			if i == 0 && !(asked && behind == end) { // even if another entry has made the first parts void
				if err := c.check(); err != nil {
					return &refusedError{err}
				}
			}
			asked, behind = true, end
			if err = s.journal.Append(s.ctx, end, parts[i]); err == nil {
				err = s.take(changelog.JournalEntry{Position: end + 1, Data: parts[i]})
			}
		}
		switch {
		case s.stored:
			return nil
		case !asked && (ctx.Err() != nil || final(err)):
			return s.refused(err)
		case s.ctx.Err() != nil:
			return catalog.ErrClosed
		case ctx.Err() != nil && !unsure:
			s.log.Warn("journal does not respond", "cause", err, "next", "read the definition before you retry the change")
			unsure, reading = true, s.ctx
			c.pending, c.settle = catalog.NewPendingError(context.DeadlineExceeded)
			close(c.unsure)
		}
		if s.reader.next > before {
			pause.Reset()
		}
		_ = pause.Wait(reading) // the next round sees that it has ended
	}
}

// errJumped ends a commit whose outcome can no longer be learned.
var errJumped = errors.New("the journal was trimmed beyond the place of this change, restart the node to learn its outcome")

// snapshot adds a snapshot if there are enough entries, and trims the entries before it. If that fails, a later commit tries
// again. The caller has the turn.
func (s *Store) snapshot() {
	if s.since < max(s.snapshotAfter, s.size) {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, snapshotTimeout)
	defer cancel()
	begin := s.reader.next
	var err error
	for _, part := range encodeEntries(snapshotKind, newEntryID(), s.records) { // which only the turn changes
		at := s.reader.next
		if err = s.journal.Append(ctx, at-1, part); err == nil {
			err = s.take(changelog.JournalEntry{Position: at, Data: part})
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.journal.Trim(ctx, begin-1)
	}
	if err != nil && s.ctx.Err() == nil {
		s.log.Warn("journal not trimmed", "cause", err, "next", "it is retried automatically")
	}
}

// refusedError is the error of a commit that was not made.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() []error { return []error{catalog.ErrNotCommitted, e.err} }

func newEntryID() (id entryID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}
