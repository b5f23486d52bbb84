package buffer

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// abandonAfter is how long a driver may go on after its context has ended. Then its call counts as failed, and is left
// alone: the contract lets the next attempt run beside it.
const abandonAfter = 10 * time.Second

// maxReason bounds the text of a failure, which is kept in the records.
const maxReason = 4 << 10

// attemptError is a failed call of a driver, reduced to what is recorded. The driver's own error may be of any kind: its
// methods are called once, where a panic is caught.
type attemptError struct {
	text      string
	permanent bool
}

func (e *attemptError) Error() string { return e.text }

// attempt calls a driver with a bound on its time. Whatever the driver does, panics included, is a failure of this
// attempt alone.
func (b *Buffer) attempt(ctx context.Context, step, sinkID string, call func(context.Context) error) error {
	return b.attemptWatched(ctx, step, sinkID, call, func() {}, func(error) {})
}

// withRoom makes a call that writes some bytes to staging or the target once there is room for them: see [LocalDriver].
func (b *Buffer) withRoom(driver any, stored, raw int64, call func() error) error {
	if local, ok := driver.(LocalDriver); ok {
		release, err := b.store.Load().Claim(local.Needs(stored, raw))
		if err != nil {
			return err
		}
		defer release()
	}
	return call()
}

// attemptWatched is attempt for calls whose late end matters: left is called when the call is left alone, and late when
// it returns all the same.
func (b *Buffer) attemptWatched(ctx context.Context, step, sinkID string, call func(context.Context) error, left func(), late func(error)) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.opts.AttemptTimeout)
	defer cancel()
	result := make(chan *attemptError, 1)
	var decided atomic.Bool // by the end of the call, or by leaving it alone
	go func() {
		failure := &attemptError{text: "the driver ended its goroutine"}
		defer func() {
			if r := recover(); r != nil {
				failure = &attemptError{text: fmt.Sprintf("the driver panicked: %.1000v", r)}
			}
			result <- failure
			if !decided.CompareAndSwap(false, true) {
				late(failure.err())
			}
		}()
		// When the log of the store is shorter later, what the call does outside is newer than the records.
		b.store.Load().NoteReach()
		err := call(ctx)
		if err == nil {
			failure = nil
			return
		}
		failure = &attemptError{text: "the driver returned an error that cannot be printed"}
		text := err.Error()
		if len(text) > maxReason {
			text = text[:maxReason] + "…"
		}
		failure = &attemptError{text: strings.ToValidUTF8(text, "\ufffd"), permanent: IsPermanent(err)}
	}()
	var failure *attemptError
	select {
	case failure = <-result:
	case <-ctx.Done():
		select {
		case failure = <-result:
		case <-time.After(abandonAfter):
			left()
			if !decided.CompareAndSwap(false, true) {
				failure = <-result
				late(failure.err())
				break
			}
			failure = &attemptError{text: fmt.Sprintf("the driver did not return within %s of the end of its context", abandonAfter)}
			b.log.Error("driver does not return", "sink", sinkID, "step", step, "since", begin)
		}
	}
	err := failure.err()
	b.metrics.called(sinkID, step, time.Since(begin), err)
	return err
}

// err returns the failure as an error, nil when there is none.
func (e *attemptError) err() error {
	switch {
	case e == nil:
		return nil
	case e.permanent:
		return Permanent(e)
	}
	return e
}
