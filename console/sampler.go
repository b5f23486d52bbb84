package console

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
)

const (
	sampleEvery = time.Second
	// lingering is how long samples continue after the last viewer, so that a page that is loaded again has rates at once.
	lingering = 30 * time.Second
	// rateOver is the time that rates are averaged over.
	rateOver = 10 * time.Second
)

// sample is the state of the engine at one moment. It is immutable and shared by all viewers.
type sample struct {
	at    time.Time
	stats forebay.Stats
	// ready is why the engine accepts no records, nil if it does. closed is set once it is closed permanently, and stats are then the last ones.
	ready  error
	closed bool
	// flows are the rates of stats.Sinks, in the same order. total is their sum. Its known is set if there is an earlier sample.
	flows []flow
	total flow

	// words is set if errors of drivers may be quoted. They may have values of rows in them. See forRights.
	words bool
	// unquoted is the same sample without words.
	unquoted *sample
	// derived is shared by all viewers, shown by the viewers with the same page and query.
	derived *derived
	shown   *shownViews
}

// forRights returns the sample for a viewer.
func (s *sample) forRights(rights Rights) *sample {
	if rights&Records != 0 || s.unquoted == nil {
		return s
	}
	return s.unquoted
}

// finish makes the sample ready for viewers. It computes nothing. The first viewer does.
func (s *sample) finish() {
	s.words, s.derived, s.shown = true, &derived{}, &shownViews{}
	quiet := *s
	quiet.words, quiet.shown = false, &shownViews{}
	s.unquoted = &quiet
}

// flow is rows per second of one sink.
type flow struct {
	in, out float64
	// known is set if the sink was there some seconds ago.
	known bool
	// lastRow is the time of acceptance of the newest row, zero if there is none.
	lastRow time.Time
}

// counters of a sample that rates are computed from.
type counters struct {
	at    time.Time
	sinks []sinkCounters // sorted as in Stats
}

type sinkCounters struct {
	source, sink  string
	accepted, out int64
}

func (k sinkCounters) compare(o sinkCounters) int {
	return cmp.Or(cmp.Compare(k.source, o.source), cmp.Compare(k.sink, o.sink))
}

// sampler asks the engine once a second for all viewers, while there are some.
type sampler struct {
	c      *Console
	newest atomic.Pointer[sample]

	mu sync.Mutex
	// viewers have a channel of capacity 1 that is filled by each sample. A slow viewer finds the newest sample and misses earlier ones.
	viewers map[chan struct{}]struct{}
	running bool
	// seen is when the last viewer left, or when a client polled.
	seen time.Time
	// past are the counters of the last rateOver, oldest first.
	past    []counters
	history history
	// unsaved is set while Options.HistoryFile cannot be written. Only keepHistory uses it.
	unsaved bool
}

func (s *sampler) init(c *Console) { s.c, s.viewers = c, make(map[chan struct{}]struct{}) }

var errTooManyViewers = errors.New("too many viewers")

// join adds a viewer. The caller must call leave.
func (s *sampler) join() (woken chan struct{}, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.viewers) >= s.c.opts.MaxViewers {
		return nil, nil, errTooManyViewers
	}
	woken = make(chan struct{}, 1)
	s.viewers[woken] = struct{}{}
	s.start()
	return woken, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.viewers, woken)
		s.seen = time.Now()
	}, nil
}

// current returns a sample that is a second old at most.
func (s *sampler) current() *sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = time.Now()
	s.start()
	return s.newest.Load()
}

// start takes a sample and continues in the background, unless that runs already. Called with mu held.
func (s *sampler) start() {
	if s.running || s.c.closing.Load() {
		return
	}
	if !s.c.opts.History {
		s.past = nil
	}
	s.take()
	s.running = true
	s.c.background.Go(s.run)
}

func (s *sampler) run() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.c.ctx.Done():
			return
		case <-tick.C:
		}
		if s.over() {
			return
		}
	}
}

// over takes a sample, or reports that there was no viewer for a while.
func (s *sampler) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.viewers) == 0 && time.Since(s.seen) >= lingering {
		s.running = false
		return true
	}
	s.take()
	for woken := range s.viewers {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	return false
}

// take makes a new sample. Called with mu held.
func (s *sampler) take() {
	now := time.Now()
	next := &sample{at: now, ready: s.c.eng.Ready()}
	next.closed = errors.Is(next.ready, forebay.ErrClosed)
	last := s.newest.Load()
	if next.closed && last != nil {
		next.stats, next.flows, next.total = last.stats, make([]flow, len(last.flows)), flow{}
		for i := range next.flows {
			next.flows[i].lastRow = last.flows[i].lastRow
		}
		next.total.lastRow = last.total.lastRow
		next.finish()
		s.newest.Store(next)
		return
	}
	next.stats = s.c.eng.Stats()
	is := counters{at: now, sinks: make([]sinkCounters, len(next.stats.Sinks))}
	for i := range next.stats.Sinks {
		k := &next.stats.Sinks[i]
		is.sinks[i] = sinkCounters{k.Source, k.Sink, k.Accepted, k.Target.Rows}
	}
	for len(s.past) > 1 && now.Sub(s.past[1].at) >= rateOver {
		s.past = s.past[1:]
	}
	var before *counters
	if len(s.past) > 0 {
		before = &s.past[0]
	}
	next.flows = make([]flow, len(is.sinks))
	next.total.known = before != nil
	for i := range is.sinks {
		f := &next.flows[i]
		if before != nil {
			f.since(before, is.sinks[i], i, now)
		}
		k := &next.stats.Sinks[i]
		for _, at := range []time.Time{k.Local.LastAt, k.Staging.LastAt, k.Target.LastAt} {
			if at.After(f.lastRow) {
				f.lastRow = at
			}
		}
		next.total.in += f.in
		next.total.out += f.out
		if f.lastRow.After(next.total.lastRow) {
			next.total.lastRow = f.lastRow
		}
	}
	s.past = append(s.past, is)
	next.finish()
	s.history.remember(next)
	s.newest.Store(next)
}

// since sets the rates of the sink that is now at position i. A counter that went back, because the sink was forgotten, has no rate.
func (f *flow) since(before *counters, is sinkCounters, i int, now time.Time) {
	if i >= len(before.sinks) || before.sinks[i].compare(is) != 0 {
		var found bool
		if i, found = slices.BinarySearchFunc(before.sinks, is, sinkCounters.compare); !found {
			return
		}
	}
	was, seconds := before.sinks[i], now.Sub(before.at).Seconds()
	if seconds <= 0 || is.accepted < was.accepted || is.out < was.out {
		return
	}
	*f = flow{in: float64(is.accepted-was.accepted) / seconds, out: float64(is.out-was.out) / seconds, known: true}
}

// close wakes all viewers, which then find that the console is closing.
func (s *sampler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for woken := range s.viewers {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}
