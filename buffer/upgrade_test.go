package buffer_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/synctest"
)

// formatOf returns the versions in the format file and in the store; "" for none.
func formatOf(t *testing.T, disk vfs.FS) (file, store string) {
	t.Helper()
	file, _ = pebblestore.ReadNote(disk, "data/forebay-format", 64)
	db, err := pebble.Open("data", &pebble.Options{FS: disk, ReadOnly: true, ErrorIfNotExists: true, Logger: quiet{}})
	must(t, err)
	defer db.Close()
	value, closer, err := db.Get([]byte(format.KeyFormat))
	must(t, err)
	defer closer.Close()
	return strings.TrimSpace(file), string(value)
}

func wantFormat(t *testing.T, disk vfs.FS, want string) {
	t.Helper()
	if file, store := formatOf(t, disk); file+"/"+store != want {
		t.Errorf("file and store have the format %s/%s, want %s", file, store, want)
	}
}

// oldFolder makes a data directory of version 1 with 10 rows of an open slice.
func oldFolder(t *testing.T, disk vfs.FS, mem *buffertest.Memory) {
	t.Helper()
	b, err := buffer.Open("data", upgradeOptions(t, disk, mem, true))
	must(t, err)
	put(t, b, define(t, b, "a"), 0, 10)
	closeBuffer(t, b)
	wantFormat(t, disk, "1/1")
}

func upgradeOptions(t testing.TB, disk vfs.FS, mem *buffertest.Memory, keep bool) buffer.Options {
	o := localdisk.On(memoryOptions(t, mem), disk)
	o.KeepFormat = keep
	return o
}

// grown is a definition that needs version 2.
func grown(c *buffer.SinkConfig) {
	c.Table.Extend = true
	c.Table.Columns = append(columns[:2:2], datatype.Column{Name: "n", Type: datatype.Int64})
}

func TestUpgrade(t *testing.T) {
	mem, disk := buffertest.NewMemory(), disktest.New(t)
	oldFolder(t, disk, mem)

	b, err := buffer.Open("data", upgradeOptions(t, disk, mem, true))
	must(t, err)
	put(t, b, define(t, b, "a"), 10, 20)
	must(t, b.Checkpoint(t.Context(), "old"))
	closeBuffer(t, b)
	wantFormat(t, disk, "1/1")

	if b, err = buffer.Open("data", upgradeOptions(t, disk, mem, true)); err != nil {
		t.Fatal(err)
	}
	define(t, b, "b", grown)
	must(t, b.Checkpoint(t.Context(), "new"))
	closeBuffer(t, b)
	wantFormat(t, disk, "2/2")
	for dir, want := range map[string]string{"old": "1\n", "new": "2\n"} {
		if got, err := pebblestore.ReadNote(disk, dir+"/forebay-format", 64); got != want || err != nil {
			t.Errorf("the checkpoint %s has the format %q, %v, want %q", dir, got, err, want)
		}
	}

	// A folder that was upgraded stays so, and one that was not is upgraded by Open.
	for dir, keep := range map[string]bool{"data": true, "old": false} {
		c, err := buffer.Open(dir, upgradeOptions(t, disk, mem, keep))
		must(t, err)
		flush(t, c, "a")
		closeBuffer(t, c)
		if got, _ := pebblestore.ReadNote(disk, dir+"/forebay-format", 64); got != "2\n" {
			t.Errorf("%s has the format %q, want 2", dir, got)
		}
	}
	wantAll(t, mem, "in.c-test.a", 0, 20)
}

// A volume that is too small is named before anything is upgraded. The folder stays at version 1 until there is room.
func TestUpgradeNeedsRoom(t *testing.T) {
	for name, keep := range map[string]bool{"Open": false, "Define": true} {
		t.Run(name, func(t *testing.T) {
			mem, disk := buffertest.NewMemory(), disktest.New(t)
			oldFolder(t, disk, mem)
			for _, enough := range []bool{false, true} {
				usage := vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 30}
				if !enough && !keep {
					usage.AvailBytes = 100 << 10
				}
				disk.SetUsage(usage)
				b, err := buffer.Open(disk.Path("data"), upgradeOptions(t, disk, mem, keep))
				if keep {
					must(t, err)
					if !enough {
						disk.SetUsage(vfs.DiskUsage{AvailBytes: 100 << 10, TotalBytes: 1 << 30})
					}
					c := buffer.SinkConfig{ID: "a", Table: driver.Table{ID: "in.c-test.a", Columns: columns}}
					grown(&c)
					_, err = b.Define(t.Context(), c)
				}
				if b != nil {
					closeBuffer(t, b)
				}
				var small *buffer.RoomError
				switch {
				case enough && err != nil:
					t.Fatal(err)
				case enough:
					wantFormat(t, disk, "2/2")
				// Open first frees the space that the files of a real disk take beyond their content.
				case !errors.As(err, &small) || small.Free < 100<<10 || small.Needed <= small.Free || !strings.Contains(err.Error(), "the volume of "+disk.Path("data")+" is too small"):
					t.Fatalf("got %v, want a RoomError", err)
				default:
					wantFormat(t, disk, "1/1")
				}
			}
		})
	}
}

// A checkpoint and a definition that needs the upgrade can share a commit. The copy then has the new version in both places.
func TestCheckpointInTheCommitOfAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, disk, held := buffertest.NewMemory(), disktest.New(t), make(chan struct{})
		oldFolder(t, disk, mem)
		slow := disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if strings.HasPrefix(op.Path, "first") {
				<-held // and with it the committer
			}
			return nil
		}))
		b, err := buffer.Open("data", upgradeOptions(t, slow, mem, true))
		must(t, err)
		done := make(chan error, 3)
		for _, dir := range []string{"first", "copy"} {
			go func() { done <- b.Checkpoint(t.Context(), dir) }()
			synctest.Wait()
		}
		go func() {
			c := buffer.SinkConfig{ID: "a", Table: driver.Table{ID: "in.c-test.a", Columns: columns}}
			grown(&c)
			_, err := b.Define(t.Context(), c)
			done <- err
		}()
		synctest.Wait()
		close(held)
		for range cap(done) {
			must(t, <-done)
		}
		closeBuffer(t, b)
		wantFormat(t, disk, "2/2")
		c, err := buffer.Open("copy", upgradeOptions(t, disk, mem, true))
		must(t, err)
		closeBuffer(t, c)
	})
}

// An upgrade, by Open or by a definition, is cut short with the power at each operation. The next opening completes it and has
// every row.
func TestUpgradeIsCutShort(t *testing.T) {
	for name, keep := range map[string]bool{"Open": false, "Define": true} {
		t.Run(name, func(t *testing.T) {
			states := map[string]int{}
			for n, passed := 0, false; !passed; n++ {
				mem, disk := buffertest.NewMemory(), disktest.New(t)
				oldFolder(t, disk, mem)
				var ops atomic.Int64
				failing := disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && ops.Add(1) > int64(n) {
						return syscall.ENOSPC
					}
					return nil
				}))
				b, err := buffer.Open("data", upgradeOptions(t, failing, mem, keep))
				if err == nil && keep {
					c := buffer.SinkConfig{ID: "a", Table: driver.Table{ID: "in.c-test.a", Columns: columns}}
					grown(&c)
					_, err = b.Define(t.Context(), c)
				}
				passed = err == nil
				crashed := disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(n), 3))})
				if b != nil {
					_ = b.Close()
				}
				file, store := formatOf(t, crashed)
				states[file+"/"+store]++
				if store > file {
					t.Fatalf("cut short at operation %d (%v): the file has version %s, the store %s", n, err, file, store)
				}
				if b, err = buffer.Open("data", upgradeOptions(t, crashed, mem, false)); err != nil {
					t.Fatalf("cut short at operation %d: %v", n, err)
				}
				flush(t, b, "a")
				verify(t, b)
				closeBuffer(t, b)
				wantFormat(t, crashed, "2/2")
				wantAll(t, mem, "in.c-test.a", 0, 10)
				if t.Failed() || n > 5000 {
					t.Fatalf("cut short at operation %d", n)
				}
			}
			t.Logf("file and store after the cuts: %v", states)
			for _, state := range []string{"1/1", "2/1", "2/2"} {
				if states[state] == 0 {
					t.Errorf("no cut left the versions %s: %v", state, states)
				}
			}
		})
	}
}

func TestFormatFileIsLost(t *testing.T) {
	for name, keep := range map[string]bool{"1": true, "2": false} {
		mem, disk := buffertest.NewMemory(), disktest.New(t)
		b, err := buffer.Open("data", upgradeOptions(t, disk, mem, keep))
		must(t, err)
		put(t, b, define(t, b, "a"), 0, 10)
		closeBuffer(t, b)
		must(t, disk.Remove("data/forebay-format"))
		if b, err = buffer.Open("data", upgradeOptions(t, disk, mem, true)); err != nil {
			t.Fatal(err)
		}
		flush(t, b, "a")
		closeBuffer(t, b)
		wantFormat(t, disk, name+"/"+name)
		wantAll(t, mem, "in.c-test.a", 0, 10)
	}
}

// A file of an earlier version next to a store of a later one was put there by hand.
func TestFormatFileOfAnotherFolder(t *testing.T) {
	mem, disk := buffertest.NewMemory(), disktest.New(t)
	b, err := buffer.Open("data", upgradeOptions(t, disk, mem, false))
	must(t, err)
	closeBuffer(t, b)
	must(t, pebblestore.WriteNote(disk, "data", "forebay-format", "1\n"))
	var wrong *buffer.FormatError
	if _, err := buffer.Open("data", upgradeOptions(t, disk, mem, false)); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "1 in forebay-format, 2 in the store") {
		t.Errorf("open: %v, want a FormatError with both versions", err)
	}
	wantFormat(t, disk, "1/2")
}
