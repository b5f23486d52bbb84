package buffer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// While the disk holds still, each caller whose context ends goes away, however many wait. The remaining
// callers are acknowledged when the disk moves again.
func TestWaitEndsWithItsContext(t *testing.T) {
	const callers = 100
	fs := &slowLog{FS: disktest.New(t), gate: make(chan struct{}, 1)}
	opts := memoryOptions(t, buffertest.NewMemory())
	opts = localdisk.On(opts, fs)
	b := open(t, opts)
	s := define(t, b, "a")

	fs.hold()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	var leaving, staying sync.WaitGroup
	for i := range callers {
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "x"), Count: 1})
		must(t, err)
		if i%2 == 0 {
			staying.Go(func() {
				if err := ticket.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
			continue
		}
		leaving.Go(func() {
			if err := ticket.Wait(ctx); !errors.Is(err, gone) {
				t.Errorf("Wait: %v, want that the client has gone", err)
			}
		})
	}
	cancel(gone)
	leaving.Wait()
	fs.release()
	staying.Wait()
	verify(t, b)
}
