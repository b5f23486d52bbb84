package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reportCommand makes run write a page for people, with plots, instead of a table.
const reportCommand = "report"

// Files of a report.
const (
	pageFile    = "README.md"
	resultsFile = "results.json"
)

// A section is a chapter of the page. A result stands in the first one that its name matches.
type section struct {
	title, text string
	pattern     *regexp.Regexp
	plots       []plotOf
}

// plotOf returns the bar that a plot shows for each result, and ok is false for a result without one.
type plotOf struct {
	file, title, unit string
	bar               func(result) (b bar, ok bool)
	text              func(bar) string
}

func throughput(file, title string) plotOf {
	return plotOf{file: file, title: title, unit: "rows/s", bar: func(r result) (bar, bool) {
		return bar{value: r.RowsPerS, mark: r.Limit}, true
	}, text: ofLimit}
}

func sections() []section {
	return slices.Concat(resultSections(), growthSections(), []section{{title: "Others", pattern: regexp.MustCompile(`.`)}})
}

func resultSections() []section {
	return []section{
		{
			title:   "Ingestion",
			pattern: regexp.MustCompile(`^ingest/(sync|submit)/(150B|1KB)(/callers=(1|1024))?$`),
			text: "Each event is mapped to a row, and its caller waits until the row is on disk. `submit` has 16 callers with 64 events in flight each. The others have " +
				"64 callers unless their name says another number. The limit is a file to which groups of as many rows are appended and synced, without anything else; " +
				"`rawfile` is a program that does that for as many callers, and `pebble_set` one that stores each row under its own key.",
			plots: []plotOf{
				throughput("ingestion.svg", "Rows a second, each confirmed from disk"),
				{
					file: "latency.svg", title: "Time to the response: median, and the mark at p99", unit: "ms",
					bar:  func(r result) (bar, bool) { return bar{value: r.P50, mark: &r.P99}, r.P50 > 0 },
					text: func(b bar) string { return short(b.value) + " (p99 " + short(*b.mark) + ")" },
				},
			},
		},
		{
			title:   "Batches, and rows without a waiting caller",
			pattern: regexp.MustCompile(`^ingest/(sync-batch|nosync)/(150B|1KB)$`),
			text:    "`sync-batch` has 64 callers that wait for 100 events at a time. `nosync` has 64 that do not wait for the disk (`SyncUnsafe`).",
			plots:   []plotOf{throughput("batches.svg", "Rows a second")},
		},
		{
			title:   "Mapping",
			pattern: regexp.MustCompile(`^map/`),
			text:    "An event becomes a row on one core, without a disk. `typed` has columns with types and is compared with the same columns without types.",
			plots: []plotOf{{file: "mapping.svg", title: "CPU time of a row", unit: "ns", bar: func(r result) (bar, bool) {
				return bar{value: value(r.CPUPerRow)}, r.CPUPerRow != nil
			}, text: ofLimit}},
		},
		{
			title:   "HTTP",
			pattern: regexp.MustCompile(`^http/`),
			text: "`single` has one event a request, over 64 kept connections, from a client in a separate process. Its limit is a handler of net/http that reads the body " +
				"and stores nothing. `ndjson` has 500 events a request.",
			plots: []plotOf{throughput("http.svg", "Rows a second, each confirmed from disk")},
		},
		{
			title:   "Telemetry",
			pattern: regexp.MustCompile(`^otlp/(logs|metrics|traces|tables)`),
			text: "OTLP over HTTP, 100 records a request and 64 requests in flight, to one sink of five columns, or of `tables` to the 19 to 35 typed columns " +
				"of the presets for telemetry.",
			plots: []plotOf{throughput("telemetry.svg", "Records a second, each confirmed from disk")},
		},
	}
}

// reportPattern selects the scenarios of a report by default. The disk is measured with every report.
const (
	reportPattern = `^ingest/(sync|submit)/(150B|1KB)(/callers=(1|1024))?$|^ingest/(sync-batch|nosync)/(150B|1KB)$|^map/(row|row/150B|path|template)(/typed)?$|` +
		`^http/(single|ndjson)/(150B|1KB)$|^otlp/(logs/150B|logs/1KB|metrics|traces|tables/(logs/150B|metrics|traces))$|^reopen$`
	reportDisk = `^limit/fsync$|^limit/seqwrite/1M$`
)

// A machine is where a report was made.
type machine struct {
	Processor  string `json:"processor"`
	Cores      int    `json:"cores"`
	Memory     int64  `json:"memory_bytes,omitempty"`
	System     string `json:"system"`
	Go         string `json:"go"`
	FileSystem string `json:"file_system,omitempty"`
	// Load are the load averages of a minute before and after the measurements, "" where the system does not tell.
	LoadBefore string `json:"load_before,omitempty"`
	LoadAfter  string `json:"load_after,omitempty"`
	Date       string `json:"date"`
	Command    string `json:"command"`
	Volume     string `json:"volume,omitempty"`
}

func thisMachine(dir string) machine {
	return machine{
		Processor: processorName(), Cores: runtime.GOMAXPROCS(0), Memory: memorySize(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		FileSystem: fileSystem(dir), LoadBefore: loadAverage(), Date: time.Now().Format(time.DateOnly),
	}
}

// A page is a report for people.
type page struct {
	machine machine
	results []result
	// other has results measured elsewhere, by scenario, and otherMachine their machine, or nil for no comparison.
	other        map[string]result
	otherMachine machine
}

// readReport reads the results of another report.
func readReport(name string) (machine, map[string]result, error) {
	var m machine
	text, err := os.ReadFile(name)
	if err != nil {
		return m, nil, err
	}
	results := map[string]result{}
	for line := range bytes.Lines(text) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return m, nil, fmt.Errorf("%s: %w", name, err)
		}
		if r.Scenario != "" {
			results[r.Scenario] = r
		} else if err := json.Unmarshal(line, &m); err != nil {
			return m, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(results) == 0 {
		return m, nil, fmt.Errorf("%s has no results", name)
	}
	return m, results, nil
}

// write writes the page, its plots and the results as JSON into a folder, which it makes if it is missing.
func (p *page) write(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for name, content := range p.render() {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns the files of the report by name.
func (p *page) render() map[string][]byte {
	files := map[string][]byte{}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Report\n\nThe performance of Forebay on one machine, compared with the limits of that machine. `go run ./bench report` made this page, its plots and `%s`.\n\n", resultsFile)
	fmt.Fprintf(&b, "Compare ratios, not absolute numbers, and mind the spread: the distance between the best and the worst round, relative to the median. "+
		"Each figure is the median of the rounds, and each ratio the median of the ratios within a round, so a ratio is not always the quotient of the two figures in its row.\n")
	fmt.Fprintf(&b, "`go run ./bench report -compare FOLDER/%s` measures your machine and compares it with a different report.\n\n", resultsFile)
	p.writeMachine(&b)
	disk := regexp.MustCompile(reportDisk)
	rest := slices.DeleteFunc(slices.Clone(p.results), func(r result) bool { return disk.MatchString(r.Scenario) }) // the page shows it with the machine
	for _, s := range sections() {
		var own []result
		rest = slices.DeleteFunc(rest, func(r result) bool {
			is := s.pattern.MatchString(r.Scenario)
			if is {
				own = append(own, r)
			}
			return is
		})
		if len(own) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n\n", s.text)
		}
		for _, plot := range s.plots {
			if bars := p.bars(own, plot); len(bars) > 0 {
				files[plot.file] = chart{plot.title, plot.unit, bars, plot.text}.draw()
				fmt.Fprintf(&b, "![%s](%s)\n\n", plot.title, plot.file)
			}
		}
		p.writeResults(&b, own)
	}
	p.writeMissed(&b)
	files[pageFile] = b.Bytes()

	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(p.machine) // into memory, of texts and numbers
	for _, r := range p.results {
		_ = encoder.Encode(r)
	}
	files[resultsFile] = lines.Bytes()
	return files
}

func (p *page) bars(results []result, plot plotOf) (bars []bar) {
	for _, r := range results {
		b, ok := plot.bar(r)
		if !ok {
			continue
		}
		b.label = r.Scenario
		if other, ok := p.other[r.Scenario]; ok {
			if o, ok := plot.bar(other); ok {
				b.other = &o.value
			}
		}
		bars = append(bars, b)
	}
	return bars
}

func (p *page) writeMachine(b *bytes.Buffer) {
	rows := [][2]string{}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, [2]string{name, text})
		}
	}
	m := p.machine
	add("processor", fmt.Sprintf("%s, %d cores", m.Processor, m.Cores))
	if m.Memory > 0 {
		add("memory", fmt.Sprintf("%.0f GiB", float64(m.Memory)/(1<<30)))
	}
	add("system", m.System+", "+m.Go)
	disk := []string{}
	if m.FileSystem != "" {
		disk = append(disk, m.FileSystem)
	}
	if m.Volume != "" {
		disk = append(disk, "as slow as the volume "+m.Volume)
	}
	for _, r := range p.results {
		switch r.Scenario {
		case fsyncName:
			disk = append(disk, fmt.Sprintf("a sync of 4 KB takes %.3f ms, p99 %.3f ms", r.P50, r.P99))
		case seqwriteName(1 << 20):
			disk = append(disk, fmt.Sprintf("%.0f MB/s in syncs of 1 MiB", r.BytesPerS/1e6))
		}
	}
	add("disk", strings.Join(disk, "; "))
	if m.LoadBefore != "" {
		add("load before, after", m.LoadBefore+", "+m.LoadAfter)
	}
	add("measured", m.Date+", `"+m.Command+"`")
	if p.other != nil {
		o := p.otherMachine
		add("compared with", fmt.Sprintf("%s, %d cores, %s, %s", o.Processor, o.Cores, o.FileSystem, o.Date))
	}
	fmt.Fprintf(b, "| machine | |\n|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", r[0], strings.ReplaceAll(r[1], "|", `\|`))
	}
	if load, err := strconv.ParseFloat(m.LoadBefore, 64); err == nil && load > float64(m.Cores)/2 {
		fmt.Fprint(b, "\n**Other programs used this machine at the same time**: figures are lower and waits longer than on an idle one, and CPU time is what to compare.\n")
	}
}

func (p *page) writeResults(b *bytes.Buffer, results []result) {
	fmt.Fprint(b, "| scenario | rows/s | limit | of limit | other figures | p50, p99 ms | CPU µs/row | allocations/row | spread |")
	if p.other != nil {
		fmt.Fprint(b, " compared: rows/s, CPU |")
	}
	fmt.Fprint(b, "\n|---|---|---|---|---|---|---|---|---|")
	if p.other != nil {
		fmt.Fprint(b, "---|")
	}
	fmt.Fprintln(b)
	for _, r := range results {
		others := []string{}
		for _, c := range r.Baselines {
			others = append(others, fmt.Sprintf("%.2f %s", c.ratio, c.field))
		}
		if r.P50OfFsync != nil {
			others = append(others, fmt.Sprintf("p50 %.2f, p99 %.2f fsync", *r.P50OfFsync, *r.P99OfFsync))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
			others = append(others, fmt.Sprintf("%s %.4g", name, r.Figures[name]))
		}
		limit := ""
		if r.Limit != nil {
			limit = thousands(*r.Limit)
		}
		cpu := ""
		if r.CPUPerRow != nil {
			cpu = fmt.Sprintf("%.2f", *r.CPUPerRow/1000)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %.3f, %.3f | %s | %.2f | %.0f %% |", r.Scenario, thousands(r.RowsPerS), limit, dashless(optional("%.2f", r.OfLimit)),
			strings.Join(others, ", "), r.P50, r.P99, cpu, r.AllocsPerRow, 100*r.Spread)
		if other, ok := p.other[r.Scenario]; ok {
			fmt.Fprintf(b, " %.2f ×", r.RowsPerS/other.RowsPerS)
			if r.CPUPerRow != nil && other.CPUPerRow != nil {
				fmt.Fprintf(b, ", %.2f ×", *r.CPUPerRow / *other.CPUPerRow)
			}
			fmt.Fprint(b, " |")
		} else if p.other != nil {
			fmt.Fprint(b, " |")
		}
		fmt.Fprintln(b)
	}
}

// writeMissed lists the missed goals because a report that hides them is useless.
func (p *page) writeMissed(b *bytes.Buffer) {
	var missed []string
	met := 0
	for _, r := range p.results {
		for _, g := range r.Goals {
			if g.Met {
				met++
			} else {
				missed = append(missed, fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.Scenario, g.Figure, short(g.Value), g.Goal))
			}
		}
	}
	if met+len(missed) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Goals\n\n%d of %d goals of the project were reached in this run.", met, met+len(missed))
	if len(missed) > 0 {
		fmt.Fprintf(b, " Missed:\n\n| scenario | figure | measured | goal |\n|---|---|---|---|\n%s", strings.Join(missed, ""))
	} else {
		fmt.Fprintln(b)
	}
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func dashless(s string) string { return strings.TrimPrefix(s, "-") }

// thousands writes a number with separators: 1,234,567.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// measureAll measures all plans and hands each result to yield.
func measureAll(ctx context.Context, e *env, plans []plan, rounds int, progress *progress, yield func(result) error) error {
	for _, p := range plans {
		samples, err := measurePlan(ctx, e, p, rounds, progress.step)
		progress.clear()
		if err != nil {
			return err
		}
		for _, s := range p.selected {
			r := summarize(s, samples)
			if e.volume.modelled() {
				r.Volume = e.volume.name
			}
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	return nil
}
