package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/driver"
)

// sole are tables that one node at a time may use. A call that overlaps with a call of another node fails, and so does the test.
type sole struct {
	t testing.TB

	mu      sync.Mutex
	inside  map[string]int // calls by node
	imports map[string]int // that have succeeded, by node
}

// soleTables are the tables as a node sees them.
type soleTables struct {
	*dir.TableDir
	*sole
	node string
}

func (s *soleTables) Alone(string) string { return "all tables of the test" }

// with makes a call, and gives other nodes a moment to come between.
func (s *soleTables) with(call func() error) error {
	s.mu.Lock()
	s.inside[s.node]++
	if len(s.inside) > 1 {
		s.t.Errorf("nodes use the tables beside each other: %v", s.inside)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inside[s.node]--; s.inside[s.node] == 0 {
			delete(s.inside, s.node)
		}
	}()
	<-time.After(50 * time.Millisecond)
	return call()
}

func (s *soleTables) Ensure(ctx context.Context, t driver.Table) error {
	return s.with(func() error { return s.TableDir.Ensure(ctx, t) })
}

func (s *soleTables) Import(ctx context.Context, f *driver.File) error {
	err := s.with(func() error { return s.TableDir.Import(ctx, f) })
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.imports[s.node]++
	}
	return err
}

// Tables that one node at a time may use are fed by three nodes, and by the node that takes over from a lost one.
func TestOneImporterAtATime(t *testing.T) {
	t.Parallel()
	s := &sole{t: t, inside: map[string]int{}, imports: map[string]int{}}
	c := startNodes(t, false, func(c *nodes) {
		c.target = func(node string) driver.Target { return &soleTables{dir.Tables(c.tables()), s, node} }
	})
	c.define()
	var want []string
	send := func(node int) {
		t.Helper()
		id := fmt.Sprintf("%04d", len(want))
		if status := c.post(node, id); status != http.StatusOK {
			t.Fatalf("event %s: status %d", id, status)
		}
		want = append(want, id)
	}
	for range 5 {
		var flushing sync.WaitGroup
		for i, n := range c.list {
			send(i)
			send(i)
			flushing.Go(func() {
				if err := n.Engine().FlushAll(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		flushing.Wait()
	}
	if got := c.ids(); !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
	s.mu.Lock()
	for _, name := range []string{"a", "b", "c"} {
		if s.imports[name] < 5 {
			t.Errorf("imports by node: %v", s.imports)
		}
	}
	s.mu.Unlock()
	send(0)
	c.close(0)
	send(1)
	if err := c.list[1].Engine().FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(func() error {
		if got := c.ids(); !slices.Equal(got, want) {
			return fmt.Errorf("the table has %q, want %q", got, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
