package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A result is the report of one scenario. A nil pointer is null in JSON and means that the figure does not exist for this scenario
// or this system. docs/internals/benchmarks.md explains the fields.
type result struct {
	Scenario string `json:"scenario"`
	// Volume is set when syncs took as long as on a modelled volume.
	Volume    string   `json:"volume,omitempty"`
	RowsPerS  float64  `json:"rows_per_s"`
	BytesPerS float64  `json:"bytes_per_s"`
	P50       float64  `json:"p50_ms"`
	P99       float64  `json:"p99_ms"`
	CPUPerRow *float64 `json:"cpu_ns_per_row"`
	// BusyCores is the CPU time of this process and of a load generator by time.
	BusyCores    *float64 `json:"busy_cores,omitempty"`
	AllocsPerRow float64  `json:"allocs_per_row"`
	// Limit is in rows per second.
	Limit   *float64 `json:"limit"`
	OfLimit *float64 `json:"of_limit"`

	// Rounds is the number of measurements, Rows the sum of their stored and counted rows, Spread the distance of the best
	// and the worst throughput relative to the median.
	Rounds int     `json:"rounds"`
	Rows   int64   `json:"rows"`
	Spread float64 `json:"spread"`
	// WrittenPerByte is the number of bytes that reached the device, from any program, for each byte of the rows before compression.
	WrittenPerByte *float64 `json:"written_per_byte,omitempty"`
	P50OfFsync     *float64 `json:"p50_of_fsync,omitempty"`
	P99OfFsync     *float64 `json:"p99_of_fsync,omitempty"`
	// ClientCPUPerRow and ClientCPUShare are of a load generator in a separate process, which CPUPerRow leaves out.
	ClientCPUPerRow *float64 `json:"client_cpu_ns_per_row,omitempty"`
	ClientCPUShare  *float64 `json:"client_cpu_share,omitempty"`
	Overloads       int64    `json:"overloads,omitempty"`

	// Figures become separate fields.
	Figures map[string]float64 `json:"-"`
	// Goals compare measured values with the goals.
	Goals []reached `json:"goals,omitempty"`
	// Baselines become the fields NAME_rows_per_s and of_NAME each, and NAME_p50_ms and p50_of_NAME where rows are synced.
	Baselines []comparison `json:"-"`
}

// A comparison is the median throughput of a baseline and the median ratio to it, and for rows that are synced the same of
// the median latency, in ms, else 0.
type comparison struct {
	field, scenario string
	rows, ratio     float64
	p50, p50Ratio   float64
}

// MarshalJSON writes one flat object, so that a line can be read with any tool.
func (r result) MarshalJSON() ([]byte, error) {
	type plain result
	line, err := json.Marshal(plain(r))
	if err != nil || len(r.Baselines)+len(r.Figures) == 0 {
		return line, err
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(line, []byte("}")))
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(out, `,%q:%g`, name, r.Figures[name])
	}
	for _, b := range r.Baselines {
		fmt.Fprintf(out, `,"%s_rows_per_s":%g,"of_%s":%g`, b.field, b.rows, b.field, b.ratio)
		if b.p50 > 0 {
			fmt.Fprintf(out, `,"%s_p50_ms":%g,"p50_of_%s":%g`, b.field, b.p50, b.field, b.p50Ratio)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// writeTable writes the results for people. A dash stands for a figure that does not exist.
func writeTable(w io.Writer, results []result) error {
	const title = "scenario"
	width := len(title) // names stand at the left, figures at the right
	for _, r := range results {
		width = max(width, len(r.Scenario))
	}
	out := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%-*s\t  rows/s\t  MB/s\t  p50 ms\t  p99 ms\t  CPU ns/row\t  allocs/row\t  of limit\t  spread\t  compared with\n", width, title)
	for _, r := range results {
		fmt.Fprintf(out, "%-*s\t  %.0f\t  %.1f\t  %.3f\t  %.3f\t  %s\t  %.2f\t  %s\t  %.0f%%\t  %s\n", width, r.Scenario, r.RowsPerS, r.BytesPerS/1e6,
			r.P50, r.P99, optional("%.0f", r.CPUPerRow), r.AllocsPerRow, optional("%.2f", r.OfLimit), 100*r.Spread, r.compared())
	}
	return out.Flush()
}

// compared returns the ratios in words, for example "0.93 rawfile, p50 1.20 fsync".
func (r result) compared() string {
	var parts []string
	for _, b := range r.Baselines {
		part := fmt.Sprintf("%.2f %s", b.ratio, b.field)
		if b.p50 > 0 {
			part += fmt.Sprintf(" (p50 %.2f)", b.p50Ratio)
		}
		parts = append(parts, part)
	}
	if r.P50OfFsync != nil {
		parts = append(parts, fmt.Sprintf("p50 %.2f, p99 %.2f fsync", *r.P50OfFsync, *r.P99OfFsync))
	}
	if r.ClientCPUShare != nil {
		parts = append(parts, fmt.Sprintf("%.0f%% of CPU in the client", 100**r.ClientCPUShare))
	}
	if r.BusyCores != nil && strings.Contains(r.Scenario, coresSuffix) {
		parts = append(parts, fmt.Sprintf("%.2f cores busy", *r.BusyCores))
	}
	if r.Overloads > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", r.Overloads))
	}
	for _, g := range r.Goals {
		parts = append(parts, g.String())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		if !slices.ContainsFunc(r.Goals, func(g reached) bool { return g.Figure == name }) {
			parts = append(parts, fmt.Sprintf("%s %.4g", name, r.Figures[name]))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func optional(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
