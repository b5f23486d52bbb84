package instance

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

var (
	seeds    = flag.Int("seeds", 15, "number of seeds that the simulation plays; with -short at most 5")
	fromSeed = flag.Int("from", 0, "the first seed")
)

// TestSimulation lets nodes accept rows and reject records, have the tables on their disks rot, be killed with and without their disks, stand still for
// longer than their lease, end and come back, while messages to the log, to the store of owners, to staging and to the tables are lost or late. Logs
// lose their end, or all. In some seeds the tables refuse all rows, so that files move. Then it heals everything. It checks that every acknowledged row is in the table once and no row is there twice, that every
// rejected record is in one quarantine, and that nothing is left of the instances that were adopted.
//
// Goroutines of the same moment run in any order, so a seed may need several runs to fail again (-count 20). One seed alone prints its
// story.
func TestSimulation(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 5)
	}
	total := map[string]int{}
	for seed := *fromSeed; seed < *fromSeed+n; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulation(t, uint64(seed), total).run() })
		}) {
			t.Fatalf("repeat with: go test ./internal/instance -run '^%s$' -from %d -seeds 1 -v", t.Name(), seed)
		}
	}
	t.Log(total)
	// A simulation in which nothing happens proves nothing.
	for least, happens := range map[int][]string{
		50: {
			"acknowledged", "acknowledged by the disk alone", "killed while the log lacks rows", "in doubt", "killed", "killed, disk lost", "stands still past the lease", "ended", "adopted", "adopted again", "drained",
			"checkpoint", "rejected", "checkpoint fetched", "fenced", "call failed", "put half-way", "answer lost", "no majority", "rotten", "another log", "held",
			"files moved",
		},
		// These happen in about one of ten seeds: 50 seeds lack one of them now and then.
		150: {"slow log", "clock wrong", "forgotten", "void", "restored", "hole of replica 0", "hole of replica 1", "hole of replica 2", "log gone", "log went back", "killed while the log is lost"},
	} {
		for _, what := range happens {
			if n >= least && total[what] == 0 {
				seedtest.Missed(t, "in %d seeds it never happened: %s", n, what)
			}
		}
	}
}

// simulation is one seed.
type simulation struct {
	*world
	rng    *rand.Rand // of the goroutine of the test
	faulty float64    // how many calls of staging and tables fail
	slow   int64      // how long they take at most
	lossy  bool       // two replicas of the logs lose records, each others
	whole  int        // the third
	loses  bool       // all replicas do
	blocks bool       // tables refuse all rows until everything is healed
	steps  int        // for three nodes; 0 draws it
	aged   bool       // an hour has passed

	mu    sync.Mutex
	chaos *rand.Rand // of the others
	count map[string]int
	times map[string]int // how often an instance was adopted
}

func newSimulation(t *testing.T, seed uint64, count map[string]int) *simulation {
	s := &simulation{world: newWorld(t, seed), rng: rand.New(rand.NewPCG(seed, 1)), chaos: rand.New(rand.NewPCG(seed, 2)), count: count, times: map[string]int{}}
	s.story = *seeds == 1
	s.localSink = seed%2 == 0
	s.logs = s
	s.checkpointBytes = int64(2+s.rng.IntN(30)) << 10
	if s.rng.IntN(3) == 0 {
		s.log.MaxBytes = 96 << 10
	}
	s.faulty = 0.1 * float64(s.rng.IntN(3)) / 2
	s.lossy = s.rng.IntN(4) == 0
	s.whole = s.rng.IntN(3)
	s.loses = s.rng.IntN(3) > 0
	s.slow = []int64{1, 1e8, 3e9}[s.rng.IntN(3)]
	s.blocks = s.rng.IntN(4) == 0
	some := func(p float64) float64 { return p * float64(s.rng.IntN(3)) / 2 }
	delay := time.Duration(s.rng.IntN(50)) * time.Millisecond
	if seed%5 == 0 { // the disks of the servers are slow
		delay *= 10
		s.saw("slow log")
	}
	s.log.SetFaults(changelogtest.Faults{
		Delay: delay, Timeout: time.Second,
		LostRequests: some(0.01), LateRequests: some(0.01), RepeatedRequests: some(0.05), LostResponses: some(0.01), NewLeaders: some(0.01), StaleReads: some(0.1),
		DuplicateWindow: []time.Duration{0, time.Second}[s.rng.IntN(2)],
	})
	s.owners.SetFaults(changelogtest.Faults{
		Delay: delay, Timeout: time.Second,
		LostRequests: some(0.1), LateRequests: some(0.05), LostResponses: some(0.1), StaleReads: some(0.2), SkippedVersions: some(0.2), BrokenWatches: some(0.05),
	})
	for _, name := range []string{"a", "b", "c"} {
		s.node(name)
	}
	return s
}

func (s *simulation) saw(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
}

func (s *simulation) tell(format string, args ...any) {
	if s.story {
		s.Logf("%9s "+format, append([]any{time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Round(time.Millisecond)}, args...)...)
	}
}

func (s *simulation) run() {
	for _, n := range s.nodes {
		s.start(n)
	}
	for range cmp.Or(s.steps, 20+s.rng.IntN(30)) * s.threes() {
		s.step()
		time.Sleep(time.Duration(s.rng.Int64N(int64(worldLease/3))) / time.Duration(s.threes()))
	}
	s.heal()
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count["acknowledged"] += len(s.acked)
	s.count["rejected"] += len(s.rejected)
	s.count["acknowledged by the disk alone"] += len(s.local)
	s.count["void"] += s.void
	for id := range s.local {
		if s.acked[id] == "" {
			s.sent-- // it was acknowledged
		}
	}
	s.count["in doubt"] += s.sent - len(s.acked)
}

// threes says how many times as many faults as three nodes these nodes have in the same time.
func (s *simulation) threes() int { return len(s.nodes) / 3 }

// victim returns the node for the next step, an adopter if there is one half of the time.
func (s *simulation) victim() *worldNode {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if s.rng.IntN(2) == 0 {
		return n
	}
	for _, o := range s.records() {
		if o.State == changelog.Adopting || o.State == changelog.Draining {
			at := slices.IndexFunc(s.nodes, func(n *worldNode) bool { return n.name == o.Node })
			return s.nodes[at]
		}
	}
	return n
}

func (s *simulation) step() {
	n := s.victim()
	p, action := n.runs, s.rng.IntN(100)
	switch {
	case p == nil:
		if action < 60 {
			s.start(n)
		}
	case action < 5 && s.localSink:
		s.loseTail(n)
	case action < 55:
		rows := 1 + s.rng.IntN(30)
		for range 1 + s.rng.IntN(3) {
			s.clients.Go(func() {
				if i := p.open(); i != nil {
					p.put(i, rows)
				}
			})
		}
		if s.rng.IntN(4) == 0 {
			s.clients.Go(func() {
				if i := p.open(); i != nil {
					p.reject(i, rows%4)
				}
			})
		}
	case action < 63:
		s.tell("%s is killed", n.name)
		s.saw("killed")
		n.kill(s.rng, false)
		if s.rng.IntN(2) == 0 {
			s.start(n)
		}
	case action < 69:
		s.tell("%s is killed and its disk is lost", n.name)
		s.saw("killed, disk lost")
		n.kill(s.rng, true)
		if s.rng.IntN(2) == 0 {
			s.start(n)
		}
	case action < 79:
		d := time.Duration(s.rng.Int64N(int64(3 * worldLease)))
		s.tell("%s stands still for %s", n.name, d)
		if d > worldLease {
			s.saw("stands still past the lease")
		}
		p.stop()
		time.AfterFunc(d, p.resume)
	case action < 82:
		if i := p.open(); i != nil {
			s.tell("the tables of %s rot", n.name)
			s.saw("rotten")
			s.rot(i.Keeper().Instance())
			corrupt(s.T, p.disk, "node/data/"+i.Keeper().Instance()+"/local")
		}
	case action < 84 && s.loses:
		s.loseLog(n)
	case action < 86:
		s.tell("%s ends", n.name)
		s.saw("ended")
		n.stop()
	case action < 89:
		s.moveClocks()
	default:
		s.hurtLog()
	}
}

// moveClocks lets the clocks of nodes that retired instances have been wrong by weeks, forth or back. Once it gives the others the time to delete the records that
// look old, perhaps while the owner of such an instance is away.
func (s *simulation) moveClocks() {
	wrong := time.Duration(2*s.rng.IntN(2)-1) * 2 * keepRetired
	for instance, o := range s.records() {
		if o.State != changelog.Retired {
			continue
		}
		s.saw("clock wrong")
		s.rot(instance) // without its record the test cannot tell that it was adopted
		o.RetiredAt = o.RetiredAt.Add(wrong)
		value, err := o.MarshalJSON()
		if err != nil {
			s.Error(err)
		}
		v, err := s.owners.Get(context.Background(), changelog.OwnerKey(instance))
		if err == nil {
			_, _ = s.owners.CompareAndSet(context.Background(), v.Key, v.Version, value) // messages may be lost
		}
	}
	before := s.records()
	if wrong > 0 || s.aged || !slices.ContainsFunc(slices.Collect(maps.Values(before)), func(o changelog.Owner) bool { return o.State == changelog.Retired }) {
		return
	}
	s.tell("an hour passes")
	s.aged = true // the store of owners keeps all versions, so a second hour takes long
	time.Sleep(forgetAfter + 10*sweepEvery)
	after := s.records()
	for instance := range before {
		if _, ok := after[instance]; !ok {
			s.saw("forgotten")
		}
	}
}

// hurtLog changes the leader of a log, removes records from a replica, or stops the majority for some time.
func (s *simulation) hurtLog() {
	for instance, o := range s.records() {
		if s.rng.IntN(2*s.threes()) != 1 {
			continue
		}
		name := o.LogName(instance)
		stat, err := s.log.Stat(context.Background(), name)
		there := func() bool { // that of another may be deleted by now
			now := s.records()[instance]
			return now.State == changelog.Owned && now.LogName(instance) == name
		}
		if !there() {
			continue
		}
		switch s.rng.IntN(3) {
		case 0:
			s.log.Elect(name, s.rng.IntN(3))
		case 1: // another replica has what one has lost
			if s.lossy && err == nil && stat.Last >= stat.First {
				at := stat.First + changelog.Position(s.rng.Uint64N(uint64(stat.Last-stat.First+1)))
				replica := (s.whole + 1 + int(at%2)) % 3
				s.saw(fmt.Sprint("hole of replica ", replica))
				s.log.Hole(name, replica, at)
			}
		default:
			away := s.rng.Perm(3)[:1+s.rng.IntN(2)]
			heal := s.log.Cut(name, away...)
			if len(away) == 2 {
				s.saw("no majority")
				s.fillTail(o.Node)
				if s.rng.IntN(2) == 0 && there() { // the leader is lost, with entries that no other replica has
					s.log.Elect(name, away[0])
				}
			}
			time.AfterFunc(time.Duration(s.rng.IntN(5000))*time.Millisecond, heal)
		}
	}
}

// loseLog takes from all replicas of a log a part that the record knows of, or all, and waits until the owner has begun another log. The
// owner keeps its disk meanwhile. At first it may be killed, but an owner that is killed again and again hardly ever ends its checkpoint. Calls
// fail all the time.
func (s *simulation) loseLog(n *worldNode) {
	name, o := s.owned(n)
	if name == "" || s.lostTwice[name] || s.rotten[name] {
		return // or another node decides about the loss
	}
	kill := func() {
		s.saw("killed while the log is lost")
		n.kill(s.rng, false)
		s.start(n)
	}
	if s.rng.IntN(2) == 0 {
		n.kill(s.rng, false)
	}
	log, through := o.LogName(name), s.rollbackTo(o.LogName(name), o.Released)
	if s.rng.IntN(2) == 0 || through == 0 {
		s.tell("the log %s is gone", log)
		s.saw("log gone")
		for s.log.Delete(context.Background(), log) != nil { // until it responds
		}
	} else {
		s.tell("the log %s goes back to %d", log, through-1)
		s.saw("log went back")
		s.log.Rollback(log, through-1)
	}
	if n.runs == nil {
		s.start(n)
	}
	for second := range 600 {
		switch now := s.records()[name]; {
		case now.Generation > o.Generation:
			s.saw("another log")
			return
		case now.Node != n.name || now.State != changelog.Owned:
			s.tell("%s is adopted without its log", name)
			s.lostTwice[name] = true
			return
		}
		if second < 200 && s.rng.IntN(20) == 0 {
			kill()
		}
		p := n.runs
		s.clients.Go(func() {
			if i := p.open(); i != nil {
				p.put(i, 1) // an owner without rows has no reason to look into its log
			}
		})
		time.Sleep(time.Second)
	}
	s.Errorf("no other log is begun for %s: %+v", name, s.records()[name])
}

// rollbackTo returns the position of a batch of a log that the record says was acknowledged, so that a log that goes back before it is
// known to have lost something; 0 if there is none.
func (s *simulation) rollbackTo(log string, released uint64) changelog.Position {
	stat, err := s.log.Stat(context.Background(), log)
	if err != nil {
		return 0
	}
	var at []changelog.Position
	for e, err := range s.log.Read(context.Background(), log, stat.First) {
		if err != nil {
			break
		}
		if e.Kind == changelog.Batch && e.Number <= released {
			at = append(at, e.Position)
		}
	}
	if len(at) == 0 {
		return 0
	}
	return at[s.rng.IntN(len(at))]
}

// owned returns the instance that a node has open, with its record; "" if the record says that it is not the node's own.
func (s *simulation) owned(n *worldNode) (string, changelog.Owner) {
	if i := n.runs.open(); i != nil {
		name := i.Keeper().Instance()
		if o := s.records()[name]; o.State == changelog.Owned && o.Node == n.name {
			return name, o
		}
	}
	return "", changelog.Owner{}
}

// loseTail kills a node, with its disk, while its log lacks rows that the disk acknowledged, and half of the time with the leader of the
// log, which alone has them.
func (s *simulation) loseTail(n *worldNode) {
	instance, o := s.owned(n)
	if instance == "" {
		return
	}
	log, away := o.LogName(instance), s.rng.Perm(3)[:2]
	heal := s.log.Cut(log, away...)
	s.putTail(n.runs)
	s.tell("%s is killed and its disk is lost while the log lacks rows", n.name)
	s.saw("killed while the log lacks rows")
	n.kill(s.rng, true)
	if now := s.records()[instance]; s.rng.IntN(2) == 0 && now.State == changelog.Owned && now.LogName(instance) == log {
		s.log.Elect(log, away[0])
	}
	time.AfterFunc(time.Duration(s.rng.IntN(5000))*time.Millisecond, heal)
}

// putTail sends rows that the disk acknowledges, and gives them time to arrive.
func (s *simulation) putTail(p *worldProcess) {
	s.clients.Go(func() {
		if i := p.open(); i != nil {
			p.putLocal(i, 5)
		}
	})
	time.Sleep(100 * time.Millisecond)
}

// fillTail has rows acknowledged that the log of a node lacks, and half of the time kills the node then.
func (s *simulation) fillTail(node string) {
	n := s.nodes[slices.IndexFunc(s.nodes, func(n *worldNode) bool { return n.name == node })]
	if !s.localSink || n.runs == nil {
		return
	}
	kill := s.rng.IntN(2) == 0
	s.putTail(n.runs)
	if kill {
		s.tell("%s is killed while the log lacks rows", n.name)
		s.saw("killed while the log lacks rows")
		n.kill(s.rng, s.rng.IntN(3) == 0)
		s.start(n)
	}
}

var errFault = errors.New("a fault of the simulation")

// start starts a process whose calls of staging and tables may fail, before or after they took effect.
func (s *simulation) start(n *worldNode) {
	s.tell("%s starts", n.name)
	fault := func(what string) func(string) error {
		return func(call string) error {
			if strings.HasPrefix(call, "log") || strings.HasPrefix(call, "owners") {
				return nil
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if what == "call failed" {
				pause := time.Duration(s.chaos.Int64N(s.slow))
				s.mu.Unlock()
				time.Sleep(pause)
				s.mu.Lock()
			}
			if s.blocks && strings.HasPrefix(call, "import") {
				s.count["held"]++
				return driver.Permanent(errFault)
			}
			if s.chaos.Float64() >= s.faulty {
				return nil
			}
			s.count[what]++
			if what == "call failed" && strings.HasPrefix(call, "put ") && s.chaos.IntN(2) == 0 {
				s.count["put half-way"]++
				return errHalf
			}
			return errFault
		}
	}
	n.start().setHooks(fault("call failed"), fault("answer lost"))
}

func (s *simulation) heal() {
	s.tell("everything is healed")
	s.mu.Lock()
	s.faulty, s.slow, s.blocks = 0, 1, false
	s.mu.Unlock()
	s.log.SetFaults(changelogtest.Faults{})
	s.owners.SetFaults(changelogtest.Faults{})
	for _, n := range s.nodes {
		if n.runs == nil {
			s.start(n)
		} else {
			n.runs.resume()
		}
	}
	time.Sleep(10 * time.Second) // late messages arrive, cuts heal
	s.clients.Wait()
}

// Enabled, Handle, WithAttrs and WithGroup implement [slog.Handler]. Log records of the processes are counted.
func (s *simulation) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (s *simulation) Handle(_ context.Context, r slog.Record) error {
	for text, what := range map[string]string{
		"instance adopted from a silent node":         "adopted",
		"adopted instance drained":                    "drained",
		"log trimmed after a checkpoint":              "checkpoint",
		"checkpoint fetched":                          "checkpoint fetched",
		"set aside and restored":                      "restored",
		"new instance begun":                          "fenced",
		"log or checkpoint of the instance lost data": "damaged",
		"rows lost in local level and log":            "damaged",
	} {
		if strings.Contains(r.Message, text) {
			s.saw(what)
		}
	}
	if r.Message == "rest of the adopted instance moved" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "files" && a.Value.Int64() > 0 {
				s.saw("files moved")
			}
			return true
		})
	}
	if strings.Contains(r.Message, "instance adopted from a silent node") {
		r.Attrs(func(a slog.Attr) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if a.Key == "instance" {
				if s.times[a.Value.String()]++; s.times[a.Value.String()] > 1 {
					s.count["adopted again"]++
				}
			}
			return true
		})
	}
	return nil
}

func (s *simulation) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s *simulation) WithGroup(string) slog.Handler      { return s }
