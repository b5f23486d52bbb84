package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// TestSimulation lets owners append, crash, come back and adopt each other's instance over a log that delays and loses messages, loses
// its leader and its majority. Whatever was released must be read by the last owner, exactly once, in order.
func TestSimulation(t *testing.T) {
	total := map[string]int{}
	eachSeed(t, 1, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, seed)
			s.run()
			for what, n := range s.count {
				total[what] += n
			}
		})
	})
	t.Log(total)
	if *seeds < 100 || testing.Short() {
		return
	}
	// A simulation in which nothing happens proves nothing.
	for _, what := range []string{
		"released", "failed", "suspect", "works again", "cannot go on", "adopted", "restarted", "crashed", "applied", "trimmed",
		"restored", "went back", "incomplete", "void", "same epoch", "same epoch again", "no majority", "hole of replica 0", "hole of replica 1", "hole of replica 2", "hole at the end", "asked others", "full", "checkpointed", "not checkpointed",
	} {
		if total[what] == 0 {
			seedtest.Missed(t, "in %d seeds it never happened: %s", *seeds, what)
		}
	}
}

const simInstance = "i"

// simulation is one instance with all nodes that ever owned it.
type simulation struct {
	t    *testing.T
	rng  *rand.Rand         // of the main goroutine
	log  *changelogtest.Log // what happens to it
	seen changelog.Log      // what nodes see of it

	faults     changelogtest.Faults
	checkpoint []string                  // where a node without a store begins
	marks      map[string]changelog.Mark // by the data of a batch
	trimmed    uint64                    // the last batch that the log may lack
	payload    int                       // counts the batches
	goesBack   bool                      // the record of the owner does
	whole      int                       // the replica that loses nothing
	large      bool                      // some batches have several parts

	mu       sync.Mutex
	chaos    *rand.Rand // of the others
	owner    *simNode
	opened   *simNode // had the last epoch
	epoch    uint64
	highest  uint64 // of all epochs
	nodes    []*simNode
	released map[uint64]string // by number
	count    map[string]int
}

type simNode struct {
	s        *simulation
	name     string
	disk     []string            // the batches of its store. Their marks are a part of the data of real ones
	yields   bool                // the store can yield its batches
	keep     int                 // so many batches of the disk are safe, because the log was trimmed for them
	appender *changelog.Appender // nil if crashed or fenced
	valid    atomic.Bool         // its lease, as it believes
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), chaos: rand.New(rand.NewPCG(seed, 2)),
		marks: map[string]changelog.Mark{}, released: map[uint64]string{}, count: map[string]int{},
	}
	some := func(p float64) float64 { return p * float64(s.rng.IntN(3)) / 2 }
	s.faults = changelogtest.Faults{
		Delay:   time.Duration(s.rng.IntN(50)) * time.Millisecond,
		Timeout: time.Second,
		// Most messages arrive, so that there is something to lose.
		LostRequests: some(0.02), LateRequests: some(0.02), RepeatedRequests: some(0.1), LostResponses: some(0.02), NewLeaders: some(0.02),
	}
	t.Cleanup(func() {
		for _, n := range s.nodes {
			if n.appender != nil {
				n.appender.Close()
			}
		}
	})
	s.large = s.rng.IntN(3) == 0
	s.goesBack = s.rng.IntN(3) == 0
	s.whole = s.rng.IntN(3)
	s.log = changelogtest.NewLog(seed, changelogtest.Faults{})
	if !s.large && s.rng.IntN(3) == 0 {
		s.log.MaxBytes = 100 << 10
	}
	if err := s.log.Create(t.Context(), simInstance); err != nil {
		t.Fatal(err)
	}
	s.seen = s.log
	if s.rng.IntN(2) == 0 {
		s.seen = &lateLog{Log: s.log, s: s}
		s.faults.DuplicateWindow = 50 * time.Millisecond // then a copy of a record is stored again
	} else {
		s.faults.DuplicateWindow = []time.Duration{0, 200 * time.Millisecond, time.Second}[s.rng.IntN(3)]
	}
	s.log.SetFaults(s.faults)
	return s
}

func (s *simulation) saw(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
}

func (s *simulation) run() {
	s.adopt()
	for range 15 + s.rng.IntN(35) {
		s.step()
		advance(time.Duration(s.rng.IntN(300)) * time.Millisecond)
	}
	s.finish()
}

func (s *simulation) step() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if s.rng.IntN(3) > 0 {
		n = s.owner
	}
	switch pick := s.rng.IntN(100); {
	case pick < 60:
		for range 1 + s.rng.IntN(12) {
			n.append(s.next())
		}
	case pick < 70:
		n.crash()
	case pick < 80:
		if n.appender == nil {
			s.saw("restarted")
			n.open()
		}
	case pick < 84:
		if s.goesBack && s.rng.IntN(2) == 0 {
			s.repeatEpoch()
		}
		s.adopt()
	case pick < 88:
		n.valid.Store(!n.valid.Load())
	case pick < 92:
		n.trim()
	case pick < 95:
		s.log.Elect(simInstance, s.rng.IntN(3))
	case pick < 96:
		s.damage()
	case pick < 97:
		if s.goesBack {
			s.goBack(n)
		}
	default:
		away := s.rng.Perm(3)[:1+s.rng.IntN(2)]
		if len(away) == 2 {
			s.saw("no majority")
		}
		heal := s.log.Cut(simInstance, away...)
		time.AfterFunc(time.Duration(s.rng.IntN(3000))*time.Millisecond, heal)
	}
}

// next makes the data of a batch, different each time, and some of several parts.
func (s *simulation) next() []byte {
	s.payload++
	data := fmt.Appendf(nil, "batch %d ", s.payload)
	if s.log.MaxBytes > 0 {
		data = append(data, make([]byte, s.rng.IntN(4<<10))...)
	}
	if s.large && s.rng.IntN(15) == 0 {
		data = append(data, make([]byte, changelog.PartBytes+s.rng.IntN(changelog.PartBytes))...)
	}
	return data
}

// adopt makes a new node the owner. It begins with the newest checkpoint.
func (s *simulation) adopt() {
	keep := len(s.checkpoint)
	n := &simNode{s: s, name: fmt.Sprintf("n%d", len(s.nodes)), disk: slices.Clone(s.checkpoint), keep: keep}
	s.mu.Lock()
	s.owner = n
	s.nodes = append(s.nodes, n)
	s.mu.Unlock()
	s.saw("adopted")
	n.open()
}

// open opens the log with the contents of the disk, as often as it takes unless the node is fenced.
func (n *simNode) open() {
	n.yields = n.s.rng.IntN(2) == 0 || n.s.goesBack
	n.valid.Store(true)
	for range 20 {
		a, err := changelog.OpenAppender(n.s.t.Context(), n.options())
		if err == nil {
			n.appender = a
			return
		}
		for _, never := range []error{changelog.ErrWentBack, changelog.ErrMissing, errSim} {
			if errors.Is(err, never) {
				n.s.t.Fatalf("%s opens the log: %v", n.name, err)
			}
		}
		if errors.Is(err, changelog.ErrFenced) {
			return
		}
		ahead, trimmed := errors.Is(err, changelog.ErrAhead), errors.Is(err, changelog.ErrTrimmed)
		if ahead && n.yields || trimmed && !n.s.goesBack {
			n.s.t.Fatalf("%s opens the log: %v", n.name, err)
		}
		if ahead || trimmed {
			n.s.saw("restored")
			n.disk, n.keep = slices.Clone(n.s.checkpoint), len(n.s.checkpoint)
		}
		if errors.Is(err, changelog.ErrHole) {
			n.s.log.Elect(simInstance, n.s.rng.IntN(3))
		}
		n.valid.Store(true)
		advance(100 * time.Millisecond)
	}
}

var errSim = errors.New("a batch does not follow on the store")

func (n *simNode) options() changelog.AppenderOptions {
	store := n.mark()
	var local iter.Seq2[[]byte, error]
	if n.yields {
		local = func(yield func([]byte, error) bool) {
			for _, b := range n.disk[store.Released.Number:] {
				if !yield([]byte(b), nil) {
					return
				}
			}
		}
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return changelog.AppenderOptions{
		Log: n.s.seen, Instance: simInstance, Node: n.name, Store: store, Released: uint64(len(n.s.released)), Logger: n.s.logger(),
		Local: local,
		Apply: func(_ context.Context, b changelog.StoredBatch) error {
			if b.Number != uint64(len(n.disk))+1 {
				return fmt.Errorf("%w: number %d on %d", errSim, b.Number, len(n.disk))
			}
			n.disk = append(n.disk, string(b.Data))
			n.s.saw("applied")
			return nil
		},
		NextEpoch: func(context.Context) (uint64, error) { return n.s.nextEpoch(n) },
		Valid:     n.valid.Load,
	}
}

// nextEpoch may fail, with or without an effect. A store of owners that goes back may give a node the epoch that it had, under whose IDs the log
// has batches of it already. No node is fenced by it alone. Some nodes learn of another owner only from the log.
func (s *simulation) nextEpoch(n *simNode) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != n {
		return 0, changelog.ErrFenced
	}
	fails := s.chaos.IntN(10) == 0
	if fails && s.chaos.IntN(2) == 0 {
		return 0, errors.New("no answer")
	}
	if s.goesBack && s.opened == n && s.chaos.IntN(2) == 0 {
		s.count["same epoch again"]++
	} else {
		s.epoch++
	}
	s.opened = n
	s.highest = max(s.highest, s.epoch)
	if fails {
		return 0, errors.New("no answer")
	}
	return s.epoch, nil
}

func (n *simNode) append(data []byte) {
	a := n.appender
	if a == nil || a.State().WaitingBytes > 2<<20 {
		return // it would wait for room
	}
	n.s.marks[string(data)] = a.Mark()
	n.disk = append(n.disk, string(data))
	p := a.Append(data)
	if p.Number() != uint64(len(n.disk)) && p.Number() != 0 {
		n.s.t.Errorf("%s: batch %d of the store has number %d in the log", n.name, len(n.disk), p.Number())
	}
	go func() {
		if err := p.Wait(context.Background()); err != nil {
			n.s.saw("failed")
			return
		}
		n.s.release(n, p.Number(), string(data))
	}()
}

func (s *simulation) release(n *simNode, number uint64, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count["released"]++
	if _, twice := s.released[number]; twice {
		s.t.Errorf("%s releases batch %d, which was released before", n.name, number)
	}
	s.released[number] = data
}

// crash ends a node. Its disk loses the last writes, and keeps the data that a checkpoint has synced.
func (n *simNode) crash() {
	if n.appender == nil {
		return
	}
	n.s.saw("crashed")
	n.appender.Close()
	n.appender = nil
	n.disk = n.disk[:max(n.keep, len(n.disk)-n.s.rng.IntN(4))]
}

// trim makes a checkpoint of the store, and trims the log as far as its newest batch knows that it was released.
func (n *simNode) trim() {
	if n != n.s.owner || n.appender == nil || n.mark().Released.Number <= n.s.trimmed {
		return
	}
	// A checkpoint has no batch that was not released.
	released := n.appender.State().Released.Number
	if released < uint64(len(n.s.checkpoint)) {
		return
	}
	n.s.checkpoint = slices.Clone(n.disk[:released])
	n.keep = len(n.disk)
	through := n.s.marks[n.disk[released-1]].Released
	n.s.trimmed = max(n.s.trimmed, through.Number)
	a := n.appender
	go n.note(a, "checkpointed", func() error { return a.Checkpointed(context.Background(), released) })
	if n.s.log.Trim(n.s.t.Context(), simInstance, through.Position) == nil {
		n.s.saw("trimmed")
	}
}

// note appends a record that is not a batch. If that succeeds, its owner has the log.
func (n *simNode) note(a *changelog.Appender, what string, call func() error) {
	before := a.State()
	if err := call(); err != nil {
		n.s.saw("not " + what)
		return
	}
	n.s.saw(what)
	if after := a.State(); after.Released.Number < before.Released.Number+uint64(before.Waiting) {
		n.s.t.Errorf("%s has %s, and only %d batches were released of those before", n.name, what, after.Released.Number)
	}
}

// mark is the mark of the newest batch of the store.
func (n *simNode) mark() changelog.Mark {
	if len(n.disk) == 0 {
		return changelog.Mark{}
	}
	return n.s.marks[n.disk[len(n.disk)-1]]
}

// logger counts what appenders say.
func (s *simulation) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

func (s *simulation) Write(line []byte) (int, error) {
	for words, what := range map[string]string{
		"level=WARN": "suspect", "level=INFO": "works again", "level=ERROR": "cannot go on", changelog.ErrFull.Error(): "full",
		"another leader": "asked others",
	} {
		if strings.Contains(string(line), words) {
			s.saw(what)
		}
	}
	return len(line), nil
}

// finish lets the last owner read everything.
func (s *simulation) finish() {
	advance(10 * time.Second) // late messages arrive, cuts heal
	s.log.SetFaults(changelogtest.Faults{DuplicateWindow: s.faults.DuplicateWindow})
	s.mu.Lock()
	s.epoch = s.highest
	s.mu.Unlock()
	s.adopt()
	s.countIncomplete()
	last := s.owner
	if last.appender == nil {
		s.t.Fatal("a healthy log cannot be opened")
	}
	final := s.next()
	last.append(final)
	advance(time.Minute)
	if err := s.log.Trim(s.t.Context(), simInstance, last.appender.State().Released.Position); err != nil { // it may be full
		s.t.Error(err)
	}
	advance(time.Minute)
	if err := last.appender.Finish(s.t.Context()); err != nil {
		s.t.Errorf("%s finishes: %v", last.name, err)
	}
	for _, n := range s.nodes {
		if n != last && n.appender != nil {
			// The last owner has fenced it. A node that has nothing to append has not noticed.
			n.append(s.next())
		}
	}
	advance(time.Minute)
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := last.disk
	if s.released[uint64(len(stored))] != string(final) {
		s.t.Errorf("%s does not release batch %d", last.name, len(stored))
	}
	for number, data := range s.released {
		if number > uint64(len(stored)) || stored[number-1] != data {
			s.t.Errorf("batch %d was released, and %s does not have it", number, last.name)
		}
	}
	seen := map[string]bool{}
	for i, data := range stored {
		if _, known := s.marks[data]; !known {
			s.t.Errorf("%s has a batch %d of %d bytes that nobody appended", last.name, i+1, len(data))
		}
		if seen[data] {
			s.t.Errorf("%s has the data of batch %d twice", last.name, i+1)
		}
		seen[data] = true
	}
	for _, n := range s.nodes {
		if n.appender == nil {
			continue
		}
		state := n.appender.State()
		if n != last && state.Status != changelog.Ended {
			s.t.Errorf("%s was fenced and has state %+v", n.name, state)
		}
		// A store has the same released batches as the last store.
		if have := n.disk[:state.Released.Number]; !slices.Equal(have, stored[:len(have)]) {
			s.t.Errorf("%s and %s have different batches up to %d", n.name, last.name, len(have))
		}
	}
}

// countIncomplete counts batches of several parts that were not completed.
func (s *simulation) countIncomplete() {
	var before changelog.Entry
	for e, err := range s.log.Read(s.t.Context(), simInstance, 0) {
		if err != nil {
			return
		}
		if before.Part < before.Parts && e.Epoch > before.Epoch {
			s.saw("incomplete")
		}
		before = e
	}
}

// advance lets time pass, and then everything that it has set off.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
