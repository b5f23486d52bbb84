package console

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

const (
	pointEvery = 10 * time.Second
	// historyPoints are an hour.
	historyPoints = 360
)

// point is a moment of the plots, of all sinks together.
type point struct {
	at time.Time
	// in and out are rows per second, NaN if they are unknown. local and staging are the ages of the oldest rows in seconds. refused are
	// calls, and rejected records, per minute since the point before, NaN without one.
	in, out, local, staging, refused, rejected float64

	overloads, rejections int64
	// took are the quantiles of tookShares for commits, uploads and imports since the point before, in seconds; NaN where there was none.
	took [3][len(tookShares)]float64
	// latencies are the counters of took, up to this point. Only the newest point has them.
	latencies *latencies
}

// latencies are counters of commits, uploads and imports.
type latencies [3]buffer.Latency

// tookShares are the quantiles that plots show.
var tookShares = [...]float64{0.5, 0.99}

// newPoint makes the point of a sample. last is the point before, nil without one that is recent.
func newPoint(s *sample, last *point) point {
	p := point{at: s.at, in: s.total.in, out: s.total.out, overloads: s.stats.Overloads, refused: math.NaN(), rejected: math.NaN()}
	if !s.total.known {
		p.in, p.out = math.NaN(), math.NaN()
	}
	for i := range s.stats.Sinks {
		k := &s.stats.Sinks[i]
		p.local = max(p.local, s.age(k.Local).Seconds())
		p.staging = max(p.staging, s.age(k.Staging).Seconds())
		p.rejections += rejected(k.Rejected)
	}
	p.latencies = &latencies{s.stats.Commits, s.stats.Uploads, s.stats.Imports}
	for i := range p.took {
		var since buffer.Latency
		if last != nil && last.latencies != nil {
			since = p.latencies[i].Since(last.latencies[i])
		}
		for j, share := range tookShares {
			if p.took[i][j] = math.NaN(); since.Count() > 0 {
				p.took[i][j] = since.Quantile(share).Seconds()
			}
		}
	}
	if last != nil && p.overloads >= last.overloads && p.rejections >= last.rejections {
		minutes := p.at.Sub(last.at).Minutes()
		p.refused = float64(p.overloads-last.overloads) / minutes
		p.rejected = float64(p.rejections-last.rejections) / minutes
	}
	return p
}

// remember adds a point every pointEvery. Called with mu held.
func (s *sampler) remember(is *sample) {
	var last *point
	if n := len(s.history); n > 0 {
		last = &s.history[n-1]
		if is.at.Sub(last.at) < pointEvery-sampleEvery/2 {
			return
		}
		if is.at.Sub(last.at) > 3*pointEvery {
			last = nil // nobody has looked: what came since then has no time
		}
	}
	p := newPoint(is, last)
	if n := len(s.history); n > 0 {
		s.history[n-1].latencies = nil
	}
	if len(s.history) == historyPoints {
		s.history = append(s.history[:0], s.history[1:]...)
	}
	s.history = append(s.history, p)
}

// keepHistory takes samples while nobody looks, until the console is closed.
func (s *sampler) keepHistory() {
	tick := time.NewTicker(pointEvery)
	defer tick.Stop()
	for {
		s.mu.Lock()
		if last := s.newest.Load(); !s.running && (last == nil || !last.closed) {
			s.take()
		}
		s.mu.Unlock()
		select {
		case <-s.c.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// MarshalJSON writes the time in milliseconds, then the figures; null is unknown.
func (p point) MarshalJSON() ([]byte, error) {
	b := append(strconv.AppendInt([]byte{'['}, p.at.UnixMilli(), 10), ',')
	figures := []float64{p.in, p.out, p.local, p.staging, p.refused, p.rejected}
	for _, quantiles := range p.took {
		figures = append(figures, quantiles[:]...)
	}
	for i, v := range figures {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, v, 'g', 4, 64)
		}
	}
	return append(b, ']'), nil
}

// historyOf answers with the points after the time "after", in milliseconds, oldest first.
func (c *call) historyOf() (any, error) {
	after, _ := strconv.ParseInt(c.query.Get("after"), 10, 64) // what is no number counts as 0
	if c.sampler.current() == nil {
		return nil, refuse(http.StatusServiceUnavailable, "%v", forebay.ErrClosed)
	}
	s := &c.sampler
	s.mu.Lock()
	defer s.mu.Unlock()
	points := []point{}
	for _, p := range s.history {
		if p.at.UnixMilli() > after {
			points = append(points, p)
		}
	}
	return map[string]any{"points": points}, nil
}
