package buffer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// The folder of the local level goes away under a running engine. Continuing in a new folder would assign ids a second
// time, and the target would mistake acknowledged rows for rows that it has already. So nothing is acknowledged then.
func TestVanishedFolderIsNotReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	mem := buffertest.NewMemory()
	opts := buffer.Options{Staging: mem, Target: mem, Tuning: buffer.Tuning{
		MemTableBytes: 1 << 20, Retry: buffer.Retry{Initial: time.Millisecond, Max: 20 * time.Millisecond},
	}}
	b, err := buffer.Open(dir, opts)
	must(t, err)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	put(t, b, s, 0, 1)
	must(t, b.Sink("a").Flush(t.Context()))
	must(t, os.Rename(dir, dir+".away"))
	var failed *buffer.FailedError
	pad := strings.Repeat("abcdefgh", 8<<10)
	for i := 1; i < 1000 && failed == nil; i++ { // until the log has to be rotated
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, pad), Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
	}
	if failed == nil {
		t.Fatal("the store did not notice")
	}
	for i := range 100 { // over many attempts to reopen
		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "after"), Count: 1}); err == nil {
			t.Fatal("rows were taken into a folder that is not there")
		}
		runtime.Gosched()
	}
	if err := b.Close(); err == nil {
		t.Error("Close does not say that the local level has failed")
	}
	// The folder is back. Everything that was acknowledged in it is.
	_ = os.RemoveAll(dir)
	must(t, os.Rename(dir+".away", dir))
	again, err := buffer.Open(dir, opts)
	must(t, err)
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	put(t, again, define(t, again, "a"), 5000, 5001)
	must(t, again.Sink("a").Flush(t.Context()))
	seen := map[string]bool{}
	for _, id := range ids(mem, "in.c-test.a") {
		if seen[id] {
			t.Errorf("row %s is there twice", id)
		}
		seen[id] = true
	}
	if !seen["0"] || !seen[fmt.Sprint(5000)] {
		t.Errorf("rows are missing: %d are there", len(seen))
	}
}

// Rows may still be in memory when a damaged store has been replaced by one that does not know their sink. Its number may
// belong to another sink by then, so the rows are dropped, and the callers that wait for them get an error.
func TestRowsInMemoryOfALostSinkAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, disk := buffertest.NewMemory(), disktest.New(t)
		var armed atomic.Bool
		stuck, goOn := make(chan struct{}), make(chan struct{})
		opts := localdisk.On(memoryOptions(t, mem), disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") && armed.Swap(false) {
				close(stuck)
				<-goOn
				return syscall.EIO
			}
			return nil
		})))
		opts.SyncInterval = 10 * time.Minute // rows without a waiting caller outlast the reopening
		var log strings.Builder
		opts.Logger = textLogger(&log)
		b := open(t, opts)
		lost := define(t, b, "a")
		add := func(s *buffer.DefinedSink, id int) buffer.Ticket {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, "v"), Count: 1})
			must(t, err)
			return ticket
		}

		armed.Store(true)
		failing := make(chan error)
		go func() { failing <- add(lost, 0).Wait(t.Context()) }()
		<-stuck
		ticket := add(lost, 1) // of the next group
		synctest.Wait()        // for the copy of the records
		names, err := disk.List("data")
		must(t, err)
		for _, name := range names { // no record is left
			switch path := "data/" + name; {
			case strings.HasSuffix(name, ".log"), strings.HasSuffix(name, ".sst"), name == format.CopyFile:
				err = errors.Join(err, disk.Remove(path))
			case strings.HasPrefix(name, "MANIFEST-"):
				rot(t, disk, path, func(int) int { return 10 })
			}
		}
		must(t, err)
		close(goOn)
		if err := <-failing; err == nil {
			t.Error("a row was acknowledged by a disk that failed")
		}
		synctest.Wait()

		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: lost, Data: row(2, "v"), Count: 1}); !errors.Is(err, buffer.ErrUnknownSink) {
			t.Errorf("append to the lost sink: %v", err)
		}
		var failed *buffer.FailedError
		other := define(t, b, "b") // commits the rows in memory
		if err := ticket.Wait(t.Context()); !errors.As(err, &failed) {
			t.Errorf("Wait for a row of the lost sink: %v, want a FailedError", err)
		}
		put(t, b, other, 0, 3)
		if !strings.Contains(log.String(), "rows in memory lost with their sink") {
			t.Errorf("the lost rows are not logged: %s", log.String())
		}
		verify(t, b)
		damages := b.Stats().Damages
		must(t, b.Close())
		b = open(t, opts)
		if st := b.Stats(); st.Damages != damages || len(st.Sinks) != 1 || st.Sinks[0].Accepted != 3 {
			t.Errorf("got %d damages, want %d; got sinks %+v, want one with 3 accepted rows", st.Damages, damages, st.Sinks)
		}
		must(t, b.Sink("b").Flush(t.Context()))
		wantIDs(t, mem, "in.c-test.b", 0, 3)
		wantIDs(t, mem, "in.c-test.a", 0, 0)
	})
}
