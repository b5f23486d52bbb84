package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// postOnce sends an event with a key, which is its id, and returns the status of the response.
func (c *nodes) postOnce(i int, id string) int {
	c.t.Helper()
	source, err := c.list[i].Catalog().Source("web")
	if err != nil {
		c.t.Error(err)
		return 0
	}
	r := httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, "/stream/1/web/"+source.Secret, strings.NewReader(`{"id":"`+id+`"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "key of "+id)
	w := httptest.NewRecorder()
	c.list[i].Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
		c.t.Errorf("event %s at node %d: got status %d, %s, want 200 or 503", id, i, w.Code, w.Body)
	}
	return w.Code
}

// retryOnce sends an event with a key until a node accepts it.
func (c *nodes) retryOnce(i int, id string) {
	c.t.Helper()
	if err := clustertest.Eventually(func() error {
		if status := c.postOnce(i, id); status != http.StatusOK {
			return fmt.Errorf("event %s at node %d: status %d", id, i, status)
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
}

// flushed returns the ids in the table, when the rows of all nodes that are open are there.
func (c *nodes) flushed(open ...*cluster.Node) []string {
	c.t.Helper()
	for _, n := range open {
		if err := n.Engine().FlushAll(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.ids()
}

// An event that was accepted with a key is not stored again by any other node, while its node is there, in the moment when it is lost, while
// another node takes over, and after that. An event that no node has stored is stored once.
func TestKeyAtAnotherNode(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("%04d", i))
	}
	part := func(n int) []string { return want[15*n : 15*n+15] }
	for _, id := range want[:45] {
		c.retryOnce(0, id)
	}
	for _, id := range part(0) {
		c.retryOnce(1, id)
	}
	lost := get[readiness](t, c.list[0], "/readiness-check").Instance
	c.close(0)
	var retries sync.WaitGroup
	for i, id := range slices.Concat(part(1), part(3)) {
		retries.Go(func() { c.retryOnce(1+i%2, id) })
	}
	retries.Wait()
	if err := clustertest.Eventually(func() error {
		if adopted := slices.Concat(adoptedBy(t, c.list[1:])...); !slices.Contains(adopted, lost) {
			return fmt.Errorf("instance %s is not adopted yet", lost)
		}
		for _, n := range c.list[1:] {
			if r := get[readiness](t, n, "/readiness-check"); slices.Contains(r.Adopting, lost) {
				return fmt.Errorf("instance %s is not drained yet", lost)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range part(2) {
		c.retryOnce(2, id)
	}
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	c.awaitSource(c.list[0])
	for i, id := range want {
		c.retryOnce(i%3, id)
	}
	if got := c.flushed(c.list[:]...); !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}

// Calls with one key that run at several nodes at once store their event once.
func TestKeyAtAllNodesAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	var want []string
	var calls sync.WaitGroup
	for n := range 100 {
		id := fmt.Sprintf("%04d", n)
		want = append(want, id)
		for i := range c.list {
			calls.Go(func() { c.retryOnce(i, id) })
		}
		if n%10 == 9 {
			calls.Wait()
		}
	}
	calls.Wait()
	if got := c.flushed(c.list[:]...); !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}

// A request with a key gets the outcome of the first one at every node, even if the source splits bodies in another way since, and could not split
// this one.
func TestKeyAfterAChangeOfTheSplit(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	source, err := c.list[0].Catalog().Source("web")
	if err != nil {
		t.Fatal(err)
	}
	// send sends a form, or JSON.
	send := func(i int, key, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/stream/1/web/"+source.Secret, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if body[0] != '[' {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		c.list[i].Handler().ServeHTTP(w, r)
		return w.Code, w.Header().Get("Idempotent-Replayed")
	}
	const form, list = "id=1", `[{"id":"2"},{"id":"3"}]`
	again := func() {
		t.Helper()
		for i := range c.list {
			for key, body := range map[string]string{"form": form, "list": list} {
				if status, replayed := send(i, key, body); status != http.StatusOK || replayed != "true" {
					t.Errorf("node %d, key %q: got status %d, replayed %q, want 200 and true", i, key, status, replayed)
				}
			}
			if status, _ := send(i, "new", "a text"); status/100 != 4 {
				t.Errorf("node %d, a text with a new key: got status %d, want 400 or 422", i, status)
			}
		}
	}
	split := func(to string) {
		t.Helper()
		task, err := c.list[0].Catalog().ChangeSettings(catalog.By{Type: "system"}, catalog.Ref{Source: "web"}, "", []catalog.SettingChange{
			{Key: "ingest.split", Value: []byte(`"` + to + `"`)},
		})
		if err == nil {
			task, err = task.Wait(t.Context())
		}
		if err != nil || task.Status != catalog.Succeeded {
			t.Fatal(err, task.Failure)
		}
		for i, n := range c.list {
			if err := clustertest.Eventually(func() error {
				if src, _ := n.Engine().Source("web"); string(src.Split) != to {
					return fmt.Errorf("the engine of node %d splits as %q, want %q", i, src.Split, to)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status, _ := send(0, "form", form); status != http.StatusOK {
		t.Fatalf("the form: got status %d, want 200", status)
	}
	split("array")
	if status, _ := send(1, "list", list); status != http.StatusOK {
		t.Fatalf("the list: got status %d, want 200", status)
	}
	again()
	split("lines")
	again()
	if got, want := c.flushed(c.list[:]...), []string{"1", "2", "3"}; !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}
