package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

// ingest sends an event, and has it in the tables when flush is set.
func ingest(t *testing.T, eng *forebay.Engine, source string, flush bool) {
	t.Helper()
	if _, err := eng.Ingest(t.Context(), source, mapping.JSON([]byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if flush {
		must(t, eng.Flush(t.Context(), source))
	}
}

// noTrace checks that nothing is counted, listed or stored of sinks that begin again.
func noTrace(t *testing.T, eng *forebay.Engine, cat *catalog.Catalog, sinks ...string) {
	t.Helper()
	for _, sink := range sinks {
		st, err := cat.Handle("web", sink).Statistics(t.Context())
		must(t, err)
		if st.Total.Rows != 0 || st.Target.Rows != 0 || st.Discarded.Rows != 0 || len(st.Files) != 0 || len(st.Rejected) != 0 {
			t.Errorf("the new sink %s has the statistics %+v", sink, st)
		}
	}
	if report, err := eng.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("ledger: %+v, %v", report, err)
	}
}

// TestErasedCountersBeginAnew makes a source with the ids of one that was erased with rows on every level.
func TestErasedCountersBeginAnew(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory(), DropTable: mem.Drop})
	mustTask := done(t, cat)
	withPath := spec("Web", "a", "b")
	withPath.Sinks[1].Columns = mapping.Columns{mapping.Path("x", "x")}
	mustTask(cat.CreateSource(user, withPath))
	for range 3 {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte("{}"))); err == nil {
			t.Fatal("sink b takes an event without x")
		}
	}
	must(t, eng.Flush(t.Context(), "web"))
	_, _ = eng.Ingest(t.Context(), "web", mapping.JSON([]byte("{}"))) // one that waits
	if st, err := cat.Handle("web", "b").Statistics(t.Context()); err != nil || st.Rejected["missingValue"] == 0 && len(st.Rejected) == 0 {
		t.Fatalf("nothing was rejected: %+v, %v", st, err)
	}
	mustTask(cat.EraseSource("web"))
	if rows := mem.Rows("in.c-web.a"); len(rows) != 0 {
		t.Errorf("the table has %d rows", len(rows))
	}
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	noTrace(t, eng, cat, "a", "b")
	ingest(t, eng, "web", true)
	if st, _ := cat.Handle("web", "a").Statistics(t.Context()); st.Total.Rows != 1 || st.Target.FirstAt != st.Target.LastAt {
		t.Errorf("with its first row the new sink has %+v", st)
	}
}

// TestErasureOfAQuarantine erases a source that holds rejected records, which no caller may read afterwards.
func TestErasureOfAQuarantine(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory(), DropTable: mem.Drop})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "a", OnReject: forebay.Quarantine,
		Table: forebay.Table{ID: "in.c-web.a", Columns: mapping.Columns{mapping.Path("id", "x"), mapping.Body("body")}},
	}}})
	must(t, err)
	if res, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte("{}"))); err != nil || res.Sinks[0].Status != forebay.Quarantined {
		t.Fatalf("got %+v, %v, want no error and res.Sinks[0].Status == %v", res, err, forebay.Quarantined)
	}
	mustTask(cat.EraseSource("web"))
	for _, err := range eng.Sink("web", "a").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		if !errors.Is(err, forebay.ErrUnknownSink) {
			t.Errorf("the quarantine after the erasure: %v", err)
		}
	}
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	noTrace(t, eng, cat, "a", "b")
}

// TestCrashDuringErasure takes the disk as it is while the tables are dropped, and opens it again. The task continues, and
// until it has ended no source takes the place of the erased one.
func TestCrashDuringErasure(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	store := newMemory()
	entered, gone := make(chan struct{}), false
	cat, err := catalog.Open("", eng, catalog.Options{Store: store, DropTable: func(ctx context.Context, _ string) error {
		if !gone {
			close(entered)
			gone = true
		}
		<-ctx.Done()
		return ctx.Err()
	}})
	must(t, err)
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	ingest(t, eng, "web", true)
	ingest(t, eng, "web", false)
	task, err := cat.EraseSource("web")
	must(t, err)
	<-entered
	if got, err := cat.Task(task.ID); err != nil || got.Status != catalog.Processing {
		t.Errorf("while the tables are dropped the task is %+v, %v", got, err)
	}
	if _, err := cat.CreateSource(user, spec("Web")); code(err) != catalog.Busy {
		t.Errorf("a source of the same id: %v", err)
	}
	disk := store.clone()
	must(t, cat.Close())
	if _, err := cat.Wait(t.Context(), task.ID); !errors.Is(err, catalog.ErrClosed) {
		t.Errorf("waiting after Close: %v", err)
	}

	for name, left := range map[string]*memory{"crash": disk, "stop": store} {
		t.Run(name, func(t *testing.T) {
			var dropped []string
			release := make(chan struct{})
			again := openCatalog(t, eng, catalog.Options{Store: left, DropTable: func(ctx context.Context, table string) error {
				<-release
				dropped = append(dropped, table)
				return mem.Drop(ctx, table)
			}})
			if _, err := again.Source("web"); code(err) != catalog.SourceNotFound {
				t.Errorf("the erased source: %v", err)
			}
			if _, err := again.CreateSource(user, spec("Web")); code(err) != catalog.Busy {
				t.Errorf("a source of the same id: %v", err)
			}
			close(release)
			got, err := again.Wait(t.Context(), task.ID)
			if err != nil || got.Status != catalog.Succeeded || !strings.Contains(got.Result, "erased") {
				t.Errorf("task is %+v, %v", got, err)
			}
			if !slices.Equal(dropped, []string{"in.c-web.a", "in.c-web.b"}) || mem.Rows("in.c-web.a") != nil {
				t.Errorf("dropped %v, the table has %v", dropped, mem.Rows("in.c-web.a"))
			}
			if keys := left.keys("erasure/"); len(keys) > 0 {
				t.Errorf("records are left: %v", keys)
			}
			done(t, again)(again.CreateSource(user, spec("Web", "a")))
			noTrace(t, eng, again, "a")
			done(t, again)(again.EraseSource("web"))
		})
	}
}

// TestErasureSparesTablesOfOthers checks that erasing a source does not delete the rows of another source.
func TestErasureSparesTablesOfOthers(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory(), DropTable: mem.Drop})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	other := spec("Other", "a")
	mustTask(cat.CreateSource(user, other))
	ingest(t, eng, "web", true)
	ingest(t, eng, "other", true)
	task, err := cat.EraseSource("web")
	must(t, err)
	task, err = cat.Wait(t.Context(), task.ID)
	if err != nil || !task.Partial || !strings.Contains(task.Failure, `"in.c-web.a" stays: sink "a" of source "other"`) {
		t.Errorf("task is %+v, %v", task, err)
	}
	if rows := mem.Rows("in.c-web.a"); len(rows) != 2 {
		t.Errorf("the shared table has %d rows, want 2", len(rows))
	}
	if rows := mem.Rows("in.c-web.b"); len(rows) != 0 {
		t.Errorf("the table of the erased source alone has %d rows", len(rows))
	}
}

// lateEnds is a store that refuses, while down is set, the later writes of the sweep.
type lateEnds struct {
	*memory
	down atomic.Bool
}

func (l *lateEnds) Commit(records map[string][]byte) error {
	isEnd := true
	for key := range records {
		isEnd = isEnd && (strings.HasPrefix(key, "task/") || strings.HasPrefix(key, "erasure/"))
	}
	if isEnd && len(records) > 1 && l.down.Load() {
		return errors.New("down")
	}
	return l.memory.Commit(records)
}

// TestLateEndOfErasure has the end of an erasure written after a second one of the same id has begun. The second one
// continues all the same.
func TestLateEndOfErasure(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	store := &lateEnds{memory: newMemory()}
	var block atomic.Bool
	entered := make(chan struct{}, 1)
	cat, err := catalog.Open("", eng, catalog.Options{Store: store, DropTable: func(ctx context.Context, table string) error {
		if block.Load() {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return mem.Drop(ctx, table)
	}})
	must(t, err)
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	store.down.Store(true)
	mustTask(cat.EraseSource("web"))
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	ingest(t, eng, "web", true)
	block.Store(true)
	task, err := cat.EraseSource("web")
	must(t, err)
	<-entered
	store.down.Store(false)
	must(t, cat.Close())
	again := openCatalog(t, eng, catalog.Options{Store: store, DropTable: mem.Drop})
	if got, err := again.Wait(t.Context(), task.ID); err != nil || got.Status != catalog.Succeeded {
		t.Errorf("task is %+v, %v", got, err)
	}
	if rows := mem.Rows("in.c-web.a"); rows != nil {
		t.Errorf("the table has %v", rows)
	}
	if keys := store.keys("erasure/"); len(keys) > 0 {
		t.Errorf("records are left: %v", keys)
	}
}

// TestUnwrittenEndOfErasure loses the end of an erasure with a crash, after a new source took the id. It is not erased.
func TestUnwrittenEndOfErasure(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	store := &lateEnds{memory: newMemory()}
	cat := openCatalog(t, eng, catalog.Options{Store: store, DropTable: mem.Drop})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	store.down.Store(true)
	mustTask(cat.EraseSource("web"))
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	ingest(t, eng, "web", true)
	disk := store.clone()
	if keys := disk.keys("erasure/"); len(keys) > 0 {
		t.Errorf("the next opening would erase the new source: %v", keys)
	}
	again := openCatalog(t, eng, catalog.Options{Store: disk, DropTable: mem.Drop})
	if _, err := again.Source("web"); err != nil || len(mem.Rows("in.c-web.a")) != 1 {
		t.Errorf("the new source: %v, its table has %v", err, mem.Rows("in.c-web.a"))
	}
}

// TestUnfinishedErasuresAreResumedTogether opens a store that was left with erasures of which all but the last have nothing
// left to do. The first may end before the next is begun. The race detector sees their shared memory.
func TestUnfinishedErasuresAreResumedTogether(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	store := &lateEnds{memory: newMemory()}
	cat := openCatalog(t, eng, catalog.Options{Store: store, DropTable: mem.Drop})
	ids := []string{"web"}
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	ingest(t, eng, "web", true)
	for i := range 20 {
		ids = append(ids, fmt.Sprint("empty", i))
		done(t, cat)(cat.CreateSource(user, spec(ids[i+1])))
	}
	store.down.Store(true)
	var tasks []catalog.Task
	for _, id := range ids {
		tasks = append(tasks, done(t, cat)(cat.EraseSource(id)))
	}
	must(t, cat.Close())
	if keys := store.keys("erasure/"); len(keys) != len(ids) {
		t.Fatalf("unfinished are %v, want %d", keys, len(ids))
	}
	for range 30 {
		left := store.clone()
		var drops atomic.Int64
		again := openCatalog(t, eng, catalog.Options{Store: left, DropTable: func(ctx context.Context, table string) error {
			drops.Add(1)
			return mem.Drop(ctx, table)
		}})
		// A call of the catalog would put the opening before the end of the first one.
		for len(left.keys("erasure/")) > 0 {
			runtime.Gosched()
		}
		for _, task := range tasks {
			if got, err := again.Wait(t.Context(), task.ID); err != nil || got.Status != catalog.Succeeded {
				t.Errorf("task is %+v, %v", got, err)
			}
		}
		if n := drops.Load(); n != 1 {
			t.Errorf("%d tables were dropped, want 1", n)
		}
		done(t, again)(again.CreateSource(user, spec("empty0", "a"))) // the ids and the table are free
		done(t, again)(again.EraseSource("empty0"))
	}
}
