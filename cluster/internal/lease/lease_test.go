package lease

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

const length = 12 * time.Second

// line is the connection of a process to the store of owners. While it is cut no call gets a response.
type line struct {
	changelog.Owners
	mu  sync.Mutex
	cut bool
}

func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *line) pass(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if !cut {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (l *line) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	if err := l.pass(ctx); err != nil {
		return changelog.Versioned{}, err
	}
	return l.Owners.Get(ctx, key)
}

func (l *line) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	if err := l.pass(ctx); err != nil {
		return 0, err
	}
	version, err := l.Owners.CompareAndSet(ctx, key, old, value)
	return version, errors.Join(err, l.pass(ctx))
}

func (l *line) Delete(context.Context, string, changelog.Version) error { panic("leases stay") }

func (l *line) Watch(context.Context, string) iter.Seq2[changelog.Versioned, error] {
	panic("leases do not watch")
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// take takes the lease within a time.
func take(t *testing.T, l *Leases, within time.Duration) (lost <-chan struct{}, release func(), err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return l.Take(ctx, "x")
}

func mustTake(t *testing.T, l *Leases, within time.Duration) (lost <-chan struct{}, release func()) {
	t.Helper()
	lost, release, err := take(t, l, within)
	if err != nil {
		t.Fatal(err)
	}
	return lost, release
}

func ended(lost <-chan struct{}) bool {
	select {
	case <-lost:
		return true
	default:
		return false
	}
}

// A lease is shared by the calls of one process and keeps out a second process, which gets it soon after the last call has ended.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		a, b := New(owners, "a", length, quiet()), New(owners, "b", length, quiet())
		defer a.Close()
		defer b.Close()
		lost, first := mustTake(t, a, time.Second)
		_, second := mustTake(t, a, time.Second)
		time.Sleep(10 * length)
		if ended(lost) {
			t.Error("a lease that is renewed has ended")
		}
		_, _, err := take(t, b, time.Second)
		leased, ok := errors.AsType[*driver.LeasedError](err)
		if !ok || leased.Holder != "a" || leased.Name != "x" {
			t.Errorf("Take while another node has the lease: %v", err)
		}
		first()
		first() // does nothing
		if _, _, err := take(t, b, time.Second); err == nil {
			t.Error("the lease was given back with the first of two calls")
		}
		second()
		_, release := mustTake(t, b, time.Second)
		defer release()
		if _, _, err := take(t, a, 2*length); !errors.As(err, &leased) || leased.Holder != "b" {
			t.Errorf("Take while b has the lease: %v", err)
		}
	})
}

// A process that takes the lease again and again lets the others have their turns.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{Delay: 5 * time.Millisecond})
		var users sync.WaitGroup
		turns := make([]int, 3)
		for i := range turns {
			l := New(owners, fmt.Sprint(i), length, quiet())
			defer l.Close()
			for user := range 3 { // their calls overlap, so that there is always one
				users.Go(func() {
					for end := time.Now().Add(20 * length); time.Now().Before(end); {
						_, release, err := take(t, l, 10*time.Minute) // of two that wait, chance decides
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(time.Duration(700+200*user) * time.Millisecond)
						release()
						if user == 0 {
							turns[i]++
						}
					}
				})
			}
		}
		users.Wait()
		for i, n := range turns {
			if n < 5 {
				t.Errorf("process %d had %d of %v turns", i, n, turns)
			}
		}
	})
}

// A holder that is cut off learns it within two thirds of a lease. Another process takes the lease after a whole one, and not before.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		cable := &line{Owners: owners}
		a, b := New(cable, "a", length, quiet()), New(owners, "b", length, quiet())
		defer a.Close()
		defer b.Close()
		lost, release := mustTake(t, a, time.Second)
		defer release()
		time.Sleep(3 * length)
		cable.set(true)
		cut := time.Now()
		_, other := mustTake(t, b, 3*length)
		defer other()
		if took := time.Since(cut); took < length*5/6 || took > 2*length { // the last beat was a sixth before, or later
			t.Errorf("another process has the lease after %s", took)
		}
		if !ended(lost) {
			t.Error("the holder was not told")
		}
		cable.set(false)
		if _, _, err := take(t, a, length); err == nil {
			t.Error("two processes have the lease")
		}
	})
}

// While the store is away no process takes the lease of another, and the error says so.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		cables := [2]*line{{Owners: owners}, {Owners: owners}}
		a, b := New(cables[0], "a", length, quiet()), New(cables[1], "b", length, quiet())
		defer a.Close()
		defer b.Close()
		lost, release := mustTake(t, a, time.Second)
		defer release()
		waiting, cancel := context.WithCancel(t.Context())
		defer cancel()
		granted := make(chan error, 1)
		go func() {
			_, release, err := b.Take(waiting, "x")
			if err == nil {
				release()
			}
			granted <- err
		}()
		time.Sleep(time.Second)
		for _, c := range cables {
			c.set(true)
		}
		time.Sleep(length * 2 / 5) // both come back before the lease has ended
		_, _, err := take(t, b, time.Second)
		if leased := (*driver.LeasedError)(nil); err == nil || errors.As(err, &leased) {
			t.Errorf("Take without a store: %v", err)
		}
		for _, c := range cables {
			c.set(false)
		}
		time.Sleep(length)
		if ended(lost) {
			t.Error("the lease has ended although the store was away for a moment only")
		}
		select {
		case err := <-granted:
			t.Errorf("another process has the lease too: %v", err)
		default:
		}
		cancel()
		<-granted
	})
}

// A record that a later release wrote is left alone.
func TestNewerRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := changelogtest.NewOwners(1, changelogtest.Faults{})
		if _, err := owners.CompareAndSet(t.Context(), key("x"), 0, []byte(`{"format":2}`)); err != nil {
			t.Fatal(err)
		}
		l := New(owners, "a", length, quiet())
		defer l.Close()
		if _, _, err := take(t, l, length); err == nil || errors.As(err, new(*driver.LeasedError)) {
			t.Errorf("got %v, want an error and !errors.As(err, new(*driver.LeasedError))", err)
		}
	})
}

var (
	seeds    = flag.Int("seeds", 40, "number of seeds that the simulation plays; with -short at most 10")
	fromSeed = flag.Int("from", 0, "the first seed")
)

// TestSimulation lets processes take a lease, stand still, be cut off and be killed, while messages to the store are lost or late and its
// reads are old. It checks that no two processes use the lease at once, except for one that stands still, and that each process gets it
// in the end.
func TestSimulation(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 10)
	}
	total := map[string]int{}
	for seed := *fromSeed; seed < *fromSeed+n; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulation(t, uint64(seed), total).run() })
		}) {
			t.Fatalf("repeat with: go test ./internal/lease -run '^%s$' -from %d -seeds 1 -v", t.Name(), seed)
		}
	}
	t.Log(total)
	if n < 20 {
		return
	}
	for _, what := range []string{"turn", "lost", "killed", "stands still past the lease", "cut off"} {
		if total[what] == 0 {
			seedtest.Missed(t, "in %d seeds it never happened: %s", n, what)
		}
	}
	if what := besideStill; n >= 300 && total[what] == 0 { // it is rare
		seedtest.Missed(t, "in %d seeds it never happened: %s", n, what)
	}
}

// besideStill counts how often a process uses the lease while the holder before it stands still in the middle of a call.
const besideStill = "beside one that stands still"

type simulation struct {
	*testing.T
	rng    *rand.Rand
	owners *changelogtest.Owners
	list   []*process
	users  sync.WaitGroup

	mu     sync.Mutex
	count  map[string]int
	inside map[*process]int
}

// process uses the lease until it is killed.
type process struct {
	*Leases
	sim   *simulation
	name  string
	cable *line
	ctx   context.Context
	kill  context.CancelFunc

	// Guarded by simulation.mu.
	still chan struct{} // if not nil, it stands still until this is closed
	turns int
}

func newSimulation(t *testing.T, seed uint64, count map[string]int) *simulation {
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func(p float64) float64 { return p * float64(rng.IntN(3)) / 2 }
	s := &simulation{T: t, rng: rng, count: count, inside: map[*process]int{}, owners: changelogtest.NewOwners(seed, changelogtest.Faults{
		Delay: time.Duration(rng.IntN(100)) * time.Millisecond, Timeout: time.Second,
		LostRequests: some(0.2), LateRequests: some(0.1), LostResponses: some(0.2), StaleReads: some(0.3),
	})}
	for _, name := range []string{"a", "b", "c"} {
		s.list = append(s.list, s.start(name))
	}
	return s
}

func (s *simulation) start(name string) *process {
	cable := &line{Owners: s.owners}
	p := &process{Leases: New(cable, name, length, quiet()), sim: s, name: name, cable: cable}
	p.ctx, p.kill = context.WithCancel(s.Context())
	for range 2 {
		pauses := rand.New(rand.NewPCG(s.rng.Uint64(), 1))
		s.users.Go(func() {
			for p.ctx.Err() == nil {
				p.use(pauses)
			}
		})
	}
	return p
}

// use takes the lease and uses it for some time. It ends within a third of the lease when that is lost, unless the process stands still.
func (p *process) use(rng *rand.Rand) {
	s := p.sim
	defer func() { sleep(p.ctx, time.Duration(rng.Int64N(int64(2*time.Second)))) }()
	waiting, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	lost, release, err := p.Take(waiting, "x")
	if err != nil {
		return
	}
	defer release()
	p.awake()
	if p.ctx.Err() != nil || ended(lost) {
		return
	}
	s.mu.Lock()
	s.count["turn"]++
	p.turns++
	for other := range s.inside {
		switch {
		case other == p:
		case other.still != nil:
			s.count[besideStill]++
		default:
			s.Errorf("%s uses the lease beside %s", p.name, other.name)
		}
	}
	s.inside[p]++
	s.mu.Unlock()
	select {
	case <-time.After(time.Duration(rng.Int64N(int64(length)))):
	case <-p.ctx.Done():
	case <-lost:
		s.mu.Lock()
		s.count["lost"]++
		s.mu.Unlock()
		sleep(p.ctx, time.Duration(rng.Int64N(int64(length/3-time.Second))))
	}
	p.awake()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[p]--; s.inside[p] <= 0 || p.ctx.Err() != nil {
		delete(s.inside, p)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// awake waits while the process stands still.
func (p *process) awake() {
	p.sim.mu.Lock()
	still := p.still
	p.sim.mu.Unlock()
	if still != nil {
		select {
		case <-still:
		case <-p.ctx.Done():
		}
	}
}

// stop lets the process stand still. Its requests get no response, and its work continues later. After that it needs a moment to notice
// that its lease has ended.
func (p *process) stop(d time.Duration) {
	s := p.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.still != nil {
		return
	}
	if d > length {
		s.count["stands still past the lease"]++
	}
	still := make(chan struct{})
	p.still = still
	p.cable.set(true)
	time.AfterFunc(d, func() {
		p.cable.set(false)
		close(still)
		time.AfterFunc(time.Millisecond, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			p.still = nil
		})
	})
}

func (s *simulation) run() {
	for range 30 {
		i := s.rng.IntN(len(s.list))
		p := s.list[i]
		switch s.rng.IntN(6) {
		case 0:
			p.stop(time.Duration(s.rng.Int64N(int64(3 * length))))
		case 1:
			s.mu.Lock()
			s.count["cut off"]++
			s.mu.Unlock()
			p.cable.set(true)
			time.AfterFunc(time.Duration(s.rng.Int64N(int64(2*length))), func() { p.cable.set(false) })
		case 2:
			s.mu.Lock()
			s.count["killed"]++
			delete(s.inside, p)
			s.mu.Unlock()
			p.cable.set(true)
			p.die()
			s.list[i] = s.start(p.name)
		}
		time.Sleep(time.Duration(s.rng.Int64N(int64(length))))
	}
	s.owners.SetFaults(changelogtest.Faults{})
	time.Sleep(4 * length)
	s.mu.Lock()
	for _, p := range s.list {
		p.turns = 0
	}
	s.mu.Unlock()
	time.Sleep(20 * length)
	s.mu.Lock()
	for _, p := range s.list {
		if p.turns == 0 {
			s.Errorf("%s does not get the lease any more", p.name)
		}
	}
	s.mu.Unlock()
	for _, p := range s.list {
		p.die()
	}
	s.users.Wait()
}

func (p *process) die() {
	p.kill()
	p.Close()
}
