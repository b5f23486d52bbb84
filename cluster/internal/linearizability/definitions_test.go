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
	"testing/synctest"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
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
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { play(t, seed) })
	}
}

// play has clients of three nodes change and read two sources, while messages are lost and nodes are cut off.
func play(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, clients, each = 3, 9, 15
		journal := changelogtest.NewJournal(seed, changelogtest.Faults{})
		target := buffertest.NewMemory()
		var wires [nodes]*wire
		var catalogs [nodes]*catalog.Catalog
		for i := range nodes {
			wires[i] = &wire{Journal: journal}
			store, err := catalog.OpenJournal(t.Context(), wires[i], slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			eng, err := forebay.Open(filepath.Join(t.TempDir(), "engine"), forebay.Options{Target: target})
			if err != nil {
				t.Fatal(err)
			}
			catalogs[i], err = catalog.Open("", eng, catalog.Options{Store: store, Node: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := errors.Join(catalogs[i].Close(), eng.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		journal.SetFaults(changelogtest.Faults{
			Delay: 10 * time.Millisecond, Timeout: time.Second, LostRequests: 0.03, LateRequests: 0.03, RepeatedRequests: 0.03, LostAnswers: 0.05,
		})
		var history History
		var work sync.WaitGroup
		for client := range clients {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			work.Go(func() {
				for round := range each {
					time.Sleep(time.Duration(rng.IntN(int(300 * time.Millisecond))))
					history.Do(t.Context(), client, catalogs[client%nodes], RandomOp(rng, fmt.Sprintf("%d-%d", client, round)))
				}
			})
		}
		ended := make(chan struct{})
		var cutting sync.WaitGroup
		cutting.Go(func() { // longer than the lease, or shorter
			rng := rand.New(rand.NewPCG(seed, clients))
			for {
				w := wires[rng.IntN(nodes)]
				select {
				case <-time.After(time.Duration(rng.IntN(int(2 * time.Second)))):
				case <-ended:
					return
				}
				w.cut.Store(true)
				time.Sleep(time.Duration(rng.IntN(int(time.Minute))))
				w.cut.Store(false)
			}
		})
		work.Wait()
		close(ended)
		cutting.Wait()
		if err := history.Check(filepath.Join(t.ArtifactDir(), "history.html")); err != nil {
			t.Error(err)
		}
		if history.Changes() < 3 {
			t.Errorf("only %d changes were made", history.Changes())
		}
	})
}
