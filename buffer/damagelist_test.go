package buffer_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// tenChunks stores ten chunks of ten rows of a sink "a", sealed, in one table of the store, and closes it.
func tenChunks(t *testing.T, fs *disktest.Disk, opts buffer.Options, down *atomic.Bool) {
	t.Helper()
	down.Store(true)
	opts = localdisk.On(opts, fs)
	b, err := buffer.Open("data", opts)
	must(t, err)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None; c.Upload.Count = 100 })
	noise := noise{rand.New(rand.NewPCG(1, 2))}
	for i := range 10 {
		var data []byte
		for j := range 10 {
			data = append(data, row(10*i+j, noise.text(700))...)
		}
		mustStore(t, b, buffer.Rows{Sink: s, Data: data, Count: 10})
	}
	closeBuffer(t, b)
	db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	must(t, err)
	must(t, errors.Join(db.Flush(), db.Compact(t.Context(), []byte("a"), []byte("z"), false), db.Close()))
	down.Store(false)
}

func TestForgetDamage(t *testing.T) {
	var disk vfs.FS
	flipped := func(fs *disktest.Disk) {
		disk = fs
		editChunks(t, fs, func(n int, v []byte) []byte {
			if n == 2 || n == 5 {
				v[100] ^= 1
			}
			return v
		})
	}
	_, b, _ := damagedRun(t, true, driver.None, flipped)
	list, err := b.Damaged(t.Context())
	if err != nil || len(list) != 2 || b.Stats().Damages != 2 {
		t.Fatalf("got %d records, %d counted, %v, want 2, 2, no error", len(list), b.Stats().Damages, err)
	}
	if err := b.ForgetDamage(t.Context(), "none", list[0].ID); !errors.Is(err, buffer.ErrUnknownDamage) || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("an unknown id together with a known one gives %v, want an error that names the unknown one", err)
	}
	rest, err := b.Damaged(t.Context())
	if err != nil || len(rest) != 1 || rest[0].ID != list[1].ID || b.Stats().Damages != 1 {
		t.Errorf("left are %+v: %v", rest, err)
	}
	if st, _ := b.Sink("a").Stats(); st.Damaged.Rows != 20 {
		t.Errorf("the ledger has %d damaged rows, want 20 for ever", st.Damaged.Rows)
	}
	for _, id := range []string{"", "zz", list[0].ID, list[1].ID + "00"} {
		if err := b.ForgetDamage(t.Context(), id); !errors.Is(err, buffer.ErrUnknownDamage) {
			t.Errorf("forget %q: %v, want %v", id, err, buffer.ErrUnknownDamage)
		}
	}
	verify(t, b)
	copied := "copy"
	must(t, b.Checkpoint(t.Context(), copied))
	in, err := buffer.Inspect(copied, localdisk.On(buffer.InspectOptions{}, disk))
	must(t, err)
	defer in.Close()
	if list, err := in.Damaged(t.Context()); err != nil || len(list) != 1 || in.Stats().Damages != 1 {
		t.Errorf("an inspection lists %+v: %v", list, err)
	}
}

func TestDamageIsListedForItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, _ := damagedRun(t, true, driver.None, func(fs *disktest.Disk) {
			editChunks(t, fs, func(n int, v []byte) []byte { v[100] ^= byte(n & 1); return v })
		})
		count := func() int {
			list, err := b.Damaged(t.Context())
			must(t, err)
			return len(list)
		}
		time.Sleep(89 * 24 * time.Hour)
		if n := count(); n != 5 {
			t.Errorf("got %d records after 89 days, want 5", n)
		}
		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		if n := count(); n != 0 || b.Stats().Damages != 0 {
			t.Errorf("after 91 days: got %d records, %d counted, want none", n, b.Stats().Damages)
		}
	})
}
