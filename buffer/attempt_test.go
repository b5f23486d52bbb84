package buffer_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text } // panics on a nil pointer

// twist is a driver whose calls are replaced.
type twist struct {
	*buffertest.Memory
	put      func(ctx context.Context, obj driver.Object, src driver.Content) error
	importer func(ctx context.Context, f *driver.File) error
}

func (t *twist) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if t.put != nil {
		return t.put(ctx, obj, src)
	}
	return t.Memory.Put(ctx, obj, src)
}

func (t *twist) Import(ctx context.Context, f *driver.File) error {
	if t.importer != nil {
		if err := t.importer(ctx, f); err != nil {
			return err
		}
	}
	return t.Memory.Import(ctx, f)
}

// withTwist runs a test on a fake clock with one row that waits.
func withTwist(t *testing.T, drv *twist, check func(t *testing.T, b *buffer.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		drv.Memory = buffertest.NewMemory()
		opts := memoryOptions(t, drv.Memory)
		opts.Staging, opts.Target, opts.AttemptTimeout = drv, drv, time.Minute
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 1)
		check(t, b)
	})
}

// once returns the result of the first call, and nil afterwards.
func once(call func(ctx context.Context) error) func(context.Context, *driver.File) error {
	var called atomic.Bool
	return func(ctx context.Context, _ *driver.File) error {
		if called.Swap(true) {
			return nil
		}
		return call(ctx)
	}
}

func TestMisbehavingDriversFailTheirAttemptAlone(t *testing.T) {
	for name, call := range map[string]func(context.Context) error{
		"panics":                          func(context.Context) error { panic("oh") },
		"returns an error that panics":    func(context.Context) error { var e *nilError; return e },
		"ends its goroutine":              func(context.Context) error { runtime.Goexit(); return nil },
		"returns a text without an end":   func(context.Context) error { return errors.New(strings.Repeat("x", 8<<20)) },
		"returns a text that is not text": func(context.Context) error { return errors.New("\xff\xfe") },
	} {
		t.Run(name, func(t *testing.T) {
			drv := &twist{importer: once(call)}
			withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
				must(t, b.Sink("a").CloseFile(t.Context(), 1))
				synctest.Wait()
				st, _ := b.Sink("a").Stats()
				if f := st.Files[0]; f.Attempt != 1 || f.RetryReason == "" || len(f.RetryReason) > 8<<10 {
					t.Fatalf("attempt %d, reason %.100q (%d bytes)", f.Attempt, f.RetryReason, len(f.RetryReason))
				}
				must(t, b.Sink("a").Flush(t.Context()))
				wantIDs(t, drv.Memory, "in.c-test.a", 0, 1)
			})
		})
	}
}

// A call that ignores its context is left alone after its time, and neither holds up its sink nor Close.
func TestHangingDriverIsLeftAlone(t *testing.T) {
	release := make(chan struct{})
	drv := &twist{importer: once(func(context.Context) error { <-release; return errors.New("late") })}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		release = make(chan struct{}) // of the bubble
		must(t, b.Sink("a").CloseFile(t.Context(), 1))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		wantIDs(t, drv.Memory, "in.c-test.a", 0, 1)
		close(release)
	})
}
