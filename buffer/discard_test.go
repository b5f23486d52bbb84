package buffer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
)

// The staged objects of a discarded file are deleted also when the process ends before it came to that.
func TestDiscardedFileIsCleanedUpAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var up atomic.Bool
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if !up.Load() && (c.Op == buffertest.OpImport || c.Op == buffertest.OpDelete) {
				return errors.New("down")
			}
			return nil
		}
		opts := memoryOptions(mem)
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 5)
		barrier, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Flush(barrier, "a"); err == nil {
			t.Fatal("flush succeeds while the target is down")
		}
		if err := b.Discard(t.Context(), "a", waitingFile(t, b)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the clean-up has failed
		if len(mem.Objects()) != 1 {
			t.Fatalf("staging has %v, want one object", mem.Objects())
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		up.Store(true)
		b = open(t, opts)
		synctest.Wait()
		if len(mem.Objects()) != 0 {
			t.Errorf("staging still has %v", mem.Objects())
		}
		if st, _ := b.SinkStats("a"); st.Discarded.Rows != 5 || len(st.Slices) != 0 {
			t.Errorf("discarded %d rows, slices %v", st.Discarded.Rows, st.Slices)
		}
	})
}
