package shadow

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// Slot is the place for the shadow of one sink. Its owner keeps it while the sink is defined again. The zero value has no shadow.
type Slot struct{ shadow atomic.Pointer[Shadow] }

// Offer gives the shadow a record that the sink has mapped into a row of size bytes, or rejected if err is not nil. The shadow copies the record if
// there is room.
func (l *Slot) Offer(rec *mapping.Record, size int, err error) {
	if s := l.shadow.Load(); s != nil {
		if err != nil {
			size = -1
		}
		s.offer(rec, size)
	}
}

// Redefine ends the shadow unless next is the mapper that it is compared with. next is nil if the sink no longer accepts records.
func (l *Slot) Redefine(next *mapping.Mapper) {
	if s := l.shadow.Load(); s != nil && s.live != next {
		s.end(Redefined)
	}
}

// Comparison is the work of a shadow.
type Comparison struct {
	// Source and Sink are ids.
	Source, Sink string
	// Live is the mapper of the sink. Current has the same columns, and belongs to the shadow, so the UUIDs of the sink do not depend on it.
	Live, Current, Changed *mapping.Mapper
	// PartOfCurrent and PartOfChanged map the columns of [Differing] alone, nil without any. They are not used if WholeRows is set, as for a
	// table in a different target, whose limits apply to all columns.
	PartOfCurrent, PartOfChanged *mapping.Mapper
	WholeRows                    bool
	// CurrentColumns and ChangedColumns made the mappers.
	CurrentColumns, ChangedColumns mapping.Columns
	// MaxRowBytes is the largest row that is accepted.
	MaxRowBytes int
	// Problems are for the report.
	Problems []buffer.TableProblem
}

// Group has the running shadows of an engine. The zero value has none.
type Group struct {
	mu     sync.Mutex
	all    []*Shadow
	closed bool
}

// Start starts a shadow of a sink. The options are valid. Errors: [ErrShadowed], [ErrTooManyShadows], [buffer.ErrClosed].
func (g *Group) Start(slot *Slot, c Comparison, opts Options) (*Shadow, error) {
	s := newShadow(slot, c, opts)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = slices.DeleteFunc(g.all, (*Shadow).isDone)
	switch {
	case g.closed:
		return nil, buffer.ErrClosed
	case len(g.all) >= maxShadows:
		return nil, ErrTooManyShadows
	case !slot.shadow.CompareAndSwap(nil, s):
		return nil, ErrShadowed
	}
	g.all = append(g.all, s)
	go s.run()
	return s, nil
}

func newShadow(slot *Slot, c Comparison, opts Options) *Shadow {
	s := &Shadow{
		slot: slot, opts: opts.withDefaults(), maxRow: c.MaxRowBytes, live: c.Live, reads: headersOf(c.Current, c.Changed),
		whole:  sides{current: sideOf(c.Current), changed: sideOf(c.Changed)},
		report: Report{Source: c.Source, Sink: c.Sink, Began: time.Now(), Problems: c.Problems, Columns: columnsOf(c.CurrentColumns, c.ChangedColumns)},
		ended:  make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.whole.columns = pairs(c.CurrentColumns, c.ChangedColumns, s.report.Columns)
	if !c.WholeRows {
		s.part = &sides{current: sideOf(c.PartOfCurrent), changed: sideOf(c.PartOfChanged)}
		current, changed := Differing(c.CurrentColumns, c.ChangedColumns)
		s.part.columns = pairs(current, changed, s.report.Columns)
	}
	return s
}

// Close ends all shadows and drops the records that wait to be compared.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	all := g.all
	g.mu.Unlock()
	for _, s := range all {
		s.drop()
		s.end(Closed)
	}
	for _, s := range all {
		<-s.done
	}
}

func (s *Shadow) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
