package buffer_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

func ackLocal(c *buffer.SinkConfig) { c.AckLocal = true }

// Rows of a sink with AckLocal are acknowledged while the log is away, the others are not, and nothing of both leaves the machine. A
// request that has rows for both kinds waits for the log.
func TestAckLocalBeforeTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		b := open(t, replicated(t, mem, log))
		local, strong := define(t, b, "a", ackLocal), define(t, b, "b")
		log.setAway(true)
		began := time.Now()
		for id := range 100 {
			put1(t, b, local, id, "v")
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("100 rows took %s", took)
		}
		behind := begin(t, b, strong, 0)
		for id := 100; id < 200; id++ {
			put1(t, b, local, id, "v")
		}
		both, err := b.Append(t.Context(), time.Now(),
			buffer.Rows{Sink: local, Data: row(200, "v"), Count: 1}, buffer.Rows{Sink: strong, Data: row(1, "v"), Count: 1})
		must(t, err)
		for what, ticket := range map[string]buffer.Ticket{"a sink that waits": behind, "both kinds": both} {
			if err := waitShort(t, ticket); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("rows for %s, while the log is away: %v", what, err)
			}
		}
		time.Sleep(time.Hour)
		if n := len(mem.Objects()); n > 0 {
			t.Errorf("%d slices were uploaded before the log had them, want 0", n)
		}
		log.setAway(false)
		if err := errors.Join(behind.Wait(t.Context()), both.Wait(t.Context())); err != nil {
			t.Error(err)
		}
		flush(t, b, "a")
		flush(t, b, "b")
		wantAll(t, mem, "in.c-test.a", 0, 201)
		wantAll(t, mem, "in.c-test.b", 0, 2)
		verify(t, b)
	})
}

// heldDisk holds up the syncs of the store's log.
type heldDisk struct {
	vfs.FS
	gate sync.RWMutex // held for reading by each sync
}

func (d *heldDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = &heldFile{f, d}
	}
	return f, err
}

type heldFile struct {
	vfs.File
	disk *heldDisk
}

func (f *heldFile) Sync() error {
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	return f.File.Sync()
}

func (f *heldFile) SyncData() error {
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	return f.File.SyncData()
}

// No row is acknowledged before it is on the local disk.
func TestAckLocalWaitsForTheDisk(t *testing.T) {
	mem, log := buffertest.NewMemory(), newFakeLog(t)
	opts := replicated(t, mem, log)
	disk := &heldDisk{FS: localdisk.Of(opts)}
	b := open(t, localdisk.On(opts, vfs.FS(disk)))
	s := define(t, b, "a", ackLocal)
	put1(t, b, s, 0, "v")
	disk.gate.Lock()
	ticket := begin(t, b, s, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := ticket.Wait(ctx)
	disk.gate.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the sync of the log: %v", err)
	}
	if err := ticket.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// What the log lacks fills the memory at last. Rows that wait for the log leave half of it to the others.
func TestAckLocalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		opts.MaxPendingBytes = 1 << 20
		b := open(t, opts)
		plain := func(c *buffer.SinkConfig) { c.Encoding = driver.None }
		local, strong := define(t, b, "a", ackLocal, plain), define(t, b, "b", plain)
		log.setAway(true)
		fill := func(s *buffer.DefinedSink, wait bool) (rows int, over *buffer.OverloadError) {
			t.Helper()
			for ; rows < 1000; rows++ {
				ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(rows, strings.Repeat("v", 10<<10)), Count: 1})
				if err != nil {
					if !errors.As(err, &over) || over.Resource != "memory" || over.Silent.IsZero() {
						t.Fatalf("row %d: %v", rows, err)
					}
					return rows, over
				}
				if wait {
					err = ticket.Wait(t.Context())
				}
				must(t, err)
				time.Sleep(time.Second)
			}
			t.Fatal("the memory has no bound")
			return rows, nil
		}
		if rows, _ := fill(strong, false); rows < 40 || rows > 51 {
			t.Errorf("%d rows of 10 KB that wait for the log fill half of 1 MB", rows)
		}
		rows, _ := fill(local, true)
		if rows < 40 {
			t.Errorf("%d rows of 10 KB that do not wait for the log fill the other half of 1 MB", rows)
		}
		log.setAway(false)
		put1(t, b, local, rows, "v")
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, rows+1)
		synctest.Wait() // the staged objects are being deleted
		if n := b.Stats().PendingBytes; n != 0 {
			t.Errorf("%d bytes are pending when all is in its table, want 0", n)
		}
	})
}

// After a crash the next process appends the missing batches to the log from the copies on its disk, and then deletes the copies.
func TestAckLocalSurvivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		disk := disktest.New(t)
		opts := localdisk.On(replicated(t, mem, log), disk)
		b := openAt(t, "data", opts)
		s := define(t, b, "a", ackLocal)
		put(t, b, s, 0, 10)
		synctest.Wait() // until the log has them
		log.setAway(true)
		for id := 10; id < 30; id++ {
			put1(t, b, s, id, "v")
		}
		crashed := disk.Cut(vfs.CrashCloneCfg{})
		log.set(func() { log.away, log.pending, log.begun = false, nil, log.begun+1 })
		i, err := buffer.Inspect("data", localdisk.On(buffer.InspectOptions{}, crashed))
		must(t, err)
		rows, err := i.AckedLocally()
		if err := errors.Join(err, i.Close()); err != nil || rows < 20 || rows > 30 {
			t.Errorf("the folder has copies of %d rows, error %v, want 20 that the log lacks", rows, err)
		}
		before := log.len()
		opts.Changelog = log.open()
		b2 := openAt(t, "data", localdisk.On(opts, crashed))
		if log.len() < before+20 {
			t.Errorf("the opening appended %d batches, want 20", log.len()-before)
		}
		s = define(t, b2, "a", ackLocal)
		put1(t, b2, s, 30, "v")
		flush(t, b2, "a")
		wantAll(t, mem, "in.c-test.a", 0, 31)
		verify(t, b2)
		closeBuffer(t, b2)
		if i, err = buffer.Inspect("data", localdisk.On(buffer.InspectOptions{}, crashed)); err != nil {
			t.Fatal(err)
		}
		if rows, err := i.AckedLocally(); err != nil || rows > 1 {
			t.Errorf("copies of %d rows are left, error %v", rows, err)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Rows that the log did not get before another owner opened it are void. They are counted, and that is logged once, whether an append finds
// the other owner, or the next opening of the local level.
func TestVoidRowsAreCounted(t *testing.T) {
	for _, way := range []string{"append", "reopening", "next process"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const line = "locally acknowledged rows missing from the changelog"
				mem, log := buffertest.NewMemory(), newFakeLog(t)
				disk := disktest.New(t)
				var broken atomic.Bool
				var said lines
				opts := localdisk.On(replicated(t, mem, log), disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
						return errors.New("broken disk")
					}
					return nil
				})))
				opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
				b := openAt(t, "data", opts)
				s := define(t, b, "a", ackLocal)
				put(t, b, s, 0, 10)
				synctest.Wait() // until the log has them
				log.setAway(true)
				for id := 10; id < 30; id++ {
					put1(t, b, s, id, "v")
				}
				switch way {
				case "reopening":
					broken.Store(true)
					_, _ = b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(30, "v"), Count: 1})
					time.Sleep(time.Minute)
					broken.Store(false)
					log.setError(buffer.ErrFenced)
					for told, begin := false, time.Now(); !told && time.Since(begin) < time.Hour; told = strings.Contains(said.String(), line) {
						time.Sleep(time.Second)
						synctest.Wait()
					}
				case "next process":
					crashed := disk.Cut(vfs.CrashCloneCfg{})
					log.setError(errLogDown)
					_ = b.Close()
					if strings.Contains(said.String(), "rows_at_most") {
						t.Errorf("the process that is gone tells of void rows: %s", said.String())
					}
					log.setError(buffer.ErrFenced)
					if _, err := buffer.Open("data", localdisk.On(opts, vfs.FS(crashed))); !errors.Is(err, buffer.ErrFenced) {
						t.Errorf("open: %v", err)
					}
				default:
					log.setError(buffer.ErrFenced)
				}
				var stopped *buffer.FencedError
				if err := b.Close(); !errors.As(err, &stopped) && way != "next process" {
					t.Errorf("close: %v", err)
				}
				if n := strings.Count(said.String(), line); n != 1 || !strings.Contains(said.String(), "rows_at_most=20") {
					t.Errorf("the log tells %d times of void rows, want once of 20: %s", n, said.String())
				}
			})
		})
	}
}
