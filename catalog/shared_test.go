package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
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
	"github.com/forebay/forebay/internal/synctest"
)

// node is a catalog with its engine on a shared log.
type node struct {
	*catalog.Catalog
	eng   *forebay.Engine
	store *sharedMemory
	// deaf means that requests of other nodes do not arrive.
	deaf atomic.Bool
	// respond, if not nil, changes the response of the node.
	respond func(request, respond []byte) []byte
}

// Ask implements [catalog.Peers] for all nodes. Each ignores its own requests.
func (n *nodes) Ask(ctx context.Context, request []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		n.mu.Lock()
		all := slices.Clone(n.all)
		n.mu.Unlock()
		for _, one := range all {
			if one.deaf.Load() {
				continue
			}
			response := one.Respond(ctx, request)
			if one.respond != nil {
				response = one.respond(request, response)
			}
			if response != nil && !yield(response, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

// nodes are a cluster. All of them have the same target.
type nodes struct {
	t      *testing.T
	log    *sharedLog
	target *buffertest.Memory
	opts   catalog.Options

	mu  sync.Mutex
	all []*node
}

func newNodes(t *testing.T, opts catalog.Options) *nodes {
	return &nodes{t: t, log: newSharedLog(), target: buffertest.NewMemory(), opts: opts}
}

// open opens a node with a name. Its engine begins with an empty folder.
func (n *nodes) open(name string) *node {
	n.t.Helper()
	return n.openWith(name, name, openEngine(n.t, forebay.Options{Target: n.target}))
}

// openWith opens a node with an engine, which has the name of an instance.
func (n *nodes) openWith(name, instance string, eng *forebay.Engine) *node {
	n.t.Helper()
	store := openShared(n.log)
	opts := n.opts
	opts.Shared = catalog.SharedOptions{Store: store, Node: name, Instance: instance, Peers: n}
	cat, err := catalog.Open(filepath.Join(n.t.TempDir(), "catalog"), eng, opts)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := cat.Close(); err != nil {
			n.t.Error(err)
		}
	})
	one := &node{Catalog: cat, eng: eng, store: store}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, one)
	return one
}

// three opens three nodes.
func (n *nodes) three() []*node { return []*node{n.open("a"), n.open("b"), n.open("c")} }

// same checks that all nodes have the same definitions, tasks and versions, and their engines too.
func same(t *testing.T, all ...*node) {
	t.Helper()
	text := func(n *node) (s string) {
		must(t, n.CatchUp(t.Context()))
		for _, deleted := range []bool{false, true} {
			for _, src := range n.Sources(deleted) {
				s += fmt.Sprintf("source %s %v %d %s %v %v\n", src.ID, deleted, src.Version.Number, src.Secret, src.Disabled != nil, src.Settings)
				_, sinks, _ := n.Sinks(src.ID, false)
				for _, sink := range sinks {
					token, _ := n.Handle(src.ID, sink.ID).Token()
					versions, err := n.Versions(catalog.Ref{Source: src.ID, Sink: sink.ID})
					s += fmt.Sprintf("  sink %s %s %s %q %s %d %v\n", sink.ID, sink.TableID, sink.Description, token.ID, token.Value, len(versions), err)
				}
			}
		}
		for _, task := range n.Tasks() {
			s += fmt.Sprintf("task %s %s %s %s\n", task.ID, task.Status, task.Result, task.Failure)
		}
		return s
	}
	want := text(all[0])
	for _, n := range all[1:] {
		if got := text(n); got != want {
			t.Errorf("nodes differ:\n%s\n%s", want, got)
		}
	}
	synctest.Wait() // the engines follow
	for _, n := range all {
		for _, src := range n.Sources(false) {
			def, ok := n.eng.Source(src.ID)
			_, sinks, _ := n.Sinks(src.ID, false)
			if !ok || def.Secret != src.Secret || len(def.Sinks) != len(sinks) {
				t.Errorf("the engine has %v for %v", def, src)
			}
			for _, sink := range sinks {
				i := slices.IndexFunc(def.Sinks, func(s forebay.Sink) bool { return s.ID == sink.ID })
				if i < 0 || def.Sinks[i].Table.ID != sink.TableID || def.Sinks[i].Disabled != (sink.DisabledWith(src) != nil) {
					t.Errorf("the engine has %v for %v", def, sink)
				}
			}
		}
		for _, src := range n.Sources(true) {
			if _, ok := n.eng.Source(src.ID); ok {
				t.Errorf("the engine has the deleted source %s", src.ID)
			}
		}
	}
}

// TestSharedChanges makes each kind of change through another node.
func TestSharedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &countingTokens{live: map[string]bool{}}
		all := newNodes(t, catalog.Options{Tokens: tokens}).three()
		turn := 0
		next := func() *node { turn++; return all[turn%3] }
		do := func(change func(n *node) (catalog.Task, error)) {
			t.Helper()
			n := next()
			must(t, n.CatchUp(t.Context()))
			done(t, n.Catalog)(change(n))
			same(t, all...)
		}
		web, a := catalog.Ref{Source: "web"}, catalog.Ref{Source: "web", Sink: "a"}
		do(func(n *node) (catalog.Task, error) { return n.CreateSource(user, spec("Web", "a", "b")) })
		do(func(n *node) (catalog.Task, error) { return n.CreateSink(user, "web", spec("x", "c").Sinks[0]) })
		do(func(n *node) (catalog.Task, error) {
			text := "new"
			return n.UpdateSink(user, "web", "a", catalog.SinkPatch{Description: &text})
		})
		for _, n := range all { // also one that has not caught up
			if _, err := n.Rollback(user, a, 1, 1); code(err) != catalog.VersionChanged {
				t.Errorf("a rollback of a version that another node has replaced: %v", err)
			}
		}
		do(func(n *node) (catalog.Task, error) { return n.Rollback(user, a, 1, 2) })
		do(func(n *node) (catalog.Task, error) { return n.Disable(user, a) })
		do(func(n *node) (catalog.Task, error) { return n.Enable(user, a) })
		do(func(n *node) (catalog.Task, error) { return n.Delete(user, web) })
		do(func(n *node) (catalog.Task, error) { return n.Undelete(user, web) })
		secret := ""
		for range 3 {
			src, err := next().RotateSecret(t.Context(), user, "web", time.Hour)
			if err != nil || src.Secret == secret {
				t.Fatal(src, err)
			}
			secret = src.Secret
			same(t, all...)
		}
		if _, err := next().CreateSource(user, spec("Web")); code(err) != catalog.SourceAlreadyExists {
			t.Errorf("a second create gives %v", err)
		}
		do(func(n *node) (catalog.Task, error) { return n.Delete(user, web) })
		do(func(n *node) (catalog.Task, error) { return n.CreateSource(user, spec("Web", "d")) })
	})
}

// TestSharedErase has rows of the source wait on every node.
func TestSharedErase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped []string
		cluster := newNodes(t, catalog.Options{DropTable: func(_ context.Context, table string) error {
			dropped = append(dropped, table)
			return nil
		}})
		all := cluster.three()
		done(t, all[0].Catalog)(all[0].CreateSource(user, spec("Web", "a")))
		same(t, all...)
		for _, n := range all {
			ingest(t, n.eng, "web", false)
		}
		done(t, all[1].Catalog)(all[1].EraseSource("web"))
		same(t, all...)
		if !slices.Equal(slices.Compact(dropped), []string{"in.c-web.a"}) {
			t.Errorf("dropped %v", dropped)
		}
		for i, n := range all {
			for _, s := range n.eng.Stats().Sinks {
				if s.Local.Rows+s.Staging.Rows+s.Target.Rows+s.Discarded.Rows > 0 {
					t.Errorf("node %d still counts %+v", i, s)
				}
			}
		}
		done(t, all[2].Catalog)(all[2].CreateSource(user, spec("Web", "a")))
		same(t, all...)
	})
}

// TestSharedRace changes one sink, and others of its source, through all nodes at once.
func TestSharedRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		all := cluster.three()
		for i, n := range all {
			rng := rand.New(rand.NewPCG(1, uint64(i))) // only one append of a node runs at a time
			n.store.before = func(int64) error {
				time.Sleep(time.Duration(rng.IntN(int(10 * time.Millisecond))))
				return nil
			}
			n.store.after = func(int64) error {
				if rng.IntN(10) == 0 {
					return errCut // the response is lost
				}
				return nil
			}
		}
		done(t, all[0].Catalog)(all[0].CreateSource(user, spec("Web", "a")))
		// untilFree makes a change that others may be in the way of.
		untilFree := func(n *node, change func() (catalog.Task, error)) {
			for {
				task, err := change()
				var away *catalog.JournalError
				if code(err) == catalog.Busy || errors.As(err, &away) { // even if the outcome is unknown, because the change was not begun then
					time.Sleep(50 * time.Millisecond)
					continue
				}
				if err == nil {
					task, err = n.Wait(t.Context(), task.ID)
				}
				if err != nil || task.Status != catalog.Succeeded {
					t.Errorf("task %+v, %v", task, err)
				}
				return
			}
		}
		var work sync.WaitGroup
		const each = 5
		for i, n := range all {
			for round := range each {
				work.Go(func() {
					text := fmt.Sprintf("%d-%d", i, round)
					untilFree(n, func() (catalog.Task, error) {
						return n.UpdateSink(user, "web", "a", catalog.SinkPatch{Description: &text})
					})
				})
			}
			work.Go(func() {
				untilFree(n, func() (catalog.Task, error) {
					return n.CreateSink(user, "web", spec("x", fmt.Sprintf("n%d", i)).Sinks[0])
				})
			})
		}
		work.Wait()
		same(t, all...)
		for _, n := range all {
			versions, err := n.Versions(catalog.Ref{Source: "web", Sink: "a"})
			must(t, err)
			for i, v := range versions {
				if v.Number != i+1 {
					t.Errorf("version %d in the place of %d", v.Number, i+1)
				}
			}
			if len(versions) != 1+3*each {
				t.Errorf("got %d versions, want %v", len(versions), 1+3*each)
			}
			if _, sinks, _ := n.Sinks("web", false); len(sinks) != 4 {
				t.Errorf("got %d sinks, want 4", len(sinks))
			}
		}
	})
}

// TestSharedLimit creates the last source that there may be through two nodes at once.
func TestSharedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &gatedTokens{entered: make(chan struct{}), gate: make(chan struct{})}
		cluster := newNodes(t, catalog.Options{Tokens: tokens})
		a, b := cluster.open("a"), cluster.open("b")
		for i := range forebay.DefaultMaxSources - 1 {
			done(t, a.Catalog)(a.CreateSource(user, spec(fmt.Sprintf("s%d", i))))
		}
		task, err := a.CreateSource(user, spec("last", "x"))
		must(t, err)
		<-tokens.entered
		if _, err := b.CreateSource(user, spec("another")); code(err) != catalog.SourceLimit {
			t.Errorf("one source too many gives %v", err)
		}
		close(tokens.gate)
		done(t, a.Catalog)(task, nil)
		same(t, a, b)
		// One goes through a node, and another comes through the other, whose engine has to let the first go.
		done(t, a.Catalog)(a.Delete(user, catalog.Ref{Source: "s0"}))
		done(t, b.Catalog)(b.CreateSource(user, spec("another")))
		same(t, a, b)
	})
}

// TestSharedCatchUp closes one node and cuts off another while the third makes changes.
func TestSharedCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		all := cluster.three()
		done(t, all[0].Catalog)(all[0].CreateSource(user, spec("Web", "a")))
		same(t, all...)
		must(t, all[2].Close())
		all[1].store.cut.Store(true)
		done(t, all[0].Catalog)(all[0].CreateSource(user, spec("More", "b")))
		done(t, all[0].Catalog)(all[0].Disable(user, catalog.Ref{Source: "web"}))
		done(t, all[0].Catalog)(all[0].CreateSink(user, "web", spec("x", "c").Sinks[0]))
		var away *catalog.JournalError
		if _, err := all[1].Delete(user, catalog.Ref{Source: "web"}); !errors.As(err, &away) {
			t.Errorf("a change without the journal gives %v", err)
		}
		if _, err := all[1].Source("web"); err != nil {
			t.Error(err)
		}
		all[1].store.cut.Store(false)
		same(t, all[0], all[1], cluster.open("c"))
	})
}

// TestSharedTables checks that of two nodes that begin to use one table at once, one waits.
func TestSharedTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &gatedTokens{entered: make(chan struct{}), gate: make(chan struct{})}
		cluster := newNodes(t, catalog.Options{})
		b := cluster.open("b")
		done(t, b.Catalog)(b.CreateSource(user, spec("Two")))
		cluster.opts.Tokens = tokens
		a := cluster.open("a")
		task, err := a.CreateSource(user, spec("One", "x"))
		must(t, err)
		<-tokens.entered
		_, err = b.CreateSink(user, "two", spec("x", "x").Sinks[0])
		var busy *catalog.Error
		if !errors.As(err, &busy) || busy.Code != catalog.Busy || busy.Task != task.ID {
			t.Errorf("the second user of the table gets %v", err)
		}
		if _, err := b.Delete(user, catalog.Ref{Source: "one"}); code(err) != catalog.SourceNotFound {
			t.Errorf("a source that is not there yet: %v", err)
		}
		if got, err := b.Task(task.ID); err != nil || got.Status != catalog.Processing {
			t.Errorf("the task is %+v, %v", got, err)
		}
		close(tokens.gate)
		if got, err := b.Wait(t.Context(), task.ID); err != nil || got.Status != catalog.Succeeded {
			t.Errorf("the task is %+v, %v", got, err)
		}
		done(t, b.Catalog)(b.CreateSink(user, "two", spec("x", "x").Sinks[0]))
	})
}

// TestSharedBusy checks that while a node changes a sink, no other node changes its source, or another sink of it.
func TestSharedBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		b := cluster.open("b")
		done(t, b.Catalog)(b.CreateSource(user, spec("Web", "a")))
		tokens := &gatedTokens{entered: make(chan struct{}), gate: make(chan struct{})}
		cluster.opts.Tokens = tokens
		a := cluster.open("a")
		task, err := a.CreateSink(user, "web", spec("x", "x").Sinks[0])
		must(t, err)
		<-tokens.entered
		time.Sleep(5 * time.Minute / 2) // the node beats, so that no other node ends its task
		_, deleted := b.Delete(user, catalog.Ref{Source: "web"})
		_, disabled := b.Disable(user, catalog.Ref{Source: "web", Sink: "a"})
		waited := make(chan error)
		go func() {
			_, err := b.RotateSecret(t.Context(), user, "web", 0)
			waited <- err
		}()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		if unlock, err := b.LockSource(soon, "web"); err != nil {
			t.Errorf("a change that waits for another node keeps the lock of the source, so this node cannot follow changes of it: %v", err)
		} else {
			unlock()
		}
		rotated := <-waited
		for what, err := range map[string]error{"delete": deleted, "disable": disabled, "rotate": rotated} {
			var busy *catalog.Error
			if !errors.As(err, &busy) || busy.Code != catalog.Busy || busy.Task != task.ID {
				t.Errorf("%s: got %v, want an error that names the running task %s", what, err, task.ID)
			}
		}
		close(tokens.gate)
		<-tokens.entered // the sink that had no token yet
		if got, err := b.Wait(t.Context(), task.ID); err != nil || got.Status != catalog.Succeeded {
			t.Errorf("the task is %+v, %v", got, err)
		}
		done(t, b.Catalog)(b.Delete(user, catalog.Ref{Source: "web"}))
		same(t, a, b)
	})
}

// TestSharedCheckpoint opens a copy as the catalog of a single engine.
func TestSharedCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{Tokens: &countingTokens{live: map[string]bool{}}})
		a := cluster.open("a")
		done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
		dir := filepath.Join(t.TempDir(), "copy")
		must(t, a.Checkpoint(dir))
		if err := a.Checkpoint(dir); err == nil {
			t.Error("a copy was replaced")
		}
		store, err := catalog.OpenStore(dir, slog.New(slog.DiscardHandler))
		must(t, err)
		for _, prefix := range []string{"hold/", "member/"} { // the nodes do not exist for the copy
			if err := store.Scan(prefix, func(key string, _ []byte) error { return errors.New(key) }); err != nil {
				t.Errorf("the copy has the record %v, want none of %s", err, prefix)
			}
		}
		must(t, store.Close())
		eng := openEngine(t, forebay.Options{})
		single, err := catalog.Open(dir, eng, catalog.Options{})
		must(t, err)
		t.Cleanup(func() {
			if err := single.Close(); err != nil {
				t.Error(err)
			}
		})
		same(t, a, &node{Catalog: single, eng: eng})
		done(t, single)(single.Disable(user, catalog.Ref{Source: "web"}))
	})
}

// A catalog that would write to a shared store as if it had the store for itself is not opened.
func TestSharedOptionsAreChecked(t *testing.T) {
	for want, opts := range map[string]catalog.Options{
		"Shared.Node is empty": {Shared: catalog.SharedOptions{Store: openShared(newSharedLog())}},
		"Shared.Lease is 1s":   {Shared: catalog.SharedOptions{Store: openShared(newSharedLog()), Node: "a", Lease: time.Second}},
		"to a SharedStore":     {Store: openShared(newSharedLog())},
		"next to Options.Shared": {
			Store: newMemory(), Shared: catalog.SharedOptions{Store: openShared(newSharedLog()), Node: "a"},
		},
	} {
		if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	opts := catalog.Options{Shared: catalog.SharedOptions{Store: openShared(newSharedLog()), Node: "a"}}
	if err := opts.Validate(); err != nil {
		t.Errorf("got %v for a shared store and a node, want no error", err)
	}
}
