package buffer_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// rotTables changes a byte of each large table of a store, at a share of its length.
func rotTables(t *testing.T, disk *disktest.Disk, percent int) {
	t.Helper()
	names, err := disk.List("data")
	must(t, err)
	changed := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		data, err := disk.Read("data/" + name)
		must(t, err)
		if len(data) > 20<<10 {
			disk.Rot("data/"+name, len(data)*percent/100)
			changed++
		}
	}
	if changed == 0 {
		t.Fatal("there is no large table")
	}
}

// However damage is found, the owner of a changelog is notified once, the buffer stops, and nothing of the damage is written. A level
// restored from the log has every row.
func TestOnDamage(t *testing.T) {
	for name, c := range map[string]struct {
		closed func(disk *disktest.Disk)                               // while the buffer is closed
		open   func(b *buffer.Buffer, disk *disktest.Disk)             // while it is open and staging is down
		find   func(t *testing.T, b *buffer.Buffer, down *atomic.Bool) // finds the damage
		broken bool                                                    // the disk fails to read the middle of tables
	}{
		"a chunk, by its upload": {
			closed: func(disk *disktest.Disk) {
				editChunks(t, disk, func(n int, v []byte) []byte {
					v[len(v)-1] ^= byte(n % 2)
					return v
				})
			},
			find: func(_ *testing.T, _ *buffer.Buffer, down *atomic.Bool) { down.Store(false) },
		},
		"a chunk that is missing, by its upload": {
			closed: func(disk *disktest.Disk) {
				editChunks(t, disk, func(n int, v []byte) []byte {
					if n == 4 {
						return nil
					}
					return v
				})
			},
			find: func(_ *testing.T, _ *buffer.Buffer, down *atomic.Bool) { down.Store(false) },
		},
		"a table, by its upload": {
			open: func(_ *buffer.Buffer, disk *disktest.Disk) { rotTables(t, disk, 50) },
			find: func(_ *testing.T, _ *buffer.Buffer, down *atomic.Bool) { down.Store(false) },
		},
		"a table, by Verify": {
			open: func(_ *buffer.Buffer, disk *disktest.Disk) { rotTables(t, disk, 30) },
			find: func(t *testing.T, b *buffer.Buffer, _ *atomic.Bool) {
				if _, err := b.Verify(t.Context()); !errors.As(err, new(*buffer.StoreDamageError)) {
					t.Errorf("verify: %v", err)
				}
			},
		},
		"a chunk, by Verify": {
			closed: func(disk *disktest.Disk) {
				editChunks(t, disk, func(_ int, v []byte) []byte {
					v[100] ^= 1
					return v
				})
			},
			find: func(t *testing.T, b *buffer.Buffer, _ *atomic.Bool) {
				if _, err := b.Verify(t.Context()); !errors.As(err, new(*buffer.StoreDamageError)) {
					t.Errorf("verify: %v", err)
				}
			},
		},
		"a sector that is unreadable for an hour": {
			broken: true,
			find: func(_ *testing.T, _ *buffer.Buffer, down *atomic.Bool) {
				down.Store(false)
				time.Sleep(2 * time.Hour)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				mem, log, disk := downMemory(&down), newFakeLog(t), disktest.New(t)
				opts := replicated(t, mem, log)
				tenChunks(t, disk, opts, &down)
				if c.closed != nil {
					c.closed(disk)
				}
				down.Store(true)
				var told atomic.Int64
				opts.OnDamage = func(d *buffer.StoreDamageError) {
					if told.Add(1); d.Dir != "data" || d.Err == nil {
						t.Errorf("told of %v", d)
					}
				}
				opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if c.broken && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") && op.Offset > 28<<10 && op.Offset < 36<<10 {
						return syscall.EIO
					}
					return nil
				})))
				opts.Changelog = log.open()
				b, err := buffer.Open("data", opts)
				must(t, err)
				if c.open != nil {
					c.open(b, disk)
				}
				c.find(t, b, &down)
				time.Sleep(time.Minute)
				synctest.Wait()
				before := log.len()
				time.Sleep(time.Hour)
				if err := b.Ready(); !errors.As(err, new(*buffer.StoreDamageError)) {
					t.Errorf("ready: %v", err)
				}
				if err := b.Sink("a").Flush(t.Context()); !errors.As(err, new(*buffer.FailedError)) {
					t.Errorf("flush: %v", err)
				}
				if err := b.Close(); !errors.As(err, new(*buffer.StoreDamageError)) {
					t.Errorf("close: %v", err)
				}
				if told.Load() != 1 || log.len() != before {
					t.Errorf("told %d times; the log has %d batches more", told.Load(), log.len()-before)
				}
				down.Store(false)
				restoredLogHasAll(t, mem, log, opts)
			})
		})
	}
}

// restoredLogHasAll restores a folder on another disk from all batches of a log, and expects 100 rows of sink a in the table.
func restoredLogHasAll(t *testing.T, mem *buffertest.Memory, log *fakeLog, opts buffer.Options) {
	t.Helper()
	opts = localdisk.On(opts, disktest.New(t))
	opts.Changelog = log.open()
	must(t, buffer.Restore("data", "", log.batches(0, log.len()), opts.Tuning))
	b := openAt(t, "data", opts)
	flush(t, b, "a")
	wantAll(t, mem, "in.c-test.a", 0, 100)
	verify(t, b)
	st, _ := b.Sink("a").Stats()
	if list, err := b.Damaged(t.Context()); err != nil || len(list) > 0 || st.Damaged.Rows > 0 {
		t.Errorf("damage %+v (%v), %d rows counted", list, err, st.Damaged.Rows)
	}
	closeBuffer(t, b)
}

// A damaged last chunk of an open slice, which is read by Open, ends Open.
func TestOpenOnDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		b := openAt(t, "data", opts)
		put(t, b, define(t, b, "a"), 0, 100)
		closeBuffer(t, b)
		last := 0
		editChunks(t, localdisk.Of(opts), func(n int, v []byte) []byte {
			last = n
			return v
		})
		editChunks(t, localdisk.Of(opts), func(n int, v []byte) []byte {
			if n == last {
				v[len(v)-1] ^= 1
			}
			return v
		})
		before := log.len()
		opts.OnDamage = func(d *buffer.StoreDamageError) { t.Errorf("told of %v, what Open says", d) }
		if _, err := buffer.Open("data", opts); !errors.As(err, new(*buffer.StoreDamageError)) {
			t.Errorf("open: %v", err)
		}
		if log.len() != before {
			t.Errorf("the log got %d batches", log.len()-before)
		}
		restoredLogHasAll(t, mem, log, opts)
	})
}

// Without a changelog there is no copy to restore from.
func TestOnDamageNeedsAChangelog(t *testing.T) {
	opts := memoryOptions(t, buffertest.NewMemory())
	opts.OnDamage = func(*buffer.StoreDamageError) {}
	if _, err := buffer.Open("data", opts); err == nil || !strings.Contains(err.Error(), "Changelog") {
		t.Errorf("open: %v", err)
	}
}

// Damage that an opening finds after a failure of the disk is reported too, once, and the buffer stops instead of retrying forever.
func TestOnDamageOfAReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down, broken atomic.Bool
		mem, log, disk := downMemory(&down), newFakeLog(t), disktest.New(t)
		opts := replicated(t, mem, log)
		tenChunks(t, disk, opts, &down)
		down.Store(true)
		var told atomic.Int64
		opts.OnDamage = func(*buffer.StoreDamageError) { told.Add(1) }
		opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.EIO
			}
			return nil
		})))
		opts.Changelog = log.open()
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		synctest.Wait() // nothing else writes
		names, err := disk.List("data")
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST") {
				data, err := disk.Read("data/" + name)
				must(t, err)
				disk.Rot("data/"+name, len(data)/2)
			}
		}
		broken.Store(true)
		ticket := begin(t, b, s, 100)
		if err := ticket.Wait(t.Context()); !errors.As(err, new(*buffer.FailedError)) {
			t.Errorf("a row on the broken disk: %v", err)
		}
		if told.Load() > 0 {
			t.Error("told before there was damage")
		}
		broken.Store(false)
		time.Sleep(time.Hour)
		if err := b.Ready(); !errors.As(err, new(*buffer.StoreDamageError)) {
			t.Errorf("ready: %v", err)
		}
		if err := b.Close(); !errors.As(err, new(*buffer.StoreDamageError)) {
			t.Errorf("close: %v", err)
		}
		if told.Load() != 1 {
			t.Errorf("told %d times", told.Load())
		}
	})
}
