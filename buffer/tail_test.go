package buffer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// The copies that a local level keeps of its last batches have their rows, with the data that a caller needs to store them again.
func TestTail(t *testing.T) {
	for _, encoding := range []driver.Encoding{driver.None, driver.Gzip} {
		t.Run(encoding.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newFakeLog(t)
				disk := disktest.New(t)
				b := openAt(t, "data", localdisk.On(replicated(t, buffertest.NewMemory(), log), disk))
				s := define(t, b, "a", ackLocal, func(c *buffer.SinkConfig) { c.Encoding = encoding })
				put(t, b, s, 0, 10)
				synctest.Wait() // until the log has them
				behind := log.len()
				log.setAway(true)
				var want []string
				for id := 10; id < 30; id++ {
					put1(t, b, s, id, strings.Repeat("v", 10*id))
					want = append(want, string(row(id, strings.Repeat("v", 10*id))))
				}
				in, err := buffer.Inspect("data", localdisk.On(buffer.InspectOptions{}, disk.Cut(vfs.CrashCloneCfg{})))
				must(t, err)
				defer func() {
					if err := in.Close(); err != nil {
						t.Error(err)
					}
				}()
				var got []string
				last := uint64(0)
				for batch, err := range in.Tail() {
					must(t, err)
					if last > 0 && batch.Number != last+1 {
						t.Errorf("batch %d follows batch %d", batch.Number, last)
					}
					if last = batch.Number; last == in.LogPosition().Number && !slices.Equal(batch.Mark, in.LogPosition().Mark) {
						t.Errorf("batch %d has another mark than the store", last)
					}
					for _, rows := range batch.Rows {
						if rows.SinkID != "a" || !slices.Equal(rows.Columns, columns) || rows.Count != 1 || rows.At.IsZero() {
							t.Errorf("batch %d has %+v", batch.Number, rows)
						}
						if batch.Number > uint64(behind) {
							got = append(got, string(rows.Data))
						}
					}
				}
				if last != in.LogPosition().Number || !slices.Equal(got, want) {
					t.Errorf("up to batch %d there are the rows %q, want %q up to batch %d", last, got, want, in.LogPosition().Number)
				}
			})
		})
	}
}
