package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var pagePicture = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)

// The page shows each result once next to its limit, names the machine and the missed goals, and each of its pictures exists and is well-formed.
func TestReportIsWhole(t *testing.T) {
	p := page{
		machine: machine{Processor: "Abacus | 3", Cores: 2, Memory: 8 << 30, System: "linux/amd64", Go: "go1.26", FileSystem: "ext4", LoadBefore: "1.10", LoadAfter: "2.00", Date: "2026-11-23", Command: "go run ./bench report"},
		results: []result{
			{Scenario: fsyncName, P50: 0.033, P99: 0.2},
			{Scenario: seqwriteName(1 << 20), BytesPerS: 600e6},
			{
				Scenario: "ingest/sync/1KB", RowsPerS: 1234567, P50: 0.5, P99: 1.25, Limit: some(2000000), OfLimit: some(0.62), CPUPerRow: some(4000), Spread: 0.25, P50OfFsync: some(1.1), P99OfFsync: some(4.5),
				Baselines: []comparison{{field: "rawfile", ratio: 1.5}}, Goals: []reached{{Figure: "of_rawfile", Value: 1.5, Goal: "at least 0.9", Met: true}},
			},
			{Scenario: "map/row", RowsPerS: 900, CPUPerRow: some(1500), Goals: []reached{{Figure: "of_untyped", Value: 0.8, Goal: "at least 0.87"}}},
			{Scenario: "reopen", RowsPerS: 1, Figures: map[string]float64{"ready_s": 0.5}},
		},
	}
	files := p.render()
	text := string(files[pageFile])
	for _, part := range []string{
		`Abacus \| 3, 2 cores |`, "8 GiB", "a sync of 4 KB takes 0.033 ms, p99 0.200 ms; 600 MB/s in syncs of 1 MiB", "1.10, 2.00", "Other programs", "2026-11-23, `go run ./bench report`",
		"| `ingest/sync/1KB` | 1,234,567 | 2,000,000 | 0.62 | 1.50 rawfile, p50 1.10, p99 4.50 fsync | 0.500, 1.250 | 4.00 | 0.00 | 25 % |",
		"ready_s 0.5", "1 of 2 goals", "| `map/row` | of_untyped | 0.8 | at least 0.87 |",
	} {
		if strings.Count(text, part) != 1 {
			t.Errorf("%q is not there once:\n%s", part, text)
		}
	}
	var pictures []string
	for _, m := range pagePicture.FindAllStringSubmatch(text, -1) {
		pictures = append(pictures, m[1])
		decoder := xml.NewDecoder(strings.NewReader(string(files[m[1]])))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: got %v, want no error", m[1], err)
			}
		}
	}
	if want := []string{"ingestion.svg", "latency.svg", "mapping.svg"}; !slices.Equal(pictures, want) {
		t.Errorf("the pictures are %q, want %q", pictures, want)
	}
	p.machine.LoadBefore = "0.90"
	if strings.Contains(string(p.render()[pageFile]), "Other programs") {
		t.Error("an idle machine is called busy")
	}
	if len(files) != len(pictures)+2 {
		t.Errorf("got %d files for %d pictures, the page and the results, want %v", len(files), len(pictures), len(pictures)+2)
	}
}

// Bars and marks have one scale. The longest one has all of the width.
func TestBarsHaveOneScale(t *testing.T) {
	svg := string(chart{"A & B", "rows/s", []bar{{label: "<a>", value: 50, mark: some(100)}, {label: "b", value: 25, other: some(75)}, {label: "zero"}}, ofLimit}.draw())
	for _, part := range []string{
		"A &amp; B (rows/s)", "&lt;a&gt;", `class="bar" x="260" y="30" width="260.0"`, `x1="780.0"`, `class="bar" x="260" y="56" width="130.0"`,
		`class="other" x="260" y="63" width="390.0"`, "50 (limit 100)", "25, compared 75", `width="0.0"`, `x="260.0" y="123" text-anchor="middle">0<`, `x="780.0" y="123" text-anchor="middle">100<`,
	} {
		if !strings.Contains(svg, part) {
			t.Errorf("%q is not in\n%s", part, svg)
		}
	}
	// One caller next to a thousand needs a logarithmic scale, so that the small bar is visible.
	svg = string(chart{"", "ms", []bar{{label: "a", value: 0.5}, {label: "b", value: 400}}, ofLimit}.draw())
	for _, part := range []string{"ms, logarithmic", `width="90.9"`, ">0.1<", ">1,000<"} {
		if !strings.Contains(svg, part) {
			t.Errorf("%q is not in\n%s", part, svg)
		}
	}
	if svg := string(chart{"", "", []bar{{}}, ofLimit}.draw()); strings.Contains(svg, "NaN") {
		t.Error("nothing but zeros is divided by zero")
	}
}

// A report is compared with an earlier one, which is read before the measurements begin.
func TestReportIsCompared(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	args := []string{reportCommand, "-run", "^map/row$|^ingest/sync/150B/callers=1$", "-duration", "20ms", "-rounds", "1", "-dir", dir}
	out, err := runBench(t, append(args, "-out", first)...)
	if err != nil || out != filepath.Join(first, pageFile)+"\n" {
		t.Fatalf("got %q, %v, want no error and out == filepath.Join(first, pageFile)+\"\\n\"", out, err)
	}
	if _, err := runBench(t, append(args, "-out", second, "-compare", filepath.Join(first, resultsFile))...); err != nil {
		t.Fatal(err)
	}
	m, results, err := readReport(filepath.Join(first, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"map/row", "ingest/sync/150B/callers=1", fsyncName, seqwriteName(1 << 20)} {
		if results[name].RowsPerS <= 0 {
			t.Errorf("%s was not measured", name)
		}
	}
	text, err := os.ReadFile(filepath.Join(second, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); m.Processor == "" || !strings.Contains(got, "| compared with | "+m.Processor) || strings.Count(got, " × |") != 2 {
		t.Errorf("got %+v:\n%s\nwant m.Processor != \"\" and strings.Contains(got, \"| compared with | \"+m.Processor) and strings.Count(got, \" × |\") == 2", m, got)
	}
	for _, wrong := range [][]string{{"-compare", filepath.Join(dir, "missing")}, {"-json"}, {"-cpu", "1"}, {"-compare", filepath.Join(first, pageFile)}} {
		if _, err := runBench(t, append(args, wrong...)...); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// Whatever a report measures by default has a place on the page.
func TestReportChoosesWhatItShows(t *testing.T) {
	re := regexp.MustCompile(reportPattern + "|" + growthPattern)
	shown := map[string]int{}
	for _, s := range scenarios() {
		if s.unlisted || !re.MatchString(s.name) {
			continue
		}
		all := sections()
		shown[all[slices.IndexFunc(all, func(part section) bool { return part.pattern.MatchString(s.name) })].title]++
	}
	for _, part := range sections() {
		if shown[part.title] == 0 {
			t.Errorf("%s has no scenario", part.title)
		}
	}
	for title, n := range map[string]int{"Ingestion": 8, "HTTP": 4, "Telemetry": 7, "Parts of a table": 5, "Others": 1} {
		if shown[title] != n {
			t.Errorf("%s has %d scenarios, want %d", title, shown[title], n)
		}
	}
}
