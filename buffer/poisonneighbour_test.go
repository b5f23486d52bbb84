package buffer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
)

// A held file holds no later file of its sink. Good rows of later files arrive at their first import.
func TestHeldFileHoldsNoLaterFile(t *testing.T) {
	for name, c := range map[string]struct {
		names, rows int
		sink        func(*buffer.SinkConfig)
		refused     func(int) bool
	}{
		"all 20 rows, named":      {0, 20, quarantined(), func(int) bool { return true }},
		"all 20 rows, one named":  {1, 20, quarantined(), func(int) bool { return true }},
		"all 20 rows, none named": {-1, 20, quarantined(), func(int) bool { return true }},
		"HoldFiles":               {0, 20, quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true }), func(i int) bool { return i == 3 }},
		"a full quarantine":       {0, 20, quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 2 }), func(i int) bool { return i < 5 }},
	} {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := open(t, opts)
				s := define(t, b, "a", c.sink, func(c *buffer.SinkConfig) { c.Upload.Interval, c.Import.Interval = time.Second, time.Minute })
				putRows(t, b, s, c.rows, c.refused)
				time.Sleep(5 * time.Minute)
				if st, _ := b.Sink("a").Stats(); len(st.Files) == 0 || !st.Files[0].Permanent {
					t.Fatalf("the first file is %+v, want it held", st.Files)
				}
				before := len(mem.Rows(tableA))
				for round := range 5 {
					for i := range 10 {
						put1(t, b, s, 1000+10*round+i, "v")
					}
					time.Sleep(70 * time.Second) // the interval of imports, and the upload
					if got, want := len(mem.Rows(tableA)), before+10*(round+1); got != want {
						t.Errorf("after %d later files the table has %d rows, want %d", round+1, got, want)
					}
				}
				verify(t, b)
			})
		})
	}
}

// The target refuses 30,000 rows of a file, and the quarantine has no room for them. All good rows arrive once, wherever they are, even if the
// power is cut at calls of staging and the target. The refused rows wait, and are in the quarantine once there is room.
func TestGoodRowsOfAFileWhoseRefusedRowsHaveNoRoom(t *testing.T) {
	skipManyRows(t)
	for name, c := range map[string]struct {
		rows    int
		refused func(int) bool
	}{
		"two of three rows":        {45_000, func(i int) bool { return i%3 > 0 }},
		"the first two thirds":     {16_500, func(i int) bool { return i < 11_000 }},
		"all but a third in a row": {16_500, func(i int) bool { return i < 5500 || i >= 11_000 }},
	} {
		t.Run(name, func(t *testing.T) {
			rng, rows := seedtest.Rand(t), c.rows
			withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				good := rows / 3
				one := func(c *buffer.SinkConfig) { c.Upload.Count, c.Import.Count = 10_000, int64(rows) }
				full := quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 50 })
				var mu sync.Mutex // guards the next three
				var left *disktest.Disk
				disk, calls := disktest.New(t), 0 // calls until the power is cut, 0 if it is not
				off := make(chan struct{}, 1)
				power := func(context.Context, buffertest.Call) error {
					mu.Lock()
					defer mu.Unlock()
					if calls > 1 {
						calls--
					} else if calls == 1 && left == nil {
						left = disk.Cut(vfs.CrashCloneCfg{})
						off <- struct{}{}
					}
					if left != nil {
						return errors.New("the power is off")
					}
					return nil
				}
				mem.Before, mem.After = power, power
				b := openAt(t, "data", localdisk.On(opts, disk))
				putAtOnce(t, b, define(t, b, "a", full, one), rows, c.refused)
				for range 4 {
					mu.Lock()
					calls = 1 + rng.IntN(30)
					mu.Unlock()
					held := make(chan struct{})
					go func() { _ = b.Sink("a").Flush(context.WithoutCancel(t.Context())); close(held) }()
					select {
					case <-off:
					case <-held: // there are no more calls
					}
					closeBuffer(t, b)
					mu.Lock()
					if left != nil {
						disk, left = left, nil
					}
					calls = 0
					mu.Unlock()
					b = openAt(t, "data", localdisk.On(opts, disk))
					define(t, b, "a", full, one)
				}
				var held *buffer.HeldError
				if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) || !strings.Contains(err.Error(), "no room") {
					t.Fatalf("Flush = %v, want a file that is held because the quarantine has no room", err)
				}
				if got := len(mem.Rows(tableA)); got != good {
					t.Errorf("the table has %d rows, want the %d good ones", got, good)
				}
				verify(t, b)
				define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords, q.MaxBytes = rows, 1<<30 }), one)
				flush(t, b, "a")
				st, _ := b.Sink("a").Stats()
				if got := len(mem.Rows(tableA)); got != good || st.Target.Rows != int64(good) || st.Poison.Rows != int64(rows-good) ||
					st.Quarantine.Added != st.Poison.Rows {
					t.Errorf("with room in the quarantine, the table has %d rows and the ledger %d, the quarantine has %d of %d; want %d, %d, %d", got,
						st.Target.Rows, st.Quarantine.Added, st.Poison.Rows, good, good, rows-good)
				}
				closeBuffer(t, b)
			})
		})
	}
}
