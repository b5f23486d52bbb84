package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// measurePlan measures everything of p once a round. Every second round goes backwards, so that a drift of the machine
// falls on both sides of a comparison. before is called with the name and round of each measurement.
func measurePlan(ctx context.Context, e *env, p plan, rounds int, before func(name string, round int)) (map[string][]*sample, error) {
	samples := make(map[string][]*sample)
	for round := range rounds {
		order := slices.Clone(p.measured)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			before(s.name, round)
			cleanUp()
			m, err := s.once(ctx, e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			samples[s.name] = append(samples[s.name], m)
		}
	}
	return samples, nil
}

// once measures a scenario in a separate folder.
func (s scenario) once(ctx context.Context, e *env) (_ *sample, err error) {
	own := *e
	if own.dir, err = os.MkdirTemp(e.dir, "measured-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own.dir)) }()
	switch {
	case e.profiles != "":
		return s.profiled(ctx, &own)
	case s.alone:
		return s.apart(ctx, &own, 0)
	}
	return s.run(ctx, &own)
}

// summarize reduces the samples of all rounds to the report of s, as medians over the rounds. A ratio is the median of
// the ratios within each round, not the ratio of two medians.
func summarize(s scenario, samples map[string][]*sample) result {
	own := samples[s.name]
	r := result{Scenario: s.name, Rounds: len(own)}
	overRounds := func(f func(*sample) float64) float64 {
		values := make([]float64, len(own))
		for i, m := range own {
			values[i] = f(m)
		}
		return median(values)
	}
	ratio := func(name string, f func(own, other *sample) float64) *float64 {
		values := make([]float64, len(own))
		for i, m := range own {
			values[i] = f(m, samples[name][i])
		}
		return some(median(values))
	}

	for _, m := range own {
		r.Rows += m.Total
		r.Overloads += m.Overloads
	}
	r.RowsPerS = overRounds((*sample).rowsPerSecond)
	r.BytesPerS = overRounds((*sample).bytesPerSecond)
	r.Spread = spread(own)
	r.P50 = overRounds(func(m *sample) float64 { return milliseconds(m.Latency.quantile(0.50)) })
	r.P99 = overRounds(func(m *sample) float64 { return milliseconds(m.Latency.quantile(0.99)) })
	if own[0].CPU >= 0 {
		r.CPUPerRow = some(overRounds(func(m *sample) float64 { return float64(m.CPU) / float64(m.Rows) }))
		r.BusyCores = some(overRounds(func(m *sample) float64 { return float64(m.CPU+m.Client) / float64(m.Elapsed) }))
	}
	r.AllocsPerRow = overRounds(func(m *sample) float64 { return float64(m.Allocs) / float64(m.Rows) })
	if own[0].Written >= 0 {
		r.WrittenPerByte = some(overRounds(func(m *sample) float64 { return float64(m.Written) / float64(m.Bytes) }))
	}
	if own[0].Client > 0 {
		r.ClientCPUPerRow = some(overRounds(func(m *sample) float64 { return float64(m.Client) / float64(m.Rows) }))
		r.ClientCPUShare = some(overRounds(func(m *sample) float64 {
			return float64(m.Client) / float64(m.Client+m.CPU)
		}))
	}

	if s.limit != "" {
		// In rows, so that it can be held against rows_per_s.
		r.Limit = ratio(s.limit, func(own, limit *sample) float64 {
			return limit.bytesPerSecond() * float64(own.Rows) / float64(own.Bytes)
		})
		r.OfLimit = ratio(s.limit, func(own, limit *sample) float64 {
			return own.bytesPerSecond() / limit.bytesPerSecond()
		})
	}
	if s.fsync {
		ofSync := func(q float64) *float64 {
			return ratio(fsyncName, func(own, sync *sample) float64 {
				return float64(own.Latency.quantile(q)) / float64(sync.Latency.quantile(0.50))
			})
		}
		r.P50OfFsync, r.P99OfFsync = ofSync(0.50), ofSync(0.99)
	}
	for _, b := range s.against {
		c := comparison{
			field:    b.field,
			scenario: b.scenario,
			rows:     *ratio(b.scenario, func(_, other *sample) float64 { return other.rowsPerSecond() }),
			ratio: *ratio(b.scenario, func(own, other *sample) float64 {
				return own.rowsPerSecond() / other.rowsPerSecond()
			}),
		}
		if s.fsync {
			p50 := func(m *sample) float64 { return milliseconds(m.Latency.quantile(0.50)) }
			c.p50 = *ratio(b.scenario, func(_, other *sample) float64 { return p50(other) })
			c.p50Ratio = *ratio(b.scenario, func(own, other *sample) float64 { return p50(own) / p50(other) })
		}
		r.Baselines = append(r.Baselines, c)
	}
	for name := range own[0].Figures {
		if r.Figures == nil {
			r.Figures = make(map[string]float64)
		}
		r.Figures[name] = overRounds(func(m *sample) float64 { return m.Figures[name] })
	}
	r.Goals = s.reached(r)
	return r
}

// median returns the middle value, or the mean of the two middle ones; 0 for no values. It sorts values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// spread returns how far the throughputs of the rounds lie apart, relative to their median.
func spread(samples []*sample) float64 {
	values := make([]float64, len(samples))
	for i, m := range samples {
		values[i] = m.rowsPerSecond()
	}
	mid := median(values)
	return (values[len(values)-1] - values[0]) / mid
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func some(v float64) *float64 { return &v }
