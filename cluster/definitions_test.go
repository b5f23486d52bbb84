package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/internal/linearizability"
	"github.com/forebay/forebay/internal/seedtest"
)

var faults = flag.Int("faults", 4, "how many faults TestDefinitionsAreLinearizable plays: at first one of each of three kinds, then any")

// definers are clients at every node, which change and read definitions, and what opens a node again that has ended.
type definers struct {
	*nodes
	seed    uint64
	history linearizability.History
	stop    context.CancelFunc
	busy    sync.WaitGroup
	mu      sync.Mutex // guards list and wiped
	wiped   string     // the node whose disk is lost with it
}

// define begins to define, with so many clients at each node.
func define(t *testing.T, clients int, seed uint64) *definers {
	t.Helper()
	tokens := &linearizability.Tokens{}
	d := &definers{nodes: startNodes(t, true, func(c *nodes) { c.tokens = tokens }), seed: seed}
	d.history.Find, d.history.Sink.Columns = d.find, columns
	ctx, stop := context.WithCancel(t.Context())
	d.stop = stop
	for node := range d.list {
		d.busy.Go(func() { d.reopen(ctx, node) })
		for client := range clients {
			d.busy.Go(func() { d.ask(ctx, node, clients*node+client) })
		}
	}
	return d
}

// end stops the clients, and waits until no node is being opened.
func (d *definers) end() {
	d.stop()
	d.busy.Wait()
}

func (d *definers) node(i int) *cluster.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list[i]
}

// ask asks one node for one thing after the other. A node that does not respond in time is left alone.
func (d *definers) ask(ctx context.Context, node, client int) {
	rng := rand.New(rand.NewPCG(d.seed, uint64(client)))
	for round := 0; ; round++ {
		select {
		case <-time.After(time.Duration(rng.IntN(int(200 * time.Millisecond)))):
		case <-ctx.Done():
			return
		}
		patient, cancel := context.WithTimeout(d.t.Context(), 15*time.Second)
		d.history.Do(patient, client, d.node(node).Catalog(), linearizability.RandomOp(rng, fmt.Sprintf("%d-%d", client, round), 1+client+100*round))
		cancel()
	}
}

// find asks all nodes for the end of a task. If the node of a task was lost, a different node ends it. A catalog that is closed is not believed,
// because it may not have learned of the last commits.
func (d *definers) find(id string) (end catalog.Task, err error) {
	err = clustertest.Eventually(func() error {
		var errs []error
		for i := range d.list {
			cat := d.node(i).Catalog()
			task, err := cat.Task(id)
			if err == nil {
				err = cat.Ready() // asked second. It was not closed when it had the task
			}
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("node %d: %w", i, err))
			case !task.Finished():
				errs = append(errs, fmt.Errorf("node %d: %s", i, task.Status))
			default:
				end = task
				return nil
			}
		}
		return errors.Join(errs...)
	})
	return end, err
}

// reopen opens a node again whenever it has ended, as a supervisor of its process does, on an empty disk if it was wiped.
func (d *definers) reopen(ctx context.Context, i int) {
	for {
		n := d.node(i)
		select {
		case <-ctx.Done():
			return
		case <-n.Done():
		}
		_ = n.Close() // which fails where the network does
		o := d.options(i)
		d.mu.Lock()
		wiped := d.wiped == o.Node
		d.mu.Unlock()
		if wiped {
			if err := os.RemoveAll(filepath.Join(d.dir, o.Node)); err != nil {
				d.t.Error(err)
			}
		}
		if err := clustertest.Eventually(func() (err error) {
			opening, cancel := context.WithTimeout(d.t.Context(), 2*clustertest.Patience) // the network may be cut first
			defer cancel()
			n, err = cluster.Open(opening, filepath.Join(d.dir, o.Node), o)
			return err
		}); err != nil {
			d.t.Errorf("open node %d: %v", i, err)
			return
		}
		d.mu.Lock()
		d.list[i] = n
		d.mu.Unlock()
	}
}

// leader returns the node whose server leads the journal of definitions.
func (d *definers) leader() (leader int) {
	d.t.Helper()
	if err := clustertest.Eventually(func() error {
		js, err := jetstream.New(d.node(0).Conn())
		if err != nil {
			return err
		}
		stream, err := js.Stream(d.t.Context(), "FB_main_catalog")
		if err != nil {
			return err
		}
		for i := range d.list {
			if info := stream.CachedInfo(); info.Cluster != nil && info.Cluster.Leader == d.options(i).Node {
				leader = i
				return nil
			}
		}
		return errors.New("nobody leads the journal")
	}); err != nil {
		d.t.Fatal(err)
	}
	return leader
}

// cutOff swallows the messages that a node sends to the others, or that it receives, or both.
func (d *definers) cutOff(i int, sends, gets bool) {
	d.t.Helper()
	var errs []error
	for other := range d.list {
		if other != i && sends {
			errs = append(errs, d.links.Cut(i, other))
		}
		if other != i && gets {
			errs = append(errs, d.links.Cut(other, i))
		}
	}
	if err := errors.Join(errs...); err != nil {
		d.t.Fatal(err)
	}
}

// goesOn waits until some changes are made.
func (d *definers) goesOn() {
	d.t.Helper()
	before := d.history.Changes()
	if err := clustertest.Eventually(func() error {
		if made := d.history.Changes() - before; made < 5 {
			return fmt.Errorf("%d changes are made", made)
		}
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
}

// heal makes the network whole, and waits until all nodes are ready.
func (d *definers) heal() {
	d.t.Helper()
	if err := d.links.Heal(); err != nil {
		d.t.Fatal(err)
	}
	for i := range d.list {
		if err := clustertest.Eventually(func() error { return d.node(i).Ready() }); err != nil {
			d.t.Fatalf("node %d: %v", i, err)
		}
	}
}

// notices waits until a node says that it is not ready.
func (d *definers) notices(i int) {
	d.t.Helper()
	if err := clustertest.Eventually(func() error {
		if d.node(i).Ready() == nil {
			return errors.New("it is ready")
		}
		return nil
	}); err != nil {
		d.t.Fatalf("node %d, which is cut off: %v", i, err)
	}
}

// disturb plays a fault while clients continue, and ends it.
func (d *definers) disturb(kind string, victim int) {
	d.t.Helper()
	switch kind {
	case "partition":
		d.cutOff(victim, true, true)
		d.notices(victim)
	case "mute":
		d.cutOff(victim, true, false)
		d.notices(victim)
	case "deaf":
		d.cutOff(victim, false, true)
		d.notices(victim)
	case "latency":
		for other := range d.list {
			if other != victim {
				if err := errors.Join(d.links.Delay(victim, other, 200), d.links.Delay(other, victim, 200)); err != nil {
					d.t.Fatal(err)
				}
			}
		}
	case "restart":
		_ = d.node(victim).Close()
	case "kill of the leader":
		victim = d.leader()
		d.kill(victim)
	case "kill":
		d.kill(victim)
	case "lost disk":
		d.mu.Lock()
		d.wiped = d.options(victim).Node
		d.mu.Unlock()
		d.kill(victim)
	}
	d.t.Logf("%s of node %d", kind, victim)
	d.goesOn()
	d.heal()
	d.mu.Lock()
	d.wiped = ""
	d.mu.Unlock()
}

// kill ends a node while it is cut off in both directions. What it stores on its disk in that moment is no more
// than a process that is killed a moment later may have stored.
func (d *definers) kill(i int) {
	d.t.Helper()
	d.cutOff(i, true, true)
	_ = d.node(i).Close()
}

// Clients change and read two sources, their sinks, settings and tokens through three nodes with real servers, while nodes are cut off, restarted
// and killed, with their disks and without. What they learn
// looks as if all of it had happened in one order. A longer run: go test . -run '^TestDefinitionsAreLinearizable$' -faults 40 -timeout 1h
func TestDefinitionsAreLinearizable(t *testing.T) {
	t.Parallel()
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 100))
	d := define(t, 2, seed)
	defer d.end()
	d.goesOn()
	kinds := []string{"partition", "lost disk", "restart", "kill of the leader", "kill", "mute", "deaf", "latency"}
	for n := range *faults {
		kind := n
		if n >= 4 {
			kind = rng.IntN(len(kinds))
		}
		d.disturb(kinds[kind], rng.IntN(len(d.list)))
	}
	d.goesOn()
	d.end()
	if err := d.history.Check(filepath.Join(t.ArtifactDir(), "history.html")); err != nil {
		t.Error(err)
	}
	t.Logf("%d changes were made, of %d operations", d.history.Changes(), d.history.Len())
}

// A node whose server leads the journal, and is cut off with it, does not pass off its knowledge as exact, while the others already have
// another leader and continue. Its Stream API warns.
func TestLeaderOfTheJournalIsCutOff(t *testing.T) {
	t.Parallel()
	d := define(t, 0, 0)
	defer d.end()
	leader := d.leader()
	other := d.node((leader + 1) % clustertest.Size).Catalog()
	d.cutOff(leader, true, true)
	attempts := 0
	id := func() string { return fmt.Sprint("source-", attempts) } // the outcome of an attempt may be unknown
	if err := clustertest.Eventually(func() error {
		attempts++
		task, err := other.CreateSource(catalog.By{Type: "user"}, catalog.SourceSpec{ID: id(), Name: id(), Type: forebay.HTTP})
		if err == nil {
			_, err = task.Wait(t.Context())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	shows := func() error {
		alone := d.node(leader).Catalog()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := alone.CatchUp(ctx); err != nil {
			return err
		}
		if _, err := alone.Source(id()); err != nil {
			t.Errorf("the node says that it has caught up, and does not have a source: %v", err)
		}
		return nil
	}
	if err := shows(); err == nil {
		t.Error("the node has caught up without the others")
	}
	// listed reports whether the Stream API of the node has the source, and its warning.
	listed := func() (ok bool, warning string, err error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/branches/default/sources", nil)
		r.Header.Set("X-StorageApi-Token", "token")
		w := httptest.NewRecorder()
		d.node(leader).Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return false, "", fmt.Errorf("the list of sources has the status %d, want 200: %s", w.Code, w.Body)
		}
		return strings.Contains(w.Body.String(), `"`+id()+`"`), w.Header().Get("X-Stream-Warning"), nil
	}
	if ok, warning, err := listed(); err != nil || ok || !strings.Contains(warning, "other nodes") {
		t.Errorf("the node that is cut off lists the source: %t, with the warning %q and the error %v; want a list without it, and a warning", ok, warning, err)
	}
	d.heal()
	if err := clustertest.Eventually(shows); err != nil {
		t.Error(err)
	}
	if err := clustertest.Eventually(func() error {
		ok, warning, err := listed()
		if err == nil && warning == "" && !ok {
			t.Error("the list of sources lacks one without a warning")
		}
		if err == nil && warning != "" {
			err = fmt.Errorf("the connected node warns: %s", warning)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
