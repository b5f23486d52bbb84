package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsdriver"
)

// Each node lists all nodes: the status of each, a node that does not respond, and the instances adopted from it.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := start(t)
	var _ func(context.Context) ([]catalog.Node, error) = c.list[0].Nodes // as console.Options.Nodes is declared
	var seen []catalog.Node
	// eventually waits until a node lists the nodes as it should.
	eventually := func(what string, at int, ok func([]catalog.Node) bool) {
		t.Helper()
		if err := clustertest.Eventually(func() (err error) {
			if seen, err = c.list[at].Nodes(t.Context()); err != nil || !ok(seen) {
				return fmt.Errorf("%s: %+v, %v", what, seen, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range c.list {
		eventually("all are ready", i, func(list []catalog.Node) bool {
			return len(list) == 3 && !slices.ContainsFunc(list, func(n catalog.Node) bool { return !n.Ready || n.Missing != "" || n.Instance == "" || n.Epoch == 0 })
		})
		for j, n := range seen {
			if own := get[readiness](t, c.list[j], "/readiness-check"); n.Name != own.Node || n.Instance != own.Instance {
				t.Errorf("node %d lists %+v, which says %+v", i, n, own)
			}
		}
	}
	lost := seen[0].Instance
	c.close(0)
	defer func() {
		if err := c.open(0); err != nil { // which the end of the test closes
			t.Error(err)
		}
	}()
	eventually("one does not answer", 1, func(list []catalog.Node) bool {
		return len(list) == 3 && list[0].Name == "a" && !list[0].Ready && list[0].Missing == "it does not respond" && list[0].Instance == lost
	})
	eventually("another one has taken over", 1, func(list []catalog.Node) bool {
		return len(list) == 2 && slices.ContainsFunc(list, func(n catalog.Node) bool { return slices.Contains(n.Adopted, lost) })
	})
	owners, err := natsdriver.NewOwners(c.list[1].Conn(), c.options(1).NATS)
	if err != nil {
		t.Fatal(err)
	}
	record, err := changelog.Owner{Node: "z", Session: "s", Epoch: 1, State: changelog.Damaged, Lease: time.Minute}.MarshalJSON()
	if err == nil {
		_, err = owners.CompareAndSet(t.Context(), changelog.OwnerKey("z-0_lost"), 0, record)
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually("a damaged instance", 1, func(list []catalog.Node) bool {
		return len(list) == 3 && list[2].Name == "z" && !list[2].Ready && slices.Equal(list[2].Damaged, []string{"z-0_lost"})
	})
	if _, err := c.list[1].Nodes(canceled(t)); err == nil {
		t.Error("no error of a context that has ended")
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
