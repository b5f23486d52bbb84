package buffer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// chunkBytes is where a chunk is full and a new one begins, within the same commit.
	chunkBytes = 256 << 10
	// commitBytes is where a commit begins although nobody waits and SyncInterval has not passed.
	commitBytes = 2 << 20
	// heavyBytes is where compressing and encoding a group takes long enough to do it while the disk writes another.
	// A lighter group gathers on: fewer and larger writes serve it better.
	heavyBytes = 200 << 10
	// gatherTurns is how often probe yields without a new waiter before it gives up.
	gatherTurns = 16
	// crowd is how many Appends in one chunk are very many: see [Sink.Crowded]. A group of rows of 1 KB is taken at about
	// twice as many.
	crowd = 80
)

// Rows are encoded rows for one sink.
type Rows struct {
	// Sink is a handle of [Buffer.Define].
	Sink *Sink
	// Data is CSV: each row ends with "\n". Append copies it.
	Data []byte
	// Count is the number of rows in Data.
	Count int

	// Claim is the turn of the call that the rows belong to, and Receipt what a later call with its key shall find: they are
	// stored in one batch with the rows. Append copies Receipt. Default: the rows have no key.
	Claim   *Claim
	Receipt []byte
}

// Ticket stands for rows that were accepted by one Append.
type Ticket struct {
	b *Buffer
	g *group // the last that holds rows of the Append
	// many is set when earlier groups hold rows, too; epoch is that of the Append. Groups are written in order, so an
	// earlier one can have failed only if the store has failed since.
	many  bool
	epoch uint64
}

// Append accepts rows for one or more sinks, all or none of them. It returns as soon as they are in memory; at is the
// time of acceptance. Rows that nobody waits for are on disk after Options.SyncInterval and one commit.
//
// With an error nothing was taken: [*OverloadError] (retry later), [*TooLargeError] (more than can ever be admitted),
// [ErrClosed], [*FailedError], or that of ctx.
func (b *Buffer) Append(ctx context.Context, at time.Time, rows ...Rows) (Ticket, error) {
	return b.append(ctx, at, rows, false)
}

// AppendWhenRoom is Append that waits where a bound is reached, also that of the share of a sink, until there is room or
// ctx ends. Callers get room in the order in which they came: calls for one sink among each other, and all calls where the
// memory or the disk is full. Calls of Append that come meanwhile stand behind them or are refused.
//
// When ctx ends nothing was taken, and the error wraps its cause and the [*OverloadError] that says what was full. Errors
// other than those of a full bound are returned at once.
func (b *Buffer) AppendWhenRoom(ctx context.Context, at time.Time, rows ...Rows) (Ticket, error) {
	return b.append(ctx, at, rows, true)
}

func (b *Buffer) append(ctx context.Context, at time.Time, rows []Rows, patient bool) (Ticket, error) {
	if err := ctx.Err(); err != nil {
		return Ticket{}, context.Cause(ctx)
	}
	var size int64
	for i := range rows {
		if rows[i].Count < 1 || len(rows[i].Data) == 0 {
			return Ticket{}, fmt.Errorf("buffer: append to sink %q: %d rows of %d bytes", rows[i].Sink.ID(), rows[i].Count, len(rows[i].Data))
		}
		if rows[i].Sink.state.gone.Load() {
			return Ticket{}, fmt.Errorf("%w: %q was lost in a failure of the disk, define it again", ErrUnknownSink, rows[i].Sink.ID())
		}
		size += int64(len(rows[i].Data))
	}
	ticket := Ticket{b: b, epoch: b.epoch.Load()} // before admit looks whether the store has failed
	if err := b.admit(ctx, rows, size, patient); err != nil {
		return Ticket{}, err
	}
	// Close waits for those who are inside, so it finds the rows of all sinks or of none.
	b.gate.intake.RLock()
	defer b.gate.intake.RUnlock()
	if b.gate.closed {
		b.pending.Add(-size)
		b.release(rows)
		return Ticket{}, ErrClosed
	}
	ms := at.UnixMilli()
	var last *group
	for i := range rows {
		r := &rows[i]
		g := r.Sink.append(r, ms)
		if last != nil && g != last {
			ticket.many = true
		}
		if last == nil || g.seq > last.seq {
			last = g
		}
	}
	if last != nil && !last.noticed.Load() && last.noticed.CompareAndSwap(false, true) {
		b.gate.kick()
	}
	if mutant == mutantEarlyAck {
		return Ticket{b: b}, nil
	}
	ticket.g = last
	return ticket, nil
}

// Wait returns nil when the rows are on disk. With an error of ctx the outcome is unknown: the rows may be stored.
// Other errors are [*FailedError] and [ErrClosed]. That ctx has ended is noticed within 10 ms.
func (t Ticket) Wait(ctx context.Context) error {
	if t.g == nil {
		return nil
	}
	waiters := t.g.waiters.Add(1)
	if waiters == 1 {
		t.b.gate.kick()
	}
	done := ctx.Done()
	if done == nil {
		<-t.g.done
		return t.outcome()
	}
	if waiters > fewWaiters {
		<-t.g.soon()
		select {
		case <-t.g.done:
			return t.outcome()
		default:
		}
	}
	select {
	case <-t.g.done:
		return t.outcome()
	case <-done:
		return context.Cause(ctx)
	}
}

// A waiter behind fewWaiters others looks at its group alone for the time of patience, and then at its context as well. To
// wait for two channels means to enter and to leave both queues, each under its lock, and the channel of a context is
// often that of all callers at once. A commit takes less than patience unless the disk stalls. The first ones spare the
// group its timer, which costs more than they gain.
const (
	fewWaiters = 16
	patience   = 10 * time.Millisecond
)

// soon returns a channel that is closed when the group has ended, or when patience is over.
func (g *group) soon() <-chan struct{} {
	if g.timed.Load() == nil {
		t := time.AfterFunc(patience, g.hurry)
		if !g.timed.CompareAndSwap(nil, t) {
			t.Stop()
		}
	}
	return g.near
}

// hurry closes near, once.
func (g *group) hurry() {
	if g.hurried.CompareAndSwap(false, true) {
		close(g.near)
	}
}

// end tells all who wait for the group what became of it.
func (g *group) end(err error) {
	g.err = err
	close(g.done)
	g.hurry()
	if t := g.timed.Load(); t != nil {
		t.Stop()
	}
}

// outcome is that of all groups of the ticket, once the last of them has ended.
func (t Ticket) outcome() error {
	if t.g.err == nil && t.many && t.b.epoch.Load() != t.epoch {
		return errReopened
	}
	return t.g.err
}

// reserve adds first and looks then, so that callers at once cannot pass the bounds together. What moves from one counter
// to another is added there before it is taken off here (see finish), and the counters are read in the order of the way:
// so no byte is missed.
func (b *Buffer) reserve(size int64) *OverloadError {
	pending := b.pending.Add(size)
	used := pending + b.local.Load() + b.staged.Load()
	full := b.store.Load().Full()
	if pending <= b.opts.MaxPendingBytes && used <= b.opts.MaxDiskBytes && full == nil {
		return nil
	}
	b.pending.Add(-size)
	if full != nil {
		return &OverloadError{Resource: "disk", Used: full.Used, Limit: full.Limit, RetryAfter: 5 * time.Second}
	}
	if used > b.opts.MaxDiskBytes {
		return &OverloadError{Resource: "disk", Used: used - size, Limit: b.opts.MaxDiskBytes, RetryAfter: 5 * time.Second, size: size}
	}
	return &OverloadError{
		Resource: "memory", Used: pending - size, Limit: b.opts.MaxPendingBytes, RetryAfter: time.Second, size: size,
	}
}

// chunk gathers the rows of one sink and definition for one commit.
type chunk struct {
	sink  *sinkState
	def   *definition
	group *group
	data  []byte
	// members is set when data are gzip members, one of each Append: see Sink.early.
	members bool
	appends int // how many have put rows into it
	notes   []note
	raw     int64 // row bytes
	rows    int64
	first   int64
	last    int64
}

// append puts rows into the sink's open chunk and returns the group that will commit them.
func (s *Sink) append(r *Rows, at int64) *group {
	st, data := s.state, r.Data
	size := int64(len(data))
	e := s.early(data)
	member := e.member()
	st.mu.Lock()
	c := st.open
	if c == nil || c.def != s.def || c.raw+size > chunkBytes && c.rows > 0 || c.members && member == nil {
		c = s.b.gate.join(st, s.def)
		c.members = member != nil
		st.open = c
	}
	if c.members {
		data = member
	}
	if c.rows == 0 {
		c.first = at
	}
	c.first, c.last = min(c.first, at), max(c.last, at)
	c.data = append(c.data, data...)
	c.raw += size
	c.rows += int64(r.Count)
	c.appends++
	if r.Claim != nil {
		c.notes = append(c.notes, newNote(r, at))
	}
	g := c.group
	st.mu.Unlock()
	e.release()
	s.b.gate.grow(g, size)
	return g
}

// group is what one commit writes.
type group struct {
	seq  uint64
	done chan struct{} // closed after err is set
	err  error

	near    chan struct{} // closed by hurry
	hurried atomic.Bool
	timed   atomic.Pointer[time.Timer]

	began   time.Time // when the first chunk joined
	chunks  []*chunk
	ops     []*operation
	waiters atomic.Int64
	noticed atomic.Bool // the committer was told of it
	settled atomic.Bool // no more callers are expected
	probed  bool        // probe runs or has run; guarded by gate.mu
	bytes   atomic.Int64
}

// gate hands groups to the committer.
type gate struct {
	// intake is held for reading by those who append, and guards closed. Lock order: intake before mu.
	intake sync.RWMutex
	closed bool

	// mu guards the fields below. Held for a few instructions.
	mu       sync.Mutex
	cur      *group
	closing  bool // no new rows: what gathers is due at once
	finished bool // no new operations either
	spare    spareChunks
	expect   int64 // how many waited for the last group

	// spread is that of the payloads of the last group; see Sink.early.
	spread atomic.Bool

	signal chan struct{} // capacity 1
	bound  int64         // MaxPendingBytes
}

func (g *gate) init(bound int64) {
	g.bound = bound
	g.cur = newGroup(1)
	g.signal = make(chan struct{}, 1)
}

func newGroup(seq uint64) *group {
	return &group{seq: seq, done: make(chan struct{}), near: make(chan struct{})}
}

// kick wakes the committer. It never blocks.
func (g *gate) kick() {
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

// join adds a chunk of the sink to the group that gathers now.
func (g *gate) join(s *sinkState, def *definition) *chunk {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.cur.chunks) == 0 {
		g.cur.began = time.Now()
	}
	c := g.spare.take()
	c.sink, c.def, c.group = s, def, g.cur
	g.cur.chunks = append(g.cur.chunks, c)
	return c
}

// recycle takes the chunks of a group that was written.
func (g *gate) recycle(done *group) {
	for _, c := range done.chunks {
		if crowded := c.appends >= crowd; c.sink.crowded.Load() != crowded { // all callers read it
			c.sink.crowded.Store(crowded)
		}
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
	for _, mark := range [...]int64{heavyBytes, g.due()} {
		if after >= mark && after-size < mark {
			g.kick()
		}
	}
}

// due is the size from which a group is committed although nobody waits.
func (g *gate) due() int64 { return min(commitBytes, g.bound/4) }

// post adds an operation to the group that gathers now.
func (g *gate) post(op *operation) (*group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.finished {
		return nil, ErrClosed
	}
	g.cur.ops = append(g.cur.ops, op)
	g.cur.waiters.Add(1)
	g.kick()
	return g.cur, nil
}

// dropOperations keeps those in the gathering group from being run: the state that they were made for is replaced. The
// rows beside them stay. New ones come only when the store is in use again.
func (g *gate) dropOperations() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, op := range g.cur.ops {
		op.dropped = true
	}
}

func (g *gate) close() bool {
	g.intake.Lock()
	g.closed = true
	g.intake.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.closing
	g.closing = true
	return !was
}

func (g *gate) finish() {
	g.mu.Lock()
	g.finished = true
	g.mu.Unlock()
	g.kick()
}

// gathered reports whether the gathering group need not wait for more callers: as many wait as for the last group, it is
// heavy, or no more come. After a commit all its callers come back within microseconds; without this the first of them
// would have a commit alone and the others would wait for two.
//
// While it is false the committer sleeps, and is told when to look again: by the caller that makes the group heavy, or
// by probe. Were it to yield instead, it would stand behind all callers that can run, and the disk would be idle until
// the last of a thousand has mapped its row.
func (g *gate) gathered() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	cur := g.cur
	n := cur.waiters.Load()
	if n == 0 || n >= g.expect || g.closing || cur.bytes.Load() >= heavyBytes || cur.settled.Load() {
		return true
	}
	if !cur.probed {
		cur.probed = true
		go g.probe(cur, g.expect)
	}
	return false
}

// probe gives the processor to callers that are about to wait for a group, and wakes the committer when no more come. It
// counts turns and not time: a lone caller must not wait, and a fake clock stands still meanwhile.
func (g *gate) probe(cur *group, expect int64) {
	n := cur.waiters.Load()
	for idle := 0; n < expect && idle < gatherTurns && cur.bytes.Load() < heavyBytes; idle++ {
		runtime.Gosched()
		if now := cur.waiters.Load(); now > n {
			n, idle = now, 0
		}
	}
	cur.settled.Store(true)
	g.kick()
}

// heavy reports whether the gathering group is worth preparing while another is being written.
func (g *gate) heavy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cur.bytes.Load() >= heavyBytes
}

// take swaps the gathering group when it is due. Otherwise it says how long it may still gather; negative: it is empty.
func (g *gate) take(interval time.Duration) (*group, time.Duration) {
	due := g.due()
	g.mu.Lock()
	defer g.mu.Unlock()
	cur := g.cur
	if len(cur.chunks) == 0 && len(cur.ops) == 0 {
		return nil, -1
	}
	if cur.waiters.Load() == 0 && !g.closing && cur.bytes.Load() < due {
		if rest := interval - time.Since(cur.began); rest > 0 {
			return nil, rest
		}
	}
	g.cur = newGroup(cur.seq + 1)
	g.cur.chunks, g.spare.list = g.spare.list, nil
	return cur, 0
}

// ended lets those go on who waited for the group.
func (g *gate) ended(done *group, err error) {
	done.end(err)
	g.mu.Lock()
	g.expect = done.waiters.Load()
	g.mu.Unlock()
}
