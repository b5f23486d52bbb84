package buffer_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// rot flips a bit of a file, durably.
func rot(t *testing.T, fs vfs.FS, path string, at func(size int) int) {
	t.Helper()
	f, err := fs.Open(path)
	must(t, err)
	data, err := io.ReadAll(f)
	must(t, errors.Join(err, f.Close()))
	data[at(len(data))] ^= 4
	g, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = g.Write(data)
	must(t, errors.Join(err, g.Sync(), g.Close()))
}

// A salvage that is cut short at any operation, with the power, is taken up by the next opening. Nothing is lost by it, and
// nothing is doubled.
func TestSalvageIsCutShort(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		step := casetest.Of(5, 5, 25)
		if disk(t).IsReal() {
			step = casetest.Of(5, 25, 50)
		}
		for n, done := -step, false; !done; n += step {
			w := newDamageWorldOn(t, disk(t), true, false)
			for name := range w.files(t) {
				if strings.HasPrefix(name, "MANIFEST-") {
					// The start of a list of tables. Every table has to be found without it.
					rot(t, w.fs, "data/"+name, func(int) int { return 10 })
				}
			}
			var ops atomic.Int64
			w.opts = localdisk.On(w.opts, disktest.Wrap(w.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
					return nil
				}
				// The first of all is cut in the middle of the swap of the stores.
				swapping := op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, ".sst")
				if n < 0 && ops.Load() == 0 && !swapping || n >= 0 && ops.Add(1) <= int64(n) {
					return nil
				}
				ops.Add(1)
				return syscall.ENOSPC // and everything after it
			})))
			w.stagingDown.Store(true)
			b, err := buffer.Open("data", w.opts)
			if err == nil {
				done = true
				_ = b.Close()
				if n < 50 {
					t.Fatalf("it passes with %d operations: nothing was salvaged", n)
				}
				t.Logf("it passes with %d operations", n)
			}
			crashed := w.fs.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(n), 7))})
			w.fs, w.opts = crashed, localdisk.On(w.opts, crashed)
			if missing, list := w.check(t); missing > 0 || len(list) > 0 {
				t.Errorf("cut short at operation %d (%v): %d rows are missing, damage %v", n, err, missing, summary(list))
			}
			if t.Failed() {
				return
			}
			if n > 5000 {
				t.Fatal("the salvage never passes")
			}
		}
	})
}
