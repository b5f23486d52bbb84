package buffer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/modetest"
	"github.com/forebay/forebay/internal/synctest"
)

// onDisk are options for a folder of the real disk, with the default write buffer.
func onDisk(t *testing.T, mem *buffertest.Memory) (opts buffer.Options, dir string) {
	t.Helper()
	opts = memoryOptions(t, mem)
	opts = localdisk.On(opts, nil)
	opts.MemTableBytes = 0
	opts.Retry = buffer.Retry{Initial: time.Millisecond, Max: 10 * time.Millisecond}
	return opts, filepath.Join(t.TempDir(), "local")
}

// What the files of the local level take, in blocks as du counts them, stays within MaxDiskBytes, whatever is sent. The
// statistics say the same number, and when rows leave there is room again.
func TestDiskBoundHoldsForAllocatedBlocks(t *testing.T) {
	const bound = 6 << 20
	mem := buffertest.NewMemory()
	var down atomic.Bool
	mem.Before = failWhile(down.Load, errors.New("staging is down"), buffertest.OpPut)
	opts, dir := onDisk(t, mem)
	opts.MaxDiskBytes = bound
	b, err := buffer.Open(dir, opts)
	must(t, err)
	if runtime.GOOS == "linux" {
		if n, _ := blocks(t, dir); n == 0 {
			t.Skip("the file system does not say what it has allocated")
		}
	}
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	letters := noise{rand.New(rand.NewPCG(1, 2))}
	texts := make([]string, 50)
	for i := range texts {
		texts[i] = letters.text(8 << 10)
	}
	var next, most atomic.Int64
	for round := range casetest.Of(4, 4, 2) {
		down.Store(true)
		before, deadline := next.Load(), time.Now().Add(20*time.Second)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for refused := 0; refused < 3 && next.Load() < before+1_000_000; {
					id := int(next.Add(1))
					ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, texts[id%len(texts)]), Count: 1})
					if err == nil {
						err = ticket.Wait(t.Context())
					}
					var full *buffer.OverloadError
					switch {
					case errors.As(err, &full) && full.Resource == "disk":
						// Deleted data may still occupy the disk. The store frees its space even if no rows arrive.
						if b.Stats().LocalBytes > bound/6 || time.Now().After(deadline) {
							refused++
						}
					case err != nil:
						t.Error(err)
						return
					}
					if n, known := blocks(t, dir); known {
						most.Store(max(most.Load(), n))
					}
				}
			})
		}
		wg.Wait()
		if next.Load() >= before+1_000_000 {
			t.Fatalf("round %d: the bound refuses nothing", round)
		}
		if st := b.Stats(); st.LocalBytes < bound/6 {
			t.Errorf("round %d: rows were refused when %d bytes waited", round, st.LocalBytes)
		}
		n, _ := blocks(t, dir)
		if st := b.Stats().StoreBytes; st < n-n/4 || st > n+n/4 {
			t.Errorf("round %d: the statistics say %d bytes, the files take %d", round, st, n)
		}
		down.Store(false)
		must(t, b.Sink("a").Flush(t.Context()))
		eventually(t, func() bool {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(int(next.Add(1)), "x"), Count: 1})
			return err == nil && ticket.Wait(t.Context()) == nil
		})
	}
	verify(t, b)
	t.Logf("at most %d of %d bytes", most.Load(), bound)
	if _, linux := blocks(t, dir); linux && most.Load() < bound/2 {
		t.Errorf("the files were seen to take %d bytes at most, when rows were refused", most.Load())
	}
	if most.Load() > bound {
		t.Errorf("the files took %d bytes, the bound is %d", most.Load(), bound)
	}
	must(t, b.Sink("a").Flush(t.Context()))
	must(t, b.Close())
	if n, _ := blocks(t, dir); n > 2<<20 {
		t.Errorf("closed with nothing waiting, the files take %d bytes", n)
	}
}

// A closed buffer releases the space it reserved for future rows, with default options and after much data went through it.
func TestClosedBufferGivesRoomBack(t *testing.T) {
	mem := buffertest.NewMemory()
	opts, dir := onDisk(t, mem)
	b, err := buffer.Open(dir, opts)
	must(t, err)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	text := noise{rand.New(rand.NewPCG(1, 2))}.text(64 << 10)
	for i := range 400 { // 25 MB
		put1(t, b, s, i, text)
	}
	if n, _ := blocks(t, dir); n > 64<<20 {
		t.Errorf("for 25 MB of rows the files take %d bytes", n)
	}
	must(t, b.Sink("a").Flush(t.Context()))
	must(t, b.Close())
	if n, _ := blocks(t, dir); n > 2<<20 {
		t.Errorf("closed with nothing waiting, the files take %d bytes", n)
	}
}

// An idle buffer gives it back as well, without being closed.
func TestIdleBufferGivesRoomBack(t *testing.T) {
	mem := buffertest.NewMemory()
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, disktest.New(t))
	opts.MemTableBytes = 8 << 20
	synctest.Test(t, func(t *testing.T) {
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
		text := noise{rand.New(rand.NewPCG(1, 2))}.text(64 << 10)
		for i := range 100 {
			put1(t, b, s, i, text)
		}
		must(t, b.Sink("a").Flush(t.Context()))
		if n := b.Stats().StoreBytes; n < 4<<20 {
			t.Fatalf("the log of %d bytes is not what this test is about", n)
		}
		time.Sleep(5 * time.Minute)
		if n := b.Stats().StoreBytes; n > 2<<20 {
			t.Errorf("idle with nothing waiting, the files have %d bytes", n)
		}
		for i := range 20 {
			put1(t, b, s, 1000+i, text)
		}
	})
}

// If the volume is too small, opening fails and names the purpose of the room. Only the folder was made on it.
func TestTooSmallVolumeIsNamed(t *testing.T) {
	disk := disktest.New(t)
	disk.SetUsage(vfs.DiskUsage{AvailBytes: 3 << 20, TotalBytes: 4 << 20, UsedBytes: 1 << 20})
	opts := memoryOptions(t, buffertest.NewMemory())
	opts = localdisk.On(opts, disk)
	_, err := buffer.Open("data", opts)
	var small *buffer.RoomError
	if !errors.As(err, &small) || small.Free != 3<<20 || small.Needed <= small.Free || !strings.Contains(err.Error(), "write buffer") {
		t.Fatalf("open: %v, want a RoomError that says what for", err)
	}
	names, _ := disk.List("data")
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") {
			t.Errorf("%s was made", name)
		}
	}
	disk.SetUsage(vfs.DiskUsage{AvailBytes: 64 << 20, TotalBytes: 64 << 20})
	b, err := buffer.Open("data", opts)
	must(t, err)
	must(t, b.Close())
}

// Rows are for their owner. Others can read no file of the local level, whatever the umask, nor of a checkpoint.
func TestFilesAreForTheirOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions")
	}
	mem := buffertest.NewMemory()
	opts, dir := onDisk(t, mem)
	b, err := buffer.Open(dir, opts)
	must(t, err)
	s := define(t, b, "a")
	put(t, b, s, 0, 10)
	modetest.Private(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v (%v), want 0700", info.Mode(), err)
	}
	must(t, b.Checkpoint(t.Context(), dir+"-copy"))
	modetest.Private(t, dir+"-copy")
	must(t, b.Close())
	modetest.Private(t, dir)
	// What an earlier version has left is taken along.
	names, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range names {
		must(t, os.Chmod(filepath.Join(dir, e.Name()), 0o644))
	}
	if b, err = buffer.Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	modetest.Private(t, dir)
	must(t, b.Close())
}

// A caller that waits for room on the disk gets it as soon as there is some, even without other calls, because rows that leave
// take their blocks with them only some time later.
func TestWaitingForBlocksEndsByItself(t *testing.T) {
	mem := buffertest.NewMemory()
	var down atomic.Bool
	mem.Before = failWhile(down.Load, errors.New("staging is down"), buffertest.OpPut)
	opts, dir := onDisk(t, mem)
	opts.MaxDiskBytes = 6 << 20
	b, err := buffer.Open(dir, opts)
	must(t, err)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	text := noise{rand.New(rand.NewPCG(1, 2))}.text(8 << 10)
	down.Store(true)
	rows := func(id int) buffer.Rows { return buffer.Rows{Sink: s, Data: row(id, text), Count: 1} }
	for id := 0; ; id++ {
		ticket, err := b.Append(t.Context(), time.Now(), rows(id))
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		var full *buffer.OverloadError
		if errors.As(err, &full) {
			break
		}
		must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			ticket, err := b.AppendWhenRoom(ctx, time.Now(), rows(10_000+id))
			if err == nil {
				err = ticket.Wait(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	down.Store(false)
	wg.Wait()
	if err := b.Sink("a").Flush(ctx); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
