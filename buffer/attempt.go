package buffer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driver"
)

// An attempt is one call of a driver, on a goroutine of its own. Whatever the driver does (panic, end its goroutine, ignore
// its context, return an error whose methods panic) is a failure of this attempt alone.
//
//	           call returns                       ┌─▶ succeeded or failed
//	  ┌──────▶ in time ───────────────────────────┤
//	running                                       │
//	  │ AttemptTimeout, or the buffer closes      │
//	  ▼                                           │
//	ending ──▶ call returns within abandonAfter ──┘
//	  │ abandonAfter
//	  ▼
//	left alone (counts as failed) ──▶ call returns ──▶ late
//
// The caller and the call's goroutine share two things. outcome has room for one value, so the call never waits for anyone.
// decided is set once: by the call when it returns, or by the caller when it leaves the call alone. Whoever finds it set knows
// that the other was first: exactly then the end is late. left is called before the caller decides and late at most once,
// so a count that left raises and late lowers never goes below zero.

// abandonAfter is how long a driver may go on after its context has ended. The contract lets the next attempt run beside a
// call that was left alone.
const abandonAfter = 10 * time.Second

// maxReason bounds the text of a failure in bytes. The text is kept in the records.
const maxReason = 4 << 10

// lateEnd is told of a call that was left alone, and of its end. A nil lateEnd does not care.
type lateEnd struct {
	left func()
	late func(error)
}

// errLeftAlone is the failure of a call that was left alone.
var errLeftAlone = fmt.Errorf("the driver did not return within %s of the end of its context", abandonAfter)

// attempt calls a driver and returns how the call ended. after may be nil. Logs and metrics name step and sink. Metrics
// also name the target of the table.
func (b *Buffer) attempt(ctx context.Context, step, sinkID, target string, call func(context.Context) error, after *lateEnd) error {
	return b.attemptOf(ctx, DriverEvent{SinkID: sinkID, Step: step}, target, call, after)
}

// attemptOf is attempt for a call that moves rows. Its event describes the rows.
func (b *Buffer) attemptOf(ctx context.Context, event DriverEvent, target string, call func(context.Context) error, after *lateEnd) error {
	begin, step, sinkID := time.Now(), event.Step, event.SinkID
	// If the store later has a shorter log, what the call does outside is newer than the records.
	store, records := b.store.Opening(), b.copy
	err := runAttempt(ctx, b.opts.AttemptTimeout, func(ctx context.Context) error {
		store.NoteReach()
		records.write()
		return call(ctx)
	}, after)
	if errors.Is(err, errLeftAlone) {
		b.log.Error("driver call hangs", "sink", sinkID, "step", step, "since", begin, "next", "find out why the target or the staging hangs; the call is abandoned")
	}
	took := time.Since(begin)
	switch {
	case err != nil:
	case step == string(stepUpload):
		b.tookUploads.add(took)
	case step == string(stepImport):
		b.tookImports.add(took)
	}
	b.metrics.called(sinkID, target, step, took, err)
	event.Took, event.Err = took, err
	b.opts.Hooks.called(event)
	return err
}

// runAttempt runs a call as the diagram says. It uses nothing of the buffer.
func runAttempt(ctx context.Context, timeout time.Duration, call func(context.Context) error, after *lateEnd) error {
	if after == nil {
		after = &lateEnd{func() {}, func(error) {}}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome := make(chan error, 1)
	var decided atomic.Bool
	go func() {
		err := errors.New("the driver ended its goroutine") // unless it returns or panics
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the driver panicked: %.1000v", r)
			}
			outcome <- err
			if !decided.CompareAndSwap(false, true) {
				after.late(err)
			}
		}()
		err = plainError(call(ctx))
	}()
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-outcome:
		return err
	case <-time.After(abandonAfter):
	}
	after.left()
	if decided.CompareAndSwap(false, true) {
		return errLeftAlone
	}
	err := <-outcome
	after.late(err)
	return err
}

// withRoom makes a call that writes some bytes to staging or the target once there is room for them: see [driver.LocalDriver].
func (b *Buffer) withRoom(drv any, stored, raw int64, call func() error) error {
	if local, ok := drv.(driver.LocalDriver); ok {
		release, err := b.store.Opening().Claim(local.Needs(stored, raw))
		if err != nil {
			return err
		}
		defer release()
	}
	return call()
}

// plainError reduces a driver's error to what is recorded: its text, whether it is permanent, and the rows that it refuses. The error may be of
// any kind, so its methods are called once, here, where a panic is caught.
func plainError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	plain := errors.New(strings.ToValidUTF8(text, "\ufffd"))
	if refused := refusalOf(err, plain); refused != nil {
		return refused
	}
	if driver.IsPermanent(err) {
		return driver.Permanent(plain)
	}
	if leased, ok := errors.AsType[*driver.LeasedError](err); ok {
		return leased
	}
	return plain
}
