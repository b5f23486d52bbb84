package forebay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// timed measures how long calls of Ensure take.
type timed struct {
	driver.Target
	took atomic.Int64
}

func (t *timed) Ensure(ctx context.Context, table driver.Table) error {
	defer func(begin time.Time) { t.took.Add(int64(time.Since(begin))) }(time.Now())
	return t.Target.Ensure(ctx, table)
}

// A service may have a source for each tenant. Of 10,000 sources, one needs as little memory as of a few, and its definition does not take
// longer. A restart defines all of them again within seconds. The gate plays 2,000.
func TestManySources(t *testing.T) {
	sources := 2_000
	if os.Getenv("FOREBAY_NIGHTLY") == "1" {
		sources = 10_000
	}
	data := t.TempDir()
	target := &timed{Target: dir.Tables(filepath.Join(data, "tables"))}
	open := func() *forebay.Engine {
		t.Helper()
		e, err := forebay.Open(data, forebay.Options{MaxSources: sources, Target: target})
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
		runtime.GC() // memory that a finalizer has freed
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const few = 200
	e := open()
	before := heap()
	first := define(e, 0, few)
	define(e, few, sources-few)
	target.took.Store(0)
	last := define(e, sources-few, sources)
	own := (last - time.Duration(target.took.Load())) / few
	each := (heap() - before) / sources
	t.Logf("of %d sources the first %d were defined in %s, the last in %s, each of those in %s beside its target; %d B of heap a source", sources, few, first, last, own, each)
	if last > 3*first {
		t.Errorf("the last %d of %d sources were defined in %s, want at most three times of the first, which took %s", few, sources, last, first)
	}
	if each > 60<<10 {
		t.Errorf("a source has %d bytes of heap, want at most %d", each, 60<<10)
	}
	for _, every := range []int{100, 1} { // a hundredth of the sources has rows, then all
		ids := make(chan int)
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for i := range ids {
					if _, err := e.Ingest(t.Context(), fmt.Sprint("tenant-", i), mapping.JSON([]byte(`{"name":"a"}`))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := 0; i < sources; i += every {
			ids <- i
		}
		close(ids)
		callers.Wait()
		each := (heap() - before) / sources
		t.Logf("%d B of heap a source while one of %d has a row that waits", each, every)
		if each > 60<<10 {
			t.Errorf("a source has %d bytes of heap while one of %d has a row that waits, want at most %d", each, every, 60<<10)
		}
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
