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

// An attempt is one call of a driver, on a separate goroutine. Whatever the driver does (panic, end its goroutine, ignore
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
// decided is set once, by the call when it returns, or by the caller when it leaves the call alone. The side that finds it set
// was second. Exactly then the end is late. left is called before the caller decides and late at most once, so a count that
// left raises and late lowers never goes below zero.

// abandonAfter is how long a driver may continue after its context has ended. The contract lets the next attempt run
// alongside an abandoned call.
const abandonAfter = 10 * time.Second

// maxReason bounds the text of a failure in bytes. The text is kept in the records.
const maxReason = 4 << 10

// lateEnd is notified of an abandoned call, and of its end. lateEnd may be nil.
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
	took, err := b.call(ctx, event.Step, event.SinkID, call, after)
	b.called(event, target, took, err)
	return err
}

// called tells metrics and hooks of a call that has ended.
func (b *Buffer) called(event DriverEvent, target string, took time.Duration, err error) {
	b.metrics.called(event.SinkID, target, event.Step, took, err)
	event.Took, event.Err = took, err
	b.opts.Hooks.called(event)
}

// call calls a driver and returns how long it took and how it ended. after may be nil.
func (b *Buffer) call(ctx context.Context, step, sinkID string, call func(context.Context) error, after *lateEnd) (time.Duration, error) {
	begin := time.Now()
	// If the store later has a shorter log, the call's external effects are newer than the records.
	store, records := b.store.Opening(), b.copy
	err := runAttempt(ctx, b.opts.AttemptTimeout, func(ctx context.Context) error {
		store.NoteReach()
		records.write()
		return call(ctx)
	}, after)
	b.warnHangs(DriverEvent{SinkID: sinkID, Step: step}, begin, err)
	took := time.Since(begin)
	switch {
	case err != nil:
	case step == string(stepUpload):
		b.tookUploads.add(took)
	case step == string(stepImport):
		b.tookImports.add(took)
	}
	return took, err
}

// read is attempt for a call that only reads, on the goroutine of a caller. The store may be reopened or closed meanwhile, so it uses nothing of it.
func (b *Buffer) read(ctx context.Context, sinkID, target string, call func(context.Context) error) error {
	event, begin := DriverEvent{SinkID: sinkID, Step: "read"}, time.Now()
	err := runAttempt(ctx, b.opts.AttemptTimeout, call, nil)
	b.warnHangs(event, begin, err)
	b.called(event, target, time.Since(begin), err)
	return err
}

// warnHangs logs a call that was left alone.
func (b *Buffer) warnHangs(event DriverEvent, begin time.Time, err error) {
	if errors.Is(err, errLeftAlone) {
		b.log.Error("driver call hangs", "sink", event.SinkID, "step", event.Step, "since", begin, "next", "find out why the target or staging hangs; the call is abandoned")
	}
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

// withRoom makes a call that writes some bytes to staging or the target once there is room for them. See [driver.LocalDriver].
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

// plainError reduces a driver's error to the recorded parts: its text, whether it is permanent, and the rows that it refuses. The error may be
// of any kind, so its methods are called once, here, where a panic is caught.
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
