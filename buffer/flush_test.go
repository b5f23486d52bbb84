package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

func TestHeldErrorCountsTheRows(t *testing.T) {
	drv := &twist{importer: func(ctx context.Context, _ *driver.File) error { <-ctx.Done(); return ctx.Err() }}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var held *buffer.HeldError
		if err := b.Sink("a").Flush(ctx); !errors.As(err, &held) || held.Rows != 1 || strings.Contains(err.Error(), "0 failed") {
			t.Errorf("got %v, want a HeldError of 1 row", err)
		}
	})
}

// An attempt that began before the call says nothing about the cause, which may have passed since. Flush repeats it at once.
func TestFlushForgivesAnAttemptThatBeganBefore(t *testing.T) {
	for _, c := range []struct {
		op    buffertest.Op
		tries int64 // which of the attempts runs when Flush is called
	}{{buffertest.OpImport, 1}, {buffertest.OpImport, 2}, {buffertest.OpPut, 1}, {buffertest.OpPut, 2}} {
		t.Run(fmt.Sprint(c.op, " ", c.tries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				var tries atomic.Int64
				ends := make(chan struct{})
				mem.Before = func(_ context.Context, call buffertest.Call) error {
					if call.Op != c.op || tries.Load() >= c.tries {
						return nil
					}
					if tries.Add(1) == c.tries {
						<-ends
					}
					return driver.Permanent(errors.New("a column is missing"))
				}
				b := open(t, memoryOptions(t, mem))
				put(t, b, define(t, b, "a"), 0, 5)
				must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
				time.Sleep(time.Minute)
				flushed := make(chan error)
				go func() { flushed <- b.Sink("a").Flush(t.Context()) }()
				synctest.Wait()
				began := time.Now()
				close(ends)
				if err := <-flushed; err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("the flush took %v after the end of the attempt, want no pause", took)
				}
				if rows := mem.Rows(tableA); len(rows) != 5 {
					t.Errorf("the table has %d rows, want 5", len(rows))
				}
			})
		})
	}
}
