package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// result is what was measured of a peer, a line of the JSON form.
type result struct {
	Peer     string  `json:"peer"`
	Settings string  `json:"settings"`
	Rounds   []speed `json:"rounds"`
	Kills    fault   `json:"kills"`
	Outage   fault   `json:"outage"`
}

// speed is a round in which events are sent as fast as possible.
type speed struct {
	PerS        float64 `json:"confirmed_per_s"`
	CPU         float64 `json:"cpu_us_per_row"`
	DatabaseCPU float64 `json:"database_cpu_us_per_row"`
	MemoryMB    float64 `json:"memory_mb"` // at the peak, more than before the first event, because all peers are in one program
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	Fresh       float64 `json:"event_to_query_p99_ms"`
	Written     float64 `json:"bytes_written_per_byte"` // by the peer
	Audit       audit   `json:"audit"`
}

// fault is a time with kills, or without the database.
type fault struct {
	Offered int   `json:"offered"` // events at the fixed rate
	Refused int   `json:"refused"` // requests
	Audit   audit `json:"audit"`
}

// notTaken is the share of the offered events that were not confirmed. An event that was not sent, because the peer let the request before it
// wait, counts too.
func (f fault) notTaken() float64 {
	return 100 * max(0, 1-float64(f.Audit.Acknowledged)/float64(max(1, f.Offered)))
}

// baseline is the peer to whose rate others are compared, round by round.
const baseline = "inserts"

// printTable writes a table in Markdown, with the medians of the rounds.
func printTable(w io.Writer, results []*result) error {
	var s strings.Builder
	s.WriteString("| peer | rows/s | of inserts | CPU µs a row, peer + database | memory MB | p50, p99 ms | event to query, p99 s | bytes written a byte |" +
		" kills: missing, twice, not taken | outage: missing, twice, not taken |\n|" + strings.Repeat("---|", 10) + "\n")
	at := slices.IndexFunc(results, func(r *result) bool { return r.Peer == baseline })
	for _, r := range results {
		median := func(field func(*result, int) float64) float64 {
			var values []float64
			for i := range r.Rounds {
				values = append(values, field(r, i))
			}
			slices.Sort(values)
			return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
		}
		of := func(field func(speed) float64) float64 {
			return median(func(r *result, i int) float64 { return field(r.Rounds[i]) })
		}
		ratio := "–"
		if at >= 0 {
			ratio = fmt.Sprintf("%.2f", median(func(r *result, i int) float64 { return r.Rounds[i].PerS / results[at].Rounds[i].PerS }))
		}
		fmt.Fprintf(&s, "| %s | %.0f | %s | %.0f + %.0f | %.0f | %.1f, %.1f | %.2f | %.1f |%s|%s|\n", r.Peer, of(func(s speed) float64 { return s.PerS }), ratio,
			of(func(s speed) float64 { return s.CPU }), of(func(s speed) float64 { return s.DatabaseCPU }), of(func(s speed) float64 { return s.MemoryMB }),
			of(func(s speed) float64 { return s.P50 }), of(func(s speed) float64 { return s.P99 }), of(func(s speed) float64 { return s.Fresh / 1e3 }),
			of(func(s speed) float64 { return s.Written }), r.Kills, r.Outage)
	}
	s.WriteString("\n")
	for _, r := range results {
		fmt.Fprintf(&s, "- %s: %s\n", r.Peer, r.Settings)
		for i, round := range r.Rounds {
			if round.Audit.Lost+round.Audit.Doubled > 0 {
				fmt.Fprintf(&s, "  - round %d without any fault: %d missing, %d twice\n", i+1, round.Audit.Lost, round.Audit.Doubled)
			}
		}
	}
	_, err := io.WriteString(w, s.String())
	return err
}

func (f fault) String() string {
	if f.Offered == 0 {
		return " – "
	}
	return fmt.Sprintf(" %d, %d, %.0f %% ", f.Audit.Lost, f.Audit.Doubled, f.notTaken())
}
