package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// TestOwnershipSimulation lets nodes crash, stand still, lose their disks and their connections, with a store of owners that loses and
// delays messages and returns old values, and goes back in every fourth seed. Then it heals everything. It checks:
//
//   - An epoch of an instance is given once. If the store goes back, the log judges. It opens for the first node with a higher
//     epoch than before.
//   - When an instance is adopted, and at any time after that, the leases of its earlier owners last no longer than their clocks are slower
//     than the adopter's.
//   - The adopter has reached the store of owners for a lease since the last beat of an owner that still runs. While the store is away,
//     no owner counts as silent.
//   - A checkpoint that an owner has named is not forgotten by the next one, and a drained instance never has an owner again, although the
//     records of retired instances are deleted at once.
//   - In the end each instance has one valid owner, and the log is open for it.
//
// Goroutines of the same moment run in any order, so a seed may need several runs to fail again (-count 20). One seed alone prints its story.
func TestOwnershipSimulation(t *testing.T) {
	eachSeed(t, 5, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := &ownership{
				T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), goesBack: seed%4 == 3,
				owners: changelogtest.NewOwners(seed, changelogtest.Faults{}),
				given:  map[string]*ownerProcess{}, opened: map[string]heldBy{}, named: map[string]changelog.Position{}, drained: map[string]bool{},
			}
			for i := range 3 {
				w.nodes = append(w.nodes, &ownerNode{name: string(rune('a' + i)), slow: 1 + float64(w.rng.IntN(5)-2)/50})
			}
			w.play()
			w.heal()
			for _, p := range w.processes {
				p.crash()
			}
		})
	})
}

// ownership is one seed.
type ownership struct {
	*testing.T
	seed     uint64
	rng      *rand.Rand // of the goroutine of the test
	goesBack bool
	owners   *changelogtest.Owners
	nodes    []*ownerNode

	mu        sync.Mutex
	processes []*ownerProcess // all that were started
	given     map[string]*ownerProcess
	opened    map[string]heldBy // whom the log knows, by instance
	named     map[string]changelog.Position
	drained   map[string]bool
	era       uint64 // as the last who looked has read it
}

type heldBy struct {
	epoch uint64
	by    *ownerProcess
}

// ownerNode is a machine with a name, a clock and a disk.
type ownerNode struct {
	name  string
	slow  float64
	life  int           // how many disks it has lost
	era   uint64        // in which the name of its instance was drawn
	local uint64        // the epoch that its disk knows
	runs  *ownerProcess // nil if none
}

func (n *ownerNode) instance() string {
	return fmt.Sprintf("%s-%d_%s", n.name, n.era, strings.Repeat(string(rune('a'+n.life%26)), 8))
}

// begin gives the node another instance, without a disk. The caller holds the lock.
func (w *ownership) begin(n *ownerNode) {
	n.life, n.local, n.era = n.life+1, 0, w.era
}

// ownerProcess is a process of a node.
type ownerProcess struct {
	*link
	w      *ownership
	node   *ownerNode
	rng    *rand.Rand // guarded by the lock of w, like what follows
	keeps  []*changelog.Keeper
	cut    []cut
	cancel context.CancelFunc
	done   chan struct{}
}

// cut is a time without the store of owners. It lasts as long as it has no end.
type cut struct{ from, to time.Time }

// setAway shadows the method of link.
func (p *ownerProcess) setAway(away bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	n := len(p.cut)
	switch cutOff := n > 0 && p.cut[n-1].to.IsZero(); {
	case away && !cutOff:
		p.cut = append(p.cut, cut{from: time.Now()})
	case !away && cutOff:
		p.cut[n-1].to = time.Now()
	}
	p.link.setAway(away)
}

// reached returns how long the process has reached the store of owners since a moment. A beat waits for up to a sixth of a lease, so one that
// succeeds may have begun that much before the end of an interruption. Of what remains half a lease may lie between two beats that succeed.
func (p *ownerProcess) reached(since time.Time) time.Duration {
	d := time.Since(since)
	for _, c := range p.cut {
		if to := c.to.Add(-p.local() / 6); to.Sub(c.from) > p.local()/2 && to.After(since) {
			d -= to.Sub(later(since, c.from))
		}
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *ownership) tell(format string, args ...any) {
	if *seeds == 1 {
		w.Logf("%8s "+format, append([]any{time.Since(start()).Round(time.Millisecond)}, args...)...)
	}
}

// start is when the clock of a bubble begins.
func start() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// play does something at random, again and again.
func (w *ownership) play() {
	var restore func()
	var resume []func()
	for range 18 {
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		p, action := n.runs, w.rng.IntN(10)
		switch {
		case p == nil:
			w.run(n)
		case action == 0:
			w.tell("%s crashes", n.name)
			p.crash()
			w.lose(n, false)
		case action == 1:
			w.tell("%s crashes and loses its disk", n.name)
			p.crash()
			w.lose(n, true)
		case action == 2:
			w.tell("%s stands still, and another process of its name begins without its disk", n.name)
			resume = append(resume, p.stop())
			w.lose(n, true)
			w.run(n)
		case action <= 4:
			w.tell("%s stands still", n.name)
			resume = append(resume, p.stop())
		case action == 5:
			away := w.rng.IntN(2) == 0
			w.tell("%s is cut off: %t", n.name, away)
			p.setAway(away)
		case action == 6:
			away := w.rng.IntN(2) == 0
			w.tell("all are cut off: %t", away)
			w.setAway(away)
		case action == 7 && w.goesBack && restore == nil:
			w.tell("a backup is made")
			restore = w.owners.Save()
		case action == 7 && restore != nil:
			w.tell("the backup is put back")
			restore()
		case action <= 8:
			f := w.faults()
			w.tell("%+v", f)
			w.owners.SetFaults(f)
		default:
			w.tell("who stood still goes on")
			for _, f := range resume {
				f()
			}
			resume = nil
		}
		time.Sleep(time.Duration(w.rng.Int64N(int64(lease * 3 / 4))))
		w.checkLeases()
	}
	for _, f := range resume {
		f()
	}
}

// lose takes the process from a node, and its disk too if that is asked for.
func (w *ownership) lose(n *ownerNode, disk bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.runs = nil
	if disk {
		w.begin(n)
	}
}

func (w *ownership) faults() changelogtest.Faults {
	chance := func() float64 { return float64(w.rng.IntN(3)) / 8 }
	return changelogtest.Faults{
		Delay: time.Duration(w.rng.Int64N(int64(time.Second))), Timeout: lease / 4,
		LostRequests: chance(), LateRequests: chance(), LostResponses: chance(), StaleReads: chance(), SkippedVersions: chance(), BrokenWatches: chance() / 4,
	}
}

func (w *ownership) setAway(away bool) {
	for _, p := range w.processes {
		p.setAway(away)
	}
}

// checkLeases demands that the lease of an owner has ended where another owner has a higher epoch.
func (w *ownership) checkLeases() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.goesBack {
		return
	}
	for _, p := range w.processes {
		for _, k := range p.keeps {
			w.checkOthers(p, k)
		}
	}
}

// checkOthers demands that the leases of an instance's earlier owners have ended. The caller holds the lock.
func (w *ownership) checkOthers(p *ownerProcess, k *changelog.Keeper) {
	for _, q := range w.processes {
		slower := time.Duration(float64(lease) * max(0, q.slow-p.slow))
		for _, other := range q.keeps {
			if other.Instance() != k.Instance() || other.Owner().Epoch >= k.Owner().Epoch {
				continue
			}
			if left := other.Left(); left > slower+time.Microsecond {
				w.Errorf("%s belongs to %s with epoch %d, and the lease of %s with epoch %d lasts for %v, allowed are %v",
					k.Instance(), p.node.name, k.Owner().Epoch, q.node.name, other.Owner().Epoch, left, slower)
			}
		}
	}
}

// heal ends all faults, starts all nodes and waits until each instance has one owner.
func (w *ownership) heal() {
	w.tell("all faults end")
	w.owners.SetFaults(changelogtest.Faults{})
	w.setAway(false)
	for _, n := range w.nodes {
		if n.runs == nil {
			w.run(n)
		}
	}
	var problem string
	for range 200 {
		time.Sleep(lease / 3)
		synctest.Wait()
		if problem = w.unsettled(); problem == "" {
			return
		}
	}
	w.Errorf("after everything was healed, %s", problem)
}

// unsettled says which instance has not exactly one valid owner, for whom the log is open, or nothing.
func (w *ownership) unsettled() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	valid := map[string][]heldBy{}
	for _, p := range w.processes {
		for _, k := range p.keeps {
			if k.Valid() {
				valid[k.Instance()] = append(valid[k.Instance()], heldBy{k.Owner().Epoch, p})
			}
		}
	}
	for _, instance := range slices.Sorted(maps.Keys(w.opened)) {
		v, err := w.owners.Get(context.Background(), changelog.OwnerKey(instance))
		if err != nil || v.Version == 0 { // it was forgotten, or the store went back to before the instance
			if w.drained[instance] && !w.goesBack && len(valid[instance]) > 0 {
				return fmt.Sprintf("instance %s is forgotten and has the valid owners %v", instance, valid[instance])
			}
			continue
		}
		o := record(w.T, w.owners, instance)
		ended := o.State == changelog.Drained || o.State == changelog.Retired
		switch got := valid[instance]; {
		case ended && len(got) == 0:
		case ended || len(got) != 1:
			return fmt.Sprintf("instance %s (%s) has the valid owners %v", instance, o.State, got)
		case got[0].by != w.opened[instance].by:
			return fmt.Sprintf("instance %s belongs to %v, and its log to %v", instance, got[0], w.opened[instance])
		}
	}
	return ""
}

// run starts a process of a node. It takes the node's instance, or begins a new one if another node has it.
func (w *ownership) run(n *ownerNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell("%s starts with %s, epoch %d", n.name, n.instance(), n.local)
	p := &ownerProcess{link: newLink(w.owners), w: w, node: n, rng: rand.New(rand.NewPCG(w.seed, uint64(len(w.processes)+2))), done: make(chan struct{})}
	p.slow = n.slow
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	w.processes = append(w.processes, p)
	n.runs = p
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			p.live(ctx)
		}
	}()
}

// crash ends a process at once. What it has sent may still arrive.
func (p *ownerProcess) crash() {
	p.cancel()
	<-p.done
}

// live runs a process until it is fenced or ends.
func (p *ownerProcess) live(ctx context.Context) {
	w, n := p.w, p.node
	w.mu.Lock()
	instance, local, current := n.instance(), n.local, n.runs == p
	w.mu.Unlock()
	if !current { // the node has another process
		p.cancel()
		return
	}
	k, err := changelog.Take(ctx, p, instance, local, p.options(n.name))
	if errors.Is(err, changelog.ErrFenced) {
		p.readEra(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tell("%s: %v", n.name, err)
		if n.runs == p {
			w.begin(n)
		}
		return
	}
	if err != nil {
		return
	}
	defer k.Close()
	var working sync.WaitGroup
	defer working.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	working.Go(func() {
		p.work(ctx, k)
		cancel()
	})
	_ = changelog.Adopt(ctx, k, func(ctx context.Context, k *changelog.Keeper) {
		p.checkAdoption(k)
		p.work(ctx, k)
	})
}

// checkAdoption compares with what others hold at the moment of an adoption.
func (p *ownerProcess) checkAdoption(k *changelog.Keeper) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell("%s adopts %s with epoch %d", p.node.name, k.Instance(), k.Owner().Epoch)
	if w.goesBack {
		return
	}
	if w.drained[k.Instance()] {
		w.Errorf("%s was drained, and was adopted", k.Instance())
	}
	w.checkOthers(p, k)
	for _, q := range w.processes {
		for _, other := range q.keeps {
			if other.Instance() != k.Instance() || other == k || other.Err() != nil {
				continue
			}
			beat := time.Now().Add(other.Left() - q.local())
			if got := p.reached(beat); got < p.local()-time.Microsecond {
				w.Errorf("%s was adopted by %s %v after the last beat of %s, of which it reached the store of owners for %v",
					k.Instance(), p.node.name, time.Since(beat), q.node.name, got)
			}
		}
	}
}

// claim notes that the process has an epoch, and tells whether the log opens for it.
func (p *ownerProcess) claim(k *changelog.Keeper, epoch uint64) bool {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	instance := k.Instance()
	key := fmt.Sprint(instance, " ", epoch)
	if before := w.given[key]; before != nil && !w.goesBack {
		w.Errorf("epoch %s was given to %s and to %s", key, before.node.name, p.node.name)
	}
	w.given[key] = p
	if w.drained[instance] && !w.goesBack {
		w.Errorf("%s was drained, and %s has it with epoch %d", instance, p.node.name, epoch)
	}
	if position := k.Owner().CheckpointPosition; position < w.named[instance] && !w.goesBack {
		w.Errorf("epoch %s begins with checkpoint %d, %d was named before", key, position, w.named[instance])
	}
	if p.node.runs == p && instance == p.node.instance() {
		p.node.local = max(p.node.local, epoch)
	}
	open := epoch > w.opened[instance].epoch
	if open {
		w.opened[instance] = heldBy{epoch, p}
	}
	w.tell("%s has %s, epoch %d; the log is open: %t", p.node.name, instance, epoch, open)
	return open
}

// forget deletes the records of all retired instances, as this process sees them, at once.
func (p *ownerProcess) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	var retired []changelog.Versioned
	for v, err := range p.Watch(ctx, changelog.OwnerKey("")) {
		if err != nil || v.Version == 0 {
			break
		}
		var o changelog.Owner
		if o.UnmarshalJSON(v.Value) == nil && o.State == changelog.Retired {
			retired = append(retired, v)
		}
	}
	err := changelog.Forget(ctx, p, retired...)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.tell("%s forgets %d instances: %v", p.node.name, len(retired), err)
}

// readEra waits until the process has read the present era, or an older one.
func (p *ownerProcess) readEra(ctx context.Context) {
	for ctx.Err() == nil {
		name, err := changelog.NewInstance(ctx, p, "x")
		if err == nil {
			p.w.mu.Lock()
			defer p.w.mu.Unlock()
			if _, err := fmt.Sscanf(name, "x-%d_", &p.w.era); err != nil {
				p.w.Errorf("the name %s: %v", name, err)
			}
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// work uses an instance until ctx ends, the instance is fenced or drained, or the log refuses the epoch.
func (p *ownerProcess) work(ctx context.Context, k *changelog.Keeper) {
	w := p.w
	draw := func(n int64) int64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return p.rng.Int64N(n)
	}
	w.mu.Lock()
	p.keeps = append(p.keeps, k)
	w.mu.Unlock()
	last := k.Owner().Epoch
	for open := p.claim(k, last); open; {
		select {
		case <-ctx.Done():
			return
		case <-k.Done():
			return
		case <-time.After(time.Duration(draw(int64(lease)))):
		}
		switch state := k.Owner().State; draw(3) {
		case 0:
			epoch, err := k.NextEpoch(ctx)
			if err != nil {
				continue
			}
			if epoch <= last {
				w.Errorf("%s: got epoch %d after %d, want a higher one", k.Instance(), epoch, last)
			}
			last, open = epoch, p.claim(k, epoch)
		case 1:
			if k.Update(ctx, func(o *changelog.Owner) { o.CheckpointPosition++ }) == nil {
				w.mu.Lock()
				w.named[k.Instance()] = max(w.named[k.Instance()], k.Owner().CheckpointPosition)
				w.mu.Unlock()
			}
		default:
			next := map[changelog.OwnerState]changelog.OwnerState{
				changelog.Owned: changelog.Owned, changelog.Adopting: changelog.Draining, changelog.Draining: changelog.Drained,
			}[state]
			if k.Update(ctx, func(o *changelog.Owner) { o.State = next }) == nil && next == changelog.Drained {
				w.mu.Lock()
				w.drained[k.Instance()] = true
				w.mu.Unlock()
				if k.Update(ctx, func(o *changelog.Owner) { o.State = changelog.Retired }) == nil {
					p.forget(ctx)
				}
				return
			}
		}
	}
}
