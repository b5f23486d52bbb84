// Package manytablestest is a suite for targets of database drivers, with thousands of small tables in one database, as a service with a source for
// each tenant has.
package manytablestest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// Run defines many sources whose tables are in one target, gives each a few rows in rounds, and one source rows all the time. All rows arrive, and
// the rows of the busy source wait no longer than one turn of all tables. A row costs no more CPU than one of a minute and 10,000 tables has. connections says how many the target has now, of which there are at most so many.
// The gate plays 100 tables, the nightly run 10,000.
func Run(t *testing.T, target driver.Target, connections func() int, most int) {
	const each = time.Second // an upload and an import of a table
	tables, rounds := 100, 2
	if os.Getenv("FOREBAY_NIGHTLY") == "1" {
		tables = 10_000
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: target, MaxSources: tables + 1, Buffer: buffer.Tuning{MinImportInterval: each}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	define := func(id string, every time.Duration) {
		t.Helper()
		when := trigger.Conditions{Interval: every}
		err := eng.Define(t.Context(), forebay.Source{ID: id, Sinks: []forebay.Sink{{
			ID: "events", Table: forebay.Table{ID: "many_" + id, Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("name", "name")}},
			Settings: forebay.Settings{Upload: when, Import: when},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	define("busy", each)
	for i := range tables {
		define(fmt.Sprint("t", i), each)
	}
	ingest := func(id string) {
		t.Helper()
		if _, err := eng.Ingest(t.Context(), id, mapping.JSON([]byte(`{"name":"a"}`))); err != nil {
			t.Fatal(err)
		}
	}
	began, cpu, sent, oldest, open := time.Now(), cputime.Process(), int64(0), time.Duration(0), 0
	tick := time.Tick(50 * time.Millisecond)
	for round := 1; round <= rounds; round++ {
		for i := range tables {
			ingest(fmt.Sprint("t", i))
		}
		for done := false; !done; <-tick {
			ingest("busy")
			sent++
			done = true
			for _, s := range eng.Stats().Sinks {
				if s.Source == "busy" {
					for _, f := range s.Files {
						if f.FinishedAt.IsZero() {
							oldest = max(oldest, time.Since(f.OpenedAt))
						}
					}
					continue
				}
				done = done && s.Target.Rows == int64(round)
			}
			open = max(open, connections())
		}
	}
	took, cpu := time.Since(began), (cputime.Process()-cpu)/time.Duration(tables*rounds)
	t.Logf("%d tables in %d rounds: %v, %.0f imports/s, %d connections, %v of CPU of this process for an import; the oldest row of the busy source waited %v", tables, rounds,
		took.Round(time.Millisecond), float64(tables*rounds)/took.Seconds(), open, cpu, oldest.Round(time.Millisecond))
	if most := time.Minute / 10_000; cpu > most {
		t.Errorf("a row used %v of CPU from its call to its table, want at most %v: 10,000 tables with a row each minute need more than a processor", cpu, most)
	}
	if open > most {
		t.Errorf("got %d connections to the database, want at most %d", open, most)
	}
	if err := eng.Flush(t.Context(), "busy"); err != nil {
		t.Fatal(err)
	}
	for _, s := range eng.Stats().Sinks {
		if want := sent; s.Source == "busy" && s.Target.Rows != want {
			t.Errorf("got %d rows of the busy source in its table, want %d", s.Target.Rows, want)
		}
	}
	// Tables are imported in turn, so a file waits for one import of each of the others.
	if bound := max(took/time.Duration(rounds)*3/2, 6*each); oldest > bound {
		t.Errorf("the oldest row of the busy source waited %v, want at most %v: the many tables starve it", oldest, bound)
	}
}
