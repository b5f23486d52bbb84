package forebay_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// exchange stores a batch under a key, ends its turn and reports whether it was a repetition.
func exchange(t *testing.T, e *forebay.Engine, key string, arrived bool) bool {
	t.Helper()
	var turn forebay.Turn
	defer turn.End(false)
	res, err := e.IngestAtomic(t.Context(), "web", forebay.Batch{
		Once: forebay.Once{Key: key, Turn: &turn}, Records: slices.Values([]*mapping.Record{number(`{"n":1,"m":1}`)}),
	})
	must(t, err)
	turn.End(arrived)
	return res.Replayed == 1
}

// A key with a turn counts until the response to its call has arrived, even across an orderly restart on a real disk.
func TestKeyOfATurn(t *testing.T) {
	folder, mem := t.TempDir(), buffertest.NewMemory()
	open := func() *forebay.Engine {
		e, err := forebay.Open(filepath.Join(folder, "data"), forebay.Options{Staging: mem, Target: mem})
		must(t, err)
		mustDefine(t, e, numbered())
		return e
	}
	e := open()
	rows := 0
	for i, step := range []struct{ arrived, restart, repeated bool }{
		{arrived: false},
		{arrived: false, repeated: true},
		{arrived: true, repeated: true},
		{arrived: true},
		{arrived: true, restart: true}, // the response to the previous call has arrived, and the restart does not bring its key back
		{arrived: false},
		{arrived: false, restart: true, repeated: true},
		{arrived: true, repeated: true},
		{arrived: true},
	} {
		if step.restart {
			must(t, e.Close())
			e = open()
		}
		repeated := exchange(t, e, "k", step.arrived)
		if repeated != step.repeated {
			t.Errorf("step %d %+v: repeated is %t", i, step, repeated)
		}
		if !repeated {
			rows++
		}
		if list, err := e.Receipts(t.Context(), "web", "k"); err != nil || (len(list) == 0) != step.arrived {
			t.Errorf("step %d %+v: %d receipts are left, %v", i, step, len(list), err)
		}
	}
	must(t, e.Flush(t.Context(), "web"))
	if n := len(mem.Rows("in.c-web.a")); n != rows {
		t.Errorf("got %d rows, want %d", n, rows)
	}
	must(t, e.Close())
}

// A power cut leaves the keys of calls whose responses had not arrived, or had arrived within the last second or since the last commit.
func TestKeyOfATurnAfterAPowerCut(t *testing.T) {
	for _, tt := range []struct {
		name     string
		arrived  bool
		after    time.Duration // from the response to one more commit
		repeated bool
	}{
		{"no answer", false, time.Minute, true},
		{"an answer a moment ago", true, time.Millisecond, true},
		{"an answer before the last commit", true, 2 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk, mem := disktest.New(t), buffertest.NewMemory()
			open := func(fs vfs.FS) *forebay.Engine {
				e, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, fs)})
				must(t, err)
				mustDefine(t, e, numbered())
				return e
			}
			e := open(disk)
			exchange(t, e, "k", tt.arrived)
			time.Sleep(tt.after)
			exchange(t, e, "another", true)
			cut := disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
			must(t, e.Close())
			e = open(cut)
			if repeated := exchange(t, e, "k", true); repeated != tt.repeated {
				t.Errorf("%s: after the power cut the call is repeated: %t, want %t", tt.name, repeated, tt.repeated)
			}
			if exchange(t, e, "k", true) {
				t.Errorf("%s: the call is repeated after its answer has arrived", tt.name)
			}
			must(t, e.Close())
		})
	}
}
