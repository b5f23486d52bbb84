package catalog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// TestNewSinkDuringErasure makes sinks for a table while it is erased. Sinks begun before keep the table, sinks
// requested later are refused, even after a restart, and those in between wait and get their own table.
func TestNewSinkDuringErasure(t *testing.T) {
	shared := func(name string) catalog.SourceSpec {
		s := spec(name, "a")
		s.Sinks[0].TableID = "in.c-web.a"
		return s
	}
	// setting is a catalog with the source web, whose drops of tables wait for release.
	type setting struct {
		mem      *buffertest.Memory
		eng      *forebay.Engine
		store    *memory
		tokens   *gatedTokens
		cat      *catalog.Catalog
		dropping chan struct{}
		release  chan struct{}
	}
	open := func(t *testing.T, tokens *gatedTokens) *setting {
		s := &setting{
			mem: buffertest.NewMemory(), store: newMemory(), tokens: tokens,
			dropping: make(chan struct{}, 10), release: make(chan struct{}),
		}
		s.eng = openEngine(t, forebay.Options{Target: s.mem})
		opts := catalog.Options{Store: s.store, DropTable: func(ctx context.Context, table string) error {
			s.dropping <- struct{}{}
			select {
			case <-s.release:
				return s.mem.Drop(ctx, table)
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		if tokens != nil {
			opts.Tokens = tokens
		}
		s.cat = openCatalog(t, s.eng, opts)
		return s
	}
	// erase returns when the first table of web is about to be dropped.
	erase := func(t *testing.T, s *setting) catalog.Task {
		t.Helper()
		erased, err := s.cat.EraseSource("web")
		must(t, err)
		<-s.dropping
		return erased
	}
	wait := func(t *testing.T, cat *catalog.Catalog, id string) catalog.Task {
		t.Helper()
		task, err := cat.Wait(t.Context(), id)
		must(t, err)
		return task
	}

	t.Run("begun before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tokens := &gatedTokens{make(chan struct{}, 1), make(chan struct{}, 1)}
			s := open(t, tokens)
			tokens.gate <- struct{}{}
			done(t, s.cat)(s.cat.CreateSource(user, shared("Web")))
			<-tokens.entered
			ingest(t, s.eng, "web", true)
			other, err := s.cat.CreateSource(user, shared("Other"))
			must(t, err)
			<-tokens.entered // the change has passed all checks and is on its way
			erased, err := s.cat.EraseSource("web")
			must(t, err)
			synctest.Wait()
			if len(s.dropping) > 0 {
				t.Error("the table is dropped while a sink begins to use it")
			}
			tokens.gate <- struct{}{}
			done(t, s.cat)(other, nil)
			if task := wait(t, s.cat, erased.ID); !task.Partial || !strings.Contains(task.Failure, `"in.c-web.a" stays: sink "a" of source "other" uses it`) {
				t.Errorf("got %+v, want a partial erasure that names the other user of the table", task)
			}
			ingest(t, s.eng, "other", true)
			if rows := s.mem.Rows("in.c-web.a"); len(rows) != 2 {
				t.Errorf("the table has %v", rows)
			}
		})
	})
	t.Run("asked for later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, nil)
			done(t, s.cat)(s.cat.CreateSource(user, spec("Web", "a", "b")))
			done(t, s.cat)(s.cat.CreateSource(user, spec("Other", "c")))
			old := shared("Old")
			done(t, s.cat)(s.cat.CreateSource(user, old))
			done(t, s.cat)(s.cat.Delete(user, catalog.Ref{Source: "old"}))
			erased := erase(t, s)
			refused := func(cat *catalog.Catalog) {
				t.Helper()
				table := "in.c-web.b"
				for what, change := range map[string]func() (catalog.Task, error){
					"a new source": func() (catalog.Task, error) { return cat.CreateSource(user, shared("New")) },
					"a new sink":   func() (catalog.Task, error) { return cat.CreateSink(user, "other", shared("x").Sinks[0]) },
					"another table": func() (catalog.Task, error) {
						return cat.UpdateSink(user, "other", "c", catalog.SinkPatch{TableID: &table})
					},
					"undeletion": func() (catalog.Task, error) { return cat.Undelete(user, catalog.Ref{Source: "old"}) },
				} {
					_, err := change()
					var busy *catalog.Error
					if !errors.As(err, &busy) || busy.Code != catalog.Busy || busy.Task != erased.ID {
						t.Errorf("%s: got %v, want the task of the erasure", what, err)
					}
				}
				done(t, cat)(cat.Disable(user, catalog.Ref{Source: "other", Sink: "c"})) // a change that does not use the tables continues
				done(t, cat)(cat.Enable(user, catalog.Ref{Source: "other", Sink: "c"}))
			}
			refused(s.cat)
			must(t, s.cat.Close())
			again := openCatalog(t, s.eng, catalog.Options{Store: s.store, DropTable: func(ctx context.Context, table string) error {
				<-s.release
				return s.mem.Drop(ctx, table)
			}})
			refused(again)
			close(s.release)
			if task := wait(t, again, erased.ID); task.Status != catalog.Succeeded {
				t.Errorf("got %+v, want task.Status == %v", task, catalog.Succeeded)
			}
			done(t, again)(again.CreateSource(user, shared("New")))
			done(t, again)(again.Undelete(user, catalog.Ref{Source: "old"}))
		})
	})
	t.Run("in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tokens := &gatedTokens{make(chan struct{}, 9), make(chan struct{}, 9)}
			s := open(t, tokens)
			tokens.gate <- struct{}{}
			done(t, s.cat)(s.cat.CreateSource(user, shared("Web")))
			done(t, s.cat)(s.cat.CreateSource(user, spec("Other")))
			ingest(t, s.eng, "web", true)
			// The first sink has the source, so that the second one passes its check before the erasure and is made after.
			first, err := s.cat.CreateSink(user, "other", catalog.SinkSpec{Name: "b", TableID: "in.c-web.b", Columns: columns()})
			must(t, err)
			synctest.Wait()
			second, err := s.cat.CreateSink(user, "other", shared("x").Sinks[0])
			must(t, err)
			synctest.Wait()
			erased := erase(t, s)
			tokens.gate <- struct{}{}
			tokens.gate <- struct{}{}
			done(t, s.cat)(first, nil)
			synctest.Wait()
			if task, _ := s.cat.Task(second.ID); task.Finished() {
				t.Errorf("the sink has not waited for the erasure of its table: %+v", task)
			}
			close(s.release)
			if task := wait(t, s.cat, erased.ID); task.Status != catalog.Succeeded {
				t.Errorf("got %+v, want task.Status == %v", task, catalog.Succeeded)
			}
			done(t, s.cat)(second, nil)
			ingest(t, s.eng, "other", true)
			if rows := s.mem.Rows("in.c-web.a"); len(rows) != 1 {
				t.Errorf("the table has %v, want the row of the new sink alone", rows)
			}
		})
	})
	t.Run("never ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, nil)
			done(t, s.cat)(s.cat.CreateSource(user, shared("Web")))
			erased := erase(t, s)
			began := time.Now()
			if task := wait(t, s.cat, erased.ID); task.Status != catalog.Failed || time.Since(began) > 10*time.Minute {
				t.Errorf("got %+v after %s, want a failure within 10 minutes", task, time.Since(began))
			}
			done(t, s.cat)(s.cat.CreateSource(user, shared("New"))) // the table is free
		})
	})
}

// TestErasedSourceIsNotCounted erases sources with and without sinks. No counter of them is left, and a source that is
// created again begins at zero.
func TestErasedSourceIsNotCounted(t *testing.T) {
	eng := openEngine(t, forebay.Options{})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory(), DropTable: func(context.Context, string) error { return nil }})
	mustTask := done(t, cat)
	for _, sinks := range [][]string{nil, {"a"}} {
		mustTask(cat.CreateSource(user, spec("Web", sinks...)))
		for _, sink := range sinks {
			mustTask(cat.Disable(user, catalog.Ref{Source: "web", Sink: sink}))
		}
		ingest(t, eng, "web", false)
		if n := eng.Stats().Dropped["web"]; n != 1 {
			t.Fatalf("with the sinks %v: %d events were dropped, want 1", sinks, n)
		}
		if err := eng.Forget(t.Context(), "web"); !errors.Is(err, buffer.ErrSinkInUse) {
			t.Errorf("a source that is defined is forgotten: %v", err)
		}
		mustTask(cat.EraseSource("web"))
		st := eng.Stats()
		for _, s := range st.Sinks {
			if !s.SinkStats.Dropped || s.Accepted != 0 || len(s.Rejected) != 0 {
				t.Errorf("erased, sink %s has %+v", s.Sink, s)
			}
		}
		if len(st.Dropped) != 0 {
			t.Errorf("with the sinks %v: erased, the counters are %v", sinks, st.Dropped)
		}
	}
}
