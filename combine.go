package forebay

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/mapping"
)

// Combining: while very many callers wait for rows of one source, one of them maps the records of dozens, and the others
// sleep at once. What mapping needs is then in the caches, and not the stacks of all callers; the buffer is entered once
// for all of them, and counts one who waits. (Flat combining, Hendler et al. 2010, with sleepers in place of spinners.) It
// changes no outcome: each caller has its own verdict and leaves when its own context ends, and a record that is not like
// the others, whose rows are too long for a group or whose mapping panics, is mapped where it came from.
const (
	// combineMost is how many records one caller maps: enough to share what is paid once, few enough for several cores.
	combineMost = 64
	// combineBody is the largest body, in bytes, that another caller maps: nobody should wait for a long one of someone else.
	// With many sinks or small portions it is less: see bodyOf.
	combineBody = 8 << 10
	// combineLeast is how many callers meet where combining is worth it, and combineTries after how many groups in a row
	// with fewer it ends: of those who are woken together, the last ones are always few.
	combineLeast = 4
	combineTries = 8
	// combinePause is how many calls pass before it is tried again where the callers did not meet, for example because the
	// rows of one goroutine stand in the chunk.
	combinePause = 256
	// combinePatience is how long a caller waits for the disk before it looks at its context as well: to wait for both
	// takes the lock of the context, which is often that of all callers. See buffer.Ticket.Wait.
	combinePatience = 10 * time.Millisecond
)

// combiner brings the callers of a source together.
type combiner struct {
	// on is set while callers meet; pause counts down the calls that do not try.
	on    atomic.Bool
	pause atomic.Int32
	body  int // the largest body that combines

	mu    sync.Mutex
	cur   *combined // takes records; nil when there is none
	tries int       // how many groups may still be small
}

// combined are the records of several callers. The caller that closes it maps them all; their rows are one Append.
type combined struct {
	n       int // guarded by combiner.mu until it is closed
	recs    [combineMost]*mapping.Record
	results [combineMost]Result // as they are if the disk takes the rows; not changed once they are mapped
	taken   int                 // how many records it has; those behind are their callers' again. Set once they are mapped
	err     error               // that of the Append or of the disk

	mapped sync.WaitGroup // until no record is looked at any more
	done   chan struct{}  // closed when err is there
	near   chan struct{}  // closed by hurry
	timer  *time.Timer    // of combinePatience
}

// bodyOf returns the largest body that combines: the rows of a group should fit into one portion.
func bodyOf(portion, sinks int) int { return min(combineBody, portion/combineMost/max(sinks, 1)) }

// combines reports whether a call with the record should look for others. A Document is code of its caller, which stays
// with it: it may take its time.
func (src *source) combines(rec *mapping.Record) bool {
	c := &src.combiner
	if rec == nil || rec.Document != nil || len(rec.Body) > c.body {
		return false
	}
	if c.on.Load() {
		return true
	}
	return src.wait && src.sinks[0].handle.Crowded() && (c.pause.Load() <= 0 || c.pause.Add(-1) <= 0)
}

// ingestCombined is ingest for one record that combines.
func (e *Engine) ingestCombined(ctx context.Context, src *source, rec *mapping.Record) (Result, error) {
	g, i, last := src.combiner.join(rec)
	switch {
	case last:
		e.mapCombined(src, g)
	case i == 0:
		runtime.Gosched() // let those come who can
		if src.combiner.close(g) {
			e.mapCombined(src, g)
		}
	}
	taken, err := g.wait(ctx, i)
	switch {
	case !taken:
		return e.ingestAlone(ctx, src, false, rec)
	case err != nil:
		results := []Result{g.results[i]}
		if err := src.settle(ctx, []portion{{end: len(src.sinks), err: err}}, results); err != nil {
			return Result{}, err
		}
		return results[0], results[0].Err(src.def.ID)
	}
	return g.results[i], g.results[i].Err(src.def.ID)
}

func newCombined() *combined {
	g := &combined{done: make(chan struct{}), near: make(chan struct{})}
	g.mapped.Add(1)
	g.timer = time.AfterFunc(combinePatience, func() { close(g.near) })
	return g
}

// hurry has all callers look at what there is. It is called by one goroutine at a time, as often as it likes.
func (g *combined) hurry() {
	if g.timer.Stop() {
		close(g.near)
	}
}

// join adds a record and returns its place. The caller with the last one has closed the group.
func (c *combiner) join(rec *mapping.Record) (g *combined, i int, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g = c.cur
	if g == nil {
		g = newCombined()
		c.cur = g
	}
	i = g.n
	g.recs[i] = rec
	g.n++
	if last = g.n == combineMost; last {
		c.cur = nil
		c.settle(g)
	}
	return g, i, last
}

// close reports whether g was open until now.
func (c *combiner) close(g *combined) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != g {
		return false
	}
	c.cur = nil
	c.settle(g)
	return true
}

// settle decides by the size of a group whether combining goes on.
func (c *combiner) settle(g *combined) {
	c.tries--
	if g.n >= combineLeast {
		c.tries = combineTries
	}
	c.decide()
}

// rest ends combining for a while: the rows of a group were too long to go together, and so may be the next.
func (c *combiner) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries = 0
	c.decide()
}

// decide is called with mu held, after a change of tries.
func (c *combiner) decide() {
	if c.tries <= 0 {
		c.tries = 0
		c.pause.Store(combinePause)
	}
	if on := c.tries > 0; c.on.Load() != on { // all callers read it
		c.on.Store(on)
	}
}

// mapCombined maps the records of a closed group and has their rows stored. It does so under no caller's context: none may
// fail because another has left. While there is no room for the rows, or the disk writes, the records are free already.
func (e *Engine) mapCombined(src *source, g *combined) {
	now := time.Now()
	sc := scratches.Get().(*scratch)
	sc.reset(len(src.sinks))
	taken := e.mapGroup(src, g, now, sc)
	g.taken = taken
	g.mapped.Done()
	if taken < g.n {
		src.combiner.rest()
		g.hurry() // for those whose records are theirs again
	}
	if taken == 0 {
		sc.release()
		return
	}
	go func() {
		ctx := context.Background()
		e.append(ctx, src, now, sc, taken*len(src.sinks))
		p := sc.portions[0]
		sc.release()
		if p.err == nil {
			p.err = p.ticket.Wait(ctx)
		}
		g.end(p.err)
	}()
}

// mapGroup maps the records of a group as far as their rows fit into one portion, and returns how many did. When one
// panics it is none: each is mapped again by its own caller, and the panic is that of one of them.
func (e *Engine) mapGroup(src *source, g *combined, now time.Time, sc *scratch) (taken int) {
	taken = -1
	defer func() {
		if taken < 0 {
			_ = recover()
			taken = 0
		}
	}()
	src.look(sc)
	sc.whole = true
	for i, rec := range g.recs[:g.n] {
		out := e.mapRecord(context.Background(), src, i, rec, now, sc)
		rec.Release()
		if out == nil {
			return i
		}
		g.results[i].Sinks = out
	}
	return g.n
}

// end tells all callers what became of their records.
func (g *combined) end(err error) {
	g.err = err
	close(g.done)
	g.hurry()
}

// wait returns when the outcome of record i is there, or with the error of ctx: then it is unknown, but the record is the
// caller's again. So it is at once when the record is not taken: nothing was stored of it.
func (g *combined) wait(ctx context.Context, i int) (taken bool, err error) {
	<-g.near
	g.mapped.Wait()
	if i >= g.taken {
		return false, nil
	}
	select {
	case <-g.done:
		return true, g.err
	default:
	}
	select {
	case <-g.done:
		return true, g.err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}
