package forebay_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

var errGaveUp = errors.New("the caller gave up")

// ingestWays are the calls that store one record of source "web".
var ingestWays = map[string]func(ctx context.Context, e *forebay.Engine) error{
	"Ingest": func(ctx context.Context, e *forebay.Engine) error {
		_, err := e.Ingest(ctx, "web", number(`{"n":1,"m":1}`))
		return err
	},
	"IngestBatch": func(ctx context.Context, e *forebay.Engine) error {
		_, err := e.IngestBatch(ctx, "web", []*mapping.Record{number(`{"n":1,"m":1}`)})
		return err
	},
	"IngestOnce": func(ctx context.Context, e *forebay.Engine) error {
		_, err := e.IngestOnce(ctx, "web", forebay.Once{Key: "k"}, []*mapping.Record{number(`{"n":1,"m":1}`)})
		return err
	},
	"IngestAtomic": func(ctx context.Context, e *forebay.Engine) error {
		_, err := e.IngestAtomic(ctx, "web", forebay.Batch{
			Once: forebay.Once{Key: "k"}, Records: slices.Values([]*mapping.Record{number(`{"n":1,"m":1}`)}),
		})
		return err
	},
}

// If ctx ends before the rows are on their way to the disk, nothing is stored, and the error is no UnknownError. If ctx ends while the commit
// waits for the disk, the error is an UnknownError, and both outcomes occur. Either the disk comes back and the rows are stored, or the power is
// cut and they are not stored.
func TestErrorTellsWhetherTheOutcomeIsKnown(t *testing.T) {
	for name, ingest := range ingestWays {
		for _, cut := range []bool{false, true} {
			disk, mem := disktest.Mem(t), buffertest.NewMemory()
			var slow atomic.Bool
			stuck, free := make(chan struct{}, 100), make(chan struct{})
			open := func(fs vfs.FS) *forebay.Engine {
				e, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, fs)})
				must(t, err)
				mustDefine(t, e, numbered())
				return e
			}
			e := open(disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				switch op.Kind {
				case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
					if slow.Load() && strings.HasSuffix(op.Path, ".log") {
						stuck <- struct{}{}
						<-free
					}
				}
				return nil
			})))
			ended, end := context.WithCancelCause(t.Context())
			end(errGaveUp)
			err := ingest(ended, e)
			if _, unknown := errors.AsType[*buffer.UnknownError](err); unknown || !errors.Is(err, errGaveUp) {
				t.Errorf("got %s, ctx ended before: %v, want the cause of ctx and no UnknownError", name, err)
			}
			slow.Store(true)
			ctx, end := context.WithCancelCause(t.Context())
			got := make(chan error, 1)
			go func() { got <- ingest(ctx, e) }()
			<-stuck
			end(errGaveUp)
			err = <-got
			if _, unknown := errors.AsType[*buffer.UnknownError](err); !unknown || !errors.Is(err, errGaveUp) {
				t.Errorf("%s, ctx ended while the commit waits for the disk: %v, want an UnknownError with the cause of ctx", name, err)
			}
			rest := disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
			slow.Store(false)
			close(free)
			want := 1
			if cut {
				want = 0
				must(t, e.Close())
				mem = buffertest.NewMemory()
				e = open(rest)
			}
			must(t, e.Flush(t.Context(), "web"))
			if n := len(mem.Rows("in.c-web.a")); n != want {
				t.Errorf("got %s, power cut %t: %d rows, want %d", name, cut, n, want)
			}
			must(t, e.Close())
		}
	}
}

// A batch that goes in portions may be stored in part when a later portion fails.
func TestErrorOfABatchThatIsStoredInPart(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxPendingBytes = 1 << 20 })
	mustDefine(t, e, numbered())
	ctx, end := context.WithCancelCause(t.Context())
	records := func(yield func(*mapping.Record) bool) {
		for i := range 2000 { // of about 1 KB, more than a portion of 256 KB
			if i == 1999 {
				end(errGaveUp)
			}
			if !yield(number(`{"n":"%s"}`, strings.Repeat("x", 1000))) {
				return
			}
		}
	}
	_, err := e.IngestAtomic(ctx, "web", forebay.Batch{Records: records})
	if _, unknown := errors.AsType[*buffer.UnknownError](err); !unknown || !errors.Is(err, errGaveUp) {
		t.Errorf("got %v, want an UnknownError with the cause of ctx", err)
	}
}
