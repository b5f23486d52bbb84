package console

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// pointEvery is the time between two points of the finest plots.
const pointEvery = 10 * time.Second

// ranges are the plots that can be chosen. The longer one is, the further apart are its points, at most 360.
var ranges = [...]plotRange{
	{"1h", pointEvery, time.Hour},
	{"6h", time.Minute, 6 * time.Hour},
	{"24h", 5 * time.Minute, 24 * time.Hour},
	{"7d", 30 * time.Minute, 7 * 24 * time.Hour},
}

type plotRange struct {
	name        string
	every, span time.Duration
}

// history is the data of the plots, over all sinks together.
type history struct {
	series [len(ranges)]series
	// marks are the latest events, oldest first.
	marks []mark
	// versions and state belong to the last sample, to notice a change. versions is nil before the first one.
	versions map[string]int64
	state    string
}

// series are the points of one range, oldest first.
type series struct {
	points []point
	// local and staging are the greatest ages since the last point.
	local, staging float64
}

// maxMarks bounds the marks.
const maxMarks = 200

// mark is an event that explains a plot.
type mark struct {
	At moment `json:"at"`
	// Kind is start, definition, trouble or well.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// point is a moment of the plots.
type point struct {
	at time.Time
	// in and out are rows per second, NaN if they are unknown. local and staging are the greatest ages of the oldest rows since the point before, in
	// seconds. refused are calls, and rejected records, per minute since the point before, NaN without one.
	in, out, local, staging, refused, rejected float64
	// took are the quantiles of tookShares for commits, uploads and imports since the point before, in seconds. NaN where there was none.
	took [3][len(tookShares)]float64
	// counters were read at this point, and the next point is computed from them. Only the newest point of a series has them.
	counters *pointCounters
}

// pointCounters are counters of all sinks.
type pointCounters struct {
	accepted, stored, overloads, rejections int64
	// took has commits, uploads and imports.
	took [3]buffer.Latency
}

// tookShares are the quantiles that plots show.
var tookShares = [...]float64{0.5, 0.99}

func countersOf(s *sample) *pointCounters {
	c := &pointCounters{overloads: s.stats.Overloads, took: [3]buffer.Latency{s.stats.Commits, s.stats.Uploads, s.stats.Imports}}
	for i := range s.stats.Sinks {
		k := &s.stats.Sinks[i]
		c.accepted += k.Accepted
		c.stored += k.Target.Rows
		c.rejections += rejected(k.Rejected)
	}
	return c
}

// newPoint makes the point of a sample. last is the point before, nil without one that is recent.
func newPoint(at time.Time, is *pointCounters, last *point) point {
	none := math.NaN()
	p := point{at: at, in: none, out: none, refused: none, rejected: none, counters: is}
	var was *pointCounters
	if last != nil {
		was = last.counters
	}
	for i := range p.took {
		var since buffer.Latency
		if was != nil {
			since = is.took[i].Since(was.took[i])
		}
		for j, share := range tookShares {
			if p.took[i][j] = none; since.Count() > 0 {
				p.took[i][j] = since.Quantile(share).Seconds()
			}
		}
	}
	if was == nil {
		return p
	}
	seconds := at.Sub(last.at).Seconds()
	per := func(now, before int64, every float64) float64 {
		if now < before { // a sink was forgotten, or the engine was replaced
			return none
		}
		return float64(now-before) / seconds * every
	}
	p.in, p.out = per(is.accepted, was.accepted, 1), per(is.stored, was.stored, 1)
	if is.overloads >= was.overloads && is.rejections >= was.rejections {
		p.refused, p.rejected = per(is.overloads, was.overloads, 60), per(is.rejections, was.rejections, 60)
	}
	return p
}

// remember adds a sample to the points that are due. Called with the mutex of the sampler held.
func (h *history) remember(s *sample) {
	var local, staging float64
	for i := range s.stats.Sinks {
		k := &s.stats.Sinks[i]
		local = max(local, s.age(k.Local).Seconds())
		staging = max(staging, s.age(k.Staging).Seconds())
	}
	var is *pointCounters
	for i := range h.series {
		r, every := &h.series[i], ranges[i].every
		r.local, r.staging = max(r.local, local), max(r.staging, staging)
		var last *point
		if n := len(r.points); n > 0 {
			last = &r.points[n-1]
			if s.at.Sub(last.at) < every-sampleEvery/2 {
				continue
			}
			if s.at.Sub(last.at) > 3*every {
				last, r.local, r.staging = nil, local, staging // no sample was taken for a while, so later counts have no time
			}
		}
		if is == nil {
			is = countersOf(s)
		}
		p := newPoint(s.at, is, last)
		p.local, p.staging = r.local, r.staging
		r.local, r.staging = 0, 0
		if n := len(r.points); n > 0 {
			r.points[n-1].counters = nil
		}
		if keep := int(ranges[i].span / every); len(r.points) >= keep {
			r.points = append(r.points[:0], r.points[len(r.points)-keep+1:]...)
		}
		r.points = append(r.points, p)
	}
	if is != nil {
		h.notice(s)
	}
}

// notice marks the changes since the last sample.
func (h *history) notice(s *sample) {
	versions := make(map[string]int64, len(s.stats.Sinks))
	var changed []string
	for i := range s.stats.Sinks {
		k := &s.stats.Sinks[i]
		versions[k.ID] = int64(k.Version)
		if before, ok := h.versions[k.ID]; h.versions != nil && !k.Dropped && (!ok || before != versions[k.ID]) {
			changed = append(changed, visible(k.ID))
		}
	}
	if n := len(changed); n > 3 {
		changed = append(changed[:3], fmt.Sprintf("and %d more", n-3))
	}
	if len(changed) > 0 {
		h.mark(s.at, "definition", "Definition changed: "+strings.Join(changed, ", "))
	}
	top := topOf(s)
	switch {
	case top.State == h.state:
	case top.State != "ok":
		h.mark(s.at, "trouble", top.Verdict.String())
	case h.state != "":
		h.mark(s.at, "well", "All sinks work again.")
	}
	h.versions, h.state = versions, top.State
}

func (h *history) mark(at time.Time, kind, text string) {
	if len(h.marks) == maxMarks {
		h.marks = append(h.marks[:0], h.marks[1:]...)
	}
	h.marks = append(h.marks, mark{moment(at), kind, text})
}

// keepHistory takes samples without viewers, and writes Options.HistoryFile, until the console is closed.
func (s *sampler) keepHistory() {
	tick := time.NewTicker(pointEvery)
	defer tick.Stop()
	defer s.saveHistory()
	for n := 1; ; n++ {
		s.mu.Lock()
		if last := s.newest.Load(); !s.running && (last == nil || !last.closed) {
			s.take()
		}
		s.mu.Unlock()
		if n%6 == 0 {
			s.saveHistory()
		}
		select {
		case <-s.c.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// figures are the numbers of a point, in the order of its JSON.
func (p *point) figures() []*float64 {
	list := []*float64{&p.in, &p.out, &p.local, &p.staging, &p.refused, &p.rejected}
	for i := range p.took {
		for j := range p.took[i] {
			list = append(list, &p.took[i][j])
		}
	}
	return list
}

// MarshalJSON writes the time in milliseconds, then the figures. null is unknown.
func (p point) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt([]byte{'['}, p.at.UnixMilli(), 10)
	for _, v := range p.figures() {
		if b = append(b, ','); math.IsNaN(*v) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, *v, 'g', 4, 64)
		}
	}
	return append(b, ']'), nil
}

// plots is the response with points.
type plots struct {
	// Every is the time between two points in seconds, Span the length of the plots.
	Every  float64 `json:"every"`
	Span   float64 `json:"span"`
	Points []point `json:"points"`
	Marks  []mark  `json:"marks"`
}

// historyOf returns the points of a "range" after the time "after", in milliseconds, oldest first, and all marks of the range.
func (c *request) historyOf() (any, error) {
	after, _ := strconv.ParseInt(c.query.Get("after"), 10, 64) // a text that is not a number counts as 0
	name := c.query.Get("range")
	i := 0
	if name != "" {
		if i = slices.IndexFunc(ranges[:], func(r plotRange) bool { return r.name == name }); i < 0 {
			return nil, refuse(http.StatusBadRequest, "There is no range %q.", visible(name))
		}
	}
	is := c.sampler.current()
	if is == nil {
		return nil, refuse(http.StatusServiceUnavailable, "%v", forebay.ErrClosed)
	}
	s := &c.sampler
	s.mu.Lock()
	defer s.mu.Unlock()
	out := plots{Every: ranges[i].every.Seconds(), Span: ranges[i].span.Seconds(), Points: []point{}, Marks: []mark{}}
	for _, p := range s.history.series[i].points {
		if p.at.UnixMilli() > after {
			out.Points = append(out.Points, p)
		}
	}
	for _, m := range s.history.marks {
		if is.at.Sub(time.Time(m.At)) <= ranges[i].span {
			out.Marks = append(out.Marks, m)
		}
	}
	return out, nil
}
