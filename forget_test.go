package forebay_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// A source is forgotten while it is being defined again. Whichever of the two comes first, the records that the new
// definition drops are counted.
func TestForgetBesideDefine(t *testing.T) {
	logsAlone := telemetry()
	logsAlone.Sinks = logsAlone.Sinks[1:2]
	define := func(t *testing.T, e *forebay.Engine) error { return e.Define(t.Context(), logsAlone) }
	forgetSink := func(t *testing.T, e *forebay.Engine) error { return e.Forget(t.Context(), "app", "logs") }
	forgetSource := func(t *testing.T, e *forebay.Engine) error { return e.Forget(t.Context(), "app") }
	type call func(*testing.T, *forebay.Engine) error
	for name, tt := range map[string]struct {
		first, second call
		want          error // of the second
	}{
		"the source during a definition":    {define, forgetSource, buffer.ErrSinkInUse},
		"a sink during a definition":        {define, forgetSink, buffer.ErrSinkInUse},
		"a definition while a sink is left": {forgetSink, define, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow atomic.Bool
				pass := make(chan struct{})
				disk := disktest.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
					syncs := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
					if syncs && slow.Load() {
						<-pass
					}
					return nil
				}))
				e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, disk) })
				mustDefine(t, e, logsAlone)
				must(t, e.Remove(t.Context(), "app"))
				slow.Store(true)
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { first <- tt.first(t, e) }()
				synctest.Wait()
				go func() { second <- tt.second(t, e) }()
				synctest.Wait()
				pass <- struct{}{}
				synctest.Wait()
				close(pass)
				if err := <-first; err != nil {
					t.Error(err)
				}
				if err := <-second; !errors.Is(err, tt.want) {
					t.Errorf("the second call: %v, want %v", err, tt.want)
				}
				batch := forebay.Batch{Signal: forebay.SignalTraces, Records: bodies(`{}`, `{}`)}
				if _, err := e.IngestAtomic(t.Context(), "app", batch); err != nil {
					t.Fatal(err)
				}
				if n := e.Stats().Dropped["app"]; n != 2 {
					t.Errorf("%d records were dropped, want 2", n)
				}
			})
		})
	}
}
