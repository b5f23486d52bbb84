package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// liveHeap returns the bytes of the objects on the heap that the last garbage collection found in use.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// heapOf returns how much the live heap grows at most during a call, and how much of it stays afterwards.
func heapOf(during func()) (peak, after int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that there are many collections
	runtime.GC()
	runtime.GC() // pools are empty
	before := liveHeap()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-tick.C:
				peak = max(peak, liveHeap()-before)
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
	runtime.GC()
	return peak, liveHeap() - before
}

// crowd is callers that bring bodies at the same time.
type crowd struct {
	name                  string
	sinks, callers, bytes int
	noise                 bool // the bodies cannot be compressed
	batch                 int  // records of an atomic batch; 0 means that each caller brings one record
	patience              time.Duration
}

// crowds are the cases of TestMemoryOfManyCallers. FOREBAY_CALLERS, for example "1,8,32,128,1000,10000", has the first two with each of these numbers.
func crowds(t *testing.T) []crowd {
	large := crowd{name: "large bodies for many sinks", sinks: 40, callers: 32, bytes: 1 << 20, patience: 2 * time.Second}
	small := crowd{name: "many callers", sinks: 4, callers: 2000, bytes: 16 << 10, patience: 2 * time.Second}
	if testing.Short() {
		return []crowd{small}
	}
	noise, batches, records := large, large, large
	noise.name, noise.noise = "bodies that cannot be compressed", true
	batches.name, batches.batch, batches.bytes = "large batches", 16, 64<<10
	records.name, records.batch = "batches of large records", 2
	list := os.Getenv("FOREBAY_CALLERS")
	if list == "" {
		return []crowd{large, small, noise, batches, records}
	}
	var cases []crowd
	for _, c := range []crowd{large, small} {
		for n := range strings.SplitSeq(list, ",") {
			var err error
			if c.callers, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
			c.patience = 20 * time.Second
			cases = append(cases, c)
		}
	}
	return cases
}

func (c crowd) body(t *testing.T) []byte {
	rng := seedtest.Rand(t)
	text := make([]byte, c.bytes)
	for i := range text {
		switch {
		case c.noise:
			text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[rng.IntN(64)]
		case i%8 == 0:
			text[i] = ' '
		default:
			text[i] = "eta"[rng.IntN(3)] // it is compressed to a quarter, like events
		}
	}
	return fmt.Appendf(nil, `{"text":"%s"}`, text)
}

// bring is what one caller does.
func (c crowd) bring(ctx context.Context, e *forebay.Engine, body []byte) {
	if c.batch == 0 {
		_, _ = e.Ingest(ctx, "web", mapping.JSON(body))
		return
	}
	_, _ = e.IngestAtomic(ctx, "web", forebay.Batch{Records: func(yield func(*mapping.Record) bool) {
		for range c.batch {
			if !yield(mapping.JSON(body)) {
				return
			}
		}
	}})
}

// The number of callers and of sinks does not decide how much memory the engine uses. It uses at most 1.5 times MaxPendingBytes and the bodies of the
// calls.
func TestMemoryOfManyCallers(t *testing.T) {
	const bound = 32 << 20 // the fixed costs of the store are small compared with it
	for _, c := range crowds(t) {
		t.Run(fmt.Sprintf("%s/%d", c.name, c.callers), func(t *testing.T) {
			mem := buffertest.NewMemory()
			mem.Before = func(_ context.Context, call buffertest.Call) error {
				if call.Op == buffertest.OpPut {
					return errors.New("staging is away") // it would be a part of the heap
				}
				return nil
			}
			e, err := forebay.Open(t.TempDir(), forebay.Options{
				Staging: mem, Target: mem, Buffer: buffer.Tuning{
					MaxPendingBytes: bound, MemTableBytes: 1 << 20, MaxDiskBytes: 512 << 20, MaxSinkBytes: 512 << 20, AdmissionWait: 50 * time.Millisecond,
				},
			})
			must(t, err)
			defer e.Close()
			src := forebay.Source{ID: "web"}
			for k := range c.sinks {
				src.Sinks = append(src.Sinks, forebay.Sink{ID: fmt.Sprint("s", k), Table: forebay.Table{ID: fmt.Sprint("in.c-web.t", k), Columns: mapping.Columns{mapping.Body("body")}}})
			}
			mustDefine(t, e, src)
			body := c.body(t)
			peak, after := heapOf(func() {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience) // clients do not wait forever
				defer cancel()
				var callers sync.WaitGroup
				for range c.callers {
					callers.Go(func() { c.bring(ctx, e, body) })
				}
				callers.Wait()
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for e.Stats().PendingBytes > 0 {
					<-tick.C
				}
			})
			accepted := func() (rows int64) {
				for _, s := range e.Stats().Sinks {
					rows += s.Accepted
				}
				return rows
			}
			if accepted() == 0 { // on a busy machine all may have lost patience
				c.bring(t.Context(), e, body)
			}
			rows := accepted()
			bodies := int64(c.callers * max(c.batch, 1) * len(body))
			peak += bodies // all callers have brought the same one
			if limit := (bound + bodies) * 3 / 2; peak > limit {
				t.Errorf("%d callers with records of %d KiB for %d sinks: the live heap has %d MiB at its peak, want at most %d MiB", c.callers, len(body)>>10, c.sinks, peak>>20, limit>>20)
			}
			if after > bound {
				t.Errorf("%d callers with records of %d KiB for %d sinks: %d MiB stay on the heap, want at most %d MiB", c.callers, len(body)>>10, c.sinks, after>>20, bound>>20)
			}
			if rows == 0 {
				t.Error("no row was stored")
			}
			t.Logf("bodies %d MiB, peak without them %d MiB, afterwards %d MiB; %d rows stored", bodies>>20, (peak-bodies)>>20, after>>20, rows)
		})
	}
}
