package catalog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// TestSharedPause pauses a node for longer than the lease, after its change was made in its engine and before it is committed.
func TestSharedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &countingTokens{live: map[string]bool{}}
		cluster := newNodes(t, catalog.Options{Tokens: tokens})
		a, b := cluster.open("a"), cluster.open("b")
		done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
		same(t, a, b)
		// The third append of a change with a new table decides. The three are hold and task, creation, definitions.
		asleep, wake := make(chan struct{}), make(chan struct{})
		a.store.appends.Store(0)
		var once sync.Once
		a.store.before = func(n int64) error {
			if n >= 3 {
				once.Do(func() { close(asleep) })
				<-wake
			}
			return nil
		}
		task, err := a.CreateSink(user, "web", spec("x", "b").Sinks[0])
		must(t, err)
		<-asleep
		if got, err := b.Wait(t.Context(), task.ID); err != nil || got.Status != catalog.Failed {
			t.Errorf("the task is %+v, %v", got, err)
		}
		done(t, b.Catalog)(b.Disable(user, catalog.Ref{Source: "web"}))
		close(wake)
		if got, err := a.Wait(t.Context(), task.ID); err != nil || got.Status != catalog.Failed {
			t.Errorf("the task is %+v, %v", got, err)
		}
		same(t, a, b)
		if _, sinks, _ := a.Sinks("web", false); len(sinks) != 1 {
			t.Errorf("sinks %v", sinks)
		}
		if _, used := a.Handle("web", "a").Token(); len(tokens.live) > 1 || !used {
			t.Errorf("tokens %v", tokens.live)
		}
	})
}

// TestSharedDeath stops a node permanently at each append of a change, before and after it is stored. Another node ends the remaining change.
func TestSharedDeath(t *testing.T) {
	changes := map[string]func(n *node) (catalog.Task, error){
		"create": func(n *node) (catalog.Task, error) { return n.CreateSource(user, spec("New", "x")) },
		"update": func(n *node) (catalog.Task, error) {
			table := "in.c-web.other"
			return n.UpdateSink(user, "web", "a", catalog.SinkPatch{TableID: &table})
		},
		"erase": func(n *node) (catalog.Task, error) { return n.EraseSource("web") },
	}
	for name, change := range changes {
		for step := int64(1); step <= 3; step++ {
			for _, stored := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, step, stored), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { dieAt(t, change, step, stored) })
				})
			}
		}
	}
}

func dieAt(t *testing.T, change func(n *node) (catalog.Task, error), step int64, stored bool) {
	drops := map[string]int{}
	var mu sync.Mutex
	cluster := newNodes(t, catalog.Options{DropTable: func(_ context.Context, table string) error {
		mu.Lock()
		defer mu.Unlock()
		drops[table]++
		return nil
	}})
	all := cluster.three()
	a, b := all[0], all[1]
	done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
	same(t, all...)
	a.store.appends.Store(0)
	die := func(n int64) error {
		if n >= step {
			a.store.cut.Store(true)
		}
		return a.store.check()
	}
	if a.store.before = die; stored {
		a.store.before, a.store.after = nil, die
	}
	task, _ := change(a) // it may fail. b tells what became of it
	time.Sleep(2 * time.Minute)
	if !a.store.cut.Load() {
		t.Fatalf("the change has fewer than %d appends", step)
	}
	must(t, b.CatchUp(t.Context()))
	for _, got := range b.Tasks() {
		if !got.Finished() {
			t.Errorf("task %+v", got)
		}
	}
	_, err := b.Source("web")
	erased := code(err) == catalog.SourceNotFound
	if mu.Lock(); erased != (drops["in.c-web.a"] > 0) {
		t.Errorf("the source is erased: %v, tables were dropped: %v", erased, drops)
	}
	mu.Unlock()
	if got, err := b.Task(task.ID); task.ID != "" && (err != nil || got.Status == catalog.Succeeded && got.Type == "api.delete.source" && !erased) {
		t.Errorf("the task is %+v, %v", got, err)
	}
	// The others can change all that the dead node had.
	if !erased {
		done(t, b.Catalog)(b.EraseSource("web"))
	}
	if _, err := b.Source("new"); err == nil {
		done(t, b.Catalog)(b.EraseSource("new"))
	}
	done(t, b.Catalog)(b.CreateSource(user, spec("Web", "a")))
	done(t, b.Catalog)(b.CreateSource(user, spec("New", "x")))
	same(t, b, all[2])
	// The node is back, with its old memory.
	a.store.before, a.store.after = nil, nil
	a.store.cut.Store(false)
	time.Sleep(2 * time.Minute)
	same(t, all...)
}
