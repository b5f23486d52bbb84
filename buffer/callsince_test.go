package buffer_test

import (
	"context"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// Who looks while an import runs sees since when, and nothing of it afterwards.
func TestCallSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, proceed := buffertest.NewMemory(), make(chan struct{})
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				<-proceed
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		put(t, b, define(t, b, "a"), 0, 5)
		if f := b.Stats().Sinks[0].Files[0]; !f.CallSince.IsZero() {
			t.Errorf("before an import: %v", f.CallSince)
		}
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait() // until the import runs
		began := time.Now()
		time.Sleep(6 * time.Second)
		st := b.Stats()
		if f := st.Sinks[0].Files[0]; !f.CallSince.Equal(began) || f.State != buffer.FileImporting {
			t.Errorf("an import that runs since %v: %+v", began, f)
		}
		if st.Retention != 7*24*time.Hour {
			t.Errorf("retention %v", st.Retention)
		}
		close(proceed)
		synctest.Wait()
		if f := b.Stats().Sinks[0].Files[0]; !f.CallSince.IsZero() || f.State != buffer.FileImported {
			t.Errorf("after the import: %+v", f)
		}
	})
}
