// Package ctxio ends copies and pauses with their context.
package ctxio

import (
	"cmp"
	"context"
	"io"
	"time"
)

type writer struct {
	ctx context.Context
	io.Writer
}

// Writer returns a writer to w that fails with the error of ctx once ctx has ended.
func Writer(ctx context.Context, w io.Writer) io.Writer { return writer{ctx, w} }

// Write implements [io.Writer].
func (w writer) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// Sleep waits for d. It returns the cause of ctx if that ends first, and at once if it has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return context.Cause(ctx)
}

// Pause is the time between attempts. It doubles with each attempt, from First to Last.
type Pause struct{ First, Last, next time.Duration }

// Wait sleeps for the next pause, like [Sleep].
func (p *Pause) Wait(ctx context.Context) error { return Sleep(ctx, p.Next()) }

// Next returns the next pause, for a caller that waits for it in a different way.
func (p *Pause) Next() time.Duration {
	d := cmp.Or(p.next, p.First)
	p.next = min(2*d, p.Last)
	return d
}

// Reset makes the next pause the first one again.
func (p *Pause) Reset() { p.next = 0 }
