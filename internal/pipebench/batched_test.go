package pipebench_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/pipebench"
	"github.com/forebay/forebay/internal/synctest"
)

// A caller that stores an event waits until it is written, or gets the error of the write. Close writes the rest.
func TestEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []int
		var fail error
		closed := false
		own := pipebench.EachSecond(func(events []pipebench.Event) error {
			written = append(written, len(events))
			return fail
		}, func() error { closed = true; return nil })
		begin := time.Now()
		if err := own.InsertBatch(t.Context(), make([]pipebench.Event, 3)); err != nil || time.Since(begin) != time.Second {
			t.Errorf("got %v after %s, want the next second", err, time.Since(begin))
		}
		fail = errors.New("no room")
		if err := own.Insert(t.Context(), pipebench.Event{}); !errors.Is(err, fail) {
			t.Errorf("got %v, want the error of the write", err)
		}
		fail = nil
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := own.Insert(ended, pipebench.Event{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v after the end of the context, want context.Canceled", err)
		}
		if err := own.Close(); err != nil || !closed {
			t.Errorf("Close = %v, closed %v", err, closed)
		}
		if len(written) != 3 || written[0] != 3 || written[1] != 1 || written[2] != 1 {
			t.Errorf("writes of %d events, want 3, 1 and 1", written)
		}
	})
}

// A caller of a batcher in memory does not wait for the write. 1,000 events are written at once, fewer after a second or by a flush, which returns the
// errors of all writes.
func TestInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []int
		var fail error
		insert, flush, end := pipebench.InMemory(func(events []pipebench.Event) error {
			written = append(written, len(events))
			return fail
		})
		defer end()
		expect := func(want ...int) {
			t.Helper()
			if !slices.Equal(written, want) {
				t.Errorf("got writes of %d events, want %d", written, want)
			}
		}
		begin := time.Now()
		for range 1003 {
			if err := insert(t.Context(), pipebench.Event{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("a caller has waited for %s, want 0", took)
		}
		synctest.Wait()
		expect(1000)
		time.Sleep(time.Second)
		synctest.Wait()
		expect(1000, 3)
		fail = errors.New("no room")
		if err := insert(t.Context(), pipebench.Event{}); err != nil {
			t.Fatal(err)
		}
		if err := flush(t.Context()); !errors.Is(err, fail) {
			t.Errorf("got %v of flush, want the error of the write", err)
		}
		expect(1000, 3, 1)
	})
}
