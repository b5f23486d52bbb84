package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// archiveOf returns an archive of records whose ids are r0, r1 and so on. Their source is defined nowhere else.
func archiveOf(t *testing.T, records int) forebay.Archive {
	t.Helper()
	archive, mem := dir.Archive(t.TempDir(), dir.ArchiveOptions{}), buffertest.NewMemory()
	e, err := forebay.Open("data", forebay.Options{
		Staging: mem, Target: mem, Archive: archive, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disktest.New(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	source := forebay.Source{ID: "archived", Archive: &forebay.ArchiveSettings{}, Sinks: worldSource.Sinks}
	var recs []*mapping.Record
	for n := range records {
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":"r%d"}`, n)))
	}
	err = e.Define(t.Context(), source)
	if err == nil {
		_, err = e.IngestBatch(t.Context(), "archived", recs)
	}
	if err := errors.Join(err, e.FlushAll(t.Context()), e.Close()); err != nil {
		t.Fatal(err)
	}
	return archive
}

// inArchive plays with two nodes that run and one that does not, and an archive.
func inArchive(t *testing.T, records int, play func(w *world, a, b, c *worldNode)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.story, w.checkpointBytes, w.archive = testing.Verbose(), 8<<10, archiveOf(t, records)
		a, b, c := w.node("a"), w.node("b"), w.node("c")
		for _, n := range []*worldNode{a, b} {
			n.start().opened()
		}
		play(w, a, b, c)
	})
}

// runElsewhere asks the processes that speak for the other instances, as the nodes of a cluster do.
func (p *worldProcess) runElsewhere(ctx context.Context, source, sink, run string) error {
	if p.w.archive == nil {
		return nil
	}
	i := p.open()
	if i == nil {
		return forebay.ErrReplayElsewhere
	}
	awaited := map[string]bool{}
	for name, o := range p.w.records() {
		if o.State == changelog.Owned || o.State == changelog.Adopting || o.State == changelog.Draining {
			awaited[name] = true
		}
	}
	delete(awaited, i.Keeper().Instance())
	asked := map[*worldProcess]*Instance{p: i}
	for _, n := range p.w.nodes {
		q := n.newest.Load()
		if q == nil || q == p || !q.alive() {
			continue
		}
		if j := q.open(); j != nil {
			asked[q] = j
		}
	}
	for q, j := range asked {
		names, has := j.HasRun(ctx, source, sink, run, q != p)
		if has {
			return fmt.Errorf("%w: %s", forebay.ErrReplayElsewhere, q.name)
		}
		for _, name := range names {
			delete(awaited, name)
		}
	}
	if len(awaited) > 0 {
		return fmt.Errorf("%w: no node speaks for %v", forebay.ErrReplayElsewhere, awaited)
	}
	return nil
}

// replay continues a run at a node, for some time if that is not 0.
func (w *world) replay(n *worldNode, run string, within time.Duration) (forebay.ReplayProgress, error) {
	i := n.runs.open()
	if i == nil {
		return forebay.ReplayProgress{}, errors.New("the node is not open")
	}
	ctx, cancel := context.WithTimeout(w.Context(), cmp.Or(within, time.Hour))
	defer cancel()
	return i.Engine().Sink("s", "k").Replay(ctx, forebay.ReplayOptions{Run: run, Archived: "archived", RowsPerSecond: 100})
}

// endRun lets each node that runs try to end a run. One of them can, and the others name it.
func (w *world) endRun(run string) {
	w.Helper()
	ended, elsewhere := 0, 0
	var errs []error
	for _, n := range w.nodes {
		if n.runs == nil {
			continue
		}
		n.runs.opened()
		switch p, err := w.replay(n, run, 0); {
		case err == nil && p.Done():
			ended++
		case errors.Is(err, forebay.ErrReplayElsewhere):
			elsewhere++
		default:
			errs = append(errs, err)
		}
	}
	if ended != 1 || len(errs) > 0 {
		w.Errorf("run %s: got %d nodes that have ended it, %d that refuse it and %v, want one node that has ended it", run, ended, elsewhere, errs)
	}
}

// checkRun checks that the table has each record of the archive once, when the rows of all nodes are there.
func (w *world) checkRun(records int) {
	w.Helper()
	w.settle() // it finds rows that are in the table twice
	count := map[string]int{}
	for _, row := range w.mem.Rows(worldTable) {
		if strings.HasPrefix(row[0], "r") {
			count[row[0]]++
		}
	}
	if len(count) != records {
		w.Errorf("the table has %d records of the archive, want %d", len(count), records)
	}
}

// The position of a replay moves to the adopter, which is killed at each step of the move. Then it restarts, or another node adopts both instances. The
// replay continues there, no other node begins it again, and each record is in the table once.
func TestRunMovesOnce(t *testing.T) {
	const records = 400
	for moment, here := range map[string]func(o changelog.Owner, arrivals int, call string) bool{
		"never": nil,
		"copied": func(o changelog.Owner, arrivals int, call string) bool {
			return call == "before owners set" && arrivals > 0 && o.MovedTo == ""
		},
		"decided": func(o changelog.Owner, _ int, call string) bool { return call == "after owners set" && o.MovedTo != "" },
		"arrived": func(o changelog.Owner, arrivals int, _ string) bool { return arrivals == 0 && o.MovedTo != "" },
	} {
		for _, diskLost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, disk lost %v", moment, diskLost), func(t *testing.T) {
				inArchive(t, records, func(w *world, a, b, c *worldNode) {
					name := a.instance()
					if p, err := w.replay(a, "run", 2*time.Second); !errors.Is(err, context.DeadlineExceeded) || p.Stored == 0 || p.Stored >= records {
						t.Fatalf("got %+v, %v, want a run that has stored some records", p, err)
					}
					if _, err := w.replay(b, "run", 0); !errors.Is(err, forebay.ErrReplayElsewhere) {
						t.Errorf("at the other node: got %v, want ErrReplayElsewhere", err)
					}
					a.kill(nil, true)
					if here == nil {
						w.settle()
						w.endRun("run")
						w.checkRun(records)
						return
					}
					w.killAt(b, name, diskLost, here)
					c.start()
					if _, err := w.replay(c, "run", 0); err == nil {
						t.Error("a node that starts begins the run again")
					}
					if !diskLost {
						b.start()
					}
					w.settle()
					w.endRun("run")
					w.checkRun(records)
				})
			})
		}
	}
}

// A sink remembers 16 runs, no matter how many have moved to it. A run that is not done is never forgotten.
func TestOldRunsOfOtherInstancesAreForgotten(t *testing.T) {
	inArchive(t, 400, func(w *world, a, b, _ *worldNode) {
		past := time.Now().Add(-time.Hour)
		for i := range 12 {
			for _, n := range []*worldNode{a, b} {
				if p, err := n.runs.opened().Engine().Sink("s", "k").Replay(w.Context(), forebay.ReplayOptions{
					Run: fmt.Sprintf("done-%s-%d", n.name, i), Archived: "archived", From: past.Add(-time.Hour), To: past,
				}); err != nil || !p.Done() {
					t.Fatal(p, err)
				}
				time.Sleep(time.Second)
			}
			if i == 0 {
				if _, err := w.replay(a, "open", time.Second); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, want a run that is not done", err)
				}
			}
		}
		a.kill(nil, true)
		w.settle()
		runs, err := b.runs.opened().Engine().Sink("s", "k").Replays(w.Context())
		var names []string
		for _, r := range runs {
			names = append(names, r.Run)
		}
		if err != nil || len(runs) != runsOfSink || !slices.Contains(names, "open") || !slices.Contains(names, "done-a-11") {
			t.Errorf("got the runs %q, %v, want 16 with open and the newest", names, err)
		}
	})
}

// A replay is called at nodes at random until one of them has ended it. Meanwhile nodes are killed with and without their disks, stand still past their
// leases, and come back. Some calls are at two nodes at once. Each record of the archive is in the table once.
func TestRunsSimulation(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 5)
	}
	const records = 1000
	var continued atomic.Int64
	for seed := *fromSeed; seed < *fromSeed+n; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inArchive(t, records, func(w *world, a, b, c *worldNode) {
				rng := rand.New(rand.NewPCG(uint64(seed), 7))
				c.start().opened()
				var done atomic.Bool
				last := ""
				for step := 0; !done.Load(); step++ {
					if step == 500 {
						t.Fatalf("no node has ended the run; the records are %+v", w.records())
					}
					for range 1 + rng.IntN(2) {
						if at := w.nodes[rng.IntN(3)]; at.runs != nil {
							p, within := at.runs, time.Duration(1+rng.IntN(4000))*time.Millisecond
							w.clients.Go(func() {
								i := p.open()
								if i == nil {
									return
								}
								ctx, cancel := context.WithTimeout(context.Background(), within)
								defer cancel()
								got, err := i.Engine().Sink("s", "k").Replay(ctx, forebay.ReplayOptions{Run: "run", Archived: "archived", RowsPerSecond: 100})
								if err == nil && p.alive() {
									done.Store(true)
								}
								w.mu.Lock()
								defer w.mu.Unlock()
								if name := i.Keeper().Instance(); got.Stored > 0 && name != last {
									if last != "" {
										continued.Add(1)
									}
									last = name
								}
							})
						}
					}
					time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
					at := w.nodes[rng.IntN(3)]
					switch action := rng.IntN(10); {
					case at.runs == nil:
						at.start()
					case action < 2:
						at.kill(rng, action == 0)
						time.Sleep(time.Duration(rng.Int64N(int64(2 * worldLease))))
						at.start()
					case action < 4:
						p := at.runs
						p.stop()
						time.AfterFunc(time.Duration(rng.Int64N(int64(2*worldLease))), p.resume)
					}
				}
				for _, n := range w.nodes {
					if n.runs != nil {
						n.runs.resume()
					}
				}
				w.clients.Wait()
				w.settle()
				w.endRun("run")
				w.checkRun(records)
			})
		}) {
			t.Fatalf("repeat with: go test ./internal/instance -run '^%s$' -from %d -seeds 1 -v", t.Name(), seed)
		}
	}
	t.Logf("a run continued at another instance %d times", continued.Load())
	if n >= 15 && continued.Load() == 0 {
		t.Error("no run continued at another instance")
	}
}
