package ctxio_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/synctest"
)

func TestWriterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var got bytes.Buffer
	w := ctxio.Writer(ctx, &got)
	if n, err := w.Write([]byte("before")); n != 6 || err != nil {
		t.Errorf("got %d, %v, want n == 6 and no error", n, err)
	}
	cancel()
	if n, err := w.Write([]byte("after")); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d, %v, want n == 0 and errors.Is(err, context.Canceled)", n, err)
	}
	if got.String() != "before" {
		t.Errorf("wrote %q", &got)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := ctxio.Sleep(t.Context(), time.Hour); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("got %v after %s, want nil after an hour", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("ended")
		time.AfterFunc(time.Minute, func() { cancel(ended) })
		begin = time.Now()
		if err := ctxio.Sleep(ctx, time.Hour); err != ended || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %s, want the cause after a minute", err, time.Since(begin))
		}
		if err := ctxio.Sleep(ctx, time.Hour); err != ended || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %s, want the cause at once", err, time.Since(begin))
		}
	})
}

func TestPauseDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := ctxio.Pause{First: 20 * time.Millisecond, Last: 100 * time.Millisecond}
		wait := func(ctx context.Context) (took time.Duration) {
			begin := time.Now()
			if err := pause.Wait(ctx); err != context.Cause(ctx) {
				t.Errorf("Wait returned %v, want %v", err, context.Cause(ctx))
			}
			return time.Since(begin)
		}
		var got []time.Duration
		for i := range 6 {
			if i == 5 {
				pause.Reset()
			}
			got = append(got, wait(t.Context())/time.Millisecond)
		}
		if want := []time.Duration{20, 40, 80, 100, 100, 20}; !slices.Equal(got, want) {
			t.Errorf("paused for %d ms, want %d", got, want)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("ended"))
		if took := wait(ctx); took != 0 {
			t.Errorf("paused for %s after the end of the context, want no pause", took)
		}
	})
}
