package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/mapping"
)

// heapInUse returns the bytes of the objects on the heap that the last garbage collection found in use.
func heapInUse() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// peakHeap returns the most that the heap grows during a call, and what stays of it.
func peakHeap(during func()) (peak, after int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that there are many collections
	runtime.GC()
	runtime.GC() // pools are empty
	before := heapInUse()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-tick.C:
				peak = max(peak, heapInUse()-before)
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	during()
	close(done)
	<-ended
	runtime.GC()
	return peak, heapInUse() - before
}

// The number of callers and of sinks does not decide how much memory the engine uses. Bodies, and rows within MaxPendingBytes, do. The committer
// has a compressed copy of the rows and a copy in its batch, for which MaxPendingBytes does not count.
func TestMemoryOfManyCallers(t *testing.T) {
	const bound = 32 << 20 // next to it, the fixed costs of the store are small
	for _, c := range []struct {
		name                  string
		sinks, callers, bytes int
		rounds                int
	}{
		{"large bodies for many sinks", 100, 32, 1 << 20, 1},
		{"many callers", 4, 2000, 16 << 10, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := buffertest.NewMemory()
			mem.Before = func(_ context.Context, call buffertest.Call) error {
				if call.Op == buffertest.OpPut {
					return errors.New("staging is away") // it would be a part of the heap
				}
				return nil
			}
			e, err := forebay.Open(t.TempDir(), forebay.Options{
				Staging: mem, Target: mem, Buffer: buffer.Tuning{MaxPendingBytes: bound, MemTableBytes: 1 << 20, MaxDiskBytes: 256 << 20, MaxSinkBytes: 64 << 20},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			src := forebay.Source{ID: "web"}
			for k := range c.sinks {
				src.Sinks = append(src.Sinks, forebay.Sink{ID: fmt.Sprint("s", k), Table: forebay.Table{ID: fmt.Sprint("in.c-web.t", k), Columns: mapping.Columns{mapping.Body("body")}}})
			}
			mustDefine(t, e, src)
			text := make([]byte, c.bytes)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range text {
				if text[i] = ' '; i%8 > 0 {
					text[i] = "eta"[rng.IntN(3)] // it is compressed to a quarter, like events
				}
			}
			body := fmt.Appendf(nil, `{"text":"%s"}`, text)
			bodies := make([][]byte, c.callers)
			for i := range bodies {
				bodies[i] = append([]byte(nil), body...)
			}
			peak, after := peakHeap(func() {
				var callers sync.WaitGroup
				for i := range c.callers {
					callers.Go(func() {
						for range c.rounds {
							rec := mapping.JSON(bodies[i])
							_, _ = e.Ingest(t.Context(), "web", rec)
						}
					})
				}
				callers.Wait()
			})
			runtime.KeepAlive(bodies)
			rows := int64(0)
			for _, s := range e.Stats().Sinks {
				rows += s.Accepted
			}
			inFlight := int64(c.callers * len(body))
			peak, limit := peak+inFlight, (bound+inFlight)*5/2 // the bodies were there before
			if peak > limit {
				t.Errorf("%d callers with %d bytes each for %d sinks: the heap had %d MiB at its peak, want at most %d MiB", c.callers, len(body), c.sinks, peak>>20, limit>>20)
			}
			if after > 2*bound {
				t.Errorf("%d callers with %d bytes each for %d sinks: %d MiB stay on the heap, want at most %d MiB", c.callers, len(body), c.sinks, after>>20, 2*bound>>20)
			}
			if rows == 0 {
				t.Error("no row was stored")
			}
			t.Logf("peak %d MiB, limit %d MiB, afterwards %d MiB; %d rows stored", peak>>20, limit>>20, after>>20, rows)
		})
	}
}
