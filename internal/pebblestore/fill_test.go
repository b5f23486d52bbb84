package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

func never(t *testing.T) func(error) {
	return func(err error) { t.Errorf("the opening has ended: %v", err) }
}

// sizes returns the length of a log after each write and sync.
func sizes(t *testing.T, limit int64, writes ...int) (sizes []int64) {
	t.Helper()
	fs := pebblestore.New(disktest.New(t), "data", never(t))
	fs.FillLogs(limit)
	must(t, fs.MkdirAll("data", 0o700))
	f, err := fs.Create("data/000002.log", "test")
	must(t, err)
	defer f.Close()
	for _, n := range writes {
		_, err := f.Write(make([]byte, n))
		must(t, errors.Join(err, f.SyncData()))
		info, err := f.Stat()
		must(t, err)
		sizes = append(sizes, info.Size())
	}
	return sizes
}

func TestLogsAreWrittenAhead(t *testing.T) {
	const k = 1 << 10
	for name, c := range map[string]struct {
		limit  int64
		writes []int
		want   []int64
	}{
		"off":                    {0, []int{k, k}, []int64{k, 2 * k}},
		"small syncs":            {80 * k, []int{k, k, 9 * k, 1, 1}, []int64{8 * k, 8 * k, 20 * k, 20 * k, 20 * k}},
		"large syncs":            {8 << 20, []int{65 * k, 65 * k}, []int64{65 * k, 130 * k}},
		"large ones in between":  {8 << 20, []int{k, 65 * k, k}, []int64{1 << 20, 1 << 20, 1 << 20}},
		"a mebibyte at the most": {1 << 30, []int{k}, []int64{1 << 20}},
		"not behind the limit":   {16 * k, []int{k, 14 * k, k, k}, []int64{k, 16 * k, 16 * k, 17 * k}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sizes(t, c.limit, c.writes...); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("the log had %d bytes, want %d", got, c.want)
			}
		})
	}
}

// Written bytes are in the file as if nothing had been written ahead, followed by zeros. The rest of a log that is
// written over is left alone.
func TestZerosAreOnlyWrittenBehindTheLog(t *testing.T) {
	mem := disktest.New(t)
	fs := pebblestore.New(mem, "data", never(t))
	fs.FillLogs(1 << 20)
	must(t, fs.MkdirAll("data", 0o700))
	old := bytes.Repeat([]byte("old"), 10_000)
	write := func(f vfs.File, text []byte) {
		t.Helper()
		_, err := f.Write(bytes.Clone(text)) // in a build for the race detector the file in memory spoils the bytes it was given
		must(t, errors.Join(err, f.SyncData()))
	}
	f, err := fs.Create("data/000002.log", "test")
	must(t, err)
	write(f, old)
	must(t, f.Close())
	before := read(t, mem, "data/000002.log")
	if !bytes.HasPrefix(before, old) || len(bytes.Trim(before[len(old):], "\x00")) > 0 {
		t.Fatal("the log is not what was written")
	}
	f, err = fs.ReuseForWrite("data/000002.log", "data/000003.log", "test")
	must(t, err)
	defer f.Close()
	var now []byte
	text := bytes.Repeat([]byte("new "), 400)
	for len(now) < len(before)-2*len(text) {
		write(f, text)
		now = append(now, text...)
		if got := read(t, mem, "data/000003.log"); !bytes.Equal(got, append(bytes.Clone(now), before[len(now):]...)) {
			t.Fatalf("after %d bytes the log is not what was written", len(now))
		}
	}
	for range 100 {
		write(f, text)
		now = append(now, text...)
	}
	got := read(t, mem, "data/000003.log")
	if !bytes.HasPrefix(got, now) || len(bytes.Trim(got[len(now):], "\x00")) > 0 {
		t.Error("behind its old end the log is not what was written")
	}
}

func read(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// The power is cut again and again while a store writes logs ahead and over each other. Whatever of the unsynced bytes
// the disk keeps, each opening finds every key that was synced, and none that was not written.
func TestNothingIsLostOfLogsThatAreWrittenAhead(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		disk := disktest.New(t)
		last := 0 // the keys up to it were synced
		next := 0 // the keys from it on were not written
		for opening := range 8 {
			fs := pebblestore.New(disk, "data", never(t))
			fs.FillLogs(128 << 10)
			db, err := pebble.Open("data", &pebble.Options{FS: fs, MemTableSize: 128 << 10, Logger: fs.Logger(quiet())})
			if err != nil {
				t.Fatalf("seed %d, opening %d: %v", seed, opening, err)
			}
			found := 0
			it, err := db.NewIter(nil)
			must(t, err)
			for it.First(); it.Valid(); it.Next() {
				if string(it.Key()) != fmt.Sprintf("%06d", found) {
					t.Fatalf("seed %d, opening %d: key %s in place of %06d", seed, opening, it.Key(), found)
				}
				found++
			}
			must(t, it.Close())
			if found < last || found > next {
				t.Fatalf("seed %d, opening %d: %d keys, of %d that were written %d were synced", seed, opening, found, next, last)
			}
			last, next = found, found
			for range rng.IntN(300) {
				mode := pebble.NoSync
				if rng.IntN(3) > 0 {
					mode = pebble.Sync
				}
				value := []byte(strings.Repeat("v", 1+rng.IntN(4000)))
				must(t, db.Set(fmt.Appendf(nil, "%06d", next), value, mode))
				next++
				if mode == pebble.Sync {
					last = next
				}
			}
			after := disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			must(t, db.Close())
			disk = after
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Zeros are an advice. If the disk does not support them, the log grows as it would without them.
func TestDiskThatRefusesZeros(t *testing.T) {
	disk := &refusing{FS: disktest.New(t)}
	fs := pebblestore.New(disk, "data", never(t))
	fs.FillLogs(1 << 20)
	must(t, fs.MkdirAll("data", 0o700))
	f, err := fs.Create("data/000002.log", "test")
	must(t, err)
	defer f.Close()
	for range 3 {
		_, err := f.Write([]byte("text"))
		must(t, errors.Join(err, f.SyncData()))
	}
	if got := read(t, disk, "data/000002.log"); string(got) != "texttexttext" || disk.asked != 1 {
		t.Errorf("the log is %q after %d attempts to write zeros", got, disk.asked)
	}
}

type refusing struct {
	vfs.FS
	asked int
}

type refusingFile struct {
	vfs.File
	fs *refusing
}

func (r *refusing) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, c)
	return &refusingFile{f, r}, err
}

func (f *refusingFile) WriteAt([]byte, int64) (int, error) {
	f.fs.asked++
	return 0, errors.New("no space left on the device")
}
