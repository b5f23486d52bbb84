package driver

import (
	"context"
	"fmt"
)

// Exclusive is an optional interface of a [Target] for tables that only one process at a time may use, for example because a database lets
// one process open its file. An engine with Options.Leases takes a lease before each call about such a table and gives it back after the
// call. Without Leases no lease is taken, so only one process may use the tables.
//
// Between two calls the driver keeps nothing that would keep another process out.
//
// A lease is timing, not safety. A process that stalls in the middle of a call may continue after its lease has ended, alongside the next
// holder. The contract of [Target] keeps rows from being lost or doubled, with the id of a file in the same transaction as its rows. A store that
// two processes would damage must refuse the second one itself, for example by a lock of its file.
type Exclusive interface {
	// Alone names what calls about a table need for this process alone. It is the same name in all processes, for example the path of the
	// database. "" stands for nothing, and may turn into a name or back between two calls. The engine asks before each call of
	// Ensure, Extend, Import, Void, CountFile, TakenAway, Uncreate and Compact. Calls of one process run concurrently under one lease.
	Alone(tableID string) (name string)
}

// Leases lets one process at a time do something, for an [Exclusive] target. Package cluster has one for the nodes of a cluster. It must be
// safe for concurrent use. Several engines of one process share one Leases.
type Leases interface {
	// Take waits until this process has the lease of a name, or ctx ends. All calls of one process share a lease, which ends when each of
	// them has called release. If another process still has it at the end of ctx, the error is a [*LeasedError]. Every other
	// error counts as a failed attempt.
	//
	// lost is closed when the lease can no longer be kept. Then the caller ends its work. release may be called several times.
	Take(ctx context.Context, name string) (lost <-chan struct{}, release func(), err error)
}

// LeasedError says that another process has a lease. It is no failure. The rows wait, and no retention begins.
type LeasedError struct {
	// Name is the name of the lease.
	Name string
	// Holder is the process that has it, "" if that is not known.
	Holder string
}

func (e *LeasedError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("another node imports: it has the lease of %q", e.Name)
	}
	return fmt.Sprintf("another node imports: %s has the lease of %q", e.Holder, e.Name)
}
