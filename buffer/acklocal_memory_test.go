package buffer_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// unsyncedDisk syncs nothing, so that a commit lasts only as long as the processor needs.
type unsyncedDisk struct{ vfs.FS }

func (d unsyncedDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return unsyncedFile{f}, err
}

func (d unsyncedDisk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(old, name, c)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                      { return nil }
func (unsyncedFile) SyncData() error                  { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error)       { return true, nil }
func (f unsyncedFile) Preallocate(int64, int64) error { return nil }

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// One row arrives in each batch while the log is away. The memory held for them is within MaxPendingBytes, which counts a batch's overhead in
// addition to its data. Then the caller gets an error, and when the log is back nothing is lost.
func TestMemoryOfSmallBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs with -short, needs memory of its own")
	}
	mem, log := buffertest.NewMemory(), newFakeLog(t)
	opts := localdisk.On(replicated(t, mem, log), vfs.FS(unsyncedDisk{vfs.Default}))
	opts.MaxPendingBytes = 8 << 20
	b := openAt(t, t.TempDir(), opts)
	defer closeBuffer(t, b)
	s := define(t, b, "a", ackLocal)
	for id := range 500 { // fills the pools
		put1(t, b, s, id, "v")
	}
	before := heap()
	log.setAway(true)
	id := 500
	var over *buffer.OverloadError
	for ; over == nil; id++ {
		if err := tryRow(t, b, s, id); err != nil && !errors.As(err, &over) {
			t.Fatal(err)
		}
	}
	held, pending := heap()-before, b.Stats().PendingBytes
	rows := int64(id - 501)
	if held > opts.MaxPendingBytes || held < pending/4 {
		t.Errorf("%d bytes are held, and %d may be", held, opts.MaxPendingBytes)
	}
	t.Logf("%d batches take %d bytes each, and count with %d", rows, held/rows, pending/rows)
	for over.Silent.IsZero() { // it says since when the log has been silent, once that has lasted
		if err := tryRow(t, b, s, id); !errors.As(err, &over) || over.Resource != "memory" {
			t.Fatalf("the error is %v", err)
		}
	}
	log.setAway(false)
	flush(t, b, "a")
	wantAll(t, mem, "in.c-test.a", 0, id-1)
}

// Receipts of small rows are larger than the rows, and count as well until they are stored.
func TestReceiptsCountAsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		b := open(t, replicated(t, mem, log))
		s := define(t, b, "a")
		log.setAway(true)
		var last buffer.Ticket
		const calls = 1000
		for id := range calls {
			claim, err := b.Claim(t.Context(), keyOf(id))
			must(t, err)
			if last, err = b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, "v"), Count: 1, Claim: claim, Receipt: []byte("ok")}); err != nil {
				t.Fatal(err)
			}
			claim.Release()
		}
		if n := b.Stats().PendingBytes; n < calls*256 {
			t.Errorf("%d bytes are pending, of %d receipts, want at least %v", n, calls, calls*256)
		}
		log.setAway(false)
		if err := last.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := b.Stats().PendingBytes; n != 0 {
			t.Errorf("%d bytes are pending when all is stored, want 0", n)
		}
	})
}
