package catalog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

// join opens a node whose way to the log is cut, or loses a response, when the node wants to join.
func join(t *testing.T, ctx context.Context, n *nodes, prepare func(*sharedMemory)) (*catalog.Catalog, error) {
	t.Helper()
	store := openShared(n.log)
	prepare(store)
	opts := n.opts
	opts.Shared = catalog.SharedOptions{Store: store, Node: "late", Instance: "late-1", Peers: n}
	cat, err := catalog.OpenContext(ctx, "", openEngine(t, forebay.Options{Target: n.target}), opts)
	if err == nil {
		t.Cleanup(func() {
			if err := cat.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return cat, err
}

// cutFor cuts a node off for a time.
func cutFor(s *sharedMemory, d time.Duration) {
	s.cut.Store(true)
	time.AfterFunc(d, func() { s.cut.Store(false) })
}

// loseResponse has the first append stored without a response, and then cuts the node off for a time.
func loseResponse(s *sharedMemory, d time.Duration) {
	s.after = func(n int64) error {
		if n > 1 {
			return nil
		}
		cutFor(s, d)
		return errCut
	}
}

// TestJoinWaits makes the outage of the journal much longer than the time of a commit, and the caller has more patience. The node is open
// when it is over, and the others know it.
func TestJoinWaits(t *testing.T) {
	for name, prepare := range map[string]func(*sharedMemory){
		"cut":           func(s *sharedMemory) { cutFor(s, 5*time.Minute) },
		"response lost": func(s *sharedMemory) { loseResponse(s, 5*time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNodes(t, catalog.Options{})
				first := n.open("first")
				done(t, first.Catalog)(first.CreateSource(user, spec("Web", "a")))
				began := time.Now()
				late, err := join(t, t.Context(), n, prepare)
				must(t, err)
				if waited := time.Since(began); waited < 5*time.Minute || waited > 6*time.Minute {
					t.Errorf("it has waited for %s", waited)
				}
				if _, err := late.Source("web"); err != nil {
					t.Error(err)
				}
				// The new node is not among the nodes that respond.
				if _, _, missing := counts(t, first); len(missing) != 1 || missing[0] != "late-1" {
					t.Errorf("of all members %q do not answer", missing)
				}
			})
		})
	}
}

// TestJoinEndsWithItsContext checks that the error says who waits, and for what.
func TestJoinEndsWithItsContext(t *testing.T) {
	for name, prepare := range map[string]func(*sharedMemory){
		"cut":           func(s *sharedMemory) { cutFor(s, time.Hour) },
		"response lost": func(s *sharedMemory) { loseResponse(s, time.Hour) },
	} {
		for _, patience := range []time.Duration{5 * time.Second, 2 * time.Minute} {
			t.Run(name+" "+patience.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNodes(t, catalog.Options{})
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					began := time.Now()
					_, err := join(t, ctx, n, prepare)
					var away *catalog.JournalError
					if !errors.As(err, &away) || !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("the error is %v", err)
					}
					if name == "cut" && !errors.Is(err, errCut) {
						t.Errorf("the error %q does not say what is wrong with the journal", err)
					}
					if text := err.Error(); !strings.Contains(text, "instance late-1 of node late") || strings.Contains(text, "closed") {
						t.Errorf("the error is %q", text)
					}
					if waited := time.Since(began); waited != patience {
						t.Errorf("it has waited for %s", waited)
					}
				})
			})
		}
	}
}

// TestJoinWithoutAnEnd: Open gives up by itself.
func TestJoinWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, catalog.Options{})
		store := openShared(n.log)
		store.cut.Store(true)
		opts := n.opts
		opts.Shared = catalog.SharedOptions{Store: store, Node: "late", Peers: n}
		began := time.Now()
		var away *catalog.JournalError
		if _, err := catalog.Open("", openEngine(t, forebay.Options{Target: n.target}), opts); !errors.As(err, &away) {
			t.Errorf("the error is %v", err)
		}
		if waited := time.Since(began); waited != 15*time.Second {
			t.Errorf("it has waited for %s", waited)
		}
	})
}
