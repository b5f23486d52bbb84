package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// SharedStore is a [Store] that several catalogs share, each through a value of its own, one on each node of a cluster. A catalog on one
// follows the commits of the others, and makes its own commits on a condition. The module cluster has one on a replicated log.
//
// While the store does not respond, Get and Scan show the last state that it has read. An error that says so is a [*JournalError].
type SharedStore interface {
	Store
	// Follow begins to follow other catalogs. The catalog calls it once, before all calls but Get and Scan. From then on took was called for each
	// commit, in order, when Get and Scan show it and before CommitIf returns. own tells whether this value made it. took does not call CommitIf
	// or CatchUp.
	Follow(took func(records map[string][]byte, own bool))
	// CommitIf is Commit on a condition. It calls check in the state that the commit follows directly: Get and Scan show that state, and took
	// knows it. If check fails, nothing is written and CommitIf returns the error, as an [ErrNotCommitted] too. check may be called
	// several times, and does not call CommitIf or CatchUp. A commit whose outcome is not known in time fails with a [*PendingError].
	CommitIf(check func() error, records map[string][]byte) error
	// CatchUp returns when took was called for all that was committed before the call, by any catalog. It tries again until ctx ends. Its error
	// is a [*JournalError].
	CatchUp(ctx context.Context) error
}

// SharedOptions are the options of a catalog that shares its store with others.
type SharedOptions struct {
	// Store takes the place of [Options.Store]. The catalog closes it. Without it the other options have no effect.
	Store SharedStore
	// Node names this catalog among the others, and stays the same after a restart. Required.
	Node string
	// Instance names the engine of this catalog. It is a name that stays as long as the engine's local level does, and that no other engine ever
	// gets. If another node takes over the engine, it names it in [Catalog.Adopt]. Default: Node.
	Instance string
	// Peers reaches the other catalogs, for statistics and waiting files. Default: only the statistics and files of this
	// node are known, and the others are missing.
	Peers Peers
	// Lease is how long a catalog has to be silent before others give up its changes. Default: 30 s.
	Lease time.Duration
}

func (o Options) validateShared() (problems []error) {
	if l := o.Shared.Lease; l != 0 && l < minLease {
		problems = append(problems, fmt.Errorf("catalog: Options.Shared.Lease is %s, must be at least %s, or 0 for the default", l, minLease))
	}
	if o.Shared.Store != nil && o.Shared.Node == "" {
		problems = append(problems, errors.New("catalog: Options.Shared.Node is empty, a shared store needs it"))
	}
	if _, ok := o.Store.(SharedStore); ok || o.Store != nil && o.Shared.Store != nil {
		problems = append(problems, errors.New("catalog: Options.Store is set next to Options.Shared, or to a SharedStore: set Options.Shared.Store alone"))
	}
	return problems
}

// withShared returns the options with defaults for those of a shared store.
func (o Options) withShared() Options {
	if o.Shared.Store != nil {
		o.Store = o.Shared.Store
		o.Shared.Lease = cmp.Or(o.Shared.Lease, defaultLease)
		o.Shared.Instance = cmp.Or(o.Shared.Instance, o.Shared.Node)
	}
	return o
}

// ErrChanged says that another catalog on the same store was faster, or has taken over a change from this one. Nothing was changed. Send
// the request again.
var ErrChanged = errors.New("another node has changed this meanwhile")

// JournalError says that a [SharedStore] does not respond, or cannot be read. Definitions are read as this node knows them. Nothing has to
// be restarted when the store is back.
type JournalError struct {
	// Err is the cause.
	Err error
	// Final is set if the store cannot be read before an operator has acted. The caller does not try again.
	Final bool
}

func (e *JournalError) Error() string {
	return "catalog: the journal of the definitions does not respond, try again later: " + e.Err.Error()
}

func (e *JournalError) Unwrap() error { return e.Err }

// PendingError is the error of a commit to a [SharedStore] whose outcome is not known yet. The store continues to find out until Close.
type PendingError struct {
	cause   *JournalError
	done    chan struct{}
	outcome error // set before done is closed
}

// NewPendingError returns the error of a commit whose outcome is not known for a cause, and a function that the store calls once it knows: with
// nil for a commit that was stored, with an [ErrNotCommitted] for one that was not, and with any other error if it can no longer find out. The
// returned error is a [*JournalError], too.
func NewPendingError(cause error) (pending *PendingError, settle func(outcome error)) {
	e := &PendingError{cause: &JournalError{Err: cause}, done: make(chan struct{})}
	return e, func(outcome error) {
		e.outcome = outcome
		close(e.done)
	}
}

func (e *PendingError) Error() string {
	return "it is not known yet whether this was stored: " + e.cause.Error()
}

func (e *PendingError) Unwrap() error { return e.cause }

// Done is closed when the store no longer looks for the outcome.
func (e *PendingError) Done() <-chan struct{} { return e.done }

// Outcome returns nil if the commit was stored, an [ErrNotCommitted] if it was not, and e while that is not known.
func (e *PendingError) Outcome() error {
	select {
	case <-e.done:
		if e.outcome == nil || errors.Is(e.outcome, ErrNotCommitted) {
			return e.outcome
		}
	default:
	}
	return e
}
