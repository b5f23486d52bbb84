package cluster_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// Before a server has no room for one more log, its node warns in its log and in its readiness-check, with advice, and stays ready. With more room
// it does not warn.
func TestRoomEnds(t *testing.T) {
	t.Parallel()
	const warning = "Raise MaxStore"
	var heard atomic.Bool
	c := startNodes(t, false, func(c *nodes) {
		c.maxStore = 400 << 20 // 256 MiB are for the definitions
		c.heard = func(line string) {
			if strings.Contains(line, "room for logs low") && strings.Contains(line, warning) {
				heard.Store(true)
			}
		}
	})
	says := func(i int, want bool) {
		t.Helper()
		if err := clustertest.Eventually(func() error {
			if err := c.reopen(i); err != nil {
				return err
			}
			s := get[struct {
				Ready   bool
				Warning string
			}](t, c.list[i], "/readiness-check")
			if !s.Ready || strings.Contains(s.Warning, warning) != want {
				return fmt.Errorf("the node %d says %+v, want a warning: %t", i, s, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	for i := range c.list {
		says(i, true)
	}
	if !heard.Load() {
		t.Error("no node logs that the room ends")
	}
	c.close(1)
	c.maxStore = 4 << 30
	if err := c.open(1); err != nil {
		t.Fatalf("open a node with more room: %v", err)
	}
	says(1, false)
}
