package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// memory is a store whose commits can fail. It survives the catalogs on it, as a disk does.
type memory struct {
	mu      sync.Mutex
	records map[string][]byte
	fail    error
	commits int
}

func newMemory() *memory { return &memory{records: map[string][]byte{}} }

func (m *memory) Get(key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records[key]), nil
}

func (m *memory) Scan(prefix string, visit func(string, []byte) error) error {
	records := m.clone().records
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if strings.HasPrefix(key, prefix) {
			if err := visit(key, records[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) Commit(records map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.commits++
	for key, record := range records {
		if record == nil {
			delete(m.records, key)
		} else {
			m.records[key] = record
		}
	}
	return nil
}

func (m *memory) Close() error { return nil }

// clone returns the state that a crash at this moment leaves.
func (m *memory) clone() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memory{records: maps.Clone(m.records)}
}

func (m *memory) keys(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		if strings.HasPrefix(key, prefix) {
			list = append(list, key)
		}
	}
	return list
}

func openEngine(t *testing.T, opts forebay.Options) *forebay.Engine {
	t.Helper()
	if opts.Target == nil {
		opts.Target = buffertest.NewMemory()
	}
	eng, err := forebay.Open(t.TempDir(), opts)
	must(t, err)
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng
}

func openCatalog(t *testing.T, eng *forebay.Engine, opts catalog.Options) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog"), eng, opts)
	must(t, err)
	t.Cleanup(func() {
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
	})
	return cat
}

func columns() mapping.Columns { return mapping.Columns{mapping.UUID("id"), mapping.Body("body")} }

func spec(name string, sinks ...string) catalog.SourceSpec {
	s := catalog.SourceSpec{Name: name, Type: forebay.HTTP}
	for _, sink := range sinks {
		s.Sinks = append(s.Sinks, catalog.SinkSpec{Name: sink, TableID: "in.c-web." + sink, Columns: columns()})
	}
	return s
}

var user = catalog.By{Type: "user", TokenID: "1"}

// done waits for a task that must succeed.
func done(t *testing.T, cat *catalog.Catalog) func(catalog.Task, error) catalog.Task {
	return func(task catalog.Task, err error) catalog.Task {
		t.Helper()
		must(t, err)
		if task, err = cat.Wait(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
		if task.Status != catalog.Succeeded {
			t.Fatalf("task %s: %s", task.ID, task.Failure)
		}
		return task
	}
}

func code(err error) catalog.Code {
	var e *catalog.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestReopen checks that everything is there after the store was opened again, and that the engine follows it.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "catalog")
	for round := range 3 {
		eng := openEngine(t, forebay.Options{})
		cat, err := catalog.Open(dir, eng, catalog.Options{})
		must(t, err)
		mustTask := done(t, cat)
		if round == 0 {
			mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
		}
		mustTask(cat.Disable(user, catalog.Ref{Source: "web", Sink: "b"}))
		mustTask(cat.Enable(user, catalog.Ref{Source: "web", Sink: "b"}))
		source, sink, err := cat.Sink("web", "b")
		must(t, err)
		if want := 1 + 2*(round+1); sink.Version.Number != want {
			t.Errorf("round %d: version %d, want %d", round, sink.Version.Number, want)
		}
		def, ok := eng.Source("web")
		if !ok || def.Secret != source.Secret || len(def.Sinks) != 2 {
			t.Errorf("round %d: the engine has %v", round, def)
		}
		if versions, err := cat.Versions(catalog.Ref{Source: "web", Sink: "b"}); err != nil || len(versions) != sink.Version.Number {
			t.Errorf("round %d: versions %v, %v", round, versions, err)
		}
		must(t, cat.Close())
		if _, err := cat.Delete(user, catalog.Ref{Source: "web"}); !errors.Is(err, catalog.ErrClosed) {
			t.Errorf("a change after Close gives %v", err)
		}
	}
}

// TestReviveContinuesVersions checks the effect of a create on the id of a deleted source or sink.
func TestReviveContinuesVersions(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	first, _ := cat.Source("web")
	mustTask(cat.Delete(user, catalog.Ref{Source: "web"}))
	mustTask(cat.CreateSource(user, spec("Web", "b")))
	second, err := cat.Source("web")
	if err != nil || second.Version.Number != 2 || !second.Created.At.Equal(first.Created.At) || second.Secret == first.Secret {
		t.Errorf("revived source is %+v, %v", second, err)
	}
	if _, _, err := cat.Sink("web", "a"); code(err) != catalog.SinkNotFound {
		t.Errorf("old sink of a revived source: %v", err)
	}
	mustTask(cat.CreateSink(user, "web", catalog.SinkSpec{Name: "A", TableID: "in.c-web.a", Columns: columns()}))
	if _, s, err := cat.Sink("web", "a"); err != nil || s.Version.Number != 2 {
		t.Errorf("revived sink is %+v, %v", s, err)
	}
}

// TestOwnAndInheritedStates checks that deleting and undeleting a source leaves the marks of its sinks alone.
func TestOwnAndInheritedStates(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b", "c")))
	mustTask(cat.Delete(user, catalog.Ref{Source: "web", Sink: "a"}))
	mustTask(cat.Disable(user, catalog.Ref{Source: "web", Sink: "b"}))
	mustTask(cat.Disable(user, catalog.Ref{Source: "web"}))
	mustTask(cat.Delete(user, catalog.Ref{Source: "web"}))
	if _, err := cat.Disable(user, catalog.Ref{Source: "web", Sink: "c"}); code(err) != catalog.SourceNotFound {
		t.Errorf("a change of a sink of a deleted source: %v", err)
	}
	mustTask(cat.Undelete(user, catalog.Ref{Source: "web"}))
	source, sinks, err := cat.Sinks("web", false)
	if err != nil || source.Disabled == nil || len(sinks) != 2 || sinks[0].Disabled == nil || sinks[1].Disabled != nil || sinks[1].DisabledWith(source) == nil {
		t.Errorf("after undelete: %+v %+v %v", source, sinks, err)
	}
	enabled := mustTask(cat.Enable(user, catalog.Ref{Source: "web", Sink: "b"}))
	if !strings.Contains(enabled.Result, `source "web" is enabled`) {
		t.Errorf("result of enabling a sink of a disabled source: %q", enabled.Result)
	}
	mustTask(cat.Enable(user, catalog.Ref{Source: "web"}))
	if _, s, _ := cat.Sink("web", "b"); s.Disabled != nil {
		t.Error("the sink is still disabled")
	}
}

// TestNoChangeNoVersion checks that calls that change nothing use up no version.
func TestNoChangeNoVersion(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	name := "Web"
	mustTask(cat.UpdateSource(user, "web", catalog.SourcePatch{Name: &name}))
	mustTask(cat.ChangeSettings(user, catalog.Ref{Source: "web"}, "", nil))
	mustTask(cat.Enable(user, catalog.Ref{Source: "web"}))
	mustTask(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{}))
	source, sink, err := cat.Sink("web", "a")
	if err != nil || source.Version.Number != 1 || sink.Version.Number != 1 {
		t.Errorf("versions are %d and %d, %v", source.Version.Number, sink.Version.Number, err)
	}
}

// TestOldVersionsAreForgotten makes more versions than are kept.
func TestOldVersionsAreForgotten(t *testing.T) {
	store := newMemory()
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web")))
	for i := range catalog.MaxVersions + 4 {
		description := fmt.Sprint(i)
		mustTask(cat.UpdateSource(user, "web", catalog.SourcePatch{Description: &description}))
	}
	versions, err := cat.Versions(catalog.Ref{Source: "web"})
	if err != nil || len(versions) != catalog.MaxVersions || versions[0].Number != 6 {
		t.Errorf("got %d versions from %d, %v, want %d from 6, no error", len(versions), versions[0].Number, err, catalog.MaxVersions)
	}
	if _, err := cat.Rollback(user, catalog.Ref{Source: "web"}, 5, 0); code(err) != catalog.SourceVersionNotFound {
		t.Errorf("rollback to a forgotten version: %v", err)
	}
}

// TestFailedWriteIsUndone lets the write of a change fail. Neither the catalog nor the engine has any of it.
func TestFailedWriteIsUndone(t *testing.T) {
	store := newMemory()
	eng := openEngine(t, forebay.Options{})
	cat := openCatalog(t, eng, catalog.Options{Store: store})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	before, _ := eng.Source("web")
	store.mu.Lock()
	store.fail = errors.New("the disk is gone")
	store.mu.Unlock()
	if _, err := cat.RotateSecret(t.Context(), user, "web", 0); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("rotate: %v", err)
	}
	if after, _ := eng.Source("web"); after.Secret != before.Secret {
		t.Error("the engine has the new secret")
	}
	if source, _ := cat.Source("web"); source.Secret != before.Secret {
		t.Error("the catalog has the new secret")
	}
	store.mu.Lock()
	store.fail = nil
	store.mu.Unlock()
	mustTask(cat.Disable(user, catalog.Ref{Source: "web"}))
}

// slowTarget keeps its first Ensure waiting until the context of the call ends.
type slowTarget struct {
	*buffertest.Memory
	called  atomic.Bool
	entered chan struct{} // closed by the first call
}

func (s *slowTarget) Ensure(ctx context.Context, t driver.Table) error {
	if s.called.CompareAndSwap(false, true) {
		close(s.entered)
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Memory.Ensure(ctx, t)
}

// TestBusyAndInterrupted checks that a second change is refused while the first runs, and the effect of a stop on the first.
func TestBusyAndInterrupted(t *testing.T) {
	store := newMemory()
	target := &slowTarget{Memory: buffertest.NewMemory(), entered: make(chan struct{})}
	eng := openEngine(t, forebay.Options{Target: target})
	cat, err := catalog.Open("", eng, catalog.Options{Store: store})
	must(t, err)
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web")))
	task, err := cat.CreateSink(user, "web", catalog.SinkSpec{Name: "A", TableID: "in.c-web.a", Columns: columns()})
	must(t, err)
	<-target.entered
	_, err = cat.CreateSink(user, "web", catalog.SinkSpec{Name: "A", TableID: "in.c-web.a", Columns: columns()})
	var e *catalog.Error
	if !errors.As(err, &e) || e.Code != catalog.Busy || e.Task != task.ID {
		t.Errorf("a second create: %v", err)
	}
	must(t, cat.Close())
	again := openCatalog(t, eng, catalog.Options{Store: store})
	got, err := again.Task(task.ID)
	if err != nil || got.Status != catalog.Failed || !strings.Contains(got.Failure, "stopped") {
		t.Errorf("interrupted task is %+v, %v", got, err)
	}
	if _, _, err := again.Sink("web", "a"); code(err) != catalog.SinkNotFound {
		t.Errorf("sink of the interrupted task: %v", err)
	}
}

// TestCrashedTask opens a store in which a task has not ended, as after a crash.
func TestCrashedTask(t *testing.T) {
	store := newMemory()
	store.records["task/api.create.source/1/web/x"] = []byte(`{"id":"api.create.source/1/web/x","type":"api.create.source","sourceId":"web","status":"processing","createdAt":"2026-01-02T03:04:05Z"}`)
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store})
	task, err := cat.Task("api.create.source/1/web/x")
	if err != nil || task.Status != catalog.Failed || task.FinishedAt.IsZero() {
		t.Errorf("task is %+v, %v", task, err)
	}
}

// TestErase checks that nothing of an erased source is left, here and outside.
func TestErase(t *testing.T) {
	store := newMemory()
	eng := openEngine(t, forebay.Options{})
	var dropped []string
	drop := func(_ context.Context, table string) error {
		dropped = append(dropped, table)
		if table == "in.c-web.b" {
			return errors.New("somebody uses it")
		}
		return nil
	}
	cat := openCatalog(t, eng, catalog.Options{Store: store, DropTable: drop})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a", "b")))
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte("{}"))); err != nil {
		t.Fatal(err)
	}
	task, err := cat.EraseSource("web")
	must(t, err)
	task, err = cat.Wait(t.Context(), task.ID)
	if err != nil || task.Status != catalog.Failed || !task.Partial || !strings.Contains(task.Failure, "somebody uses it") {
		t.Errorf("task is %+v, %v", task, err)
	}
	if !slices.Equal(dropped, []string{"in.c-web.a", "in.c-web.b"}) {
		t.Errorf("dropped %v", dropped)
	}
	if keys := append(append(store.keys("source/"), store.keys("sink/")...), store.keys("version/")...); len(keys) > 0 {
		t.Errorf("records are left: %v", keys)
	}
	for _, s := range eng.Stats().Sinks {
		if s.Local.Rows+s.Staging.Rows != 0 {
			t.Errorf("rows of %s still wait", s.ID)
		}
	}
	mustTask(cat.CreateSource(user, spec("Web")))
	if s, _ := cat.Source("web"); s.Version.Number != 1 {
		t.Errorf("a source made after erasing has version %d", s.Version.Number)
	}
}

// TestLimits checks the counts of sources and sinks.
func TestLimits(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	mustTask := done(t, cat)
	for i := range forebay.DefaultMaxSources {
		mustTask(cat.CreateSource(user, spec(fmt.Sprint("s", i))))
	}
	if _, err := cat.CreateSource(user, spec("more")); code(err) != catalog.SourceLimit {
		t.Errorf("one source more: %v", err)
	}
	for i := range forebay.MaxSinks {
		mustTask(cat.CreateSink(user, "s0", catalog.SinkSpec{Name: fmt.Sprint("k", i), TableID: "in.c-web.k", Columns: columns()}))
	}
	if _, err := cat.CreateSink(user, "s0", catalog.SinkSpec{Name: "more", TableID: "in.c-web.k", Columns: columns()}); code(err) != catalog.SinkLimit {
		t.Errorf("one sink more: %v", err)
	}
	mustTask(cat.Delete(user, catalog.Ref{Source: "s1"}))
	mustTask(cat.CreateSource(user, spec("more")))
	if _, err := cat.Undelete(user, catalog.Ref{Source: "s1"}); code(err) != catalog.SourceLimit {
		t.Errorf("undelete above the limit: %v", err)
	}
}

// TestTasksAreForgotten lets time pass.
func TestTasksAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: buffertest.NewMemory()})
		must(t, err)
		cat, err := catalog.Open("", eng, catalog.Options{Store: store})
		must(t, err)
		defer func() {
			if err := errors.Join(cat.Close(), eng.Close()); err != nil {
				t.Error(err)
			}
		}()
		task := done(t, cat)(cat.CreateSource(user, spec("Web")))
		time.Sleep(59 * time.Minute)
		if _, err := cat.Task(task.ID); err != nil {
			t.Errorf("after 59 minutes: %v", err)
		}
		time.Sleep(3 * time.Minute)
		if _, err := cat.Task(task.ID); code(err) != catalog.TaskNotFound {
			t.Errorf("after 62 minutes: %v", err)
		}
		if keys := store.keys("task/"); len(keys) != 0 {
			t.Errorf("records are left: %v", keys)
		}
	})
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}
