package catalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
)

var web = catalog.Ref{Source: "web"}

// counts returns the rows of sink "a" as a node shows them, and which instances it misses.
func counts(t *testing.T, n *node) (local, target int64, missing []string) {
	t.Helper()
	must(t, n.CatchUp(t.Context()))
	st, err := n.Handle("web", "a").Statistics(t.Context())
	must(t, err)
	if st.Total.Rows != st.Local.Rows+st.Staging.Rows+st.Target.Rows {
		t.Errorf("the total of %+v is not the sum of the levels", st)
	}
	for _, m := range st.Missing {
		missing = append(missing, m.Instance)
	}
	return st.Local.Rows + st.Staging.Rows, st.Target.Rows, missing
}

// wantCounts checks what all nodes show.
func wantCounts(t *testing.T, what string, local, target int64, missing []string, all ...*node) {
	t.Helper()
	for i, n := range all {
		if l, g, m := counts(t, n); l != local || g != target || !slices.Equal(m, missing) {
			t.Errorf("%s: node %d shows %d rows that wait and %d in the table without %v, want %d and %d without %v", what, i, l, g, m, local, target, missing)
		}
	}
}

// Statistics are sums over all nodes, and so are clearings. A node that does not respond is named, and nothing is cleared without it.
func TestSharedStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newNodes(t, catalog.Options{}).three()
		done(t, all[0].Catalog)(all[0].CreateSource(user, spec("Web", "a", "b")))
		same(t, all...)
		for i, n := range all {
			for range i + 1 {
				ingest(t, n.eng, "web", true)
			}
			ingest(t, n.eng, "web", false)
		}
		wantCounts(t, "at first", 3, 6, nil, all...)
		st, err := all[0].Handle("web", "b").Statistics(t.Context())
		if err != nil || len(st.Files) < 6 || !slices.IsSortedFunc(st.Files, func(a, b buffer.FileStats) int { return a.OpenedAt.Compare(b.OpenedAt) }) {
			t.Errorf("got %d files, %v, want at least 6 in the order of their opening", len(st.Files), err)
		}
		must(t, all[2].ClearStatistics(t.Context(), catalog.Ref{Source: "web", Sink: "a"}))
		wantCounts(t, "cleared", 3, 0, nil, all...)
		if st, err := all[1].Handle("web", "b").Statistics(t.Context()); err != nil || st.Target.Rows != 6 {
			t.Errorf("the other sink has %+v, %v", st.Target, err)
		}
		ingest(t, all[1].eng, "web", true)
		wantCounts(t, "after it", 2, 2, nil, all...)

		all[1].deaf.Store(true)
		began := time.Now()
		wantCounts(t, "without the second node", 2, 0, []string{"b"}, all[0], all[2])
		if took := time.Since(began); took > 9*time.Second { // twice the wait for responses, and for the journal
			t.Errorf("that took %v", took)
		}
		var missing *catalog.MissingError
		if err := all[0].ClearStatistics(t.Context(), web); !errors.As(err, &missing) || missing.Missing[0].Node != "b" {
			t.Errorf("clear: %v", err)
		}
		all[1].deaf.Store(false)
		wantCounts(t, "with it again", 2, 2, nil, all...)
	})
}

// Each row is counted once while another node takes over, first by the instance, then by its adopter, then as ended. An earlier clearing counts
// for the rows of the ended instance.
func TestAdoptedRowsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{DropTable: func(context.Context, string) error { return nil }})
		all := cluster.three()
		a, b, c := all[0], all[1], all[2]
		done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
		same(t, all...)
		ingest(t, a.eng, "web", true)
		must(t, b.ClearStatistics(t.Context(), web))
		ingest(t, a.eng, "web", true)
		ingest(t, a.eng, "web", false)
		ingest(t, b.eng, "web", true)
		wantCounts(t, "at first", 1, 2, nil, all...)

		adopt := func(n *node, epoch uint64) *catalog.Adoption {
			t.Helper()
			adopted, err := n.Adopt("a", epoch, a.eng)
			must(t, err)
			return adopted
		}
		first := adopt(b, 2)
		wantCounts(t, "owner and adopter answer", 1, 2, nil, b, c)
		a.deaf.Store(true)
		wantCounts(t, "the adopter answers", 1, 2, nil, all...) // the owner does not know yet that it is none
		first.Close()
		wantCounts(t, "nobody answers", 0, 1, []string{"a"}, b, c)
		second := adopt(c, 3)
		must(t, a.eng.FlushAll(t.Context()))
		wantCounts(t, "drained", 0, 3, nil, all...)
		for range 2 { // an adopter that died after it may do it again
			must(t, second.Finish(t.Context()))
		}
		wantCounts(t, "ended, and still open", 0, 3, nil, b, c)
		second.Close()
		same(t, all...)
		wantCounts(t, "ended", 0, 3, nil, all...)
		must(t, a.ClearStatistics(t.Context(), web))
		ingest(t, b.eng, "web", true)
		wantCounts(t, "cleared behind the end", 0, 1, nil, all...)
		must(t, b.CatchUp(t.Context()))
		done(t, b.Catalog)(b.EraseSource("web"))
		done(t, b.Catalog)(b.CreateSource(user, spec("Web", "a")))
		same(t, b, c)
		wantCounts(t, "a new source of the id", 0, 0, nil, b, c)
	})
}

// A file is retried and given up through any node, even a file of an adopted instance. A file that no node has is not found only if
// every node has said so.
func TestFilesThroughAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newNodes(t, catalog.Options{}).three()
		done(t, all[0].Catalog)(all[0].CreateSource(user, spec("Web", "a")))
		same(t, all...)
		waiting := func() string {
			t.Helper()
			st, err := all[0].Handle("web", "a").Statistics(t.Context())
			if err != nil || len(st.Files) != 1 {
				t.Fatalf("files %+v, %v", st.Files, err)
			}
			return st.Files[0].ID
		}
		ingest(t, all[2].eng, "web", false)
		id := waiting()
		if err := all[0].Handle("web", "a").RetryFile(t.Context(), id); err != nil {
			t.Errorf("retry: %v", err)
		}
		if err := all[1].Retry(t.Context(), web); err != nil {
			t.Errorf("retry of all: %v", err)
		}
		for what, do := range map[string]func(context.Context, string) error{"split": all[0].Handle("web", "a").SplitFile, "quarantine": all[0].Handle("web", "a").QuarantineFile} {
			if err := do(t.Context(), id); code(err) != catalog.FileNotHeld || !strings.Contains(err.Error(), "not in staging yet") {
				t.Errorf("%s of a file that is not held: %v", what, err)
			}
		}
		if err := all[0].Handle("web", "a").RetryFile(t.Context(), "none"); code(err) != catalog.FileNotFound {
			t.Errorf("retry of no file: %v", err)
		}
		all[2].deaf.Store(true)
		var missing *catalog.MissingError
		for what, do := range map[string]func() error{
			"discard":      func() error { return all[0].Handle("web", "a").DiscardFile(t.Context(), id) },
			"retry":        func() error { return all[0].Handle("web", "a").RetryFile(t.Context(), id) },
			"split":        func() error { return all[0].Handle("web", "a").SplitFile(t.Context(), id) },
			"quarantine":   func() error { return all[0].Handle("web", "a").QuarantineFile(t.Context(), id) },
			"retry of all": func() error { return all[1].Retry(t.Context(), web) },
		} {
			if err := do(); !errors.As(err, &missing) || len(missing.Missing) != 1 || missing.Missing[0].Node != "c" {
				t.Errorf("%s without its node: got %v, want an error that names node c", what, err)
			}
		}
		adopted, err := all[1].Adopt("c", 2, all[2].eng)
		must(t, err)
		defer adopted.Close()
		if err := all[0].Handle("web", "a").DiscardFile(t.Context(), id); err != nil {
			t.Errorf("discard: %v", err)
		}
		if st, err := all[0].Handle("web", "a").Statistics(t.Context()); err != nil || st.Discarded.Rows != 1 || st.Total.Rows != 0 {
			t.Errorf("after it: %+v, %v", st, err)
		}
	})
}

// A node that is away while a source is erased gives up its rows before it has a new source of the id, or its adopter does.
func TestErasedWhileAway(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cluster := newNodes(t, catalog.Options{DropTable: func(context.Context, string) error { return nil }})
			all := cluster.three()
			a, b := all[0], all[1]
			done(t, a.Catalog)(a.CreateSource(user, spec("Web", "a")))
			same(t, all...)
			engines := map[string]*forebay.Engine{"c": all[2].eng, "d": openEngine(t, forebay.Options{Target: cluster.target})}
			d := cluster.openWith("d", "d", engines["d"])
			same(t, a, d)
			for _, n := range []*node{all[2], d} {
				ingest(t, n.eng, "web", true)
				ingest(t, n.eng, "web", false)
				n.deaf.Store(true)
				must(t, n.Close())
				if err := n.eng.Remove(t.Context(), "web"); err != nil { // as after a restart of the process
					t.Fatal(err)
				}
			}
			must(t, b.CatchUp(t.Context()))
			done(t, b.Catalog)(b.EraseSource("web"))
			if recreated {
				done(t, b.Catalog)(b.CreateSource(user, spec("Web", "a")))
			}
			back := cluster.openWith("c", "c", engines["c"])
			adopted, err := b.Adopt("d", 2, engines["d"])
			if err == nil {
				err = adopted.Follow(t.Context())
			}
			must(t, err)
			for name, eng := range engines {
				for _, s := range eng.Stats().Sinks {
					if s.Local.Rows+s.Staging.Rows+s.Target.Rows+s.Discarded.Rows > 0 {
						t.Errorf("instance %s still counts %+v", name, s)
					}
				}
			}
			same(t, a, b, back)
			if recreated {
				ingest(t, back.eng, "web", true)
				wantCounts(t, "a new row", 0, 1, nil, a, b, back)
			}
			must(t, adopted.Finish(t.Context()))
			adopted.Close()
			if recreated {
				wantCounts(t, "after the end of d", 0, 1, nil, a, b, back)
			}
		})
	}
}
