package buffer

import (
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/synctest"
)

func newTestGate() *gate {
	g := new(gate)
	g.init(new(pebblestore.Store), 1<<30)
	return g
}

// kicked reports whether the committer would wake.
func (g *gate) kicked() bool {
	select {
	case <-g.signal:
		return true
	default:
		return false
	}
}

func TestGroupIsTakenWhenItIsDue(t *testing.T) {
	const interval = 25 * time.Millisecond
	for _, c := range []struct {
		name string
		fill func(g *gate)
		rest time.Duration // how long it may still gather; 0 if it is due
	}{
		{"empty", func(*gate) {}, -1},
		{"rows that nobody waits for", func(g *gate) { g.join(nil, nil); time.Sleep(interval / 5) }, interval * 4 / 5},
		{"rows at the end of the interval", func(g *gate) { g.join(nil, nil); time.Sleep(interval) }, 0},
		{"rows with a waiter", func(g *gate) { g.join(nil, nil); g.cur.waiters.Add(1) }, 0},
		{"almost a commit of rows", func(g *gate) { g.join(nil, nil); g.grow(g.cur, commitBytes-1) }, interval},
		{"a commit of rows", func(g *gate) { g.join(nil, nil); g.grow(g.cur, commitBytes) }, 0},
		{"an operation", func(g *gate) { _, _ = g.post(&operation{}) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestGate()
				c.fill(g)
				before := g.cur
				taken, rest := g.take(interval)
				if rest != c.rest || (taken == before) != (c.rest == 0) {
					t.Fatalf("take = %v, %s, want the rest %s", taken, rest, c.rest)
				}
				if taken != nil && (g.cur == taken || g.cur.seq != taken.seq+1 || len(g.cur.chunks)+len(g.cur.ops) > 0) {
					t.Errorf("group %d with %d chunks gathers after group %d", g.cur.seq, len(g.cur.chunks), taken.seq)
				}
			})
		})
	}
}

// The callers of a commit come back together. The next group waits for as many, but not for callers that never come.
func TestGroupWaitsForTheCallersOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		last, _ := g.post(&operation{})
		last.waiters.Add(2)
		if !g.gathered() {
			t.Error("the first group waits for callers")
		}
		g.take(0)
		g.kicked()
		g.ended(last, nil)
		if !g.gathered() {
			t.Error("a group that nobody waits for is held back")
		}

		g.cur.waiters.Add(3)
		if !g.gathered() {
			t.Error("a group is held back although as many wait as for the last one")
		}
		g.cur.waiters.Add(-1)
		if g.gathered() {
			t.Error("a group is not held back although a caller of the last one is missing")
		}
		synctest.Wait()
		if !g.kicked() || !g.gathered() {
			t.Error("a group waits although no more callers come")
		}
	})
}

func TestHeavyGroupWakesTheCommitter(t *testing.T) {
	g := newTestGate()
	g.join(nil, nil)
	g.expect = 2
	g.cur.waiters.Add(1)
	g.cur.probed = true // so that bytes alone decide
	if g.grow(g.cur, heavyBytes-1); g.kicked() || g.heavy() || g.gathered() {
		t.Error("a group below heavyBytes is not held back")
	}
	if g.grow(g.cur, 1); !g.kicked() || !g.heavy() || !g.gathered() {
		t.Error("a group of heavyBytes is held back")
	}
	if g.grow(g.cur, 1); g.kicked() {
		t.Error("the committer was woken twice for one mark")
	}
}

// The state that operations were made for is replaced by a reopening. The rows in the same group stay.
func TestOperationsOfAReplacedStateAreDropped(t *testing.T) {
	g := newTestGate()
	g.join(nil, nil)
	op := &operation{}
	if _, err := g.post(op); err != nil {
		t.Fatal(err)
	}
	g.dropOperations()
	if taken, _ := g.take(0); !op.dropped || len(taken.chunks) != 1 {
		t.Errorf("dropped is %v with %d chunks", op.dropped, len(taken.chunks))
	}
}

// A group takes no more rows, not even into the open chunk of a sink, once it has an eighth of MaxPendingBytes. Full groups are taken in
// their order, before the group that gathers, and their operations are dropped with those of the others.
func TestFullGroups(t *testing.T) {
	const bound, size, rows, full = 4 << 20, 10 << 10, 500, 9
	b := &Buffer{}
	b.gate.init(new(pebblestore.Store), bound)
	g := &b.gate
	var sinks []*DefinedSink
	for range 3 {
		sinks = append(sinks, &DefinedSink{b: b, state: &sinkState{}, def: &format.Definition{}})
	}
	op := &operation{}
	data := make([]byte, size)
	for i := range rows {
		sinks[i%len(sinks)].append(&Rows{Data: data, Count: 1}, 1, true)
		if i == 0 {
			if _, err := g.post(op); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.cur.waiters.Add(1)
	g.expect = 2
	if !g.gathered() || !g.heavy() || g.drained() {
		t.Errorf("with full groups: gathered %v, heavy %v, drained %v, want true, true, false", g.gathered(), g.heavy(), g.drained())
	}
	if g.hasLocal() {
		t.Error("a group has rows that do not wait for the changelog, want none")
	}
	if g.joinLocal(nil, nil); !g.hasLocal() {
		t.Error("rows that do not wait for the changelog wait for the full groups before them")
	}
	if g.dropOperations(); !op.dropped {
		t.Error("the operation of a full group is not dropped")
	}
	var taken, count int64
	for seq := uint64(1); ; seq++ {
		group, _ := g.take(0)
		if group == nil {
			break
		}
		taken++
		var bytes int64
		for _, c := range group.chunks {
			bytes += c.raw
			count += c.rows
		}
		if group.seq != seq || bytes >= bound/8+size || taken <= full && bytes < bound/8 {
			t.Errorf("group %d is taken at place %d with %d bytes, want %d", group.seq, seq, bytes, bound/8)
		}
	}
	if taken != full+1 || count != rows {
		t.Errorf("%d groups with %d rows were taken, want %d with %d", taken, count, full+1, rows)
	}
}
