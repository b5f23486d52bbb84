package recipes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/forebaytest"
	"github.com/forebay/forebay/mapping"
)

// The target is away for a month, and the power is cut every few days. Every reading arrives once.
func TestGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readings, pause = 31, 24 * time.Hour
		opts := Gateway(nil)
		opts.Buffer.Retry = buffer.Retry{Probe: pause / 4, Max: pause / 4} // the month is as long with fewer probes
		kit := forebaytest.New(t, opts, Readings())
		columns := kit.Memory().Columns("readings")
		kit.Memory().Alter("readings", datatype.Column{Name: "other"}) // every import fails
		for n := range readings {
			reading := Reading{"kitchen", time.Now(), 20 + float64(n%7)/10, 40}
			if _, err := kit.Engine().Ingest(t.Context(), "sensors", mapping.From(reading)); err != nil {
				t.Fatal(err)
			}
			kit.Advance(pause)
			if n%5 == 3 {
				kit.Crash()
			}
		}
		if n := len(kit.Rows("readings")); n != 0 {
			t.Fatalf("%d rows arrived before the outage was over, want 0", n)
		}
		kit.Memory().Alter("readings", columns...)
		kit.StepImport()
		if n := len(kit.Rows("readings")); n != readings {
			t.Errorf("got %d rows, want %d", n, readings)
		}
	})
}

// A million readings take the disk that the page promises, and more if they arrive one at a time, because a chunk of one row is not compressed.
func TestGatewayDisk(t *testing.T) {
	for _, c := range []struct {
		batch int
		most  int64 // MiB a million
	}{{1, 70}, {100, 20}} {
		t.Run(fmt.Sprint("batch=", c.batch), func(t *testing.T) {
			const n = 3000
			noise := rand.New(rand.NewPCG(1, 2))
			eng, _ := open(t, Readings())
			records := make([]*mapping.Record, n)
			for i := range records {
				at := time.Date(2026, 11, 23, 0, 0, i, 0, time.UTC)
				records[i] = mapping.From(Reading{"sensor-" + string(rune('a'+noise.IntN(20))), at, 20 + float64(noise.IntN(1000))/100, 40 + float64(noise.IntN(3000))/100})
			}
			for portion := range slices.Chunk(records, c.batch) {
				if _, err := eng.IngestBatch(t.Context(), "sensors", portion); err != nil {
					t.Fatal(err)
				}
			}
			waiting := eng.Stats().Sinks[0]
			if rows := waiting.Local.Rows + waiting.Staging.Rows; rows != n {
				t.Fatalf("got %d rows wait, want %d: %+v", rows, n, waiting)
			}
			perMillion := (waiting.Local.StoredBytes + waiting.Staging.StoredBytes) * 1_000_000 / n >> 20
			t.Logf("a million readings take %d MiB on disk", perMillion)
			if perMillion > c.most {
				t.Errorf("more than %d MiB: docs/recipes.md says less", c.most)
			}
		})
	}
}
