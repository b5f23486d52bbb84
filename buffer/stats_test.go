package buffer_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

type statsHandler struct{ stats *func() }

// A logger may look at the counters, for example to send them along.
func TestLoggerMayReadStats(t *testing.T) {
	mem := buffertest.NewMemory()
	opts := memoryOptions(t, mem)
	var stats func()
	opts.Logger = slog.New(statsHandler{&stats})
	b := open(t, opts)
	stats = func() { b.Stats() }
	put(t, b, define(t, b, "a"), 0, 3)
	must(t, b.Sink("a").Flush(t.Context()))
}

func (h statsHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h statsHandler) Handle(context.Context, slog.Record) error {
	if *h.stats != nil {
		(*h.stats)()
	}
	return nil
}

func (h statsHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h statsHandler) WithGroup(string) slog.Handler      { return h }

func TestFirstAndLastRecordOfEveryLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Interval = 10 * time.Second })
		begin := time.Now().UTC()
		put(t, b, s, 0, 1)
		time.Sleep(4 * time.Second)
		put(t, b, s, 1, 2)
		check := func(what string, l buffer.Level) {
			t.Helper()
			if l.Rows != 2 || !l.FirstAt.Equal(begin) || !l.LastAt.Equal(begin.Add(4*time.Second)) {
				t.Errorf("%s: got %+v, want 2 rows from %s to 4 s later", what, l, begin)
			}
		}
		st, _ := b.Sink("a").Stats()
		check("local", st.Local)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		st, _ = b.Sink("a").Stats()
		check("staging", st.Staging)
		time.Sleep(time.Minute)
		synctest.Wait()
		st, _ = b.Sink("a").Stats()
		check("target", st.Target)
	})
}

// Rows that no caller waited for and that were only in memory when the disk failed are gone. They are counted, and never
// were among the accepted rows.
func TestLostRowsInMemoryAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		mem, disk := buffertest.NewMemory(), disktest.New(t)
		opts := memoryOptions(t, mem)
		opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.ENOSPC
			}
			return nil
		})))
		var log strings.Builder
		opts.Logger = textLogger(&log)
		b := open(t, opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 5)
		broken.Store(true)
		lost := int64(0)
		for i := range 7 { // without waiting, as with SyncUnsafe
			if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(100+i, "v"), Count: 1}); err == nil {
				lost++
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		broken.Store(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		st, _ := b.Sink("a").Stats()
		if lost == 0 || st.Unstored != lost || st.Accepted != 5 {
			t.Errorf("%d rows were lost: unstored %d, accepted %d", lost, st.Unstored, st.Accepted)
		}
		if !strings.Contains(log.String(), "rows in memory lost") {
			t.Errorf("it is not logged: %s", log.String())
		}
		put(t, b, s, 5, 10)
		must(t, b.Sink("a").Flush(t.Context()))
		wantIDs(t, mem, "in.c-test.a", 0, 10)
		verify(t, b)
	})
}

func TestStatsHaveTheRealBytesOfTheStore(t *testing.T) {
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	put(t, b, define(t, b, "a"), 0, 100)
	if st := b.Stats(); st.StoreBytes <= st.LocalBytes || st.LocalBytes == 0 {
		t.Errorf("got %d bytes of files and %d of rows in them, want some rows, and larger files", st.StoreBytes, st.LocalBytes)
	}
}

// The API and the records have the same states.
func TestStatesAreThoseOfTheRecords(t *testing.T) {
	for api, record := range map[buffer.SliceState]format.SliceState{
		buffer.SliceWriting: format.SliceWriting, buffer.SliceUploading: format.SliceUploading,
		buffer.SliceUploaded: format.SliceUploaded, buffer.SliceImported: format.SliceImported,
	} {
		if string(api) != string(record) {
			t.Errorf("a slice that is %s is reported as %s", record, api)
		}
	}
	for api, record := range map[buffer.FileState]format.FileState{
		buffer.FileWriting: format.FileWriting, buffer.FileClosing: format.FileClosing, buffer.FileImporting: format.FileImporting,
		buffer.FileImported: format.FileImported, buffer.FileExpired: format.FileExpired, buffer.FileDiscarded: format.FileDiscarded,
	} {
		if string(api) != string(record) {
			t.Errorf("a file that is %s is reported as %s", record, api)
		}
	}
}
