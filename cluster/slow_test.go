package cluster_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// A node that is far from the others names its slow log, the leader of the log and the far servers in its readiness-check, in one log event and in the
// list of all nodes. The others name it too.
func TestFarServerIsNamed(t *testing.T) {
	t.Parallel()
	const slow, far = "the log of this node is slow", "Its leader is server a"
	var heard atomic.Bool
	r := sendTo(t, startNodes(t, true, func(c *nodes) {
		c.heard = func(line string) {
			if strings.Contains(line, `msg="log slow" leader=a`) && strings.Contains(line, slow) {
				heard.Store(true)
			}
		}
	}))
	warning := func(i int) string {
		return get[struct{ Warning string }](t, r.node(i), "/readiness-check").Warning
	}
	for _, other := range []int{1, 2} {
		for _, pair := range [][2]int{{0, other}, {other, 0}} {
			if err := r.links.Delay(pair[0], pair[1], 170); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := clustertest.Eventually(func() error {
		at, others := warning(0), warning(1)
		if !strings.Contains(at, slow) || !strings.Contains(at, far) || !strings.Contains(at, "server b responds after") || !heard.Load() {
			return fmt.Errorf("the far node says %q, logged: %t, want %q, %q, the server b and a log event", at, heard.Load(), slow, far)
		}
		if !strings.Contains(others, "server a responds after") {
			return fmt.Errorf("a near node says %q, want that it names the server a", others)
		}
		list, err := r.node(1).Nodes(t.Context())
		if err == nil && !strings.Contains(nodeOf(list, "a").Warning, slow) {
			err = fmt.Errorf("the list of nodes has %+v, want the warning of the node a", nodeOf(list, "a"))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	r.heal()
}

func nodeOf(list []catalog.Node, name string) catalog.Node {
	for _, n := range list {
		if n.Name == name {
			return n
		}
	}
	return catalog.Node{}
}
