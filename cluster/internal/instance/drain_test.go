package instance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

// inWorld runs a test with nodes a, b and c. The process of a has a checkpoint and rows after it, b runs, c does not.
func inWorld(t *testing.T, play func(w *world, a, b, c *worldNode)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.story, w.checkpointBytes = testing.Verbose(), 8<<10
		a, b, c := w.node("a"), w.node("b"), w.node("c")
		for _, n := range []*worldNode{a, b} {
			p := n.start()
			p.put(p.opened(), 20)
		}
		a.runs.checkpoint()
		a.runs.put(a.runs.opened(), 20)
		play(w, a, b, c)
	})
}

// settle waits until all instances but the running ones are retired and the rows of the latter are in the table, and checks the table. No log of a
// retired instance may be left.
func (w *world) settle() {
	w.Helper()
	w.await("all instances have one owner or are retired", func() bool {
		running := map[string]bool{}
		for _, n := range w.nodes {
			if n.runs != nil {
				running[n.runs.opened().Keeper().Instance()] = true
			}
		}
		for name, o := range w.records() {
			if o.State != changelog.Retired && !running[name] && (o.State != changelog.Damaged || !w.lostTwice[name]) {
				return false
			}
		}
		return true
	})
	w.await("no record and no file arrives", func() bool {
		return !slices.ContainsFunc(w.nodes, func(n *worldNode) bool {
			return n.runs != nil && len(n.runs.opened().Engine().Buffer().Moves().Arrivals()) > 0
		})
	})
	for _, n := range w.nodes {
		if n.runs == nil {
			continue
		}
		if err := n.runs.opened().Engine().FlushAll(w.Context()); err != nil {
			w.Error(err)
		}
	}
	w.check()
	w.checkRejected()
	for name, o := range w.records() {
		if o.State == changelog.Retired {
			w.await("no log of "+name+" is left", func() bool { return len(w.logsOf(name)) == 0 })
		}
	}
}

// Instances that cannot be drained, because staging deletes none of their objects, or takes none, give up their turns within minutes. Another instance
// is drained meanwhile. The log and the report say what keeps them. When staging works again nothing is left of them.
func TestStuckInstancesKeepNoTurn(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		var logs lines
		w.logs = slog.NewTextHandler(&logs, nil)
		b.stop()
		b.start()
		b.runs.opened()
		var refused sync.Map // objects that staging refuses
		var works atomic.Bool
		stuck := map[string]string{}
		for call, why := range map[string]string{"delete ": "not deleted from staging", "put ": "not in staging"} {
			i, name := a.runs.opened(), a.instance()
			a.runs.setHooks(func(of string) error {
				if id, ok := strings.CutPrefix(of, call); ok {
					refused.Store(call+id, true)
					return errors.New("refused")
				}
				return nil
			}, nil)
			a.runs.put(i, 5)
			time.Sleep(10 * time.Second)
			stuck[name] = why
			b.runs.setHooks(func(of string) error {
				if _, is := refused.Load(of); is && !works.Load() {
					return errors.New("refused")
				}
				return nil
			}, nil)
			a.kill(nil, true)
			w.await(name+" is being drained", func() bool { return w.records()[name].State == changelog.Draining })
			a.start()
		}
		name := a.instance()
		a.runs.put(a.runs.opened(), 5)
		a.kill(nil, true)
		w.await("another instance is drained", func() bool { return w.records()[name].State == changelog.Retired })
		w.await("the report says what keeps the instances", func() bool {
			told := 0
			for _, r := range b.runs.opened().Report().Adopted {
				if why := stuck[r.Instance]; why != "" && strings.Contains(r.Keeps, why) && strings.Contains(r.Keeps, "s/k") {
					told++
				}
			}
			return told == len(stuck)
		})
		if n := strings.Count(logs.String(), "adopted instance not drained yet"); n < len(stuck) {
			t.Errorf("the log says %d times why an instance stays, want at least %d", n, len(stuck))
		}
		works.Store(true)
		w.settle()
	})
}

// A node is killed and its disk is lost. A second node adopts its instance. All acknowledged rows are in the table once, and nothing is left
// of the instance.
func TestDrain(t *testing.T) {
	inWorld(t, func(w *world, a, b, _ *worldNode) {
		name := a.runs.opened().Keeper().Instance()
		b.runs.setHooks(func(call string) error {
			if strings.HasPrefix(call, "delete") {
				time.Sleep(time.Second)
			}
			return nil
		}, nil)
		a.kill(nil, true)
		o := (&worldProcess{link: &link{w: w, name: "b"}, node: b, disk: b.disk}).options().withDefaults()
		ref := w.records()[name].Checkpoint
		last, err := o.checkpoints().Load(w.Context(), name, ref)
		if err != nil {
			t.Fatal(err)
		}
		named := []string{ref}
		for _, f := range last.Files {
			named = append(named, f.Object)
		}
		w.settle()
		if state := w.records()[name].State; state != changelog.Retired {
			t.Errorf("the instance is %s", state)
		}
		if _, err := w.log.Stat(w.Context(), name); err == nil {
			t.Error("its log is still there")
		}
		time.Sleep(10 * time.Second) // the rows of b are imported, and its slices are deleted
		for _, o := range w.mem.Objects() {
			// A checkpoint in which a was interrupted leaves objects that no record names.
			if !strings.HasPrefix(o.ID, "ckpt-") || slices.Contains(named, o.ID) {
				t.Errorf("object %s is left", o.ID)
			}
		}
		if names, err := b.runs.disk.List("node/adopted"); err == nil && len(names) > 0 {
			t.Errorf("the adopter keeps %v", names)
		}
	})
}

// The adopter is killed before each of its calls. It restarts, or another node adopts the instance then. Each rejected record is in one
// quarantine at the end.
func TestDrainIsTakenOverAtEachStep(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, func(w *world, a, b, c *worldNode) {
				name := a.runs.opened().Keeper().Instance()
				a.runs.reject(a.runs.opened(), 3)
				var left atomic.Int64
				left.Store(int64(n))
				var last atomic.Value
				killed := make(chan struct{})
				p := b.runs
				p.setHooks(func(call string) error {
					if o := w.records()[name]; o.State == changelog.Owned {
						return nil
					}
					if kind, _, many := strings.Cut(call, " ckpt-"); many && last.Swap(kind) == kind {
						return nil // the files of a checkpoint are fetched in any order
					}
					if left.Add(-1) == -1 {
						if w.story {
							t.Log("b is killed in front of", call)
						}
						b.kill(nil, n%2 == 0)
						close(killed)
						return errDead
					}
					return nil
				}, nil)
				a.kill(nil, true)
				w.await("b is killed, or has drained the instance", func() bool { return !p.alive() || w.records()[name].State == changelog.Retired })
				p.setHooks(nil, nil)
				synctest.Wait()
				if done = left.Load() >= 0; done {
					return
				}
				<-killed
				c.start()
				if n%2 == 1 {
					b.start()
				}
				w.settle()
			})
		})
		if t.Failed() {
			return
		}
	}
}

// The loss of an instance, and whether another replica or a later attempt has the data. If none has it the record says so, everything
// is kept, and no node adopts the instance again. All other instances continue.
func TestDrainFindsDamage(t *testing.T) {
	hole := func(w *world, name string, replicas ...int) {
		stat, err := w.log.Stat(w.Context(), name)
		if err != nil {
			w.Fatal(err)
		}
		for _, r := range replicas {
			w.log.Hole(name, r, stat.Last) // whatever checkpoint there is, the end is read
		}
	}
	for what, c := range map[string]struct {
		play    func(w *world, name string)
		damaged bool
	}{
		"a hole in all replicas": {func(w *world, name string) { hole(w, name, 0, 1, 2) }, true},
		"a hole in the leader":   {func(w *world, name string) { hole(w, name, 0) }, false},
		"no log": {func(w *world, name string) {
			if err := w.log.Delete(w.Context(), name); err != nil {
				w.Fatal(err)
			}
		}, true},
		"another log": {func(w *world, name string) {
			if err := errors.Join(w.log.Delete(w.Context(), name), w.log.Create(w.Context(), name)); err != nil {
				w.Fatal(err)
			}
		}, true},
		"a log that went back": {func(w *world, name string) {
			stat, err := w.log.Stat(w.Context(), name)
			if err != nil {
				w.Fatal(err)
			}
			w.log.Rollback(name, stat.Last-5)
		}, true},
		"no manifest": {func(w *world, name string) {
			obj, _ := w.manifest(name)
			if err := w.mem.Delete(w.Context(), obj); err != nil {
				w.Fatal(err)
			}
		}, true},
		"a byte of a manifest": {func(w *world, name string) {
			obj, data := w.manifest(name)
			data[len(data)/2] ^= 1
			if err := w.mem.Put(w.Context(), obj, content(data)); err != nil {
				w.Fatal(err)
			}
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world, a, b, _ *worldNode) {
				name := a.runs.opened().Keeper().Instance()
				if err := a.runs.opened().Keeper().Beat(w.Context()); err != nil { // the record has the released number
					t.Fatal(err)
				}
				a.kill(nil, true)
				c.play(w, name)
				if !c.damaged {
					w.settle()
					return
				}
				w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
				objects := len(w.mem.Objects())
				time.Sleep(5 * worldLease)
				if o := w.records()[name]; o.State != changelog.Damaged {
					t.Errorf("the record says %s later", o.State)
				}
				if _, err := w.log.Stat(w.Context(), name); err != nil && what != "no log" {
					t.Errorf("the log is not kept: %v", err)
				}
				if n := len(w.mem.Objects()); n < objects {
					t.Errorf("%d of %d objects are left, want at least %v", n, objects, objects)
				}
				if i := b.runs.opened(); len(i.drainer.slots) > 0 || i.Err() != nil {
					t.Errorf("%d instances are being drained, and that of the adopter ended with %v", len(i.drainer.slots), i.Err())
				}
			})
		})
	}
}

// An owner that is lost before its first batch leaves an instance without anything.
func TestDrainOfNothing(t *testing.T) {
	inWorld(t, func(w *world, _, _, c *worldNode) {
		killed := make(chan struct{})
		p := c.start()
		p.setHooks(func(call string) error {
			if call == "log append b" && p.alive() {
				c.kill(nil, true)
				close(killed)
			}
			return nil
		}, nil)
		<-killed
		w.settle()
	})
}

// A damaged instance is drained when its missing data is back and an operator readmits it.
func TestDrainOfAReadmittedInstance(t *testing.T) {
	inWorld(t, func(w *world, a, _, _ *worldNode) {
		name := a.runs.opened().Keeper().Instance()
		a.kill(nil, true)
		obj, data := w.manifest(name)
		if err := w.mem.Delete(w.Context(), obj); err != nil {
			t.Fatal(err)
		}
		w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
		if err := w.mem.Put(w.Context(), obj, content(data)); err != nil {
			t.Fatal(err)
		}
		if err := changelog.Readmit(w.Context(), w.owners, name, nil); err != nil {
			t.Fatal(err)
		}
		w.settle()
	})
}

// An instance whose log is permanently gone ends when an operator makes a new log and has its record forget the one before.
func TestDrainOfAReadmittedInstanceWithoutLog(t *testing.T) {
	inWorld(t, func(w *world, a, _, _ *worldNode) {
		name := a.runs.opened().Keeper().Instance()
		if err := a.runs.opened().Engine().FlushAll(w.Context()); err != nil { // as the operator does with the rest of its disk
			t.Fatal(err)
		}
		a.kill(nil, true)
		if err := w.log.Delete(w.Context(), name); err != nil {
			t.Fatal(err)
		}
		w.await("the record says that the instance is damaged", func() bool { return w.records()[name].State == changelog.Damaged })
		var failed error
		if err := changelog.Readmit(w.Context(), w.owners, name, func(o *changelog.Owner) {
			*o = changelog.Owner{Generation: o.Generation + 1}
			failed = w.log.Create(w.Context(), o.LogName(name))
		}); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		w.settle()
		if o, there := w.records()[name]; there && o.State != changelog.Retired {
			t.Errorf("the record says %+v", o)
		}
	})
}

// manifest returns the object of the checkpoint that the record of an instance names, and its bytes.
func (w *world) manifest(name string) (driver.Object, []byte) {
	w.Helper()
	obj := driver.Object{ID: w.records()[name].Checkpoint}
	r, err := w.mem.Open(w.Context(), obj)
	if err != nil {
		w.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		w.Fatal(err)
	}
	return obj, data
}

// content is a [driver.Content].
type content []byte

func (c content) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c)), nil }

func (c content) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(c)
	return int64(n), err
}

// A table refuses rows until an operator repairs it. More instances than are drained at once do not wait for that. Their files move.
func TestDrainOfRefusedRows(t *testing.T) {
	inWorld(t, func(w *world, a, b, c *worldNode) {
		var repaired atomic.Bool
		b.runs.setHooks(func(call string) error {
			if strings.HasPrefix(call, "import") && !repaired.Load() {
				return driver.Permanent(errors.New("a column is missing"))
			}
			return nil
		}, nil)
		gone := []*worldNode{a, c, w.node("d")}
		for _, n := range gone[1:] {
			p := n.start()
			p.put(p.opened(), 20)
		}
		var names []string
		for _, n := range gone {
			names = append(names, n.runs.opened().Keeper().Instance())
			n.kill(nil, true)
		}
		w.await("all three are retired", func() bool {
			records := w.records()
			return !slices.ContainsFunc(names, func(name string) bool { return records[name].State != changelog.Retired })
		})
		repaired.Store(true)
		w.settle()
	})
}

// startBesideAFullNode starts c, and b again with engines that have no room for the files that c is about to get.
func (w *world) startBesideAFullNode(b, c *worldNode) (*worldProcess, *Instance) {
	w.Helper()
	w.checkpointBytes, w.size = 1<<20, 200
	p := c.start()
	i := p.opened()
	w.sinkBytes = 4 << 10
	b.stop()
	b.start()
	b.runs.opened()
	return p, i
}

// A table refuses the rows of a lost instance, and the adopter has no room for its files. It does not keep the owner's log. It makes
// a checkpoint of the waiting rows, cuts the log and opens it again once, so that servers can free its space. It is killed before each of
// its calls, and the next adopter continues. Each row is in the table once when the table accepts rows again.
func TestDrainOfRefusedRowsCutsTheLog(t *testing.T) {
	first, step := casetest.Steps(t)
	for n, done := first, false; !done; n += step {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, func(w *world, a, b, c *worldNode) {
				other := a.runs.opened().Keeper().Instance()
				a.kill(nil, true) // so that b adopts the instance of c
				w.await("the instance of a is retired", func() bool { return w.records()[other].State == changelog.Retired })
				p, i := w.startBesideAFullNode(b, c)
				name := i.Keeper().Instance()
				var repaired atomic.Bool
				refuses := func(call string) error {
					if strings.HasPrefix(call, "import") && !repaired.Load() {
						return driver.Permanent(errors.New("a column is missing"))
					}
					return nil
				}
				p.setHooks(refuses, nil)
				p.put(i, 200)
				before, err := w.log.Stat(w.Context(), name)
				if err != nil || before.Bytes < 40<<10 {
					t.Fatalf("the log has %d bytes, %v", before.Bytes, err)
				}
				var left, trims, opened atomic.Int64
				left.Store(int64(n))
				var last atomic.Value
				killed := make(chan struct{})
				adopts := func(call string) error {
					if o := w.records()[name]; o.State == changelog.Draining {
						switch {
						case call == "log trim":
							trims.Add(1)
						case call == "log open" && trims.Load() > 0:
							opened.Add(1)
						}
					}
					return refuses(call)
				}
				adopter := b.runs
				adopter.setHooks(func(call string) error {
					if o := w.records()[name]; o.State == changelog.Draining {
						if kind, _, many := strings.Cut(call, " ckpt-"); !many || last.Swap(kind) != kind {
							if left.Add(-1) == -1 {
								b.kill(nil, n%2 == 0)
								close(killed)
								return errDead
							}
						}
					}
					return adopts(call)
				}, nil)
				c.kill(nil, true)
				short := func() bool {
					stat, err := w.log.Stat(w.Context(), name)
					return err == nil && stat.Bytes < before.Bytes/4 && trims.Load() > 0 && opened.Load() > 0
				}
				w.await("the log is short, or the adopter is killed", func() bool { return short() || !adopter.alive() })
				adopter.setHooks(adopts, nil)
				if done = left.Load() >= 0; !done {
					<-killed
					b.start().setHooks(adopts, nil)
					w.await("the log is short", short)
				}
				time.Sleep(time.Minute) // the next adopter may just begin
				opens := opened.Load()
				for range 10 { // each attempt to import adds to the log
					time.Sleep(time.Minute)
					if stat, err := w.log.Stat(w.Context(), name); err != nil || stat.Bytes > before.Bytes/2 {
						t.Fatalf("while the table refuses the rows, the log has %d bytes, %v, before the loss %d", stat.Bytes, err, before.Bytes)
					}
				}
				if again := opened.Load() - opens; again > 1 { // the instance that b has lost may follow
					t.Errorf("in ten minutes logs were opened %d times", again)
				}
				repaired.Store(true)
				w.settle()
			})
		})
		if t.Failed() {
			return
		}
	}
}

// The checkpoint for which a log is cut fails, because staging is away for a while. The adopter repeats it, so that the log gets short and is opened
// again.
func TestDrainCutsTheLogAfterAFailure(t *testing.T) {
	inWorld(t, func(w *world, a, b, c *worldNode) {
		other := a.runs.opened().Keeper().Instance()
		a.kill(nil, true) // so that b adopts the instance of c
		w.await("the instance of a is retired", func() bool { return w.records()[other].State == changelog.Retired })
		p, i := w.startBesideAFullNode(b, c)
		name := i.Keeper().Instance()
		var repaired atomic.Bool
		refuses := func(call string) error {
			if strings.HasPrefix(call, "import") && !repaired.Load() {
				return driver.Permanent(errors.New("a column is missing"))
			}
			return nil
		}
		p.setHooks(refuses, nil)
		p.put(i, 200)
		var failures, trims, opened atomic.Int64
		b.runs.setHooks(func(call string) error {
			if w.records()[name].State == changelog.Draining {
				switch {
				case strings.HasPrefix(call, "put ckpt-") && failures.Add(1) <= 12:
					return errors.New("staging is away")
				case call == "log trim":
					trims.Add(1)
				case call == "log open" && trims.Load() > 0:
					opened.Add(1)
				}
			}
			return refuses(call)
		}, nil)
		c.kill(nil, true)
		time.Sleep(12 * time.Minute) // the pause after a failure has 10
		w.await("the log is cut and opened again", func() bool { return trims.Load() > 0 && opened.Load() > 0 })
		if failures.Load() <= 12 {
			t.Errorf("%d uploads of checkpoints have failed, want 12 and more attempts", failures.Load())
		}
		repaired.Store(true)
		w.settle()
	})
}

// An owner can make no checkpoint, so that its log has no more room, and is lost. Its adopter trims the log for its own writes.
func TestDrainOfAFullLog(t *testing.T) {
	inWorld(t, func(w *world, a, _, c *worldNode) {
		w.log.MaxBytes = 64 << 10 // of streams that are created now
		w.checkpointBytes = 1 << 20
		away := func(call string) error {
			if strings.HasPrefix(call, "log") || strings.HasPrefix(call, "owners") {
				return nil
			}
			return errors.New("staging and tables are away")
		}
		p := c.start()
		i := p.opened()
		p.setHooks(away, nil)
		p.put(i, 1000)
		name := i.Keeper().Instance()
		full, err := w.log.Stat(w.Context(), name)
		if err != nil || full.Bytes < full.MaxBytes*6/10 {
			t.Fatalf("the log has %d bytes, %v", full.Bytes, err)
		}
		var trimmed atomic.Bool
		for _, n := range w.nodes[:2] {
			n.runs.setHooks(func(call string) error {
				switch {
				case call == "log trim":
					trimmed.Store(true)
				case strings.HasPrefix(call, "import"):
					time.Sleep(5 * time.Second) // the checkpoint takes no time
				}
				return nil
			}, nil)
		}
		c.kill(nil, true)
		w.settle()
		if !trimmed.Load() {
			t.Error("the log was not trimmed")
		}
	})
}
