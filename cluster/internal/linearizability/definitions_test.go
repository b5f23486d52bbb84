package linearizability

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/cluster/internal/journal"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

var seeds = flag.Int("seeds", 6, "how many histories are checked")

// wire is the way of a node to the journal, which can be cut.
type wire struct {
	changelog.Journal
	cut atomic.Bool
}

var errCut = errors.New("the node is cut off")

func (w *wire) Append(ctx context.Context, after changelog.Position, data []byte) error {
	if w.cut.Load() {
		return errCut
	}
	return w.Journal.Append(ctx, after, data)
}

func (w *wire) Read(ctx context.Context, from changelog.Position) iter.Seq2[changelog.JournalEntry, error] {
	if w.cut.Load() {
		return func(yield func(changelog.JournalEntry, error) bool) { yield(changelog.JournalEntry{}, errCut) }
	}
	return w.Journal.Read(ctx, from)
}

func TestDefinitions(t *testing.T) {
	lost := 0
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, seed)
				s.play()
				lost += s.lost
			})
		})
	}
	if lost == 0 {
		seedtest.Missed(t, "in %d seeds no node was lost", *seeds)
	}
}

const nodes, clients, each = 3, 9, 15

// simulation are three nodes on one journal.
type simulation struct {
	t       *testing.T
	seed    uint64
	journal *changelogtest.Journal
	target  forebay.Options
	tokens  Tokens
	history History
	lost    int

	mu       sync.Mutex
	wires    [nodes]*wire
	catalogs [nodes]*catalog.Catalog
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		t: t, seed: seed, journal: changelogtest.NewJournal(seed, changelogtest.Faults{}), target: forebay.Options{Target: buffertest.NewMemory()},
	}
	s.history.Find, s.history.Sink.Columns = s.find, mapping.Columns{mapping.Body("body")}
	for i := range nodes {
		s.open(i)
	}
	s.journal.SetFaults(changelogtest.Faults{
		Delay: 10 * time.Millisecond, Timeout: time.Second, LostRequests: 0.03, LateRequests: 0.03, RepeatedRequests: 0.03, LostResponses: 0.05,
	})
	return s
}

// open opens a node on an empty disk.
func (s *simulation) open(i int) {
	w := &wire{Journal: s.journal}
	ctx := s.t.Context()
	var store *journal.Store
	for err := errCut; err != nil; { // messages are lost
		if store, err = journal.Open(ctx, w, slog.New(slog.DiscardHandler)); ctx.Err() != nil {
			return
		}
	}
	eng, err := forebay.Open(filepath.Join(s.t.TempDir(), "engine"), s.target)
	if err != nil {
		s.t.Error(err)
		return
	}
	cat, err := catalog.Open("", eng, catalog.Options{Shared: catalog.SharedOptions{Store: store, Node: fmt.Sprint(i)}, Tokens: &s.tokens})
	if err != nil {
		s.t.Error(errors.Join(err, eng.Close()))
		return
	}
	s.t.Cleanup(func() {
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			s.t.Error(err)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wires[i], s.catalogs[i] = w, cat
}

func (s *simulation) node(i int) (*wire, *catalog.Catalog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wires[i], s.catalogs[i]
}

// find asks all nodes for the end of a task, until one knows it.
func (s *simulation) find(id string) (end catalog.Task, err error) {
	for range 600 {
		for i := range nodes {
			_, cat := s.node(i)
			if end, err = cat.Task(id); err == nil && end.Finished() {
				return end, nil
			}
		}
		time.Sleep(time.Second)
	}
	return end, fmt.Errorf("no node knows the end: %w", err)
}

// disturb cuts nodes off, longer than the lease or shorter, and loses them. The node that has their name then has another disk, while the
// lost one, which is not closed, believes that it runs and reaches no other node.
func (s *simulation) disturb(ended <-chan struct{}) {
	rng := rand.New(rand.NewPCG(s.seed, clients))
	for {
		i := rng.IntN(nodes)
		select {
		case <-time.After(time.Duration(rng.IntN(int(2 * time.Second)))):
		case <-ended:
			return
		}
		w, _ := s.node(i)
		w.cut.Store(true)
		time.Sleep(time.Duration(rng.IntN(int(time.Minute))))
		if rng.IntN(3) == 0 {
			s.lost++
			s.open(i)
			continue
		}
		w.cut.Store(false)
	}
}

// play has clients of the nodes change and read two sources, while messages are lost and nodes are cut off and lost.
func (s *simulation) play() {
	var work sync.WaitGroup
	for client := range clients {
		rng := rand.New(rand.NewPCG(s.seed, uint64(client)))
		work.Go(func() {
			for round := range each {
				time.Sleep(time.Duration(rng.IntN(int(300 * time.Millisecond))))
				ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
				_, cat := s.node(client % nodes)
				s.history.Do(ctx, client, cat, RandomOp(rng, fmt.Sprintf("%d-%d", client, round), 1+each*client+round))
				cancel()
			}
		})
	}
	ended := make(chan struct{})
	var disturbing sync.WaitGroup
	disturbing.Go(func() { s.disturb(ended) })
	work.Wait()
	close(ended)
	disturbing.Wait()
	if err := s.history.Check(filepath.Join(s.t.ArtifactDir(), "history.html")); err != nil {
		s.t.Error(err)
	}
	if s.history.Changes() < 3 {
		seedtest.Missed(s.t, "only %d changes were made", s.history.Changes())
	}
}
