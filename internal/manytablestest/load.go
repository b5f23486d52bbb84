package manytablestest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// delivered counts files and rows that are in their tables.
type delivered struct{ files, rows atomic.Int64 }

func (d *delivered) OnDeliver(e forebay.DeliverEvent) {
	d.files.Add(1)
	d.rows.Add(e.Rows)
}

// Load gives each of FOREBAY_TABLES sinks a row a second, and logs the imports a second and the CPU of this process. Files are closed each
// FOREBAY_EVERY, such as 1s. Default: the default conditions. The measurement takes FOREBAY_FOR, 30s by default, and begins after the first files
// of all sinks. Without FOREBAY_TABLES it is skipped. A record is a row in each of the 100 sinks of its source.
func Load(t *testing.T, target driver.Target) {
	tables, err := strconv.Atoi(os.Getenv("FOREBAY_TABLES"))
	if err != nil {
		t.Skip("it measures; FOREBAY_TABLES says with how many tables")
	}
	duration := func(name string, other time.Duration) time.Duration {
		if text := os.Getenv(name); text != "" {
			if other, err = time.ParseDuration(text); err != nil {
				t.Fatal(err)
			}
		}
		return other
	}
	every, length := duration("FOREBAY_EVERY", 0), duration("FOREBAY_FOR", 30*time.Second)
	var done delivered
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: target, MaxSources: tables, Hooks: &done, Buffer: buffer.Tuning{MinImportInterval: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	when := trigger.Conditions{Interval: every}
	var sources []string
	for first := 0; first < tables; first += forebay.MaxSinks {
		source := forebay.Source{ID: fmt.Sprint("s", first)}
		for n := first; n < min(first+forebay.MaxSinks, tables); n++ {
			source.Sinks = append(source.Sinks, forebay.Sink{
				ID: fmt.Sprint("sink", n), Table: forebay.Table{ID: fmt.Sprint("load_", n), Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("name", "name")}},
				Settings: forebay.Settings{Upload: when, Import: when},
			})
		}
		if err := eng.Define(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source.ID)
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var sent atomic.Int64
	for i, id := range sources {
		clients.Go(func() {
			phase := time.NewTimer(time.Second * time.Duration(i) / time.Duration(len(sources)))
			<-phase.C
			for tick := time.Tick(time.Second); ctx.Err() == nil; {
				res, err := eng.Ingest(t.Context(), id, mapping.JSON([]byte(`{"name":"a name of a few bytes"}`)))
				if err != nil {
					t.Error(err)
					return
				}
				sent.Add(int64(len(res.Sinks)))
				select {
				case <-tick:
				case <-ctx.Done():
				}
			}
		})
	}
	await := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
	}
	await(2*cmp.Or(every, trigger.Import().Default.Interval) + 3*time.Second)
	began, cpu, files, rows, accepted := time.Now(), cputime.Process(), done.files.Load(), done.rows.Load(), sent.Load()
	await(length)
	took, cpu := time.Since(began), cputime.Process()-cpu
	seconds := took.Seconds()
	t.Logf("%d tables: %.0f rows/s accepted, %.0f files/s and %.0f rows/s imported, %.1f %% of a core, %.2f ms of CPU for a file",
		tables, float64(sent.Load()-accepted)/seconds, float64(done.files.Load()-files)/seconds, float64(done.rows.Load()-rows)/seconds,
		100*cpu.Seconds()/seconds, 1000*cpu.Seconds()/float64(max(1, done.files.Load()-files)))
	stop()
	clients.Wait()
	for _, id := range sources {
		if err := eng.Flush(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	got := int64(0)
	for _, s := range eng.Stats().Sinks {
		got += s.Target.Rows
	}
	if want := sent.Load(); got != want {
		t.Errorf("got %d rows in the tables, want %d", got, want)
	}
}
