package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// traffic are clients at every node, which send one event after the other, and what opens a node again that has lost its instance.
type traffic struct {
	*nodes
	path string
	stop context.CancelFunc
	busy sync.WaitGroup

	mu    sync.Mutex
	acked []string
	// since counts for each node the acknowledged events among those sent to it since mark.
	since [clustertest.Size]int
	marks int
	// fastest is the shortest time in which one of them was acknowledged.
	fastest time.Duration
}

// clients is the number of clients at each node.
const clients = 3

// send begins to send to three nodes that reach each other through links.
func send(t *testing.T) *traffic {
	t.Helper()
	return sendTo(t, startWith(t, true))
}

// sendTo defines a source and begins to send.
func sendTo(t *testing.T, c *nodes) *traffic {
	t.Helper()
	c.define()
	source, err := c.list[0].Catalog().Source("web")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &traffic{nodes: c, path: "/stream/1/web/" + source.Secret, stop: stop}
	t.Cleanup(r.end) // before nodes are closed
	for node := range c.list {
		r.busy.Go(func() { r.reopen(ctx, node) })
		for client := range clients {
			r.busy.Go(func() { r.post(ctx, node, client) })
		}
	}
	r.awaitProgress(10, 0, 1, 2)
	return r
}

// end stops the clients.
func (r *traffic) end() {
	r.stop()
	r.busy.Wait()
}

func (r *traffic) node(i int) *cluster.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[i]
}

// reopen opens a node again whenever it has lost its instance, as a supervisor of its process does.
func (r *traffic) reopen(ctx context.Context, i int) {
	for {
		n := r.node(i)
		select {
		case <-ctx.Done():
			return
		case <-n.Done():
		}
		if err := n.Close(); err != nil {
			r.t.Errorf("close node %d: %v", i, err)
		}
		o := r.options(i)
		opening, cancel := context.WithTimeout(r.t.Context(), clustertest.Patience)
		n, err := cluster.Open(opening, filepath.Join(r.dir, o.Node), o)
		cancel()
		if err != nil {
			r.t.Errorf("open node %d: %v", i, err)
			return
		}
		r.mu.Lock()
		r.list[i] = n
		r.mu.Unlock()
	}
}

// post sends events to a node. Each has its own id, whether it is acknowledged or not.
func (r *traffic) post(ctx context.Context, i, client int) {
	for event := 0; ctx.Err() == nil; event++ {
		id := fmt.Sprintf("%d-%d-%05d", i, client, event)
		r.mu.Lock()
		marks, n := r.marks, r.list[i]
		r.mu.Unlock()
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, r.path, strings.NewReader(`{"id":"`+id+`"}`))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		begin := time.Now()
		n.Handler().ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			select { // as a client that repeats
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		r.mu.Lock()
		r.acked = append(r.acked, id)
		if marks == r.marks {
			r.since[i]++
			r.fastest = min(r.fastest, time.Since(begin))
		}
		r.mu.Unlock()
	}
}

// mark returns what each node has acknowledged since the last one, and begins to count again.
func (r *traffic) mark() (since [clustertest.Size]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since = r.since
	r.since, r.fastest = [clustertest.Size]int{}, time.Hour
	r.marks++
	return since
}

// awaitProgress waits until each of some nodes has acknowledged so many events since the last mark.
func (r *traffic) awaitProgress(events int, list ...int) {
	r.t.Helper()
	if err := clustertest.Eventually(func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, i := range list {
			if r.since[i] < events {
				return fmt.Errorf("node %d has acknowledged %d events", i, r.since[i])
			}
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
}

// awaitAdopted waits until another node has moved the rows of an instance of node i.
func (r *traffic) awaitAdopted(i int, instance string) {
	r.t.Helper()
	if err := clustertest.Eventually(func() error {
		for other := range r.list {
			if other != i && slices.Contains(r.readiness(other).Adopted, instance) {
				return nil
			}
		}
		return errors.New("no node has taken over " + instance)
	}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *traffic) readiness(i int) readiness {
	return get[readiness](r.t, r.node(i), "/readiness-check")
}

// heal makes the network whole and waits until each node is ready.
func (r *traffic) heal() {
	r.t.Helper()
	if err := r.links.Heal(); err != nil {
		r.t.Fatal(err)
	}
	r.mark()
	for i := range r.list {
		if err := clustertest.Eventually(func() error { return r.node(i).Ready() }); err != nil {
			r.t.Fatalf("node %d: %v", i, err)
		}
	}
}

// verify stops the clients and moves all rows to the table. Each acknowledged event must be there, and none twice.
func (r *traffic) verify() {
	r.t.Helper()
	r.end()
	for i := range r.list {
		if err := r.node(i).Engine().FlushAll(r.t.Context()); err != nil {
			r.t.Fatalf("flush node %d: %v", i, err)
		}
	}
	var rows map[string]int
	if err := clustertest.Eventually(func() error { // an instance may have been lost a moment ago
		rows = make(map[string]int)
		for row, err := range dir.Tables(r.tables()).Rows(tableID) {
			if err != nil {
				return err
			}
			rows[row[0]]++
		}
		var missing []string
		for _, id := range r.acked {
			if rows[id] == 0 {
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d acknowledged events are not in the table: %.10q", len(missing), len(r.acked), missing)
		}
		return nil
	}); err != nil {
		r.t.Error(err)
	}
	for id, n := range rows {
		if n > 1 {
			r.t.Errorf("event %s is in the table %d times", id, n)
		}
	}
	r.t.Logf("%d events were acknowledged, the table has %d", len(r.acked), len(rows))
}

// A node that is cut off from the two others acknowledges nothing. They take over its rows and continue. When the network is whole again, it
// has another instance, without an operator's help.
func TestPartition(t *testing.T) {
	t.Parallel()
	r := send(t)
	before := r.readiness(0).Instance
	for other := 1; other < clustertest.Size; other++ {
		if err := errors.Join(r.links.Cut(0, other), r.links.Cut(other, 0)); err != nil {
			t.Fatal(err)
		}
	}
	r.mark()
	r.awaitProgress(10, 1, 2)
	r.awaitAdopted(0, before)
	if since := r.mark(); since[0] > 0 {
		t.Errorf("a node without the others acknowledged %d events", since[0])
	}
	r.heal()
	r.awaitProgress(10, 0, 1, 2)
	if after := r.readiness(0).Instance; after == before {
		t.Errorf("the node still has the instance %s, which another one has taken over", before)
	}
	r.verify()
}

// A node whose messages are lost, or that gets none, acknowledges nothing either.
func TestOneWayCut(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(l *clustertest.Links, other int) error{
		"mute": func(l *clustertest.Links, other int) error { return l.Cut(0, other) },
		"deaf": func(l *clustertest.Links, other int) error { return l.Cut(other, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := send(t)
			before := r.readiness(0).Instance
			if err := errors.Join(lost(r.links, 1), lost(r.links, 2)); err != nil {
				t.Fatal(err)
			}
			r.mark()
			r.awaitAdopted(0, before)
			if since := r.mark(); since[0] > 0 {
				t.Errorf("the node acknowledged %d events", since[0])
			}
			r.heal()
			r.awaitProgress(10, 0, 1, 2)
			r.verify()
		})
	}
}

// Two nodes that cannot talk to each other, only to the third, lose nothing, and the third continues. Whether they do depends on who leads.
func TestBrokenLink(t *testing.T) {
	t.Parallel()
	r := send(t)
	if err := errors.Join(r.links.Cut(0, 1), r.links.Cut(1, 0)); err != nil {
		t.Fatal(err)
	}
	r.mark()
	r.awaitProgress(1000, 2)
	r.heal()
	r.awaitProgress(10, 0, 1, 2)
	r.verify()
}

// Nodes that are far from each other work as usual, slowly.
func TestLatency(t *testing.T) {
	t.Parallel()
	const milliseconds = 200
	r := send(t)
	for from := range clustertest.Size {
		for to := range clustertest.Size {
			if from == to {
				continue
			}
			if err := r.links.Delay(from, to, milliseconds); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.mark()
	r.awaitProgress(10, 0, 1, 2)
	r.mu.Lock()
	fastest := r.fastest
	r.mu.Unlock()
	if fastest < 2*milliseconds*time.Millisecond { // there and back
		t.Errorf("an event was acknowledged after %s", fastest)
	}
	r.end()
	before := r.readiness(0).Instance
	r.close(0)
	r.awaitAdopted(0, before)
	if err := r.open(0); err != nil {
		t.Fatal(err)
	}
	r.heal()
	r.verify()
}
