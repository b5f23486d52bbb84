package catalog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// blockedImports is a cluster in which each import into a table waits for release, and has told started before.
type blockedImports struct {
	*nodes
	blocked          atomic.Bool
	started, release chan struct{}
}

func newBlockedImports(t *testing.T) *blockedImports {
	b := &blockedImports{started: make(chan struct{}, 10), release: make(chan struct{})}
	b.nodes = newNodes(t, catalog.Options{})
	b.opts.DropTable = b.target.Drop
	b.target.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op != buffertest.OpImport || !b.blocked.Load() {
			return nil
		}
		b.started <- struct{}{}
		select {
		case <-b.release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b
}

// exists reports whether there is a table.
func (b *blockedImports) exists(table string) bool { return b.target.Columns(table) != nil }

// An import that runs at one node while another node erases its source makes the table again. When it has ended the table is dropped, by the
// node or by the adopter of its instance, unless a sink uses the table by then.
func TestImportDuringErasure(t *testing.T) {
	const table = "in.c-web.a"
	for _, way := range []string{"node", "adopter", "used again"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newBlockedImports(t)
				a := cluster.open("a")
				eng := openEngine(t, forebay.Options{Target: cluster.target})
				b := cluster.openWith("b", "b", eng)
				done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
				same(t, a, b)
				ingest(t, eng, "web", false)
				cluster.blocked.Store(true)
				flushed := make(chan error, 1)
				go func() { flushed <- eng.FlushAll(context.WithoutCancel(t.Context())) }()
				<-cluster.started
				if way == "adopter" {
					if err := errors.Join(b.Close(), eng.Remove(t.Context(), "web")); err != nil { // an adopted engine has no sources
						t.Fatal(err)
					}
				}
				done(t, a.Catalog)(a.EraseSource("web"))
				if cluster.exists(table) {
					t.Fatal("the table is there after the erasure")
				}
				if way == "used again" {
					done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
				}
				cluster.blocked.Store(false)
				close(cluster.release)
				<-flushed
				if way == "adopter" {
					adopted, err := a.Adopt("b", 2, eng)
					must(t, err)
					if !cluster.exists(table) {
						t.Error("the import has not made the table again: nothing is tested")
					}
					must(t, adopted.Finish(t.Context()))
					adopted.Close()
				}
				time.Sleep(time.Minute) // the repairs
				synctest.Wait()
				if want := way == "used again"; cluster.exists(table) != want {
					t.Errorf("the table is there: %v, want %v", cluster.exists(table), want)
				}
				if way != "adopter" {
					same(t, a, b)
				}
				done(t, a.Catalog)(a.CreateSource(user, spec("Next", "a"))) // nothing is held permanently
			})
		})
	}
}

// A new sink for a table that another node drops again waits for that, and its table stays.
func TestNewSinkWhileATableIsDroppedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newBlockedImports(t)
		dropping, release := make(chan struct{}, 10), make(chan struct{})
		var slow atomic.Bool
		cluster.opts.DropTable = func(ctx context.Context, table string) error {
			if slow.Load() {
				dropping <- struct{}{}
				<-release
			}
			return cluster.target.Drop(ctx, table)
		}
		a, b := cluster.open("a"), cluster.open("b")
		done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
		same(t, a, b)
		ingest(t, b.eng, "web", false)
		cluster.blocked.Store(true)
		flushed := make(chan error, 1)
		go func() { flushed <- b.eng.FlushAll(context.WithoutCancel(t.Context())) }()
		<-cluster.started
		done(t, a.Catalog)(a.EraseSource("web"))
		slow.Store(true)
		cluster.blocked.Store(false)
		close(cluster.release)
		<-flushed
		select {
		case <-dropping: // b has begun
		case <-time.After(10 * time.Minute):
			t.Fatal("the node that has made the table again does not drop it")
		}
		made := make(chan catalog.Task, 1)
		go func() {
			task, err := a.CreateSource(user, spec("Web", "a"))
			if err != nil {
				t.Error(err)
			}
			made <- task
		}()
		time.Sleep(time.Second)
		select {
		case task := <-made:
			close(release)
			t.Fatalf("the source was begun while its table is dropped: %+v", task)
		default:
		}
		slow.Store(false)
		close(release)
		done(t, a.Catalog)(<-made, nil)
		same(t, a, b)
		ingest(t, b.eng, "web", true)
		if rows := cluster.target.Rows("in.c-web.a"); len(rows) != 1 {
			t.Errorf("the table has %v, want the row of the new source alone", rows)
		}
	})
}
