package buffer_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// A reader that Put forgets ends with Put, so it cannot keep the store open.
func TestForgottenReaderEndsWithPut(t *testing.T) {
	drv := &twist{put: func(_ context.Context, _ driver.Object, src driver.Content) error {
		rc, err := src.Open()
		if err != nil {
			return err
		}
		var one [1]byte
		_, _ = rc.Read(one[:])
		return errors.New("connection refused")
	}}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		must(t, b.Sink("a").CloseFile(t.Context(), 1))
		time.Sleep(time.Minute)
		begin := time.Now()
		must(t, b.Close())
		if took := time.Since(begin); took > 0 {
			t.Errorf("Close waited %s", took)
		}
	})
}

// stuckWriter never takes a byte until it is released.
type stuckWriter struct{ release chan struct{} }

func (w stuckWriter) Write([]byte) (int, error) {
	<-w.release
	return 0, errors.New("released")
}

// A Put that never returns and holds the rows: Close says so after a while, and the folder can be reopened, because
// nothing of the old opening reaches it any longer.
func TestCloseUnderAStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := func(c *buffer.SinkConfig) { c.Encoding = driver.None } // is written as it is read
		release := make(chan struct{})
		var stuck atomic.Bool
		stuck.Store(true)
		drv := &twist{Memory: buffertest.NewMemory()}
		drv.put = func(ctx context.Context, obj driver.Object, src driver.Content) error {
			if stuck.Load() {
				_, err := src.WriteTo(stuckWriter{release})
				return err
			}
			return drv.Memory.Put(ctx, obj, src)
		}
		opts := memoryOptions(t, drv.Memory)
		opts.Staging, opts.Target, opts.AttemptTimeout = drv, drv, time.Minute
		b, err := buffer.Open("data", opts)
		must(t, err)
		put(t, b, define(t, b, "a", plain), 0, 5)
		must(t, b.Sink("a").CloseFile(t.Context(), 1))
		synctest.Wait()
		begin := time.Now()
		if err := b.Close(); err == nil || time.Since(begin) > time.Minute {
			t.Errorf("Close returned %v after %s", err, time.Since(begin))
		}
		stuck.Store(false)
		after := open(t, opts)
		put(t, after, define(t, after, "a", plain), 5, 8)
		close(release)
		must(t, after.Sink("a").Flush(t.Context()))
		wantAll(t, drv.Memory, "in.c-test.a", 0, 8)
		verify(t, after)
	})
}

// The tables of an encoder are larger than most small slices, so uploads share encoders. Otherwise thousands of sinks with a few rows each would
// leave most of their memory to the collector.
func TestUploadsShareEncoders(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	synctest.Test(t, func(t *testing.T) {
		const slices, most = 200, 64 << 10
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding, c.Upload.Count = driver.Gzip, 1 })
		var before, after runtime.MemStats
		putSlices(t, b, s, 1)
		synctest.Wait()
		runtime.ReadMemStats(&before)
		putSlices(t, b, s, slices)
		synctest.Wait()
		runtime.ReadMemStats(&after)
		each := (after.TotalAlloc - before.TotalAlloc) / slices
		t.Logf("%d bytes are allocated for a slice of one row", each)
		if st := b.Stats().Sinks[0]; st.Local.Rows > 0 {
			t.Fatalf("%d rows are not uploaded, want 0", st.Local.Rows)
		}
		if each > most {
			t.Errorf("got %d bytes for a slice of one row, want at most %d", each, most)
		}
	})
}
