package forebay

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/mapping"
)

// Combining: while very many callers wait for rows of one source, one of them maps the records of dozens, and the others
// sleep at once. What mapping needs is then in the caches, and not the stacks of all callers; the buffer is entered once
// for all of them, and counts one who waits. (Flat combining, Hendler et al. 2010, with sleepers in place of spinners.) It
// changes no outcome: each caller has its own verdict and leaves when its own context ends.
const (
	// combineMost is how many records one caller maps: enough to share what is paid once, few enough for several cores.
	combineMost = 64
	// combineBody is the largest body, in bytes, that another caller maps: nobody should wait for a long one of someone else.
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

// errCombined is the outcome of those whose records were being mapped by a caller that panicked.
var errCombined = errors.New("forebay: unknown outcome: another record of the source was mapped at the same time and panicked")

// combiner brings the callers of a source together.
type combiner struct {
	// on is set while callers meet; pause counts down the calls that do not try.
	on    atomic.Bool
	pause atomic.Int32

	mu    sync.Mutex
	cur   *combined // takes records; nil when there is none
	tries int       // how many groups may still be small
}

// combined are the records of several callers. The caller that closes it maps them all.
type combined struct {
	n       int // guarded by combiner.mu until it is closed
	recs    [combineMost]*mapping.Record
	results [combineMost]Result // as they are if the disk takes the rows; not changed once they are mapped
	// portions is set when some were refused or have failed. Each caller then settles its own: those who were refused must
	// not wait for the others.
	portions []portion
	err      error

	mapped sync.WaitGroup // until no record is looked at any more
	done   chan struct{}  // closed when portions and err are there
	near   chan struct{}  // closed then, or when patience is over
	timer  *time.Timer
}

// combines reports whether a call with the record should look for others. A Document is code of its caller, which stays
// with it: it may panic.
func (src *source) combines(rec *mapping.Record) bool {
	c := &src.combiner
	if rec == nil || rec.Document != nil || len(rec.Body) > combineBody {
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
	err := g.wait(ctx)
	res := g.results[i]
	switch sinks := len(src.sinks); {
	case err != nil:
		res.Sinks = slices.Clone(res.Sinks)
		src.fail([]Result{res}, 0, sinks, err)
	case g.err != nil:
		return Result{}, g.err
	case g.portions != nil:
		res.Sinks = slices.Clone(res.Sinks)
		if err := src.settle(ctx, g.portionsOf(i, sinks), []Result{res}); err != nil {
			return Result{}, err
		}
	}
	return res, res.Err(src.def.ID)
}

func newCombined() *combined {
	g := &combined{done: make(chan struct{}), near: make(chan struct{})}
	g.mapped.Add(1)
	g.timer = time.AfterFunc(combinePatience, func() { close(g.near) })
	return g
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
	if c.tries--; g.n >= combineLeast {
		c.tries = combineTries
	}
	if c.tries <= 0 {
		c.tries = 0
		c.pause.Store(combinePause)
	}
	if on := c.tries > 0; c.on.Load() != on { // all callers read it
		c.on.Store(on)
	}
}

// mapCombined maps the records of a closed group and hands their rows to the buffer. It does so under no caller's
// context: none may fail because another has left.
func (e *Engine) mapCombined(src *source, g *combined) {
	ctx, returned := context.Background(), false
	defer func() {
		g.mapped.Done()
		if !returned { // the panic goes on
			g.end(errCombined)
		}
	}()
	portions := e.take(ctx, src, g.recs[:g.n], g.results[:g.n], nil)
	returned = true
	if slices.ContainsFunc(portions, func(p portion) bool { return p.err != nil }) {
		g.portions = portions
		g.end(nil)
		return
	}
	go func() {
		if !src.await(ctx, portions) {
			g.portions = portions
		}
		g.end(nil)
	}()
}

// portionsOf returns those with rows of record i.
func (g *combined) portionsOf(i, sinks int) []portion {
	var list []portion
	begin := 0
	for _, p := range g.portions {
		end := p.end
		if begin < (i+1)*sinks && end > i*sinks {
			p.end = min(end, (i+1)*sinks) - i*sinks
			list = append(list, p)
		}
		begin = end
	}
	return list
}

// end tells all callers what became of their records.
func (g *combined) end(err error) {
	g.err = err
	close(g.done)
	if g.timer.Stop() {
		close(g.near)
	}
}

// wait returns nil when the outcome is there. With an error of ctx it is unknown, but the record is the caller's again.
func (g *combined) wait(ctx context.Context) error {
	<-g.near
	select {
	case <-g.done:
		return nil
	default:
	}
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		g.mapped.Wait()
		return context.Cause(ctx)
	}
}
