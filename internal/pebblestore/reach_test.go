package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/seedtest"
)

func openAll(t *testing.T, disk vfs.FS) *pebblestore.Opening {
	t.Helper()
	must(t, disk.MkdirAll("data", 0o700))
	o, err := pebblestore.Open(config(disk))
	must(t, err)
	return o
}

func set(t *testing.T, o *pebblestore.Opening, i, size int) {
	t.Helper()
	must(t, o.DB.Set(fmt.Appendf(nil, "key %06d", i), bytes.Repeat([]byte{byte(i)}, size), pebble.Sync))
}

// newestLog returns the path of the newest log and its content.
func newestLog(t *testing.T, disk *disktest.Disk) (path string, content []byte) {
	t.Helper()
	names, err := disk.List("data")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") && "data/"+name > path {
			path = "data/" + name
		}
	}
	if content, err = disk.Read(path); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func replace(t *testing.T, disk vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(bytes.Clone(data))
	must(t, errors.Join(err, f.Sync(), f.Close()))
}

// What a log held when its owner acted on it is not lost without a word, be it cut anywhere, rotten, or gone.
// What came later looks like a torn write.
func TestShorterLogIsDamage(t *testing.T) {
	disk := disktest.New(t)
	o := openAll(t, disk)
	for i := range 20 {
		set(t, o, i, 1000)
		if i%3 == 0 {
			o.NoteReach()
		}
	}
	killed := func() *disktest.Disk { return disk.Cut(vfs.CrashCloneCfg{}) }
	_, content := newestLog(t, killed())
	noted := len(bytes.TrimRight(content, "\x00"))
	// Zeros and later writes that are not noted may be cut off.
	set(t, o, 20, 1000)
	opened := func(after *disktest.Disk) error {
		o, err := pebblestore.Open(config(after))
		if err == nil {
			err = o.Close()
		}
		return err
	}
	var damage *pebblestore.DamageError
	for cut := 0; cut < noted-1000; cut += 97 {
		after := killed()
		path, content := newestLog(t, after)
		replace(t, after, path, content[:cut])
		if err := opened(after); !errors.As(err, &damage) {
			t.Errorf("cut at %d of %d: %v, want damage", cut, noted, err)
		}
		after = killed()
		path, content = newestLog(t, after)
		content[cut] ^= 4
		replace(t, after, path, content)
		if err := opened(after); !errors.As(err, &damage) {
			t.Errorf("rotten at %d of %d: %v, want damage", cut, noted, err)
		}
	}
	after := killed()
	path, _ := newestLog(t, after)
	must(t, after.Remove(path))
	if err := opened(after); !errors.As(err, &damage) {
		t.Errorf("gone: %v, want damage", err)
	}
	after = killed()
	path, content = newestLog(t, after)
	replace(t, after, path, content[:noted+10])
	if err := opened(after); err != nil {
		t.Errorf("torn after what was noted: %v", err)
	}
	// In the note itself, one slot may be torn. Two torn slots are damage.
	for at, want := range map[int]bool{0: false, 4096: false, -1: true} {
		after := killed()
		if at < 0 {
			after.Rot("data/reach", 0)
			at = 4096
		}
		after.Rot("data/reach", at)
		if err := opened(after); errors.As(err, &damage) != want {
			t.Errorf("note damaged at %d: %v, want damage: %v", at, err, want)
		}
	}
	after = killed()
	must(t, after.Change("data/reach", func(note []byte) []byte { return append([]byte("no note"), note[7:]...) }))
	if err := opened(after); err != nil {
		t.Errorf("one slot has other text: %v", err)
	}
	must(t, o.Close())
}

// A note that the disk refuses ends nothing, and is written as soon as the disk takes it.
func TestRefusedNoteEndsNothing(t *testing.T) {
	disk := disktest.New(t)
	var full atomic.Bool
	o := openAll(t, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.Contains(op.Path, "reach") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	})))
	for i := range 12 {
		full.Store(i%4 < 2) // at the first note, and later
		set(t, o, i, 1000)
		o.NoteReach()
		must(t, o.Failure())
	}
	cut := disk.Cut(vfs.CrashCloneCfg{})
	path, content := newestLog(t, cut)
	replace(t, cut, path, content[:10_000])
	var damage *pebblestore.DamageError
	if _, err := pebblestore.Open(config(cut)); !errors.As(err, &damage) {
		t.Errorf("cut: %v, want damage", err)
	}
	must(t, o.Close())
}

// No kill and no loss of power makes a store that looks damaged, however its logs come and go.
func TestCrashIsNoDamage(t *testing.T) {
	rng := seedtest.Rand(t)
	disk := disktest.New(t)
	o := openAll(t, disk)
	rows := 0
	for round := range 40 {
		for range rng.IntN(40) {
			set(t, o, rows, rng.IntN(60_000))
			rows++
			if rng.IntN(3) == 0 {
				o.NoteReach()
			}
			if rng.IntN(20) == 0 {
				must(t, o.DB.Flush())
			}
		}
		if rng.IntN(5) > 0 {
			crashed := disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			_ = o.Close()
			disk = crashed
		} else if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if o, err = pebblestore.Open(config(disk)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for i := range rows {
		if _, err := pebblestore.Get(o.DB, fmt.Appendf(nil, "key %06d", i)); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	must(t, o.Close())
}

// The power goes off while a log ends. Its end is on the disk, and an unsynced part before it is not.
func TestCrashAtTheEndOfALogIsNoDamage(t *testing.T) {
	rng := seedtest.Rand(t)
	disk := disktest.New(t)
	var armed atomic.Bool
	var mu sync.Mutex
	var found []*disktest.Disk
	o := openAll(t, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if sync && strings.HasSuffix(op.Path, ".log") && armed.CompareAndSwap(true, false) {
			mu.Lock()
			defer mu.Unlock()
			for range 16 {
				found = append(found, disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
			}
		}
		return nil
	})))
	for i := range 5 {
		set(t, o, i, 20_000)
	}
	for i := range 10 {
		must(t, o.DB.Set(fmt.Appendf(nil, "later %d", i), bytes.Repeat([]byte{1}, 20_000), pebble.NoSync))
	}
	armed.Store(true)
	must(t, o.DB.Flush())
	must(t, o.Close())
	if len(found) == 0 {
		t.Fatal("the log has ended without a sync")
	}
	for i, after := range found {
		o, err := pebblestore.Open(config(after))
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		for i := range 5 {
			if _, err := pebblestore.Get(o.DB, fmt.Appendf(nil, "key %06d", i)); err != nil {
				t.Errorf("key %d: %v", i, err)
			}
		}
		must(t, o.Close())
	}
}

// What rots after an orderly end is damage, even where it was synced by the end alone.
func TestRotAfterTheEndIsDamage(t *testing.T) {
	disk := disktest.New(t)
	must(t, disk.MkdirAll("data", 0o700))
	conf := config(disk)
	conf.ClosingLogs = 1 << 20 // no rows become tables
	o, err := pebblestore.Open(conf)
	must(t, err)
	for i := range 5 {
		must(t, o.DB.Set(fmt.Appendf(nil, "key %06d", i), bytes.Repeat([]byte{1}, 20_000), pebble.NoSync))
	}
	must(t, o.Close())
	path, content := newestLog(t, disk)
	content[50_000] ^= 4
	replace(t, disk, path, content)
	var damage *pebblestore.DamageError
	if _, err := pebblestore.Open(config(disk)); !errors.As(err, &damage) {
		t.Errorf("got %v, want damage", err)
	}
}
