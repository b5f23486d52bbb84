package changelog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// ErrNothingToDecide says that an operator has nothing to decide. There is no such instance, or its state is different.
var ErrNothingToDecide = errors.New("there is nothing to decide")

// Readmit lets nodes adopt a [Damaged] instance again, after an operator has brought back what its log or its checkpoint lacked. The
// instance counts as [Owned] by the node that gave it up, which is silent. After a lease one of the candidates adopts it, or that node
// takes it if it has the local store. If the damage is still there, the instance becomes Damaged again. An instance whose rejected records have
// moved becomes [Adopting].
//
// change, if it is not nil, may correct the values that the next owner relies on. Released 0 accepts that a log ends before batches
// that were acknowledged, whose rows are lost then; Checkpoint and CheckpointPosition may name an older checkpoint that is whole.
//
// Readmit makes one attempt. It fails with [ErrNothingToDecide] for an instance in another state, with [ErrLost] if the record changes meanwhile,
// and with any error of owners. Every process that still holds the instance is fenced.
func Readmit(ctx context.Context, owners Owners, instance string, change func(*Owner)) error {
	return decide(ctx, owners, "readmit", instance, func(o *Owner) error {
		if o.State != Damaged {
			return fmt.Errorf("%w: its state is %s, not %s", ErrNothingToDecide, o.State, Damaged)
		}
		o.GivenUp = false
		if change != nil {
			change(o)
		}
		if o.State = Owned; o.MovedTo != "" {
			o.State = Adopting // its owner would offer the rejected records again
		}
		return nil
	})
}

// GiveUp says, for an operator, that nothing can restore the unreadable part of a [Damaged] instance, or of one that is [Adopting] or [Draining]
// because a replica of its log cannot be asked. After a lease one of the candidates adopts it. If log and checkpoint can be read by then, nothing is
// lost. Otherwise it continues with everything before the damage, in a new log. See [Owner.LogName]. Owner.Lost has the number of
// the batches that were acknowledged and are missing.
//
// GiveUp makes one attempt. It fails with [ErrNothingToDecide] for an instance in another state, with [ErrLost] if the record changes meanwhile,
// and with any error of owners. Every process that still holds the instance is fenced.
func GiveUp(ctx context.Context, owners Owners, instance string) error {
	return decide(ctx, owners, "give up", instance, func(o *Owner) error {
		if !o.CanGiveUp() {
			return fmt.Errorf("%w: its state is %s, not %s, %s or %s", ErrNothingToDecide, o.State, Damaged, Adopting, Draining)
		}
		o.State, o.GivenUp = Adopting, true
		return nil
	})
}

// CanGiveUp reports whether [GiveUp] accepts the state of the instance.
func (o Owner) CanGiveUp() bool {
	return o.State == Damaged || o.State == Adopting || o.State == Draining
}

// decide replaces the record of an instance by what an operator makes of it, under a new epoch that no process has.
func decide(ctx context.Context, owners Owners, what, instance string, change func(*Owner) error) error {
	fail := func(err error) error { return fmt.Errorf("%s instance %s: %w", what, instance, err) }
	got, err := owners.Get(ctx, OwnerKey(instance))
	if err != nil {
		return fail(err)
	}
	var o Owner
	if got.Version == 0 {
		return fail(fmt.Errorf("%w: it has no record", ErrNothingToDecide))
	}
	if err := o.UnmarshalJSON(got.Value); err != nil {
		return fail(err)
	}
	next := o
	if err := change(&next); err != nil {
		return fail(err)
	}
	next.Node, next.Session, next.Epoch, next.Beat, next.Lease = o.Node, rand.Text(), o.Epoch+1, o.Beat+1, o.Lease
	value, err := next.MarshalJSON()
	if err != nil {
		return fail(err)
	}
	if _, err := owners.CompareAndSet(ctx, OwnerKey(instance), got.Version, value); err != nil {
		return fail(err)
	}
	return nil
}
