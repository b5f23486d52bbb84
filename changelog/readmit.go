package changelog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// Readmit lets nodes adopt a [Damaged] instance again, after an operator has brought back what its log or its checkpoint lacked. The
// instance counts as [Owned] by the node that gave it up, which is silent: after a lease one of the candidates adopts it, or that node
// takes it if it has the local store. If the damage is still there, the instance becomes Damaged again.
//
// change, if it is not nil, may correct what the next owner goes by. Released 0 accepts that a log ends in front of batches
// that were acknowledged, whose rows are lost then; Checkpoint and CheckpointPosition may name an older checkpoint that is whole.
//
// Readmit makes one attempt. It fails with [ErrLost] if the record changes meanwhile, and with any error of owners. Every process that still
// holds the instance is fenced.
func Readmit(ctx context.Context, owners Owners, instance string, change func(*Owner)) error {
	fail := func(err error) error { return fmt.Errorf("readmit instance %s: %w", instance, err) }
	got, err := owners.Get(ctx, OwnerKey(instance))
	if err != nil {
		return fail(err)
	}
	var o Owner
	if got.Version == 0 {
		return fail(errors.New("it has no record"))
	}
	if err := o.UnmarshalJSON(got.Value); err != nil {
		return fail(err)
	}
	if o.State != Damaged {
		return fail(fmt.Errorf("its state is %s, not %s", o.State, Damaged))
	}
	next := o
	if change != nil {
		change(&next)
	}
	next.Node, next.Session, next.Epoch, next.State, next.Beat, next.Lease = o.Node, rand.Text(), o.Epoch+1, Owned, o.Beat+1, o.Lease
	value, err := next.MarshalJSON()
	if err != nil {
		return fail(err)
	}
	if _, err := owners.CompareAndSet(ctx, OwnerKey(instance), got.Version, value); err != nil {
		return fail(err)
	}
	return nil
}
