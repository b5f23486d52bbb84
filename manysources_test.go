package forebay_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// A service may have a source for each tenant. Of 10,000 sources, one needs as little memory as of a few, and its definition does not take
// longer. A restart defines all of them again within seconds. The gate plays 2,000.
func TestManySources(t *testing.T) {
	sources := 2_000
	if os.Getenv("FOREBAY_NIGHTLY") == "1" {
		sources = 10_000
	}
	dir := t.TempDir()
	open := func() *forebay.Engine {
		t.Helper()
		e, err := forebay.Open(dir, forebay.Options{MaxSources: sources})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	define := func(e *forebay.Engine, from, to int) time.Duration {
		t.Helper()
		begin := time.Now()
		for i := from; i < to; i++ {
			if err := e.Define(t.Context(), forebay.Source{ID: fmt.Sprint("tenant-", i), Sinks: []forebay.Sink{{
				ID: "events", Table: forebay.Table{ID: fmt.Sprint("events_", i), Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("name", "name"), mapping.Body("body")}},
			}}}); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(begin)
	}
	heap := func() int {
		runtime.GC()
		runtime.GC() // what a finalizer has freed
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const few = 200
	e := open()
	before := heap()
	first := define(e, 0, few)
	define(e, few, sources-few)
	last := define(e, sources-few, sources)
	each := (heap() - before) / sources
	t.Logf("of %d sources the first %d were defined in %s, the last in %s; %d B of heap a source", sources, few, first, last, each)
	if last > 3*first {
		t.Errorf("the last %d of %d sources were defined in %s, want at most three times of the first, which took %s", few, sources, last, first)
	}
	if each > 60<<10 {
		t.Errorf("a source has %d bytes of heap, want at most %d", each, 60<<10)
	}
	if _, err := e.Ingest(t.Context(), fmt.Sprint("tenant-", sources-1), mapping.JSON([]byte(`{"name":"a"}`))); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	e = open()
	again := define(e, 0, sources)
	t.Logf("a restart with %d sources took %s", sources, time.Since(begin))
	if again > first*time.Duration(sources/few) {
		t.Errorf("all sources were defined again in %s, want less than the first time", again)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
