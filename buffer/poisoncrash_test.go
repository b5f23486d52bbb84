package buffer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// world is a file whose target refuses some rows. The sink of a plain world is defined without a quarantine, so that the first refused row upgrades
// the data directory.
type world struct {
	names, rows, mask int
	plain             bool
}

func (w world) refused(i int) bool { return w.mask>>i&1 == 1 }

func (w world) sink() func(*buffer.SinkConfig) {
	if w.plain {
		return func(*buffer.SinkConfig) {}
	}
	return quarantined()
}

// smallWorlds are files of up to four rows with refused ones, and a few larger ones, either all of them or a sample.
func smallWorlds(t *testing.T) []world {
	t.Helper()
	var all []world
	for _, names := range []int{0, 1, -1} {
		for rows := 1; rows <= 4; rows++ {
			for mask := 1; mask < 1<<rows; mask++ {
				all = append(all, world{names, rows, mask, false})
			}
		}
		for _, mask := range []int{0b00100, 0b10011, 0b11111} {
			all = append(all, world{names, 5, mask, false})
		}
		all = append(all, world{names, 2, 0b10, true}, world{names, 3, 0b101, true}, world{names, 3, 0b111, true})
	}
	return casetest.Sample(t, all, 10, 8)
}

// A power cut before or after any call of staging or the target changes nothing.
func TestPowerCutsWhileAFileIsSplit(t *testing.T) {
	for _, w := range smallWorlds(t) {
		for at, more := 1, true; more; at++ {
			more = w.play(t, at, 0)
		}
	}
}

// The same at any write to the disk. Unsynced data is lost.
func TestPowerCutsAtWritesWhileAFileIsSplit(t *testing.T) {
	for _, w := range smallWorlds(t) {
		if w.rows > 3 {
			continue
		}
		for at, more := 1, true; more; at++ {
			more = w.play(t, 0, at)
		}
	}
}

// play cuts the power at a call to the outside, or at a write, both counted from 1 from the moment on when the rows are stored. It reports whether
// there was one.
func (w world) play(t *testing.T, atCall, atWrite int) (more bool) {
	t.Helper()
	withRefusing(t, w.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		disk := disktest.New(t)
		var (
			off           atomic.Bool
			counting      atomic.Bool
			calls, writes atomic.Int64
			once          sync.Once
			left          *disktest.Disk
		)
		cut := func() {
			once.Do(func() {
				left = disk.Cut(vfs.CrashCloneCfg{})
				off.Store(true)
			})
		}
		call := func(context.Context, buffertest.Call) error {
			if counting.Load() && calls.Add(1) == int64(atCall) {
				cut()
			}
			if off.Load() {
				return errors.New("the power is off")
			}
			return nil
		}
		mem.Before, mem.After = call, call
		faulty := disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if counting.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) == int64(atWrite) {
				cut()
			}
			return nil
		}))
		b := openAt(t, "data", localdisk.On(opts, faulty))
		putRows(t, b, define(t, b, "a", w.sink(), smallSlices), w.rows, w.refused)
		counting.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_ = b.Sink("a").Flush(ctx)
		cancel()
		counting.Store(false)
		closeBuffer(t, b)
		if more = left != nil; !more {
			return
		}
		mem.Before, mem.After = nil, nil
		b = openAt(t, "data", localdisk.On(opts, left))
		define(t, b, "a", w.sink(), smallSlices)
		flush(t, b, "a")
		wantSplit(t, b, mem, w.rows, w.refused)
		closeBuffer(t, b)
		if t.Failed() {
			t.Fatalf("%d rows, refused %b, names %d, plain %t, the power is off at call %d or write %d", w.rows, w.mask, w.names, w.plain, atCall, atWrite)
		}
	})
	return more
}
