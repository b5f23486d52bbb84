package changelog_test

import (
	"runtime"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Batches of one byte, while the log is away. The appender's memory for them is within MaxBytes. When the log is back it gets all of
// them.
func TestMemoryOfSmallBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{})
		opts := appenderOptions(t, log)
		opts.MaxBytes = 16 << 20
		a := openAppender(t, opts)
		const all = 100_000
		heal := log.Cut("i", 1, 2)
		data := []byte{1}
		before := heap()
		failed := make(chan error, 1)
		appended := make(chan struct{})
		go func() {
			defer close(appended)
			var last *changelog.Pending
			for range all {
				last = a.Append(data)
			}
			failed <- last.Wait(t.Context())
		}()
		synctest.Wait()
		s, held := a.State(), heap()-before
		if held > int64(opts.MaxBytes) {
			t.Errorf("%d batches of one byte take %d bytes, want at most %d", s.Waiting, held, opts.MaxBytes)
		}
		if most := opts.MaxBytes / (changelog.BatchOverhead + 1); s.Waiting < most*9/10 || s.Waiting > most {
			t.Errorf("%d batches wait, want about %d", s.Waiting, most)
		}
		t.Logf("%d batches wait, each takes %d bytes", s.Waiting, held/int64(s.Waiting))
		heal()
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		<-appended
		if s := a.State(); s.Released.Number != all || s.Waiting != 0 || s.WaitingBytes != 0 {
			t.Errorf("the state is %+v, want %d batches released", s, all)
		}
	})
}
