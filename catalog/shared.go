package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

// shared is the [coordinator] of a catalog whose store other catalogs have, too.
type shared struct {
	c     *Catalog
	store sharedStore
	// opening is new for each time that the catalog of the node is opened.
	opening string
	holds
	members members
	adopted adoptions

	erasedMu sync.Mutex
	// erased are sources that another catalog has erased, whose rows and counters are still in the engine of this one. They are out of sync, too.
	erased map[string]bool
}

// newCoordinator returns the coordinator for the store of a catalog.
func newCoordinator(c *Catalog) coordinator {
	store, ok := c.store.(sharedStore)
	if !ok {
		return alone{c}
	}
	c.tasks.ended = func(ctx context.Context, task Task) {
		if c.repairs.outOfSyncSince(task.SourceID) > 0 {
			_ = c.syncAgain(ctx, task.SourceID) // the sweep logs why, and tries again
		}
	}
	return &shared{
		c: c, store: store, opening: uuid.NewString(), holds: holds{own: map[string]hold{}, others: map[string]seenHold{}},
		erased: map[string]bool{},
	}
}

func (s *shared) open(ctx context.Context, _ []*erasure) (err error) {
	records := map[string][]byte{}
	for _, prefix := range []string{memberPrefix, endedPrefix, erasedPrefix, holdPrefix, taskPrefix} {
		err = errors.Join(err, s.c.store.Scan(prefix, func(key string, record []byte) error {
			records[key] = bytes.Clone(record)
			return nil
		}))
	}
	if err = errors.Join(err, s.apply(records, false)); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	s.store.follow(s.took)
	if err := s.join(ctx); err != nil {
		return fmt.Errorf("catalog: instance %s of node %s cannot join the others: %w", s.c.opts.Instance, s.c.opts.Node, err)
	}
	s.c.repairs.add(func() {}) // the instance may have tables to drop
	return nil
}

// start resumes no erasure. The catalog that has begun it continues it, or takeOver does.
func (s *shared) start([]*erasure, []*creation) {
	s.c.syncOutOfSync(s.c.ctx)
	s.c.tasks.work.Add(1)
	go s.watchHolds()
}

// sharedStore is a [Store] that other catalogs change too. A catalog on one follows their commits and makes its own conditional.
type sharedStore interface {
	Store
	// follow begins to follow other catalogs. From now on took is called for each commit, in order, when Get and Scan show it and before
	// commitIf returns. own tells whether this store made it. took must not call commitIf or catchUp.
	follow(took func(records map[string][]byte, own bool))
	// commitIf is Commit on a condition. It calls check in the state that the commit follows directly: Get and Scan show that state, and took
	// knows it. If check fails, nothing is written and commitIf returns the error, as an ErrNotCommitted too. check may be called
	// several times, and must not call commitIf or catchUp.
	commitIf(check func() error, records map[string][]byte) error
	// catchUp returns when took was called for all that was committed before.
	catchUp(ctx context.Context) error
}

// ErrChanged says that another catalog on the same store was faster, or has taken over a change from this one. Nothing was changed. Send
// the request again.
var ErrChanged = errors.New("another node has changed this meanwhile")

// JournalError says that the log below the store of [OpenJournal] does not respond, or lacks entries. Definitions are read as this node
// knows them. Nothing has to be restarted when the log is back.
type JournalError struct {
	// Err is the cause.
	Err error
}

func (e *JournalError) Error() string {
	return "catalog: the journal of the definitions does not respond, try again later: " + e.Err.Error()
}

func (e *JournalError) Unwrap() error { return e.Err }

// FormatError says that a catalog of a later release has written to the store of [OpenJournal]. This one cannot read it. Update this one. Until
// then the definitions that were read before are in use and nothing can be changed.
type FormatError struct {
	// Format is the format found, Known the last format that this release reads.
	Format, Known int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("catalog: the journal has entries of format %d, this release reads formats up to %d: update this node", e.Format, e.Known)
}

// pendingError is the error of a commit whose outcome is not known yet. The store continues to find out until Close.
type pendingError struct {
	commit *journalCommit
	cause  error
}

func (e *pendingError) Error() string {
	return "it is not known yet whether this was stored: " + e.cause.Error()
}

func (e *pendingError) Unwrap() error { return e.cause }

// outcome reports whether the commit was stored. While that is not known the error is e.
func (e *pendingError) outcome() (stored bool, err error) {
	select {
	case <-e.commit.done:
		if e.commit.err == nil || errors.Is(e.commit.err, ErrNotCommitted) {
			return e.commit.err == nil, nil
		}
	default:
	}
	return false, e
}

// refusedError is the error of a commit that was not made.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() []error { return []error{ErrNotCommitted, e.err} }
