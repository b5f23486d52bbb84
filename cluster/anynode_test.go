package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// do sends a request of the Stream API to a node and returns the status and the body of the response.
func do(t testing.TB, n *cluster.Node, method, path string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("X-StorageApi-Token", "token")
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const sinkPath = "/v1/branches/default/sources/web/sinks/events"

type statistics struct {
	Total  struct{ RecordsCount int }
	Levels struct{ Target struct{ RecordsCount int } }
	Lost   struct{ Discarded int }
	Files  []struct {
		FileID, State string
	}
	Missing []struct{ Node, Instance, Reason string }
}

// Statistics, clearing and waiting files are the same through any node, and each row is counted once while another node takes over.
func TestStatisticsThroughAnyNode(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	shown := func(n *cluster.Node) (s statistics) {
		t.Helper()
		s = get[statistics](t, n, sinkPath+"/statistics/total")
		s.Files = get[statistics](t, n, sinkPath+"/statistics/files").Files
		return s
	}
	// eventually waits until a node shows the expected statistics. The engines have just begun to ask each other.
	eventually := func(what string, ok func(statistics) bool, nodes ...*cluster.Node) {
		t.Helper()
		for _, n := range nodes {
			if err := clustertest.Eventually(func() error {
				if s := shown(n); !ok(s) {
					return fmt.Errorf("%s: the statistics are %+v", what, s)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 5 {
		for node := range c.list {
			if status := c.post(node, fmt.Sprintf("%d-%d", node, i)); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		}
	}
	eventually("15 rows", func(s statistics) bool { return s.Total.RecordsCount == 15 && len(s.Files) == 3 && len(s.Missing) == 0 }, c.list[:]...)

	file := func() string { // of the first node
		for _, s := range c.list[0].Engine().Stats().Sinks {
			for _, f := range s.Files {
				return f.ID
			}
		}
		t.Fatal("the first node has no file")
		return ""
	}()
	if status, body := do(t, c.list[1], http.MethodPost, sinkPath+"/files/"+file+"/retry"); status != http.StatusOK {
		t.Errorf("retry of a file of another node: %d %s", status, body)
	}
	if status, body := do(t, c.list[2], http.MethodDelete, sinkPath+"/files/"+file); status != http.StatusOK {
		t.Errorf("discard of a file of another node: %d %s", status, body)
	}
	if status, body := do(t, c.list[2], http.MethodDelete, sinkPath+"/files/none"); status != http.StatusNotFound {
		t.Errorf("discard of no file: %d %s", status, body)
	}
	for _, n := range c.list {
		if err := n.Engine().FlushAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually("10 rows in the table", func(s statistics) bool {
		return s.Levels.Target.RecordsCount == 10 && s.Lost.Discarded == 5 && s.Total.RecordsCount == 10
	}, c.list[:]...)
	if err := clustertest.Eventually(func() error { // 503 when a node is too busy to respond in time
		if status, body := do(t, c.list[1], http.MethodDelete, sinkPath+"/statistics/clear"); status != http.StatusOK {
			return fmt.Errorf("clear: %d %s", status, body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if status := c.post(0, "last"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually("cleared", func(s statistics) bool { return s.Total.RecordsCount == 1 }, c.list[:]...)

	lost := get[readiness](t, c.list[0], "/readiness-check").Instance
	c.close(0)
	s := shown(c.list[1])
	if len(s.Missing) == 1 && (s.Missing[0].Node != "a" || s.Missing[0].Instance != lost || s.Missing[0].Reason == "") {
		t.Errorf("without the first node: %+v", s)
	}
	if len(s.Missing) == 0 { // as fast as another node can be
		if adopted := slices.Concat(adoptedBy(t, c.list[1:])...); !slices.Contains(adopted, lost) {
			t.Errorf("the first node is not missed: %+v", s)
		}
	}
	eventually("another node has taken over", func(s statistics) bool {
		return len(s.Missing) == 0 && s.Total.RecordsCount == 1 && s.Levels.Target.RecordsCount == 1 && s.Lost.Discarded == 5
	}, c.list[1:]...)
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	eventually("the node is back", func(s statistics) bool {
		return len(s.Missing) == 0 && s.Total.RecordsCount == 1 && s.Lost.Discarded == 5
	}, c.list[:]...)
}

// adoptedBy returns the instances that nodes adopt or have adopted.
func adoptedBy(t *testing.T, nodes []*cluster.Node) (lists [][]string) {
	t.Helper()
	for _, n := range nodes {
		r := get[readiness](t, n, "/readiness-check")
		lists = append(lists, r.Adopting, r.Adopted)
	}
	return lists
}

// A request that needs a node which is away says so, and nothing else happens.
func TestMissingNodeIsNamed(t *testing.T) {
	t.Parallel()
	c := startNodes(t, false, func(c *nodes) { c.lease = 2 * time.Minute }) // no node takes over before that
	c.define()
	if status := c.post(0, "1"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	c.close(0)
	defer func() {
		if err := c.open(0); err != nil { // which the end of the test closes
			t.Error(err)
		}
	}()
	status, body := do(t, c.list[1], http.MethodDelete, sinkPath+"/statistics/clear")
	var response struct{ Error, Message string }
	if err := json.Unmarshal([]byte(body), &response); err != nil || status != http.StatusServiceUnavailable || response.Error != "stream.api.nodeMissing" {
		t.Errorf("clear: %d %s, %v", status, body, err)
	}
}
