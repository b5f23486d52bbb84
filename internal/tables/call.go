package tables

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driver"
)

const (
	// timeout bounds a call. Once it has passed and a call has failed with an error that may go away, no further call of this target begins.
	// A target that is down costs this time once, for any number of tables.
	timeout = 10 * time.Second
	// grace is how long a call may take to notice the end of its context. Then it is abandoned.
	grace = time.Second
	// atOnce is how many calls of one target run at once.
	atOnce = 16
)

// errNotChecked is the outcome of the calls that were not made.
var errNotChecked = errors.New("the target does not respond, the table was not checked")

// callAll makes n calls of a target, up to atOnce concurrently, and gives the outcome of each to done, which may run
// concurrently. Calls that were not made because the target is down have errNotChecked.
func callAll(ctx context.Context, n int, call func(ctx context.Context, i int) error, done func(i int, err error)) {
	var next atomic.Int64
	var failed atomic.Bool // a call that may succeed later has failed
	begun := time.Now()
	var workers sync.WaitGroup
	for range min(atOnce, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				var err error
				switch {
				case ctx.Err() != nil:
					err = context.Cause(ctx)
				case failed.Load() && time.Since(begun) >= timeout:
					err = errNotChecked
				default:
					err = one(ctx, func(ctx context.Context) error { return call(ctx, i) })
				}
				if err != nil && !driver.IsPermanent(err) {
					failed.Store(true)
				}
				done(i, err)
			}
		})
	}
	workers.Wait()
}

// one makes one call within timeout. A call that ignores its context is abandoned, and one that panics has failed.
func one(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	result := make(chan error, 1)
	go func() {
		defer cancel()
		defer func() {
			if r := recover(); r != nil {
				result <- fmt.Errorf("the target panicked: %.1000v", r)
			}
		}()
		result <- call(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	case <-time.After(grace):
		return fmt.Errorf("the target does not end its call: %w", context.Cause(ctx))
	}
}
