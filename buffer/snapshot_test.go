package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// A snapshot does not wait for the changelog, so it may be ahead of it. It can be inspected and restored, but not opened.
func TestSnapshotOfSilentChangelog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 5)
		had := log.len()
		log.setAway(true)
		ticket := begin(t, b, s, 5)
		pass(time.Second)
		at, err := b.Snapshot(t.Context(), "copy")
		if err != nil || int(at.Number) != had+1 || string(at.Mark) != string(mark(had+1)) {
			t.Fatalf("snapshot of batch %d, mark %q, error %v; want batch %d", at.Number, at.Mark, err, had+1)
		}
		disk := localdisk.Of(opts)
		if n := positionOf(t, disk, "copy"); n != had+1 {
			t.Errorf("the copy has %d batches, want %d", n, had+1)
		}
		if b, err := buffer.Open("copy", opts); err == nil || !strings.Contains(err.Error(), "Restore") {
			t.Errorf("a snapshot was opened: %v, %v", b, err)
		}
		if log.calls() != 1 {
			t.Error("the changelog has a new owner")
		}
		log.setAway(false)
		must(t, ticket.Wait(t.Context()))
		closeBuffer(t, b)
		must(t, buffer.Restore("restored", "copy", log.batches(0, log.len()), opts.Tuning))
		if !maps.Equal(keys(t, disk, "restored"), keys(t, disk, "data")) {
			t.Error("the restored level has other keys")
		}
	})
}

// With an error there is no copy, and its type says what to do.
func TestSnapshotRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		disk := localdisk.Of(opts)
		var broken, stopped atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch {
			case strings.HasPrefix(op.Path, "data") && broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite:
				return syscall.EIO
			case strings.HasPrefix(op.Path, "copy") && stopped.Load():
				cancel()
			}
			return nil
		})))
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 5)
		refused := func(name string, want func(error) bool) {
			t.Helper()
			if at, err := b.Snapshot(ctx, "copy"); !want(err) || at.Number != 0 {
				t.Errorf("%s: got batch %d and error %v, want batch 0 and the error of the fault", name, at.Number, err)
			}
			for _, dir := range []string{"copy", "copy.partial"} {
				if _, err := disk.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: folder %s: got %v, want %v", name, dir, err, fs.ErrNotExist)
				}
			}
		}
		is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
		as := func(target any) func(error) bool { return func(err error) bool { return errors.As(err, target) } }

		stopped.Store(true)
		refused("ctx ends meanwhile", is(context.Canceled))
		stopped.Store(false)
		refused("ctx has ended", is(context.Canceled))
		ctx = t.Context()
		broken.Store(true)
		refused("broken disk", as(new(*buffer.FailedError)))
		broken.Store(false)
		pass(time.Hour)
		if _, err := b.Snapshot(ctx, "copy"); err != nil {
			t.Errorf("on the repaired disk: %v", err)
		}
		if _, err := b.Snapshot(ctx, "copy"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("into a folder that exists: %v", err)
		}
		must(t, disk.RemoveAll("copy"))
		log.setError(fmt.Errorf("epoch 2 is another's: %w", buffer.ErrFenced))
		_ = tryRow(t, b, s, 5)
		refused("fenced", as(new(*buffer.FencedError)))
		_ = b.Close()
		refused("closed", is(buffer.ErrClosed))
		opts.Changelog = nil
		b = openAt(t, "data", opts)
		refused("without a changelog", func(err error) bool { return err != nil && strings.Contains(err.Error(), "no changelog") })
	})
}

// stalledSyncs is a disk on which something happens when a copy begins, and on which the logs in data can be written without being
// synced.
type stalledSyncs struct {
	vfs.FS
	begun   func()
	copying sync.Once
	stalled atomic.Bool
	end     chan error
}

func (d *stalledSyncs) MkdirAll(dir string, perm fs.FileMode) error {
	if strings.HasPrefix(dir, "copy") {
		d.copying.Do(d.begun)
	}
	return d.FS.MkdirAll(dir, perm)
}

func (d *stalledSyncs) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if strings.HasPrefix(name, "data") && strings.HasSuffix(name, ".log") && err == nil {
		f = &stalledSync{f, d}
	}
	return f, err
}

type stalledSync struct {
	vfs.File
	disk *stalledSyncs
}

func (f *stalledSync) SyncData() error {
	if f.disk.stalled.Load() {
		return <-f.disk.end
	}
	return f.File.SyncData()
}

// A batch that is copied before its sync has failed is in no snapshot, because its number may become another batch's.
func TestSnapshotIsOnDisk(t *testing.T) {
	for name, failure := range map[string]error{"the sync succeeds": nil, "the sync fails": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, log := buffertest.NewMemory(), newFakeLog(t)
				opts := replicated(t, mem, log)
				disk := &stalledSyncs{FS: localdisk.Of(opts), end: make(chan error)}
				b := openAt(t, "data", localdisk.On(opts, vfs.FS(disk)))
				s := define(t, b, "a")
				put(t, b, s, 0, 5)
				had := log.len()
				disk.begun = func() {
					disk.stalled.Store(true)
					begin(t, b, s, 5)
					<-time.After(time.Second)
				}
				type result struct {
					at  buffer.LogPosition
					err error
				}
				done := make(chan result, 1)
				go func() {
					at, err := b.Snapshot(t.Context(), "copy")
					done <- result{at, err}
				}()
				pass(time.Minute)
				if len(done) > 0 {
					t.Fatal("the snapshot does not wait for the sync of what is in it")
				}
				disk.stalled.Store(false)
				disk.end <- failure
				r := <-done
				if failed := (*buffer.FailedError)(nil); failure != nil && !errors.As(r.err, &failed) {
					t.Errorf("batch %d, error %v, want a FailedError", r.at.Number, r.err)
				} else if failure == nil && (r.err != nil || int(r.at.Number) != had+1) {
					t.Errorf("batch %d, error %v, want batch %d", r.at.Number, r.err, had+1)
				}
				pass(time.Hour)
			})
		})
	}
}

// Close waits for a running snapshot.
func TestCloseDuringSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		disk := &stalledSyncs{FS: localdisk.Of(opts)}
		b, err := buffer.Open("data", localdisk.On(opts, vfs.FS(disk)))
		must(t, err)
		put(t, b, define(t, b, "a"), 0, 5)
		closed := make(chan error, 1)
		disk.begun = func() {
			go func() { closed <- b.Close() }()
			<-time.After(time.Second)
		}
		at, err := b.Snapshot(t.Context(), "copy")
		must(t, errors.Join(err, <-closed))
		if n := positionOf(t, disk, "copy"); n != int(at.Number) || n != log.len() {
			t.Errorf("the copy has %d batches, want %d", n, log.len())
		}
	})
}

// Whatever fails while the copy is written, there is none then, and the original continues.
func TestSnapshotOntoFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		disk := localdisk.Of(opts)
		var left atomic.Int64
		opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if strings.HasPrefix(op.Path, "copy") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left.Add(-1) == 0 {
				return syscall.ENOSPC
			}
			return nil
		})))
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 5)
		for n := int64(1); ; n++ {
			left.Store(n)
			_, err := b.Snapshot(t.Context(), "copy")
			if err == nil && left.Load() > 0 {
				break
			}
			if _, found := disk.Stat("copy"); (err == nil) != (found == nil) {
				t.Errorf("operation %d: error %v, folder: %v", n, err, found)
			}
			if err := errors.Join(b.Ready(), disk.RemoveAll("copy")); err != nil {
				t.Fatalf("operation %d: %v", n, err)
			}
		}
		put(t, b, s, 5, 10)
		if positionOf(t, disk, "copy") != log.len()-1 {
			t.Error("the last snapshot does not have all batches before it")
		}
	})
}
