package catalog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// accepts tells which secrets an engine accepts for the source web.
func accepts(eng *forebay.Engine, secrets ...string) string {
	var out strings.Builder
	for _, s := range secrets {
		mark := "-"
		if _, ok := eng.SourceWithSecret("web", s); ok {
			mark = "+"
		}
		out.WriteString(mark)
	}
	return out.String()
}

// Concurrent rotations wait for each other, and so does the task of another change of the source.
func TestRotationsAtOnce(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	rotateAtOnce(t, func() {
		if task, err := cat.Disable(user, catalog.Ref{Source: "web"}); err != nil {
			t.Errorf("a task meanwhile: %v", err)
		} else if task, err = cat.Wait(t.Context(), task.ID); err != nil || task.Status != catalog.Succeeded {
			t.Errorf("a task meanwhile ends as %+v, %v", task, err)
		}
	}, cat)
	if s, err := cat.Source("web"); err != nil || s.Version.Number != 22 || s.Disabled == nil {
		t.Errorf("the source has version %d and is disabled %v, %v; want version 22, disabled", s.Version.Number, s.Disabled != nil, err)
	}
}

// The same on two nodes that share their definitions.
func TestRotationsAtOnceOnTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, catalog.Options{})
		a, b := n.open("a"), n.open("b")
		done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
		rotateAtOnce(t, func() {
			for _, ref := range []catalog.Ref{{Source: "web"}, {Source: "web", Sink: "a"}} {
				if task, err := b.Disable(user, ref); err != nil {
					t.Errorf("a task meanwhile, which disables %v: %v", ref, err)
				} else if task, err = b.Wait(t.Context(), task.ID); err != nil || task.Status != catalog.Succeeded {
					t.Errorf("a task meanwhile, which disables %v, ends as %+v, %v", ref, task, err)
				}
			}
		}, a.Catalog)
		same(t, a, b)
		if s, err := a.Source("web"); err != nil || s.Version.Number != 22 || s.Disabled == nil {
			t.Errorf("the source has version %d and is disabled %v, %v; want version 22, disabled", s.Version.Number, s.Disabled != nil, err)
		}
		rotateAtOnce(t, func() {}, a.Catalog, b.Catalog)
		same(t, a, b)
		if s, err := a.Source("web"); err != nil || s.Version.Number != 42 {
			t.Errorf("the source has version %d, %v, want 42", s.Version.Number, err)
		}
	})
}

// rotateAtOnce rotates the secret of a source 20 times at once, on some nodes, while meanwhile runs.
func rotateAtOnce(t *testing.T, meanwhile func(), cats ...*catalog.Catalog) {
	t.Helper()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if _, err := cats[i%len(cats)].RotateSecret(t.Context(), user, "web", 0); err != nil {
				t.Errorf("rotation %d of 20 at once: %v, want nil", i, err)
			}
		})
	}
	group.Go(meanwhile)
	group.Wait()
}

// TestRotationWithOverlap follows the secrets of a source through rotations, restarts and all that changes a source.
func TestRotationWithOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		var eng *forebay.Engine
		var cat *catalog.Catalog
		open := func() {
			eng = openEngine(t, forebay.Options{})
			cat = openCatalog(t, eng, catalog.Options{Store: store})
		}
		open()
		mustTask := func(task catalog.Task, err error) { t.Helper(); done(t, cat)(task, err) }
		rotate := func(overlap time.Duration) string {
			t.Helper()
			s, err := cat.RotateSecret(t.Context(), user, "web", overlap)
			must(t, err)
			return s.Secret
		}
		mustTask(cat.CreateSource(user, spec("Web", "a")))
		source, _ := cat.Source("web")
		first := source.Secret
		want := func(what, marks string, secrets ...string) {
			t.Helper()
			if got := accepts(eng, secrets...); got != marks {
				t.Errorf("%s: the secrets are %s, want %s", what, got, marks)
			}
		}

		second := rotate(time.Hour)
		want("after a rotation with overlap", "++", first, second)
		source, _ = cat.Source("web")
		if left := time.Until(source.OldSecretUntil); left > time.Hour || left < time.Hour-time.Millisecond || !strings.Contains(source.Version.Description, "until "+catalog.Time(source.OldSecretUntil)) {
			t.Errorf("until %s, version %+v", source.OldSecretUntil, source.Version)
		}
		if v, content, err := cat.Version(catalog.Ref{Source: "web"}, source.Version.Number); err != nil || strings.Contains(string(store.records["version/source/web/0000000002"]), first) {
			t.Errorf("the version has a secret: %+v %+v %v", v, content, err)
		}
		open() // on the state that a crash would leave
		want("after a restart", "++", first, second)
		mustTask(cat.Disable(user, catalog.Ref{Source: "web"}))
		mustTask(cat.Enable(user, catalog.Ref{Source: "web"}))
		mustTask(cat.Rollback(user, catalog.Ref{Source: "web"}, 1, 0))
		want("after a rollback", "++", first, second)

		third := rotate(2 * time.Hour)
		want("after a second rotation with overlap", "-++", first, second, third)
		time.Sleep(2*time.Hour - 2*time.Millisecond)
		want("just before the end", "-++", first, second, third)
		time.Sleep(2 * time.Millisecond)
		want("at the end", "--+", first, second, third)
		open()
		want("at the end, after a restart", "--+", first, second, third)
		if !strings.Contains(string(store.records["source/web"]), second) {
			t.Error("the record has changed by itself")
		}
		mustTask(cat.Disable(user, catalog.Ref{Source: "web", Sink: "a"}))
		if strings.Contains(string(store.records["source/web"]), second) {
			t.Error("a secret that has ended is still stored after the next change")
		}

		fourth := rotate(catalog.MaxSecretOverlap)
		fifth := rotate(0)
		want("after a rotation without overlap", "--+", third, fourth, fifth)

		sixth := rotate(time.Hour)
		mustTask(cat.Delete(user, catalog.Ref{Source: "web"}))
		want("deleted", "--", fifth, sixth)
		mustTask(cat.Undelete(user, catalog.Ref{Source: "web"}))
		want("undeleted", "-+", fifth, sixth)

		seventh := rotate(time.Hour)
		other := forebay.OTLP
		mustTask(cat.UpdateSource(user, "web", catalog.SourcePatch{Type: &other}))
		want("of another type", "--", sixth, seventh)
		source, _ = cat.Source("web")
		eighth := source.Secret
		ninth := rotate(time.Hour)
		mustTask(cat.Rollback(user, catalog.Ref{Source: "web"}, 1, 0))
		source, _ = cat.Source("web")
		want("back to the first type", "---+", seventh, eighth, ninth, source.Secret)

		rotate(time.Hour)
		mustTask(cat.Delete(user, catalog.Ref{Source: "web"}))
		mustTask(cat.CreateSource(user, spec("Web")))
		want("created again", "-", source.Secret)
	})
}

func TestOverlapIsBounded(t *testing.T) {
	eng := openEngine(t, forebay.Options{})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web")))
	before, _ := cat.Source("web")
	for _, overlap := range []time.Duration{-1, catalog.MaxSecretOverlap + 1} {
		if _, err := cat.RotateSecret(t.Context(), user, "web", overlap); code(err) != catalog.BadRequest {
			t.Errorf("%s: got %v, want code(err) == %v", overlap, err, catalog.BadRequest)
		}
	}
	if after, _ := cat.Source("web"); after.Secret != before.Secret || after.Version != before.Version {
		t.Errorf("the source has changed: %v", after)
	}
}

// gatedTokens has every token wait for its gate.
type gatedTokens struct{ entered, gate chan struct{} }

func (g *gatedTokens) CreateToken(ctx context.Context, _, _ string) (catalog.Token, error) {
	g.entered <- struct{}{}
	select {
	case <-g.gate:
		return catalog.Token{ID: "1", Value: "v"}, nil
	case <-ctx.Done():
		return catalog.Token{}, ctx.Err()
	}
}

func (g *gatedTokens) DeleteToken(context.Context, string) error { return nil }

// TestChangeWaitsForAnother has changes without a task wait for the task of a sink. They wait for a while, and then are
// refused with its id, when it is sure that they are not made.
func TestChangeWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &gatedTokens{make(chan struct{}), make(chan struct{})}
		eng := openEngine(t, forebay.Options{})
		cat := openCatalog(t, eng, catalog.Options{Store: newMemory(), Tokens: tokens})
		mustTask := done(t, cat)
		mustTask(cat.CreateSource(user, spec("Web")))
		before, _ := cat.Source("web")
		sink := func(name string) catalog.Task {
			task, err := cat.CreateSink(user, "web", catalog.SinkSpec{Name: name, TableID: "in.c-web." + name, Columns: columns()})
			must(t, err)
			<-tokens.entered
			return task
		}
		task := sink("a")
		go func() {
			time.Sleep(15 * time.Second)
			tokens.gate <- struct{}{}
		}()
		after, err := cat.RotateSecret(t.Context(), user, "web", 0)
		if err != nil || after.Secret == before.Secret {
			t.Errorf("the rotation has not waited: %v", err)
		}
		mustTask(task, nil)

		task = sink("b")
		began := time.Now()
		for _, change := range []func() error{
			func() error { _, err := cat.RotateSecret(t.Context(), user, "web", 0); return err },
			func() error { return cat.ClearStatistics(t.Context(), catalog.Ref{Source: "web"}) },
		} {
			var refused *catalog.Error
			if err := change(); !errors.As(err, &refused) || refused.Code != catalog.Busy || refused.Task != task.ID {
				t.Errorf("got %v, want the task %s", err, task.ID)
			}
		}
		if waited := time.Since(began); waited != 40*time.Second {
			t.Errorf("two changes have waited %s, want 20 s each", waited)
		}
		tokens.gate <- struct{}{}
		mustTask(task, nil)
		synctest.Wait()
		if now, _ := cat.Source("web"); now.Secret != after.Secret {
			t.Error("the refused rotation was made later")
		}
		mustTask(cat.Disable(user, catalog.Ref{Source: "web"})) // nothing is held
	})
}
