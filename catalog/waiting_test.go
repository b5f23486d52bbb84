package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// register makes tokens and knows which are left.
type register struct {
	mu   sync.Mutex
	made int
	live map[string]bool
}

func (r *register) CreateToken(context.Context, string, string) (catalog.Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	id := fmt.Sprint(r.made)
	r.live[id] = true
	return catalog.Token{ID: id, Value: "secret"}, nil
}

func (r *register) DeleteToken(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, id)
	return nil
}

func (r *register) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id]
}

// TestWaitingRowsFlow ends a sink in every way while its rows wait for a table that is away. They reach it when it is
// back, and the token that they need lives until then and no longer.
func TestWaitingRowsFlow(t *testing.T) {
	for name, end := range map[string]func(*catalog.Catalog) (catalog.Task, error){
		"disable sink": func(c *catalog.Catalog) (catalog.Task, error) {
			return c.Disable(user, catalog.Ref{Source: "web", Sink: "a"})
		},
		"delete sink": func(c *catalog.Catalog) (catalog.Task, error) {
			return c.Delete(user, catalog.Ref{Source: "web", Sink: "a"})
		},
		"disable source": func(c *catalog.Catalog) (catalog.Task, error) { return c.Disable(user, catalog.Ref{Source: "web"}) },
		"delete source":  func(c *catalog.Catalog) (catalog.Task, error) { return c.Delete(user, catalog.Ref{Source: "web"}) },
		"another bucket": func(c *catalog.Catalog) (catalog.Task, error) {
			table := "in.c-other.a"
			return c.UpdateSink(user, "web", "a", catalog.SinkPatch{TableID: &table})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				var away atomic.Bool
				away.Store(true)
				mem.Before = func(_ context.Context, c buffertest.Call) error {
					if c.Op == buffertest.OpImport && away.Load() {
						return errors.New("away")
					}
					return nil
				}
				eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: mem, Staging: mem})
				must(t, err)
				tokens := &register{live: map[string]bool{}}
				cat, err := catalog.Open("", eng, catalog.Options{Store: newMemory(), Tokens: tokens})
				must(t, err)
				defer func() {
					if err := errors.Join(cat.Close(), eng.Close()); err != nil {
						t.Error(err)
					}
				}()
				mustTask := done(t, cat)
				mustTask(cat.CreateSource(user, spec("Web", "a")))
				for range 3 {
					ingest(t, eng, "web", false)
				}
				token, _ := cat.Handle("web", "a").Token()
				mustTask(end(cat))
				time.Sleep(5 * time.Minute) // several sweeps
				if n := len(mem.Rows("in.c-web.a")); n != 0 || !tokens.has(token.ID) {
					t.Errorf("while the table is away it has %d rows, and the token is there: %t", n, tokens.has(token.ID))
				}
				away.Store(false)
				time.Sleep(10 * time.Minute)
				if n := len(mem.Rows("in.c-web.a")); n != 3 || tokens.has(token.ID) {
					t.Errorf("the table has %d rows, want 3, and the token is there: %t", n, tokens.has(token.ID))
				}
			})
		})
	}
}
