package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/catalog"
)

// sharedLog has the commits of several catalogs, in order.
type sharedLog struct {
	mu      sync.Mutex
	commits []*sharedCommit
	more    chan struct{} // closed and replaced at each commit
}

func newSharedLog() *sharedLog { return &sharedLog{more: make(chan struct{})} }

type sharedCommit struct {
	by      *sharedMemory
	records map[string][]byte
}

// sharedMemory is the way of one node to a log in memory. It can be cut.
type sharedMemory struct {
	*memory
	log    *sharedLog
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	turn chan struct{} // has one element while a goroutine reads the log or appends to it, and guards next
	next int
	took func(records map[string][]byte, own bool)

	appends atomic.Int64
	// before and after, if not nil, are called around each append, with its number from 1. An error of theirs is the error of the append.
	before, after func(n int64) error
	cut           atomic.Bool
}

var (
	errCut  = errors.New("the node is cut off")
	errLost = errors.New("another node was faster")
)

// sharedPatience is how long a commit takes before its outcome counts as unknown.
const sharedPatience = 15 * time.Second

func openShared(log *sharedLog) *sharedMemory {
	s := &sharedMemory{memory: newMemory(), log: log, turn: make(chan struct{}, 1), took: func(map[string][]byte, bool) {}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	_, _ = s.read(nil) // never fails in a way that was not cut
	return s
}

func (s *sharedMemory) check() error {
	if s.cut.Load() {
		return errCut
	}
	return nil
}

func (s *sharedMemory) Close() error {
	s.cancel()
	s.work.Wait()
	return nil
}

func (s *sharedMemory) Follow(took func(records map[string][]byte, own bool)) {
	s.took = took
	s.work.Go(func() {
		for s.ctx.Err() == nil {
			s.log.mu.Lock()
			more := s.log.more
			s.log.mu.Unlock()
			if s.readInTurn(s.ctx) != nil {
				pauseBefore(s.ctx)
				continue
			}
			select {
			case <-more:
			case <-s.ctx.Done():
			}
		}
	})
}

func (s *sharedMemory) CatchUp(ctx context.Context) error {
	for why := errors.New("no attempt"); ; pauseBefore(ctx) {
		err := s.readInTurn(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return &catalog.JournalError{Err: fmt.Errorf("%w, after %w", context.Cause(ctx), why)}
		}
		why = err
	}
}

// pauseBefore precedes the next attempt.
func pauseBefore(ctx context.Context) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
}

func (s *sharedMemory) readInTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	_, err := s.read(nil)
	return err
}

// read takes the commits that the node does not have yet, and reports whether own is among them. The caller has the turn.
func (s *sharedMemory) read(own *sharedCommit) (stored bool, err error) {
	if err := s.check(); err != nil {
		return false, err
	}
	s.log.mu.Lock()
	commits := s.log.commits[s.next:]
	s.log.mu.Unlock()
	for _, c := range commits {
		s.next++
		if err := s.memory.Commit(c.records); err != nil {
			return stored, err
		}
		s.took(c.records, c.by == s)
		stored = stored || c == own
	}
	return stored, nil
}

func (s *sharedMemory) Commit(records map[string][]byte) error {
	return s.CommitIf(func() error { return nil }, records)
}

// refusedCommit is the error of a commit that was not made.
type refusedCommit struct{ error }

func (e refusedCommit) Unwrap() []error { return []error{catalog.ErrNotCommitted, e.error} }

func (s *sharedMemory) CommitIf(check func() error, records map[string][]byte) error {
	ended, unsure := make(chan error, 1), make(chan struct{})
	pending, settle := catalog.NewPendingError(context.DeadlineExceeded)
	s.work.Go(func() {
		err := s.commit(check, &sharedCommit{by: s, records: records}, unsure)
		settle(err)
		ended <- err
	})
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, catalog.ErrNotCommitted) {
			return err
		}
	case <-unsure:
	}
	return pending
}

// commit returns when it knows the outcome, or with an error after Close. It closes unsure if that takes long.
func (s *sharedMemory) commit(check func() error, c *sharedCommit, unsure chan struct{}) error {
	ctx, cancel := context.WithTimeout(s.ctx, sharedPatience)
	defer cancel()
	refused := func(err error) error {
		if s.ctx.Err() != nil {
			return refusedCommit{catalog.ErrClosed}
		}
		return refusedCommit{&catalog.JournalError{Err: err}}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return refused(context.Cause(ctx))
	}
	reading := ctx
	for asked := false; ; pauseBefore(reading) {
		stored, err := s.read(c)
		for err == nil && !stored {
			if err := check(); err != nil {
				return refusedCommit{err}
			}
			asked = true
			if err = s.append(c); err == nil || errors.Is(err, errLost) {
				stored, err = s.read(c)
			}
		}
		switch {
		case stored:
			return nil
		case !asked && ctx.Err() != nil:
			return refused(err)
		case s.ctx.Err() != nil:
			return catalog.ErrClosed
		case ctx.Err() != nil && reading == ctx:
			reading = s.ctx
			close(unsure)
		}
	}
}

// append adds a commit to the log if it follows what the node has read.
func (s *sharedMemory) append(c *sharedCommit) error {
	n := s.appends.Add(1)
	if s.before != nil {
		if err := s.before(n); err != nil {
			return err
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	s.log.mu.Lock()
	if len(s.log.commits) != s.next {
		s.log.mu.Unlock()
		return errLost
	}
	s.log.commits = append(s.log.commits, c)
	close(s.log.more)
	s.log.more = make(chan struct{})
	s.log.mu.Unlock()
	if s.after != nil {
		return s.after(n)
	}
	return nil
}
