package buffer

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

const (
	// commitBytes is the size at which a commit begins although no caller waits and SyncInterval has not passed.
	commitBytes = 2 << 20
	// heavyBytes is the size from which a group takes so long to compress and encode that it is prepared while the disk
	// writes another. A lighter group gathers on, because fewer and larger writes are cheaper.
	heavyBytes = 200 << 10
	// gatherTurns is how often probe yields without a new waiter before it gives up.
	gatherTurns = 16
)

// group is what one commit writes.
type group struct {
	seq uint64
	// full is set when the group takes no more chunks, nor rows into its chunks. It is apart from bytes, which all callers write.
	full atomic.Bool
	ending
	// local is the ending for callers that do not wait for the changelog, nil while no such rows are in the group. Guarded by gate.mu
	// until the group is taken.
	local *ending
	// incomplete is set before done is closed when rows from before a reopening were dropped.
	incomplete bool

	began    time.Time // when the first chunk joined
	chunks   []*chunk
	ops      []*operation
	noticed  atomic.Bool // the committer knows of it
	complete atomic.Bool // no more callers are expected
	probed   bool        // probe runs or has run, guarded by gate.mu
	bytes    atomic.Int64
}

// gate hands groups to the committer.
type gate struct {
	// intake is held for reading by the callers that append.
	intake sync.RWMutex
	store  *pebblestore.Store

	// mu guards the fields below. Held for a few instructions.
	mu     sync.Mutex
	cur    *group
	full   []*group // the groups before cur, which take no more chunks, in their order
	spare  spareChunks
	expect int64 // how many waited for the last group

	// spread is set while many sinks have a few rows each, as in the last group. See DefinedSink.precompress.
	spread atomic.Bool

	signal chan struct{} // capacity 1
	bound  int64         // MaxPendingBytes
}

func (g *gate) init(store *pebblestore.Store, bound int64) {
	g.store, g.bound = store, bound
	g.spare.bound = int(min(spareBytes, bound/8))
	g.cur = newGroup(1)
	g.signal = make(chan struct{}, 1)
}

func newGroup(seq uint64) *group {
	return &group{seq: seq, ending: newEnding()}
}

// kick wakes the committer. It never blocks.
func (g *gate) kick() {
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

// join adds a chunk of the sink to the group that gathers now.
func (g *gate) join(s *sinkState, def *format.Definition) *chunk {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joinLocked(s, def)
}

func (g *gate) joinLocked(s *sinkState, def *format.Definition) *chunk {
	if g.cur.full.Load() {
		g.full = append(g.full, g.cur)
		g.cur = newGroup(g.cur.seq + 1)
	}
	if len(g.cur.chunks) == 0 {
		g.cur.began = time.Now()
	}
	c := g.spare.take()
	c.sink, c.def, c.group = s, def, g.cur
	g.cur.chunks = append(g.cur.chunks, c)
	return c
}

// joinLocal is join for rows whose callers do not wait for the changelog.
func (g *gate) joinLocal(s *sinkState, def *format.Definition) *chunk {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.joinLocked(s, def)
	c.local = true
	if g.cur.local == nil {
		o := newEnding()
		g.cur.local = &o
		g.kick() // the committer may have left the group alone until the changelog responds
	}
	return c
}

// hasLocal reports whether the gathering group, or a full one before it, has rows whose callers do not wait for the changelog. The groups before such
// rows are taken for their sake.
func (g *gate) hasLocal() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cur.local != nil || slices.ContainsFunc(g.full, func(group *group) bool { return group.local != nil })
}

// recycle takes the chunks of a group that was written.
func (g *gate) recycle(done *group) {
	for _, c := range done.chunks {
		*c = chunk{data: c.data[:0]}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spare.put(done.chunks)
	done.chunks = nil
}

// grow counts the bytes of a group and tells the committer where they reach a mark.
func (g *gate) grow(cur *group, size int64) {
	after := cur.bytes.Add(size)
	if after >= g.most() && !cur.full.Load() {
		cur.full.Store(true)
	}
	for _, mark := range [...]int64{heavyBytes, g.due()} {
		if after >= mark && after-size < mark {
			g.kick()
		}
	}
}

// most is the size at which a group is full. A group is in memory twice while its batch is made, because its chunks are compressed and then copied
// into the batch. The store keeps the batch of the group before until its rows are in a table. Neither is counted, so groups of a quarter of
// MaxPendingBytes took half of it in addition.
func (g *gate) most() int64 { return g.bound / 8 }

// oldest returns the group that is taken next. Called with mu held.
func (g *gate) oldest() *group {
	if len(g.full) > 0 {
		return g.full[0]
	}
	return g.cur
}

// due is the size at which a group is committed even without a waiter.
func (g *gate) due() int64 { return min(commitBytes, g.most()) }

// post adds an operation to the group that gathers now.
func (g *gate) post(op *operation) (*group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.store.Now().Phase == pebblestore.PhaseClosed {
		return nil, ErrClosed
	}
	g.cur.ops = append(g.cur.ops, op)
	g.cur.waiters.Add(1)
	g.kick()
	return g.cur, nil
}

// dropOperations keeps those in the gathering group from being run, because the state that they were made for is replaced. The
// rows in the same group stay. New operations arrive only when the store is in use again.
func (g *gate) dropOperations() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, group := range append(slices.Clone(g.full), g.cur) {
		for _, op := range group.ops {
			op.dropped = true
		}
	}
}

// waitForAppends returns when every Append that found the buffer running has put its rows into a group.
func (g *gate) waitForAppends() {
	g.intake.Lock()
	defer g.intake.Unlock()
}

// gathered reports whether the gathering group need not wait for more callers, because as many wait as for the last group, it is
// heavy, or no more arrive. After a commit all its callers come back within microseconds. Without this the first of them
// would have a commit alone and the others would wait for two.
//
// While it is false the committer sleeps. The caller that makes the group heavy wakes it, or probe does. Yielding would queue the
// committer after every runnable caller and leave the disk idle until the last of a thousand has mapped its row.
func (g *gate) gathered() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	cur := g.cur
	n := cur.waiters.Load()
	if len(g.full) > 0 || n == 0 || n >= g.expect || g.stopping() || cur.bytes.Load() >= heavyBytes || cur.complete.Load() {
		return true
	}
	if !cur.probed {
		cur.probed = true
		go g.probe(cur, g.expect)
	}
	return false
}

// probe gives the processor to callers that are about to wait for a group, and wakes the committer when no more come. It
// counts turns and not time, because a lone caller must not wait, and a fake clock stands still meanwhile.
func (g *gate) probe(cur *group, expect int64) {
	n := cur.waiters.Load()
	for idle := 0; n < expect && idle < gatherTurns && cur.bytes.Load() < heavyBytes; idle++ {
		runtime.Gosched()
		if now := cur.waiters.Load(); now > n {
			n, idle = now, 0
		}
	}
	cur.complete.Store(true)
	g.kick()
}

// heavy reports whether the gathering group is worth preparing while another is being written.
func (g *gate) heavy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.oldest().bytes.Load() >= heavyBytes
}

// take swaps the gathering group when it is due. Otherwise it says how long it may still gather, which is negative if it is empty.
func (g *gate) take(interval time.Duration) (*group, time.Duration) {
	due := g.due()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.full) > 0 {
		first := g.full[0]
		g.full = slices.Delete(g.full, 0, 1)
		return first, 0
	}
	cur := g.cur
	if len(cur.chunks) == 0 && len(cur.ops) == 0 {
		return nil, -1
	}
	if cur.waiters.Load() == 0 && !g.stopping() && cur.bytes.Load() < due {
		if rest := interval - time.Since(cur.began); rest > 0 {
			return nil, rest
		}
	}
	g.cur = newGroup(cur.seq + 1)
	g.cur.chunks, g.spare.list = g.spare.list, nil
	return cur, 0
}

// ended releases the callers that wait for the group.
func (g *gate) ended(done *group, err error) {
	g.endedLocal(done, err)
	done.end(err)
	back := done.waiters.Load()
	if done.local != nil {
		if back -= done.local.waiters.Load(); back == 0 {
			return // all have come back before
		}
	}
	g.mu.Lock()
	g.expect = back
	g.mu.Unlock()
}

// endedLocal releases the callers that do not wait for the changelog.
func (g *gate) endedLocal(done *group, err error) {
	if done.local == nil || done.local.ended() {
		return
	}
	done.local.end(err)
	g.mu.Lock()
	g.expect = done.local.waiters.Load()
	g.mu.Unlock()
}

// stopping reports whether no new rows arrive, so the gathered rows are due at once.
func (g *gate) stopping() bool { return g.store.Now().Phase >= pebblestore.PhaseClosing }

// drained reports whether nothing more can arrive.
func (g *gate) drained() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.store.Now().Phase == pebblestore.PhaseClosed && len(g.full) == 0 && len(g.cur.chunks) == 0 && len(g.cur.ops) == 0
}
