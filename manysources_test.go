package forebay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// tenant is a source for a tenant.
func tenant(i int) forebay.Source {
	return forebay.Source{ID: fmt.Sprint("tenant-", i), Sinks: []forebay.Sink{{
		ID: "events", Table: forebay.Table{ID: fmt.Sprint("events_", i), Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("name", "name"), mapping.Body("body")}},
	}}}
}

// away is a staging that does not respond until back is closed.
type away struct {
	driver.Staging
	back chan struct{}
}

func (s *away) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	select {
	case <-s.back:
		return s.Staging.Put(ctx, obj, src)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A service may have a source for each tenant. Of 10,000 sources, one needs as little memory as of a few. A restart defines all of them again within
// seconds, even if a row of each is due. The gate plays 2,000.
func TestManySources(t *testing.T) {
	sources, data := 2_000, t.TempDir()
	if os.Getenv("FOREBAY_NIGHTLY") == "1" {
		sources = 10_000
	}
	staging := &away{dir.Staging(filepath.Join(data, "staging")), make(chan struct{})}
	open := func() *forebay.Engine {
		t.Helper()
		e, err := forebay.Open(data, forebay.Options{MaxSources: sources, Staging: staging, Target: dir.Tables(filepath.Join(data, "tables"))})
		must(t, err)
		return e
	}
	define := func(e *forebay.Engine) {
		t.Helper()
		for i := range sources {
			must(t, e.Define(t.Context(), tenant(i)))
		}
	}
	heap := func() int {
		runtime.GC()
		runtime.GC() // memory that a finalizer has freed
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	atOnce := func(every int, call func(i int) error) {
		t.Helper()
		ids := make(chan int)
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for i := range ids {
					if err := call(i); err != nil {
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
	}
	e := open()
	before, begin := heap(), time.Now()
	define(e)
	each := (heap() - before) / sources
	t.Logf("%d sources were defined in %s; %d B of heap a source", sources, time.Since(begin), each)
	if each > 60<<10 {
		t.Errorf("a source has %d bytes of heap, want at most %d", each, 60<<10)
	}
	for _, every := range []int{100, 1} { // a hundredth of the sources has rows, then all
		atOnce(every, func(i int) error {
			_, err := e.Ingest(t.Context(), fmt.Sprint("tenant-", i), mapping.JSON([]byte(`{"name":"a"}`)))
			return err
		})
		each := (heap() - before) / sources
		t.Logf("%d B of heap a source while one of %d has a row that waits", each, every)
		if each > 60<<10 {
			t.Errorf("a source has %d bytes of heap while one of %d has a row that waits, want at most %d", each, every, 60<<10)
		}
	}
	atOnce(1, func(i int) error {
		return e.Buffer().Sink(fmt.Sprintf("tenant-%d/events", i)).CloseFile(t.Context(), trigger.Requested)
	})
	must(t, e.Close())
	for _, when := range []string{"while staging is away", "while the row of each source is uploaded"} {
		begin, cpu := time.Now(), cputime.Process()
		e = open()
		opened := time.Since(begin)
		define(e)
		took, cpu := time.Since(begin), cputime.Process()-cpu
		t.Logf("a restart with %d sources took %s %s, of which Open took %s; the process used %s of CPU", sources, took, when, opened, cpu)
		select {
		case <-staging.back: // the uploads take CPU too, and TestDefinitionsAfterARestartDoNotWaitForTheDisk shows that they hold up no definition
		default:
			// Nothing waits for the disk, so CPU is the time of a restart on an idle machine. It counts no other program.
			if bound := 3 * time.Second * time.Duration(sources) / 10_000; cpu > bound && !raceEnabled {
				t.Errorf("the restart used %s of CPU, want at most %s, which is 3s for 10,000 sources", cpu, bound)
			}
			close(staging.back)
		}
		must(t, e.Close())
	}
}

// A definition of one source among thousands takes as long as among ten. The engines define in turn, in memory, so that the ratio does not depend on the
// machine, its disk, or its load.
func TestDefineAmongManySources(t *testing.T) {
	const rounds = 300
	counts := [...]int{10, 10_000}
	var engines [len(counts)]*forebay.Engine
	for k, n := range counts {
		mem := buffertest.NewMemory()
		e, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, MaxSources: n + 1, Buffer: localdisk.On(buffer.Tuning{}, vfs.NewMem())})
		must(t, err)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		for i := range n {
			mustDefine(t, e, tenant(i))
		}
		engines[k] = e
	}
	var took [len(counts)][]time.Duration
	for i := range rounds {
		for k, e := range engines {
			next := tenant(counts[1] + i)
			begin := time.Now()
			mustDefine(t, e, next)
			took[k] = append(took[k], time.Since(begin))
			must(t, e.Remove(t.Context(), next.ID))
		}
	}
	for k := range took {
		slices.Sort(took[k])
	}
	few, many := took[0][rounds/4], took[1][rounds/4] // a quarter of the calls met no other work
	t.Logf("a definition took %s among %d sources and %s among %d, %.2f times as long", few, counts[0], many, counts[1], float64(many)/float64(few))
	if many > few*3/2 {
		t.Errorf("a definition took %s among %d sources, want at most 1.5 times the %s among %d", many, counts[1], few, counts[0])
	}
	if bound := 2 * time.Millisecond; many > bound {
		t.Errorf("a definition took %s, want at most %s", many, bound)
	}
}
