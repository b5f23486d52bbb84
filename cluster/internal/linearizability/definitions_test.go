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

	"github.com/anishathalye/porcupine"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
)

var seeds = flag.Int("seeds", 6, "how many histories are checked")

// An op is what a client asks for, and what it learns.
type (
	op struct {
		kind, source, text string
	}
	outcome struct {
		live    bool
		version int
		text    string
	}
	// state is a source as one store has it.
	state = outcome
)

const (
	create = "create"
	update = "update"
	remove = "delete"
	read   = "read"
)

// model is a store with one source, whose changes are made at once.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		bySource := map[string][]porcupine.Operation{}
		for _, o := range history {
			source := o.Input.(op).source
			bySource[source] = append(bySource[source], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range bySource {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(before, input, output any) (bool, any) {
		s, in, out := before.(state), input.(op), output.(outcome)
		switch in.kind {
		case read:
			return out == s || !out.live && !s.live, s
		case create:
			if !out.live { // there was one already
				return s.live, s
			}
			return !s.live, state{true, s.version + 1, in.text}
		case update:
			if !out.live {
				return !s.live, s
			}
			return s.live, state{true, s.version + 1, in.text}
		default:
			if !out.live {
				return !s.live, s
			}
			return s.live, state{false, s.version, s.text}
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
}

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
		var mu sync.Mutex
		var history []porcupine.Operation
		var clock atomic.Int64
		var work sync.WaitGroup
		for client := range clients {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			work.Go(func() {
				for round := range each {
					time.Sleep(time.Duration(rng.IntN(int(300 * time.Millisecond))))
					do := op{
						kind:   []string{create, update, update, remove, read, read}[rng.IntN(6)],
						source: []string{"one", "two"}[rng.IntN(2)], text: fmt.Sprintf("%d-%d", client, round),
					}
					call := clock.Add(1)
					out, known := perform(t, catalogs[client%nodes], do)
					back := clock.Add(1)
					if !known {
						continue
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: client, Input: do, Call: call, Output: out, Return: back})
					mu.Unlock()
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
		result, info := porcupine.CheckOperationsVerbose(model, history, 0)
		if result != porcupine.Ok {
			path := filepath.Join(t.ArtifactDir(), "history.html")
			t.Errorf("%d operations are not linearizable: %v, see %s", len(history), porcupine.VisualizePath(model, info, path), path)
		}
		changes := 0
		for _, o := range history {
			if o.Input.(op).kind != read && o.Output.(outcome).live {
				changes++
			}
		}
		if changes < 3 {
			t.Errorf("only %d changes of %d operations were made", changes, len(history))
		}
	})
}

// perform returns what a client learns, if it learns anything: a change that was refused for another one, or that has failed, was not made.
func perform(t *testing.T, cat *catalog.Catalog, do op) (out outcome, known bool) {
	by := catalog.By{Type: "user"}
	var task catalog.Task
	var err error
	switch do.kind {
	case read:
		if err := cat.CatchUp(t.Context()); err != nil {
			return out, false
		}
		source, err := cat.Source(do.source)
		return outcome{err == nil, source.Version.Number, source.Description}, true
	case create:
		task, err = cat.CreateSource(by, catalog.SourceSpec{ID: do.source, Name: do.source, Type: forebay.HTTP, Description: do.text})
	case update:
		task, err = cat.UpdateSource(by, do.source, catalog.SourcePatch{Description: &do.text})
	case remove:
		task, err = cat.Delete(by, catalog.Ref{Source: do.source})
	}
	var refused *catalog.Error
	var away *catalog.JournalError
	switch {
	case errors.As(err, &refused) && refused.Code == catalog.Busy, errors.As(err, &away):
		return out, false
	case errors.As(err, &refused): // it is there, or it is not
		return outcome{}, true
	case err != nil:
		t.Errorf("%v: %v", do, err)
		return out, false
	}
	if task, err = cat.Wait(t.Context(), task.ID); err != nil {
		t.Errorf("%v: %v", do, err)
	}
	return outcome{live: true}, task.Status == catalog.Succeeded
}
