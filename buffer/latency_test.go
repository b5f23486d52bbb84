package buffer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// Uploads and imports that have succeeded are measured, with quantiles that are off by a fifth at most, and so are commits.
func TestLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var importTakes atomic.Int64
		var fails atomic.Bool
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			switch c.Op {
			case buffertest.OpPut:
				time.Sleep(3 * time.Millisecond)
			case buffertest.OpImport:
				time.Sleep(time.Duration(importTakes.Load()))
				if fails.Load() {
					return errors.New("not yet")
				}
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a")
		if st := b.Stats(); st.Uploads.Count() != 0 || st.Imports.Quantile(0.5) != 0 {
			t.Errorf("before the first: %+v", st)
		}
		before := b.Stats()
		move := func() {
			t.Helper()
			put(t, b, s, 0, 1)
			must(t, b.Sink("a").Flush(t.Context()))
		}
		near := func(what string, got, want time.Duration) {
			t.Helper()
			if got < want*4/5 || got > want*6/5 {
				t.Errorf("%s: got %s, want about %s", what, got, want)
			}
		}
		for i := range 9 {
			importTakes.Store(int64(700 * time.Millisecond))
			if i == 4 {
				importTakes.Store(int64(40 * time.Second))
			}
			move()
		}
		st := b.Stats()
		uploads, imports := st.Uploads.Since(before.Uploads), st.Imports.Since(before.Imports)
		if uploads.Count() != 9 || imports.Count() != 9 || st.Commits.Since(before.Commits).Count() < 9 {
			t.Errorf("got %d uploads, %d imports, %d commits, want 9, 9, at least 9", uploads.Count(), imports.Count(), st.Commits.Count())
		}
		near("median of uploads", uploads.Quantile(0.5), 3*time.Millisecond)
		near("median of imports", imports.Quantile(0.5), 700*time.Millisecond)
		near("p99 of imports", imports.Quantile(0.99), 40*time.Second)

		// A call that fails is none of them, and earlier calls are not counted again.
		before = st
		fails.Store(true)
		put(t, b, s, 0, 1)
		_ = b.Sink("a").CloseFile(t.Context(), trigger.Requested)
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := b.Stats(); st.Imports.Since(before.Imports).Count() != 0 || st.Uploads.Since(before.Uploads).Count() != 1 {
			t.Errorf("got %d imports and %d uploads, want 0 and 1", st.Imports.Since(before.Imports).Count(), st.Uploads.Since(before.Uploads).Count())
		}
		fails.Store(false)
	})
}
