package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// All time, in the profile or missing from it, is in exactly one part, so the parts of each line add up to the CPU time of the process.
func TestWhereAddsUp(t *testing.T) {
	if processCPU() < 0 {
		t.Skip("this system does not tell the CPU time of a process")
	}
	// Where other programs take the processor, a short run has no sample of a stage.
	sampled := func(parts map[string]float64) bool {
		return parts["map"] > 0 && parts["compress"] > 0 && parts["commit"] > 0
	}
	for _, duration := range []string{"200ms", "1s", "5s"} {
		total := whereTotal(t, duration)
		if sampled(total) {
			return
		}
		t.Logf("a stage has no CPU time in %s: %v", duration, total)
	}
	t.Error("map, compress or commit has no CPU time in any line")
}

// whereTotal runs the measurement, checks its lines, and returns the CPU time of each part in all lines.
func whereTotal(t *testing.T, duration string) map[string]float64 {
	t.Helper()
	out, err := runBench(t, "where", "-duration", duration, "-rounds", "1", "-json", "-dir", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	total := make(map[string]float64)
	for text := range strings.Lines(out) {
		var l whereLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: got %v, want no error", text, err)
		}
		names = append(names, l.Size+" "+l.Way)
		sum, inside := 0.0, 0.0
		for _, part := range parts {
			sum += l.Parts[part]
			total[part] += l.Parts[part]
		}
		for _, s := range stages {
			inside += l.Parts[s.name]
		}
		if len(l.Parts) != len(parts) || math.Abs(sum-l.CPUPerRow) > 1 {
			t.Errorf("%s %s: got %d parts add up to %.0f ns, want %d and %.0f", l.Size, l.Way, len(l.Parts), sum, len(parts), l.CPUPerRow)
		}
		if got := (l.CPUPerRow - inside) / l.CPUPerRow; math.Abs(got-l.Outside) > 0.001 {
			t.Errorf("%s %s: %.3f of the CPU is in no stage, reported is %.3f", l.Size, l.Way, got, l.Outside)
		}
		if l.Rows == 0 {
			t.Errorf("%s %s: got no rows, want some", l.Size, l.Way)
		}
	}
	if got, want := strings.Join(names, ", "), "150B sync, 150B submit, 1KB sync, 1KB submit"; got != want {
		t.Errorf("lines are %s, want %s", got, want)
	}
	return total
}

func TestPartOf(t *testing.T) {
	const pebble = "github.com/cockroachdb/pebble/v2."
	for _, tt := range []struct {
		want  string
		stack []string
	}{
		{"map", []string{"runtime.memmove", modulePath + "/mapping.(*Mapper).AppendRow", modulePath + ".(*ingestion).mapRow", "main.measure.func1"}},
		{"compress", []string{modulePath + "/buffer.(*compressor).member", modulePath + "/buffer.(*Buffer).prepare", modulePath + "/buffer.(*Buffer).commitLoop"}},
		{"compress", []string{modulePath + "/buffer.(*compressor).member", modulePath + "/buffer.(*sliceSource).WriteTo"}},
		{"commit", []string{modulePath + "/internal/pebblestore.(*file).Write", pebble + "(*DB).Apply", modulePath + "/buffer.(*Buffer).commitLoop"}},
		{"commit", []string{"runtime.memmove", pebble + "(*DB).compact"}},
		{"commit", []string{modulePath + "/internal/pebblestore.(*file).Sync", pebble + "flushLoop"}},
		{"upload", []string{pebble + "(*Iterator).Next", modulePath + "/buffer.(*sliceSource).WriteTo"}},
		{"import", []string{modulePath + "/buffer/dir.(*TableDir).Import", modulePath + "/buffer.(*Buffer).importFile.func1"}},
		{partEngine, []string{pebble + "(*DB).Get", modulePath + "/buffer.(*Buffer).Stats", "main.run"}},
		{partEngine, []string{"runtime.chanrecv", modulePath + "/buffer.Ticket.Wait", modulePath + ".Intake.Ingest", "main.measure.func1"}},
		{partCallers, []string{"time.Now", "main.measure.func1", "sync.(*WaitGroup).Go.func1"}},
		{partCallers, []string{modulePath + "/bench.again"}},
		{partRuntime, []string{"runtime.schedule", "runtime.mcall"}},
		{partRuntime, nil},
	} {
		if got := partOf(tt.stack); got != tt.want {
			t.Errorf("%q belongs to %s, want %s", tt.stack, got, tt.want)
		}
	}
}

func TestReadCPUProfileRefuses(t *testing.T) {
	for _, data := range [][]byte{{0x12}, {0x12, 5, 1}, {0x15, 1, 2, 3, 4}, {0x12, 2, 0x12, 0}} {
		if list, err := readCPUStacks(data); err == nil {
			t.Errorf("got %x: %v, want an error", data, list)
		}
	}
}

// A stage whose function was renamed would get nothing, and the others its time.
func TestStagesNameFunctions(t *testing.T) {
	name := regexp.MustCompile(`^(?:/(\w+))?\.(?:\(\*(\w+)\)\.(\w*))?$`)
	for _, s := range stages {
		for _, prefix := range s.functions {
			m := name.FindStringSubmatch(prefix)
			if m == nil {
				t.Errorf("stage %s: %q is no package or method", s.name, prefix)
				continue
			}
			method := regexp.MustCompile(`(?m)^func \(\w+ \*` + m[2] + `\) ` + m[3])
			if m[2] == "" {
				method = regexp.MustCompile(`(?m)^func `)
			}
			files, err := filepath.Glob(filepath.Join("..", m[1], "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(files, func(path string) bool {
				text, err := os.ReadFile(path)
				return err == nil && !strings.HasSuffix(path, "_test.go") && method.Match(text)
			})
			if !found {
				t.Errorf("stage %s: no function begins with %q", s.name, prefix)
			}
		}
	}
}
