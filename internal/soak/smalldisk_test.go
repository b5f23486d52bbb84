//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/fulldisktest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

var fills = flag.Int("fills", 3, "how often TestSmallVolumeIsFilledAndFreed fills the volume")

// diskUse is what du counts, the blocks of the files in a folder and below.
func diskUse(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// threeSinks has sinks that the same record goes to.
func threeSinks() forebay.Source {
	s := source(1_000_000)
	s.Settings.Upload = trigger.Conditions{Count: 1_000_000, Size: 4 << 20, Interval: time.Second}
	for _, id := range []string{"b", "c"} {
		sink := s.Sinks[0]
		sink.ID = id
		sink.Table.ID = "in.c-soak." + id
		s.Sinks = append(s.Sinks, sink)
	}
	return s
}

// noise is text that does not compress.
func noise(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	var x uint64
	for i := range b {
		if i%12 == 0 { // 26¹² < 2⁶⁴
			x = rng.Uint64()
		}
		b[i] = byte('a' + x%26)
		x /= 26
	}
	return string(b)
}

// senders send records at full speed from four clients until each was refused several times, and note the
// acknowledged records.
type senders struct {
	mu    sync.Mutex
	acked map[string]bool
	next  int
}

func (s *senders) fill(t *testing.T, eng *forebay.Engine, most int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	before := uint64(s.next)
	for client := range uint64(4) {
		rng := rand.New(rand.NewPCG(client, before))
		wg.Go(func() {
			for refused, sent := 0, 0; refused < 5 && sent < most; sent++ {
				s.mu.Lock()
				s.next++
				id := fmt.Sprint(s.next)
				s.mu.Unlock()
				_, err := eng.Ingest(ctx, sourceID, mapping.JSON(fmt.Appendf(nil, `{"client":0,"seq":%s,"noise":"%s"}`, id, noise(rng, 16<<10))))
				var overload *buffer.OverloadError
				var failed *buffer.FailedError
				switch {
				case err == nil:
					s.mu.Lock()
					s.acked[id] = true
					s.mu.Unlock()
				case errors.As(err, &overload), errors.As(err, &failed):
					refused++
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatal("the volume does not become full")
	}
}

// taken waits until the engine takes a record again.
func (s *senders) taken(t *testing.T, eng *forebay.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		s.next++
		id := fmt.Sprint(s.next)
		_, err := eng.Ingest(ctx, sourceID, mapping.JSON(fmt.Appendf(nil, `{"client":0,"seq":%s}`, id)))
		if err == nil {
			s.acked[id] = true
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("with room the engine takes no record: %v", err)
		}
	}
}

func flushAll(t *testing.T, eng *forebay.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := eng.FlushAll(ctx)
		var failed *buffer.FailedError
		if err == nil {
			return
		}
		if !errors.As(err, &failed) { // a reopening ends the barrier
			t.Fatalf("with room not everything arrives: %v", err)
		}
	}
}

// A volume of 64 MB is a home for an engine with default options. It is filled by rows, or by others, and freed, again and
// again, with restarts while it is full. Acknowledged rows arrive once, nothing has to be repaired by hand, and a closed
// engine with nothing waiting gives the room back.
func TestSmallVolumeIsFilledAndFreed(t *testing.T) {
	cycles := *fills
	if testing.Short() {
		cycles = min(cycles, 1)
	}
	disk := fulldisktest.Mount(t, 64)
	data, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	mem := buffertest.NewMemory()
	var down sync.Mutex // held while the staging is out of reach
	mem.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpPut {
			if !down.TryLock() {
				return errors.New("down")
			}
			down.Unlock()
		}
		return ctx.Err()
	}
	opts := forebay.Options{Staging: mem, Target: mem, Buffer: buffer.Tuning{Retry: buffer.Retry{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond}}}
	open := func() *forebay.Engine {
		t.Helper()
		eng, err := forebay.Open(data, opts)
		if err == nil {
			err = eng.Define(t.Context(), threeSinks())
		}
		if err != nil {
			t.Fatal(err)
		}
		return eng
	}
	eng := open()
	s, rng := &senders{acked: map[string]bool{}}, seedtest.Rand(t)
	for cycle := range cycles {
		down.Lock()
		// Others leave 2 to 50 MB, before or while rows arrive.
		free := 2 + rng.IntN(48)
		fillTo := func() {
			var st syscall.Statfs_t
			if err := syscall.Statfs(disk, &st); err != nil {
				t.Fatal(err)
			}
			if size := int(st.Bavail)*int(st.Bsize) - free<<20; size > 0 {
				_ = fill(ballast, size) // it may no longer fit
			}
		}
		if cycle%3 == 1 {
			fillTo()
		}
		s.fill(t, eng, 5000)
		if cycle%3 == 2 {
			free = 0
			fillTo()
			s.fill(t, eng, 5000)
		}
		if cycle%5 == 4 {
			_ = eng.Close() // the disk may be full
			again, err := forebay.Open(data, opts)
			var small *buffer.RoomError
			switch {
			case err == nil:
				eng = again
			case errors.As(err, &small):
				eng = nil
			default:
				t.Fatalf("cycle %d: opened on a full volume: %v", cycle, err)
			}
		}
		if err := os.Remove(ballast); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		down.Unlock()
		if eng == nil || cycle%5 == 4 {
			if eng != nil {
				if err := eng.Close(); err != nil {
					t.Logf("cycle %d: close: %v", cycle, err)
				}
			}
			eng = open()
		}
		s.taken(t, eng)
		flushAll(t, eng)
	}
	if report, err := eng.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"rows", "b", "c"} {
		stored := map[string]int{}
		for _, row := range mem.Rows("in.c-soak." + table) {
			stored[row[1]]++
		}
		if err := proctest.Compare(maps.Keys(s.acked), stored).Err(); err != nil {
			t.Errorf("%s: got %v, want no error", table, err)
		}
	}
	use := diskUse(t, data)
	t.Logf("%d cycles, %d records were acknowledged; closed, the engine takes %d KiB", cycles, len(s.acked), use>>10)
	if use > 2<<20 {
		t.Errorf("closed with nothing waiting, the engine takes %d bytes: %s", use, list(data))
	}
	var small []string
	_ = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); err == nil && e == nil && strings.HasSuffix(path, ".sst") && info.Size() == 0 {
			small = append(small, path)
		}
		return nil
	})
	if len(small) > 0 {
		t.Errorf("tables without content are left: %v", small)
	}
}

// fillTables sends rows until uploads or imports wait for room.
func fillTables(t *testing.T, eng *forebay.Engine, s *senders) {
	t.Helper()
	for range 100 {
		s.fill(t, eng, 5000)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := eng.FlushAll(ctx)
		cancel()
		if err != nil {
			if !strings.Contains(err.Error(), "no room") {
				t.Errorf("rows wait for another cause than room: %v", err)
			}
			return
		}
	}
	t.Fatal("the tables do not fill the volume")
}

// list describes the files below a folder.
func list(dir string) string {
	out, _ := exec.Command("du", "-ak", dir).Output()
	return string(out)
}

// Default options, staging and tables on the same volume: the engine takes what fits and says so when it is full. Uploads and
// imports wait before they take the room that it needs to close and to open again.
func TestSmallVolumeWithItsTables(t *testing.T) {
	for _, size := range []int{40, 150} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			if !casetest.All() && size > 40 {
				t.Skip("takes four times as long as the small volume: the stage cases of CI plays it")
			}
			disk := fulldisktest.Mount(t, size)
			data := filepath.Join(disk, "data")
			open := func() (*forebay.Engine, error) {
				return forebay.Open(data, forebay.Options{Buffer: buffer.Tuning{Retry: buffer.Retry{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond}}})
			}
			eng, err := open()
			if err == nil {
				err = eng.Define(t.Context(), threeSinks())
			}
			if err != nil {
				t.Fatal(err)
			}
			s := &senders{acked: map[string]bool{}}
			s.fill(t, eng, 5000)
			if got := int64(len(s.acked)) * 3 * 16 << 10; got < int64(size)<<20/8 {
				t.Errorf("the engine was full after %d bytes of rows", got)
			}
			fillTables(t, eng, s)
			if err := eng.Close(); err != nil {
				t.Errorf("close on a full volume: %v\n%s", err, list(disk))
			}
			if eng, err = open(); err != nil {
				t.Fatalf("open on a full volume: %v\n%s", err, list(disk))
			}
			rows := int64(0)
			for _, sink := range eng.Stats().Sinks {
				rows += sink.Local.Rows + sink.Staging.Rows + sink.Target.Rows
				if lost := sink.Damaged.Rows + sink.Expired.Rows + sink.Discarded.Rows; lost > 0 {
					t.Errorf("%s has lost %d rows, want 0", sink.Sink, lost)
				}
			}
			if want := int64(len(s.acked)) * 3; rows < want {
				t.Errorf("%d rows are there, %d were acknowledged, want at least %v", rows, want, want)
			}
			if err := eng.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}
