package sim

import (
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// A clock that was set back while the process was down must not hold up rows until it has caught up.
func TestClockSetBackBetweenProcesses(t *testing.T) {
	d := newDisk(vfsCrashable())
	o := newOutside(1, newSummary())
	conf := buffer.SinkConfig{
		ID: "a", Table: driver.Table{ID: "t", Columns: datatype.UntypedColumns("id")},
		Upload: trigger.Conditions{Interval: time.Second}, Import: trigger.Conditions{Interval: time.Minute},
	}
	session := func(t *testing.T, play func(b *buffer.Buffer)) {
		g := &generation{ctx: t.Context()}
		b, err := buffer.Open("data", localdisk.On(buffer.Options{Staging: &drivers{o, g}, Target: &drivers{o, g}, Tuning: buffer.Tuning{MemTableBytes: 1 << 20}}, d))
		if err != nil {
			t.Fatal(err)
		}
		play(b)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Every bubble begins at the same time, so the second process is ten hours before the first.
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Hour)
		session(t, func(b *buffer.Buffer) {
			s, err := b.Define(t.Context(), conf)
			if err != nil {
				t.Fatal(err)
			}
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: []byte("1\n"), Count: 1})
			if err == nil {
				err = ticket.Wait(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	})
	synctest.Test(t, func(t *testing.T) {
		session(t, func(*buffer.Buffer) {
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(o.files) != 1 {
				t.Errorf("%d files were imported two minutes after the start, want 1", len(o.files))
			}
		})
	})
}
