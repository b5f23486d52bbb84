package instance

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// manyNodes is the number of nodes of a large cluster.
const manyNodes = 50

// TestSimulationOfManyNodes plays the faults of [TestSimulation] with 50 nodes. A lost instance has up to 49 candidates, and many nodes are lost within
// one lease. All seeds: FOREBAY_CASES=all go test ./internal/instance -run '^TestSimulationOfManyNodes$' -timeout 1h -v.
func TestSimulationOfManyNodes(t *testing.T) {
	total := map[string]int{}
	for seed := *fromSeed; seed < *fromSeed+casetest.Of(20, 1, 1); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, uint64(seed), total)
				s.steps = casetest.Of(0, 5, 5)
				for len(s.nodes) < manyNodes {
					s.node(fmt.Sprint("n", len(s.nodes)))
				}
				s.run()
			})
		}) {
			t.Fatalf("repeat with: go test ./internal/instance -run '^%s$' -from %d -v", t.Name(), seed)
		}
	}
	t.Log(total)
	for _, what := range []string{"acknowledged", "killed", "adopted", "drained"} {
		if total[what] == 0 {
			t.Errorf("it never happened: %s", what)
		}
	}
}

// calls counts the calls of all nodes, by their kind.
type calls struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[call]++
}

// take returns the calls since the last take.
func (c *calls) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := c.count
	c.count = map[string]int{}
	return count
}

// countedOwners counts the records that a store of owners sends to a node.
type countedOwners struct {
	changelog.Owners
	calls *calls
}

func (o countedOwners) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		o.calls.add("owners watch")
		for v, err := range o.Owners.Watch(ctx, prefix) {
			o.calls.add("owners record received")
			if !yield(v, err) {
				return
			}
		}
	}
}

// Nodes that have nothing to do make as many calls each in a large cluster as in a small one. A node receives the beats of all nodes, and once a minute all
// records. Nothing else may grow with the number of nodes.
func TestCallsOfManyNodes(t *testing.T) {
	perNode := map[int]map[string]float64{} // calls of a node in a minute, by the number of nodes
	const minutes = 3
	sizes := []int{3, 10, manyNodes}
	for _, n := range sizes {
		synctest.Test(t, func(t *testing.T) {
			w, c := newWorld(t, 1), &calls{count: map[string]int{}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var adopting sync.WaitGroup
			for k := range n {
				node := w.node(fmt.Sprint("n", k))
				p := &worldProcess{link: &link{w: w, name: node.name}, node: node, disk: node.disk}
				p.setHooks(func(call string) error { c.add(call); return nil }, nil)
				o := p.options()
				o.Owners = countedOwners{o.Owners, c}
				i, err := Open(ctx, "node", o)
				if err != nil {
					t.Fatalf("node %d of %d cannot open: %v", k, n, err)
				}
				if err := i.Engine().Define(ctx, worldSource); err != nil {
					t.Fatalf("node %d of %d cannot define the source: %v", k, n, err)
				}
				adopting.Go(func() { _ = changelog.Adopt(ctx, i.Keeper(), i.Drain) })
				defer func() {
					cancel()
					adopting.Wait()
					if err := i.Close(); err != nil {
						t.Errorf("node %d of %d cannot close: %v", k, n, err)
					}
				}()
			}
			time.Sleep(time.Minute + sweepEvery/2) // so that no sweep begins with the count
			c.take()
			time.Sleep(minutes * time.Minute)
			perNode[n] = map[string]float64{}
			for call, count := range c.take() {
				perNode[n][call] = float64(count) / minutes / float64(n)
			}
		})
	}
	const beats, sweeps = float64(time.Minute / (worldLease / 4)), float64(time.Minute / sweepEvery) // a beat is a probe of a candidate
	for _, n := range sizes {
		t.Logf("%d nodes, calls of a node in a minute: %v", n, perNode[n])
		if got := perNode[n]["owners set"]; got > 1.1*beats {
			t.Errorf("each of %d nodes makes %.3g calls \"owners set\" in a minute, want at most %.3g", n, got, beats)
		}
		received := beats*float64(n) + sweeps*float64(n+1)
		if got := perNode[n]["owners record received"]; got > 1.1*received {
			t.Errorf("each of %d nodes receives %.3g records in a minute, want at most %.3g: a beat of each node, and all records once", n, got, received)
		}
	}
	few, many := perNode[sizes[0]], perNode[manyNodes]
	for _, call := range slices.Sorted(maps.Keys(many)) {
		if call != "owners record received" && many[call] > 1.1*few[call] {
			t.Errorf("each of %d nodes makes %.3g calls %q in a minute, of %d nodes %.3g", manyNodes, many[call], call, sizes[0], few[call])
		}
	}
}

// A tenth of 50 nodes is lost at once, with their disks. The others have retired all lost instances within three leases, and no row is lost.
func TestTenthOfManyNodesIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.log.SetFaults(changelogtest.Faults{Delay: 5 * time.Millisecond})
		w.owners.SetFaults(changelogtest.Faults{Delay: 5 * time.Millisecond})
		for k := range manyNodes {
			w.node(fmt.Sprint("n", k)).start()
		}
		for _, n := range w.nodes {
			n.runs.put(n.runs.opened(), 5)
		}
		lost := map[string]bool{}
		for _, n := range w.nodes[:manyNodes/10] {
			lost[n.runs.opened().Keeper().Instance()] = true
		}
		for _, n := range w.nodes[:manyNodes/10] {
			n.kill(nil, true)
		}
		began := time.Now()
		adopters := map[string]bool{}
		w.await("the lost instances are retired", func() bool {
			retired := 0
			for name, o := range w.records() {
				if lost[name] && o.State != changelog.Owned {
					adopters[o.Node] = true
				}
				if lost[name] && o.State == changelog.Retired {
					retired++
				}
			}
			return retired == len(lost)
		})
		took := time.Since(began)
		t.Logf("%d instances were retired after %s by %d nodes", len(lost), took, len(adopters))
		if took > 3*worldLease {
			t.Errorf("the lost instances were retired after %s, want at most three leases of %s", took, worldLease)
		}
		w.settle()
	})
}
