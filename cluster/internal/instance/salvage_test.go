package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/synctest"
)

// salvageWorld is a node with a folder that was set aside.
type salvageWorld struct {
	*world
	a      *worldNode
	folder string
	void   int // so many rows are in no table
}

const salvagedRows = 30

// fence lets node a acknowledge rows on its disk alone, while its log is away, and another node adopt its instance.
func fence(t *testing.T) *salvageWorld {
	w := &salvageWorld{world: newWorld(t, 1)}
	w.localSink, w.story = true, testing.Verbose()
	a, b := w.node("a"), w.node("b")
	w.a = a
	p := a.start()
	i := p.opened()
	p.put(i, 50)
	instance := a.instance()
	heal := w.log.Cut(instance, 1, 2)
	if n := p.putLocal(i, salvagedRows); n != salvagedRows {
		t.Fatalf("%d of %d rows were acknowledged while the log is away, want %v", n, salvagedRows, salvagedRows)
	}
	a.kill(nil, false)
	b.start()
	heal()
	w.await("another node has moved the rows", func() bool { return w.records()[instance].State == "retired" })
	p = a.start()
	p.put(p.opened(), 20)
	names, err := a.disk.List("node")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "fenced-"+instance) {
			w.folder = name
		}
	}
	if w.folder == "" {
		t.Fatalf("no folder was set aside: %q", names)
	}
	count := map[string]bool{}
	for _, row := range w.mem.Rows(localTable) {
		count[row[0]] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, of := range w.local {
		if of == instance && !count[id] {
			w.world.void++
		}
	}
	w.void, w.world.void = w.world.void, 0
	return w
}

// salvaged returns the rows that a call reports.
func (s Salvage) salvaged() (rows int64) {
	for _, to := range s.Sinks {
		if to.LeftOut == "" {
			rows += to.Rows
		}
	}
	return rows
}

// Rows that were acknowledged on the disk of a fenced node alone come to their table, once each, although the node is killed at each step
// while they are stored, and the call is repeated. Rows that the log had are left out.
func TestSalvage(t *testing.T) {
	for kills := 0; ; kills++ {
		done := false
		if !t.Run(fmt.Sprint("killed at step ", kills), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { done = salvageWithKill(t, kills) })
		}) || done {
			return
		}
		kills += kills / 4
	}
}

// salvageWithKill kills the node at the nth step, 0 for none, and reports whether there were fewer.
func salvageWithKill(t *testing.T, n int) (fewer bool) {
	w := fence(t)
	p := w.a.last
	before, err := p.opened().Salvage(t.Context(), w.folder, false)
	if err != nil || before.Done || before.salvaged() != int64(w.void) || w.void == 0 {
		t.Fatalf("%+v, %v: %d rows are in no table", before, err, w.void)
	}
	i, killed := p.opened(), false
	s, err := i.Salvage(&stepContext{Context: t.Context(), left: n, then: func() {
		killed = true
		w.a.kill(nil, false)
	}}, w.folder, true)
	if killed {
		p = w.a.start()
		s, err = p.opened().Salvage(t.Context(), w.folder, true)
	}
	if err != nil || !s.Done || s.salvaged() != int64(w.void) {
		t.Fatalf("got %+v, %v, want no error and s.Done and s.salvaged() == int64(w.void)", s, err)
	}
	for range 2 {
		if again, err := p.opened().Salvage(t.Context(), w.folder, true); err != nil || !again.Done || again.salvaged() != s.salvaged() {
			t.Fatalf("again: %+v, %v", again, err)
		}
	}
	w.settle()
	if w.world.void > 0 {
		t.Errorf("%d rows are in no table, want 0", w.world.void)
	}
	return n > 0 && !killed
}

// stepContext ends when it was asked so many times whether it has, unless that is 0. It calls then.
type stepContext struct {
	context.Context
	left int
	then func()
}

func (c *stepContext) Err() error {
	if c.left == 1 {
		c.then()
	}
	if c.left = max(c.left-1, -1); c.left == 0 {
		c.left = 1 // and stays
		c.then = func() {}
		return context.Canceled
	}
	return c.Context.Err()
}

// A node that has lost its instance in the middle of a call stores nothing more, because rows may be with the instance.
func TestSalvageByAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fence(t)
		p := w.a.last
		if _, err := p.opened().Salvage(&stepContext{Context: t.Context(), left: 10, then: func() {}}, w.folder, true); err == nil {
			t.Fatal("a call that is cancelled has no error")
		}
		before := w.a.instance()
		p.stop()
		w.await("the instance is adopted", func() bool { return w.records()[before].Node == "b" })
		p.resume()
		w.await("a new instance begins", func() bool { i := p.open(); return i != nil && i.Keeper().Instance() != before })
		if _, err := p.opened().Salvage(t.Context(), w.folder, true); !errors.Is(err, ErrCannotSalvage) || !strings.Contains(err.Error(), before) {
			t.Errorf("got %v, want that rows may be with %s", err, before)
		}
		w.settle()
	})
}

// A folder whose unlogged rows cannot be determined is refused, and unacknowledged rows are left out.
func TestSalvageRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fence(t)
		i := w.a.last.opened()
		disk := i.folder.disk
		note := disk.PathJoin("node", w.folder, endFile)
		for what, c := range map[string]struct {
			folder, end string // the note
			want        error
		}{
			"no such folder":  {"fenced-a-1", "", ErrNoFolder},
			"not set aside":   {"data", "", ErrNoFolder},
			"another folder":  {"../" + w.folder, "", ErrNoFolder},
			"another history": {w.folder, `{"number":3,"chain":4}`, ErrCannotSalvage},
			"not readable":    {w.folder, `{`, ErrCannotSalvage},
		} {
			if c.end != "" {
				f, err := disk.Create(note, "")
				if err == nil {
					_, err = f.Write([]byte(c.end))
				}
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if s, err := i.Salvage(t.Context(), c.folder, true); !errors.Is(err, c.want) {
				t.Errorf("%s: got %+v, %v, want %v", what, s, err, c.want)
			}
		}
		if err := disk.Remove(note); err != nil { // then the record says it
			t.Fatal(err)
		}
		waits := localSource
		waits.Sinks = []forebay.Sink{waits.Sinks[0]}
		waits.Sinks[0].AckLocal = false
		if err := i.Engine().Define(t.Context(), waits); err != nil {
			t.Fatal(err)
		}
		s, err := i.Salvage(t.Context(), w.folder, false)
		if err != nil || s.salvaged() != 0 || len(s.Sinks) == 0 || s.Sinks[0].Rows != int64(w.void) || !strings.Contains(s.Sinks[0].LeftOut, "waits for the log") {
			t.Errorf("got %+v, %v, want %d rows left out because they wait for the log, none salvaged", s, err, w.void)
		}
		if err := i.Engine().Define(t.Context(), localSource); err != nil {
			t.Fatal(err)
		}
		w.settle()
	})
}
