package buffer

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// Attempts of calls to drivers, and the handling of their failures. See [probeQueue].

func (b *Buffer) uploadErrand(sl *slice) errand {
	return errand{queueKey{step: stepUpload, sink: sl.file.sink.id}, sl.num, func() { b.queueUpload(sl) }}
}

func (b *Buffer) importErrand(f *file) errand {
	return errand{queueKey{stepImport, f.sink.id, f.target + " " + f.rec.Def.Table.ID}, f.num, func() { b.queueImport(f) }}
}

func (b *Buffer) cleanupErrand(f *file) errand {
	return errand{queueKey{step: stepCleanup, sink: f.sink.id}, f.num, func() { b.queueCleanup(f) }}
}

// enter reports whether an errand may make its call now. One that has failed before waits for its turn. If firstFailed is set,
// it is queued again at the end of its retention, whether it had a turn or not.
func (b *Buffer) enter(e errand, failedBefore bool, firstFailed time.Time) bool {
	if b.probes.admit(e, failedBefore) {
		return true
	}
	if !firstFailed.IsZero() {
		b.timers.Set(timerKey{timerImport, e.num}, firstFailed.Add(b.opts.Retention))
	}
	return false
}

// leave ends an errand that was entered.
func (b *Buffer) leave(ctx context.Context, e errand) {
	if ctx.Err() != nil {
		return // the workers end
	}
	if next, ok := b.probes.left(e); ok {
		next.run()
	}
}

// succeeded lets go what waited for the cause to pass.
func (b *Buffer) succeeded(e errand) {
	end := b.probes.succeeded(e, b.now(), b.opts.Retry.Initial)
	if end == nil {
		return
	}
	if end.spoken {
		// Events: upload works again, import works again, clean-up works again.
		b.log.Info(string(e.key.step)+" works again", "sink", e.key.sink, "since", end.began, "failures", end.failed, "waiting", end.waiting)
	}
	for _, waiting := range end.errands {
		waiting.run()
	}
}

// attemptFailed records a failure and sets the timer of the next attempt of its queue. record returns nil when the work is
// no longer due.
func (b *Buffer) attemptFailed(ctx context.Context, e errand, id string, cause error, record func(*txn) *format.Retry) {
	if ctx.Err() != nil {
		return // the buffer closes, and the next Open repeats the attempt
	}
	permanent := driver.IsPermanent(cause)
	_ = b.do(ctx, func(t *txn) {
		r := record(t)
		if r == nil {
			return
		}
		r.Attempt++
		r.Reason = cause.Error()
		r.Permanent = permanent
		r.LastFailed = t.now
		imports := e.key.step == stepImport
		// The retention is for targets that fail. It begins again when the options have the target.
		away := imports && b.targetIsMissing(b.mu.files[e.num])
		switch {
		case away:
			r.FirstFailed = time.Time{}
		case r.FirstFailed.IsZero():
			r.FirstFailed = t.now
		}
		// Not before a failed attempt, because a table may have been fixed while no process ran.
		age := t.now.Sub(r.FirstFailed)
		over := imports && !away && (age >= b.opts.Retention || b.mu.files[e.num].endsWith(cause))
		late := over && b.late.runs(e.num)
		if over && !late {
			if f := b.mu.files[e.num]; !t.splitLast(f, cause) {
				t.expire(f)
			}
			return
		}
		queue := b.probes.refused(e, t.now, r.FirstFailed, func(streak int) time.Duration {
			if permanent || late {
				return b.opts.Retry.delay(streak)
			}
			return min(b.opts.Retry.delay(streak), b.opts.Retry.Probe)
		})
		r.After = queue.next
		// The last attempt is at the end of the retention.
		last := r.FirstFailed.Add(b.opts.Retention)
		if late {
			last = t.now.Add(b.opts.Retry.Max)
		}
		attempt := r.Attempt
		t.onDurable(func() {
			b.timers.Set(timerKey{timerProbe, queue.id}, queue.next)
			if imports && !away {
				b.timers.Set(timerKey{timerImport, e.num}, last)
			}
			if failures, waiting, ok := b.probes.speak(e.key, cause.Error(), t.now); ok {
				// The cause is first, then the time of the first failure, the waiting work, the next attempt, and the next step.
				// Events: upload failed, import failed, clean-up failed.
				b.log.Warn(string(e.key.step)+" failed", "sink", e.key.sink, "id", id, "cause", cause, "permanent", permanent,
					"since", queue.began, "attempt", attempt, "failures", failures, "waiting", waiting, "retry_after", queue.next, "next", nextStep(permanent))
			}
		})
	})
}

// nextStep is what an operator does about a failure.
func nextStep(permanent bool) string {
	if permanent {
		return "repair the cause; the rows wait and are retried"
	}
	return "none; the rows wait and are retried"
}

// delay is the time to wait after the given failed attempt, counted from 1.
func (r Retry) delay(attempt int) time.Duration {
	e := backoff.ExponentialBackOff{
		InitialInterval: r.Initial, MaxInterval: r.Max, Multiplier: r.Multiplier, RandomizationFactor: max(0, r.Jitter),
	}
	e.Reset()
	var d time.Duration
	for range min(attempt, 64) {
		d = e.NextBackOff()
	}
	return min(d, r.Max)
}
