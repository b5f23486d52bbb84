package buffer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay/forebay/driver"
)

var errLeaseLost = errors.New("the lease has ended, because it could not be renewed in time: another node may import now")

// The longest wait for a lease before other work of the sink, such as a discard, gets its turn.
const (
	importPatience  = time.Second
	compactPatience = 10 * time.Second
)

// Alone makes a call of the target about a table. If its target is [driver.Exclusive], and there are Options.Leases, it waits for the lease of the table as long
// as ctx, and ends the call's context when the lease is lost.
func (b *Buffer) Alone(ctx context.Context, table driver.Table, call func(context.Context) error) error {
	return b.alone(ctx, table, 0, call)
}

// alone is Alone with a bound of the wait, 0 for none.
func (b *Buffer) alone(ctx context.Context, table driver.Table, patience time.Duration, call func(context.Context) error) error {
	exclusive, ok := b.targetNamed(table.Target).(driver.Exclusive)
	if !ok || b.opts.Leases == nil {
		return call(ctx)
	}
	name := exclusive.Alone(table.ID)
	if name == "" {
		return call(ctx)
	}
	waiting, cancel := ctx, func() {}
	if patience > 0 {
		waiting, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	lost, release, err := b.opts.Leases.Take(waiting, name)
	if err != nil {
		if _, leased := errors.AsType[*driver.LeasedError](err); leased {
			<-waiting.Done() // so that the lease is not requested in a busy loop
		}
		return err
	}
	// If this process gives up waiting for the call, the lease stays until the call returns, because it may still write.
	defer release()
	held, end := context.WithCancelCause(ctx)
	defer end(nil)
	returned := make(chan struct{})
	defer close(returned)
	go func() {
		select {
		case <-lost:
			end(errLeaseLost)
		case <-returned:
		}
	}()
	if err = call(held); err != nil && ctx.Err() == nil && errors.Is(context.Cause(held), errLeaseLost) {
		err = fmt.Errorf("%w: %w", errLeaseLost, err)
	}
	return err
}
