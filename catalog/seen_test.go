package catalog_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// A change that was made for an old version is refused, and leaves no trace.
func TestChangeOfAnOldVersion(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	mustTask := done(t, cat)
	mustTask(cat.CreateSource(user, spec("Web", "a")))
	web, a := catalog.Ref{Source: "web"}, catalog.Ref{Source: "web", Sink: "a"}
	describe := func(text string, seen int) (catalog.Task, error) {
		return cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Description: &text, Seen: seen})
	}
	mustTask(describe("one", 1))
	for name, change := range map[string]func() (catalog.Task, error){
		"update of an old version":      func() (catalog.Task, error) { return describe("lost", 1) },
		"update of a version to come":   func() (catalog.Task, error) { return describe("lost", 3) },
		"rollback seen from an old one": func() (catalog.Task, error) { return cat.Rollback(user, a, 1, 1) },
		"rollback of the source":        func() (catalog.Task, error) { return cat.Rollback(user, web, 1, 2) },
	} {
		if _, err := change(); code(err) != catalog.VersionChanged {
			t.Errorf("%s: got %v, want code(err) == %v", name, err, catalog.VersionChanged)
		}
	}
	if _, sink, err := cat.Sink("web", "a"); err != nil || sink.Version.Number != 2 || sink.Description != "one" {
		t.Errorf("got %+v, %v, want no error and sink.Version.Number == 2 and sink.Description == \"one\"", sink, err)
	}
	mustTask(describe("two", 2))
	mustTask(describe("three", 0))
	mustTask(cat.Rollback(user, a, 1, 4))
	mustTask(cat.Rollback(user, web, 1, 1))
	if _, sink, err := cat.Sink("web", "a"); err != nil || sink.Version.Number != 5 || sink.Description != "" {
		t.Errorf("got %+v, %v, want no error and sink.Version.Number == 5 and sink.Description == \"\"", sink, err)
	}
}

// Of many callers who change the same version at once, one succeeds. The others get an error.
func TestChangesOfOneVersionAtOnce(t *testing.T) {
	cat := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: newMemory()})
	done(t, cat)(cat.CreateSource(user, spec("Web", "a")))
	const callers, rounds = 8, 10
	for round := range rounds {
		_, before, err := cat.Sink("web", "a")
		must(t, err)
		var saved atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				text := fmt.Sprintf("%d by %d", round, i)
				for {
					task, err := cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Description: &text, Seen: before.Version.Number})
					switch {
					case code(err) == catalog.Busy: // as a caller whose request comes when the first change has ended
						continue
					case code(err) == catalog.VersionChanged:
						return
					case err != nil:
						t.Error(err)
						return
					}
					if task, err = cat.Wait(t.Context(), task.ID); err != nil || task.Status != catalog.Succeeded {
						t.Error(task, err)
					}
					saved.Add(1)
					return
				}
			})
		}
		wg.Wait()
		if _, after, err := cat.Sink("web", "a"); err != nil || saved.Load() != 1 || after.Version.Number != before.Version.Number+1 {
			t.Errorf("round %d: %d have saved, version %d after %d, %v", round, saved.Load(), after.Version.Number, before.Version.Number, err)
		}
	}
}
