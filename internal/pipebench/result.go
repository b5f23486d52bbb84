package pipebench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// measured is one way, as a round or as the medians of all rounds.
type measured struct {
	PerS      float64 `json:"confirmed_per_s"`
	RowsPerS  float64 `json:"rows_per_s"` // until a query sees the last one
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	CPUPerRow float64 `json:"cpu_us_per_row,omitempty"` // of engine or handler, and database
	// DatabaseCPUPerRow is the part of the database.
	DatabaseCPUPerRow float64 `json:"database_cpu_us_per_row,omitempty"`
	Failed            float64 `json:"failed,omitempty"`     // requests with another status than 200
	AwayPerS          float64 `json:"away_per_s,omitempty"` // confirmed while the database was away
	Drained           float64 `json:"drained_s,omitempty"`  // from its return until a query sees the last row
	Confirmed         float64 `json:"confirmed,omitempty"`  // rows, while the service was killed again and again
	Lost              float64 `json:"lost,omitempty"`       // of them
	Doubled           float64 `json:"doubled,omitempty"`    // rows
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// fields are the fields for which medians and ratios are computed.
var fields = []func(*measured) *float64{
	func(m *measured) *float64 { return &m.PerS }, rowsPerS, func(m *measured) *float64 { return &m.P50 }, p99,
	func(m *measured) *float64 { return &m.Max }, cpuPerRow,
	func(m *measured) *float64 { return &m.DatabaseCPUPerRow }, func(m *measured) *float64 { return &m.Confirmed },
	func(m *measured) *float64 { return &m.Lost }, func(m *measured) *float64 { return &m.Doubled },
	func(m *measured) *float64 { return &m.Failed }, func(m *measured) *float64 { return &m.AwayPerS }, func(m *measured) *float64 { return &m.Drained },
}

func rowsPerS(m *measured) *float64  { return &m.RowsPerS }
func p99(m *measured) *float64       { return &m.P99 }
func cpuPerRow(m *measured) *float64 { return &m.CPUPerRow }

// result is a line of the JSON form.
type result struct {
	Scenario string              `json:"scenario"`
	Rounds   int                 `json:"rounds"`
	Ways     map[string]measured `json:"ways"` // medians of the rounds
	Goals    []goal              `json:"goals"`

	rounds map[string][]measured
}

// goal is a figure with its bound.
type goal struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Goal  string  `json:"goal"`
	Met   bool    `json:"met"`
}

func (r *result) goal(what string, value float64, relation string, bound float64) {
	met := value >= bound
	if relation == "<=" {
		met = value <= bound
	}
	r.Goals = append(r.Goals, goal{what, value, fmt.Sprintf("%s %.4g", relation, bound), met})
}

func (r *result) add(way string, m measured) {
	if r.rounds == nil {
		r.rounds = map[string][]measured{}
	}
	r.rounds[way] = append(r.rounds[way], m)
	r.Rounds = len(r.rounds[way])
}

// finish makes the medians.
func (r *result) finish() {
	for way, rounds := range r.rounds {
		var m measured
		for _, field := range fields {
			var values []float64
			for i := range rounds {
				values = append(values, *field(&rounds[i]))
			}
			*field(&m) = median(values)
		}
		r.Ways[way] = m
	}
}

// ratio is the median over the rounds of the figure of one way, divided by the figure of the other.
func (r *result) ratio(way, other string, field func(*measured) *float64) float64 {
	var values []float64
	for i := range r.rounds[way] {
		values = append(values, *field(&r.rounds[way][i]) / *field(&r.rounds[other][i]))
	}
	return median(values)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func (r *result) print(w io.Writer) error {
	var s strings.Builder
	for _, way := range ways {
		m, ok := r.Ways[way]
		if !ok {
			continue
		}
		if m.Confirmed > 0 {
			fmt.Fprintf(&s, "%s: %-17s %8.0f rows confirmed, %.0f lost, %.0f doubled\n", r.Scenario, way, m.Confirmed, m.Lost, m.Doubled)
			continue
		}
		fmt.Fprintf(&s, "%s: %-17s %8.0f confirmed/s, p50 %.1f ms, p99 %.1f ms, most %.0f ms; %8.0f rows/s until the last is seen",
			r.Scenario, way, m.PerS, m.P50, m.P99, m.Max, m.RowsPerS)
		if m.CPUPerRow > 0 {
			fmt.Fprintf(&s, ", %.1f µs of CPU a row, %.1f of them the database's", m.CPUPerRow, m.DatabaseCPUPerRow)
		}
		if m.Drained > 0 {
			fmt.Fprintf(&s, "; away: %.0f confirmed/s; %.0f failed; seen %.1f s after its return", m.AwayPerS, m.Failed, m.Drained)
		}
		s.WriteByte('\n')
	}
	for _, g := range r.Goals {
		fmt.Fprintf(&s, "%s: %.3g %s (goal %s: met %v)\n", r.Scenario, g.Value, g.What, g.Goal, g.Met)
	}
	_, err := io.WriteString(w, s.String())
	return err
}
