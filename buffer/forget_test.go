package buffer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// A sink that is forgotten begins again, even after a restart, and the ledger does not miss the table that was forgotten with it.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var up atomic.Bool
		up.Store(true)
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if !up.Load() && c.Op == buffertest.OpDelete {
				return errors.New("down")
			}
			return nil
		}
		opts := memoryOptions(t, mem)
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 5)
		must(t, b.Sink("a").Flush(t.Context()))
		synctest.Wait()
		up.Store(false) // the objects of the second file stay for a while
		put(t, b, define(t, b, "a"), 5, 7)
		must(t, b.Sink("a").Flush(t.Context()))
		if err := b.Sink("a").Forget(t.Context()); !errors.Is(err, buffer.ErrSinkInUse) {
			t.Errorf("a sink that is defined: %v", err)
		}
		if err := b.Sink("none").Forget(t.Context()); !errors.Is(err, buffer.ErrUnknownSink) {
			t.Errorf("a sink that never was: %v", err)
		}
		put(t, b, define(t, b, "a"), 7, 8)
		must(t, b.Sink("a").Drop(t.Context()))
		if err := b.Sink("a").Forget(t.Context()); err != nil && !errors.Is(err, buffer.ErrSinkInUse) { // the last file may be imported already
			t.Errorf("a sink with a row that waits: %v", err)
		}
		must(t, b.Sink("a").Flush(t.Context()))
		for range 2 {
			must(t, b.Sink("a").Forget(t.Context()))
		}
		must(t, mem.Drop(t.Context(), "in.c-test.a"))
		check := func(when string) {
			t.Helper()
			st, _ := b.Sink("a").Stats()
			if st.Accepted != 0 || st.Target.Rows != 0 || !st.Target.FirstAt.IsZero() || len(st.Files) != 0 {
				t.Errorf("%s: got %+v, want no rows, times or files", when, st)
			}
			if report, err := b.Verify(t.Context()); err != nil || !report.OK() {
				t.Errorf("%s: got %+v, %v, want no error and report.OK()", when, report, err)
			}
		}
		check("after forgetting")
		must(t, b.Close())
		up.Store(true)
		b = open(t, opts)
		synctest.Wait()
		check("after a restart")
		if len(mem.Objects()) != 0 {
			t.Errorf("staging still has %v", mem.Objects())
		}
		put(t, b, define(t, b, "a"), 0, 3)
		must(t, b.Sink("a").Flush(t.Context()))
		if st, _ := b.Sink("a").Stats(); st.Target.Rows != 3 || st.Accepted != 3 || st.Dropped {
			t.Errorf("a new sink of the name has %+v", st)
		}
		if report, err := b.Verify(t.Context()); err != nil || !report.OK() {
			t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
		}
	})
}

// The records of a sink from before it was forgotten are still in the files of the store. A salvage, which takes the
// version of a record that is furthest, does not bring them back.
func TestSalvageKeepsForgotten(t *testing.T) {
	for name, again := range map[string]bool{"forgotten": false, "defined again": true} {
		t.Run(name, func(t *testing.T) {
			disk := disktest.New(t)
			opts := localdisk.On(memoryOptions(t, buffertest.NewMemory()), disk)
			b, err := buffer.Open("data", opts)
			must(t, err)
			put(t, b, define(t, b, "a"), 0, 5)
			flush(t, b, "a")
			must(t, errors.Join(b.Sink("a").Drop(t.Context()), b.Sink("a").Forget(t.Context())))
			rows := int64(0)
			if again {
				rows = 3
				put(t, b, define(t, b, "a"), 0, 3)
				flush(t, b, "a")
			}
			closeBuffer(t, b)
			names, err := disk.List("data")
			must(t, err)
			for _, file := range names {
				if strings.HasPrefix(file, "MANIFEST-") {
					rot(t, disk, "data/"+file, func(int) int { return 10 })
				}
			}
			b = open(t, opts)
			st, _ := b.Sink("a").Stats()
			if st.Accepted != rows || st.Target.Rows != rows || st.Damaged.Rows != 0 || st.Dropped == again {
				t.Errorf("after the salvage the sink has %+v, want %d rows", st, rows)
			}
		})
	}
}
