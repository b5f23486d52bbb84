package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every scenario of size counts its rows by itself. Here each of them runs once, small.
func TestScaleScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("the stage bench of CI runs each scenario")
	}
	for _, s := range slices.Concat(ofScale(), ofFootprint(), ofReference(), ofGrowth()) {
		larger := strings.HasPrefix(s.name, "growth/") && !regexp.MustCompile("=(10|50|16)$").MatchString(s.name)
		if larger || strings.HasSuffix(s.name, "zstd") {
			continue // they differ in one number only
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.duration = 300 * time.Millisecond
			e.size = size{Backlog: 4 << 20, Sinks: 30, Life: 100 * time.Millisecond}
			m, err := s.run(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			if m.Rows == 0 || m.Elapsed <= 0 || m.Total < m.Rows {
				t.Errorf("got %d rows of %d in %v, want rows and time above 0, and no fewer rows in total", m.Rows, m.Total, m.Elapsed)
			}
			names := make(map[string][]*sample)
			for _, name := range s.needs() {
				names[name] = []*sample{m}
			}
			r := summarize(s, names)
			want := len(s.goals)
			if now, _ := residentMemory(); now < 0 {
				want-- // the goals about memory need a system that reports it
			}
			if len(r.Goals) < want {
				t.Errorf("got %d verdicts on %d goals: %v, want at least %v", len(r.Goals), len(s.goals), r.Goals, want)
			}
		})
	}
}

func TestGoals(t *testing.T) {
	s := scenario{goals: []goal{atMost("ready_s", 2), atLeast("of_rawfile", 0.9), atLeast("rows_per_s", 10), atMost("p50_of_fsync", 1)}}
	r := result{RowsPerS: 9, Figures: map[string]float64{"ready_s": 2}, Baselines: []comparison{{field: "rawfile", ratio: 1}}}
	r.Goals = s.reached(r)
	var got []string
	for _, g := range r.Goals {
		got = append(got, g.String())
	}
	want := "ready_s 2 (goal at most 2) of_rawfile 1 (goal at least 0.9) rows_per_s 9 (goal at least 10: MISSED)"
	if strings.Join(got, " ") != want {
		t.Errorf("verdicts are %q, want %q", got, want)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var flat struct {
		Ready float64 `json:"ready_s"`
		Of    float64 `json:"of_rawfile"`
		Goals []reached
	}
	if err := json.Unmarshal(line, &flat); err != nil || flat.Ready != 2 || flat.Of != 1 || len(flat.Goals) != 3 {
		t.Errorf("%s: got %+v, %v, want 2 ready of 1 with 3 goals, no error", line, flat, err)
	}
}

func TestByteSizes(t *testing.T) {
	for text, want := range map[string]int64{"5GB": 5e9, "500MB": 500e6, "4KiB": 4096, "17": 17, "17B": 17, "0": 0} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "GB", "-1MB", "5gb", "5 GB", "99999999999GB"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, b)
		}
	}
}

func TestChildReportsItsError(t *testing.T) {
	_, err := inChild[openReport](t.Context(), "backlog/open", "no such arguments")
	if err == nil || !strings.Contains(err.Error(), "backlog/open") {
		t.Errorf("error is %v", err)
	}
	if _, err := runBench(t, childCommand, "no such job", "{}"); err == nil {
		t.Error("an unknown job is taken")
	}
}

// A filler that ends before it is killed has not done its work.
func TestFillEndsEarly(t *testing.T) {
	args := backlogArgs{Dir: t.TempDir(), Workload: workloads()[1].name}
	eng, err := args.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	_, err = fillAndKill(t.Context(), args, 1000)
	if err == nil || !strings.Contains(err.Error(), "ended after 0 of 1000") {
		t.Errorf("error is %v, though the folder is in use", err)
	}
}

// A scenario runs in a separate process with fewer cores, and its sample is returned whole.
func TestScenarioOnOneCore(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("-cpu needs Linux")
	}
	list := onCores(scenarios(), regexp.MustCompile("^ingest/sync/150B$"), []int{1})
	if len(list) != 1 || list[0].name != "ingest/sync/150B/cpu=1" {
		t.Fatalf("scenarios are %+v", list)
	}
	m, err := list[0].run(t.Context(), newEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if m.Rows == 0 || m.Latency.Total == 0 || m.CPU > m.Elapsed*5/4 {
		t.Errorf("got %d rows with %d latencies, and %v of CPU in %v, want some of both, and at most 5/4 of that time", m.Rows, m.Latency.Total, m.CPU, m.Elapsed)
	}
	if err := withCores(1<<10, func() error { return nil }); err == nil || !strings.Contains(err.Error(), "-cpu 1024") {
		t.Errorf("more cores than there are: %v", err)
	}
}

// Profiles are readable by the tools of Go.
func TestProfilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := runBench(t, "-run", "^ingest/sync/150B$", "-duration", "30ms", "-rounds", "1", "-json", "-profile", dir); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"cpu", "mutex", "block"} {
		if info, err := os.Stat(filepath.Join(dir, "ingest-sync-150B."+kind)); err != nil || info.Size() == 0 {
			t.Errorf("%s: got %v, want no error and info.Size() != 0", kind, err)
		}
	}
}
