package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// tenChunks stores ten chunks of ten rows of a sink "a", sealed, in one table of the store, and closes it.
func tenChunks(t *testing.T, fs *vfs.MemFS, opts buffer.Options, down *atomic.Bool) {
	t.Helper()
	down.Store(true)
	opts.FS = fs
	b, err := buffer.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None; c.Upload.Count = 100 })
	noise := noise{rand.New(rand.NewPCG(1, 2))}
	for i := range 10 {
		var data []byte
		for j := range 10 {
			data = append(data, row(10*i+j, noise.text(700))...)
		}
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: data, Count: 10})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	closeBuffer(t, b)
	db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Flush(), db.Compact(t.Context(), []byte("a"), []byte("z"), false), db.Close()); err != nil {
		t.Fatal(err)
	}
	down.Store(false)
}

func downMemory(down *atomic.Bool) *buffertest.Memory {
	mem := buffertest.NewMemory()
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if down.Load() && c.Op == buffertest.OpPut {
			return errors.New("down")
		}
		return nil
	}
	return mem
}

// A sector that the disk does not give back is tried for Options.UnreadableAfter. If it comes back by then nothing is
// lost; else its rows are damage, and the others go on.
func TestUnreadableSector(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		t.Run(fmt.Sprintf("comes back=%v", comesBack), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down, broken atomic.Bool
				mem, disk := downMemory(&down), vfs.NewMem()
				opts := memoryOptions(mem)
				tenChunks(t, disk, opts, &down)
				opts.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") &&
						op.Offset > 28<<10 && op.Offset < 36<<10 {
						return syscall.EIO
					}
					return nil
				}))
				broken.Store(true)
				b := open(t, opts)
				time.Sleep(59 * time.Minute)
				synctest.Wait()
				st, _ := b.SinkStats("a")
				if st.Damaged.Rows != 0 || st.Local.Rows != 100 {
					t.Fatalf("after 59 minutes: %s, damaged %d", state(b, "a"), st.Damaged.Rows)
				}
				if st.Files[0].Attempt < 10 {
					t.Errorf("%d attempts in 59 minutes", st.Files[0].Attempt)
				}
				broken.Store(!comesBack)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if err := b.Flush(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
				verify(t, b)
				st, _ = b.SinkStats("a")
				list, err := b.Damaged(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if comesBack {
					if st.Target.Rows != 100 || len(list) != 0 {
						t.Errorf("%s, damage %+v", state(b, "a"), list)
					}
					return
				}
				if st.Target.Rows < 70 || st.Damaged.Rows == 0 || st.Target.Rows+st.Damaged.Rows != 100 {
					t.Errorf("%s, damaged %d", state(b, "a"), st.Damaged.Rows)
				}
				if len(list) != 1 || list[0].Rows != st.Damaged.Rows || !strings.Contains(list[0].Reason, "input/output error") {
					t.Errorf("damage %+v", list)
				}
			})
		})
	}
}

func TestForgetDamage(t *testing.T) {
	var disk vfs.FS
	flipped := func(fs *vfs.MemFS) {
		disk = fs
		editChunks(t, fs, func(n int, v []byte) []byte {
			if n == 2 || n == 5 {
				v[100] ^= 1
			}
			return v
		})
	}
	_, b, _ := damagedRun(t, true, buffer.None, flipped)
	list, err := b.Damaged(t.Context())
	if err != nil || len(list) != 2 || b.Stats().Damages != 2 {
		t.Fatalf("%d records, %d counted: %v", len(list), b.Stats().Damages, err)
	}
	for range 2 { // repeating it is harmless
		if err := b.ForgetDamage(t.Context(), list[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := b.Damaged(t.Context())
	if err != nil || len(rest) != 1 || rest[0].ID != list[1].ID || b.Stats().Damages != 1 {
		t.Errorf("left are %+v: %v", rest, err)
	}
	if st, _ := b.SinkStats("a"); st.Damaged.Rows != 20 {
		t.Errorf("the ledger has %d damaged rows, want 20 for ever", st.Damaged.Rows)
	}
	for _, id := range []string{"", "zz", list[0].ID + "00"} {
		if err := b.ForgetDamage(t.Context(), id); err == nil {
			t.Errorf("%q is taken for an id", id)
		}
	}
	verify(t, b)
	copied := "copy"
	if err := b.Checkpoint(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	in, err := buffer.Inspect(copied, buffer.InspectOptions{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if list, err := in.Damaged(t.Context()); err != nil || len(list) != 1 || in.Stats().Damages != 1 {
		t.Errorf("an inspection lists %+v: %v", list, err)
	}
}

func TestDamageIsListedForItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, _ := damagedRun(t, true, buffer.None, func(fs *vfs.MemFS) {
			editChunks(t, fs, func(n int, v []byte) []byte { v[100] ^= byte(n & 1); return v })
		})
		count := func() int {
			list, err := b.Damaged(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		time.Sleep(89 * 24 * time.Hour)
		if n := count(); n != 5 {
			t.Errorf("%d records after 89 days, want 5", n)
		}
		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		if n := count(); n != 0 || b.Stats().Damages != 0 {
			t.Errorf("%d records after 91 days", n)
		}
	})
}

// Rows that nobody waited for and that were only in memory when the disk failed are gone. They are counted, and never were
// among those accepted.
func TestLostRowsInMemoryAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		mem, disk := buffertest.NewMemory(), vfs.NewMem()
		opts := memoryOptions(mem)
		opts.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.ENOSPC
			}
			return nil
		}))
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
		st, _ := b.SinkStats("a")
		if lost == 0 || st.Unstored != lost || st.Accepted != 5 {
			t.Errorf("%d rows were lost: unstored %d, accepted %d", lost, st.Unstored, st.Accepted)
		}
		if !strings.Contains(log.String(), "rows in memory were lost") {
			t.Errorf("it is not logged: %s", log.String())
		}
		put(t, b, s, 5, 10)
		if err := b.Flush(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, mem, "in.c-test.a", 0, 10)
		verify(t, b)
	})
}

func TestStatsHaveTheRealBytesOfTheStore(t *testing.T) {
	b := open(t, memoryOptions(buffertest.NewMemory()))
	put(t, b, define(t, b, "a"), 0, 100)
	if st := b.Stats(); st.StoreBytes <= st.LocalBytes || st.LocalBytes == 0 {
		t.Errorf("%d bytes of files, %d of rows in them", st.StoreBytes, st.LocalBytes)
	}
}
