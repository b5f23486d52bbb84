package buffer_test

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
)

// The console asks for the statistics each second, also in an outage that leaves thousands of failing files. They take memory for each file once, and a
// few short texts.
func TestStatsOfManyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const files = 1000
		o := &outage{Memory: buffertest.NewMemory(), err: errors.New("connection refused")}
		o.away.Store(true)
		opts := memoryOptions(t, o.Memory)
		opts.Target = o
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count, c.Import.Count = 1, 1 })
		putSlices(t, b, s, files)
		time.Sleep(time.Minute)
		synctest.Wait()
		failing := 0
		for _, f := range b.Stats().Sinks[0].Files {
			if f.Attempt > 0 {
				failing++
			}
		}
		if failing != files {
			t.Fatalf("got %d files fail, want %d", failing, files)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.Stats()
		runtime.ReadMemStats(&after)
		size := int(unsafe.Sizeof(buffer.FileStats{}))
		bytes, allocs := int(after.TotalAlloc-before.TotalAlloc)/files, int(after.Mallocs-before.Mallocs)/files
		t.Logf("%d bytes and %d allocations for each file, whose statistics have %d bytes", bytes, allocs, size)
		if bytes > 2*size || allocs > 6 {
			t.Errorf("the statistics of a file take %d bytes and %d allocations, want at most %d and 6", bytes, allocs, 2*size)
		}
	})
}
