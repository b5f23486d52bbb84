package catalog_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// failed waits for a task that must fail.
func failed(t *testing.T, cat *catalog.Catalog, task catalog.Task, err error) catalog.Task {
	t.Helper()
	if err == nil {
		task, err = cat.Wait(t.Context(), task.ID)
	}
	if err != nil || task.Status != catalog.Failed {
		t.Fatalf("task %+v, %v: want a failure", task, err)
	}
	return task
}

// corrected is the source "Web" with other columns.
func corrected(sinks ...string) catalog.SourceSpec {
	s := spec("Web", sinks...)
	for i := range s.Sinks {
		s.Sinks[i].Columns = mapping.Columns{mapping.Body("only")}
	}
	return s
}

// TestFailedCreateTakesItsTablesBack checks that tables that the task has created go, earlier tables stay, and the corrected
// request succeeds.
func TestFailedCreateTakesItsTablesBack(t *testing.T) {
	mem := buffertest.NewMemory()
	store := newMemory()
	cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: store})
	mem.Alter("in.c-web.broken", datatype.UntypedColumns("other")...)
	must(t, mem.Ensure(t.Context(), driver.Table{ID: "in.c-web.old", Columns: datatype.UntypedColumns("id", "body")}))
	task, err := cat.CreateSource(user, spec("Web", "a", "old", "broken", "b"))
	task = failed(t, cat, task, err)
	if task.Code != catalog.BadRequest || !strings.Contains(task.Failure, `"in.c-web.broken"`) {
		t.Errorf("task %+v", task)
	}
	for table, want := range map[string]bool{"in.c-web.a": false, "in.c-web.b": false, "in.c-web.old": true, "in.c-web.broken": true} {
		if got := mem.Columns(table) != nil; got != want {
			t.Errorf("table %s is there: %v, want %v", table, got, want)
		}
	}
	if left := store.keys("creation/"); len(left) > 0 {
		t.Errorf("records %v are left", left)
	}
	done(t, cat)(cat.CreateSource(user, corrected("a", "b")))
}

// TestSuccessfulCreateKeepsItsTables checks that nothing of the intent is left, even after the next start.
func TestSuccessfulCreateKeepsItsTables(t *testing.T) {
	mem := buffertest.NewMemory()
	store := newMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	cat := openCatalog(t, eng, catalog.Options{Store: store})
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	if left := store.keys("creation/"); len(left) > 0 || mem.Columns("in.c-web.a") == nil {
		t.Errorf("records %v are left, columns %v", left, mem.Columns("in.c-web.a"))
	}
}

// TestCrashDuringCreateTakesItsTablesBack opens the store as a crash has left it after each call of the target.
func TestCrashDuringCreateTakesItsTablesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		store := newMemory()
		var mu sync.Mutex
		var crashes []*memory
		mem.After = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpEnsure {
				mu.Lock()
				defer mu.Unlock()
				crashes = append(crashes, store.clone())
			}
			return nil
		}
		cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: store})
		task, err := cat.CreateSource(user, spec("Web", "a", "b", "c"))
		must(t, err)
		if _, err := cat.Wait(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
		mem.After = nil
		if len(crashes) != 3 {
			t.Fatalf("got %d calls of the target, want 3", len(crashes))
		}
		tables := mem
		for i, left := range crashes {
			for _, sink := range []string{"a", "b", "c"} { // the first crash has left all of them, the next ones the existing ones
				if i > 0 {
					break
				}
				if tables.Columns("in.c-web."+sink) == nil {
					t.Errorf("table of %s is not there", sink)
				}
			}
			again := openCatalog(t, openEngine(t, forebay.Options{Target: tables}), catalog.Options{Store: left})
			// The retry comes at once. It waits until the tables are gone.
			task, err := again.CreateSource(user, corrected("a", "b", "c"))
			if err == nil {
				task, err = again.Wait(t.Context(), task.ID)
			}
			if err != nil || task.Status != catalog.Succeeded {
				t.Fatalf("crash %d: the corrected request: %+v, %v", i, task, err)
			}
			if left := left.keys("creation/"); len(left) > 0 {
				t.Errorf("crash %d: records %v are left", i, left)
			}
			for _, sink := range []string{"a", "b", "c"} {
				if got := tables.Columns("in.c-web." + sink); !slices.Equal(got, datatype.UntypedColumns("only")) {
					t.Errorf("crash %d: table of %s has %v", i, sink, got)
				}
				must(t, tables.Drop(t.Context(), "in.c-web."+sink))
			}
		}
	})
}

// TestTablesAreTakenBackLater checks that a target that is away when a change has failed is asked again until it responds.
func TestTablesAreTakenBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		store := newMemory()
		away := true
		var mu sync.Mutex
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if c.Op == buffertest.OpUncreate && away {
				return errors.New("away")
			}
			return nil
		}
		cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: store})
		mem.Alter("in.c-web.broken", datatype.UntypedColumns("other")...)
		task, err := cat.CreateSource(user, spec("Web", "a", "broken"))
		failed(t, cat, task, err)
		if len(store.keys("creation/")) != 1 || mem.Columns("in.c-web.a") == nil {
			t.Fatalf("records %v, columns %v", store.keys("creation/"), mem.Columns("in.c-web.a"))
		}
		mu.Lock()
		away = false
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(store.keys("creation/")) != 0 || mem.Columns("in.c-web.a") != nil {
			t.Errorf("records %v, columns %v", store.keys("creation/"), mem.Columns("in.c-web.a"))
		}
	})
}

// TestTableOfAnotherSinkStays checks that a sink that has begun to use the table of a failed change keeps it.
func TestTableOfAnotherSinkStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		store := newMemory()
		hang := make(chan struct{})
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpEnsure && c.ID == "in.c-web.broken" {
				<-hang
			}
			return nil
		}
		cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: store})
		mem.Alter("in.c-web.broken", datatype.UntypedColumns("other")...)
		first, err := cat.CreateSource(user, spec("Web", "a", "broken"))
		must(t, err)
		synctest.Wait()
		other := spec("Other", "a")
		done(t, cat)(cat.CreateSource(user, other))
		close(hang)
		failed(t, cat, first, nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if mem.Columns("in.c-web.a") == nil {
			t.Error("the table of another sink was taken")
		}
		if left := store.keys("creation/"); len(left) > 0 {
			t.Errorf("records %v are left", left)
		}
	})
}

// TestFailedWriteTakesTablesBack is the case of a change that could not be stored.
func TestFailedWriteTakesTablesBack(t *testing.T) {
	mem := buffertest.NewMemory()
	store := &doubtful{memory: newMemory()}
	cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: store})
	store.mu.Lock()
	store.armed = ofChange
	store.mu.Unlock()
	task, err := cat.CreateSource(user, spec("Web", "a"))
	failed(t, cat, task, err)
	if mem.Columns("in.c-web.a") != nil || len(store.keys("creation/")) > 0 {
		t.Errorf("columns %v, records %v", mem.Columns("in.c-web.a"), store.keys("creation/"))
	}
	done(t, cat)(cat.CreateSource(user, corrected("a")))
}

// TestSinksOfOneTableAgree checks that a fault that the task could only find after it has created the table is refused at once.
func TestSinksOfOneTableAgree(t *testing.T) {
	mem := buffertest.NewMemory()
	cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: newMemory()})
	both := spec("Web", "a", "b")
	both.Sinks[1].TableID = both.Sinks[0].TableID
	done(t, cat)(cat.CreateSource(user, both))
	both.Name = "Other"
	both.Sinks[1].Columns = mapping.Columns{mapping.Body("body"), mapping.UUID("id")}
	_, err := cat.CreateSource(user, both)
	if code(err) != catalog.BadRequest || !strings.Contains(err.Error(), `"in.c-web.a"`) {
		t.Errorf("error %v", err)
	}
	both.Sinks[1].Columns = both.Sinks[0].Columns.Typed()
	if _, err := cat.CreateSource(user, both); code(err) != catalog.BadRequest || !strings.Contains(err.Error(), "types") {
		t.Errorf("error %v", err)
	}
	both.Sinks[0].Columns, both.Sinks[0].TableID, both.Sinks[1].TableID = both.Sinks[1].Columns, "in.c-web.typed", "in.c-web.typed"
	done(t, cat)(cat.CreateSource(user, both))
}

// TestTypesOfColumnsPersist checks that a catalog that is opened again has the types and options of its columns.
func TestTypesOfColumnsPersist(t *testing.T) {
	store := newMemory()
	typed := mapping.Columns{
		mapping.UUID("id", mapping.DataType(datatype.UUID)),
		mapping.Path("n", "n", mapping.DataType(datatype.Decimal(6, 2)), mapping.With(mapping.TypeOptions{Required: true, Round: true})),
		mapping.Path("at", "at", mapping.DataType(datatype.Timestamp), mapping.Epoch(mapping.EpochMillis), mapping.Default(0)),
		mapping.Body("b"),
	}
	web := spec("Web", "a")
	web.Sinks[0].Columns = typed
	eng := openEngine(t, forebay.Options{})
	cat, err := catalog.Open(t.TempDir(), eng, catalog.Options{Store: store})
	must(t, err)
	done(t, cat)(cat.CreateSource(user, web))
	must(t, cat.Close())
	again := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store})
	_, sink, err := again.Sink("web", "a")
	if err != nil || !reflect.DeepEqual(sink.Columns, typed) {
		t.Errorf("got %+v %v, want %+v", sink.Columns, err, typed)
	}
	rendered, err := again.Render("web", "", mapping.JSON([]byte(`{"n":1.005,"at":null}`)))
	if err != nil || len(rendered) != 1 {
		t.Fatalf("got %+v %v, want no error and len(rendered) == 1", rendered, err)
	}
	if cells := rendered[0].Cells; cells[1].Value != "1.00" || cells[1].Type != "decimal(6,2)" || !cells[2].Null || cells[3].Null {
		t.Errorf("cells %+v", cells)
	}
}

// TestBrokenTableDoesNotBlockItsSource checks that a table that was changed from outside concerns its sink alone, and the task says so.
func TestBrokenTableDoesNotBlockItsSource(t *testing.T) {
	mem := buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: mem})
	store := newMemory()
	cat := openCatalog(t, eng, catalog.Options{Store: store})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	mem.Alter("in.c-web.b", datatype.UntypedColumns("other")...)
	change := []catalog.SettingChange{{Key: "storage.level.staging.upload.trigger.count", Value: []byte("5")}}
	warned := func(task catalog.Task) {
		t.Helper()
		if len(task.Warnings) != 1 || task.Warnings[0].SinkID != "b" || !strings.Contains(task.Warnings[0].Message, `"in.c-web.b"`) ||
			!strings.Contains(task.Result, `"b"`) {
			t.Errorf("task %+v", task)
		}
	}
	warned(mustTask(cat.ChangeSettings(user, catalog.Ref{Source: "web"}, "", change)))
	if task := mustTask(cat.Disable(user, catalog.Ref{Source: "web"})); len(task.Warnings) > 0 {
		t.Errorf("task %+v", task)
	}
	warned(mustTask(cat.Enable(user, catalog.Ref{Source: "web"})))
	mustTask(cat.Delete(user, catalog.Ref{Source: "web"}))
	warned(mustTask(cat.Undelete(user, catalog.Ref{Source: "web"})))
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	if err := eng.Flush(t.Context(), "web", "a"); err != nil || len(mem.Rows("in.c-web.a")) != 1 {
		t.Errorf("the healthy sink: %v", err)
	}
	// A new start, whose engine knows nothing of before, takes the source as well.
	again := openEngine(t, forebay.Options{Target: mem})
	openCatalog(t, again, catalog.Options{Store: store.clone()})
	if _, ok := again.Source("web"); !ok {
		t.Error("after a restart the source is out of use")
	}
	// What a request asks for again must be right.
	task, err := cat.CreateSink(user, "web", catalog.SinkSpec{Name: "c", TableID: "in.c-web.b", Columns: columns()})
	failed(t, cat, task, err)
	mustTask(cat.Delete(user, catalog.Ref{Source: "web", Sink: "b"}))
	task, err = cat.CreateSink(user, "web", catalog.SinkSpec{Name: "b", TableID: "in.c-web.b", Columns: columns()})
	failed(t, cat, task, err)
}

// TestMappingsAreThoseOfTheEngine checks that the catalog accepts the mappings that the engine accepts, and the payload test shows the stored row.
func TestMappingsAreThoseOfTheEngine(t *testing.T) {
	for _, compat := range []bool{false, true} {
		eng := openEngine(t, forebay.Options{Mapping: mapping.Options{Compat: compat}})
		cat := openCatalog(t, eng, catalog.Options{Store: newMemory()})
		cols := mapping.Columns{mapping.Template("n", `Body("n")`)}
		if compat {
			cols = append(cols, mapping.Path("p", "a[", mapping.Default(1)))
		}
		task, err := cat.CreateSource(user, catalog.SourceSpec{Name: "Web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{Name: "a", TableID: "in.c-web.a", Columns: cols}}})
		done(t, cat)(task, err)
		want := "12345678901234567890123"
		if compat {
			want = "12345678901234567741440"
		}
		rec := mapping.JSON([]byte(`{"n":12345678901234567890123}`))
		rendered, err := cat.Render("web", "", rec)
		if err != nil || rendered[0].Cells[0].Value != want {
			t.Errorf("compat %v: the test shows %+v, %v", compat, rendered, err)
		}
	}
}
