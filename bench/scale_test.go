package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// Every scenario of size counts its rows by itself; here each of them runs once, small.
func TestScaleScenarios(t *testing.T) {
	for _, s := range ofScale() {
		if strings.HasPrefix(s.name, "sinks/spread/") && s.name != "sinks/spread/10" || strings.HasSuffix(s.name, "zstd") {
			continue // they differ in a number alone
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.duration = 300 * time.Millisecond
			e.size = size{backlog: 4 << 20, sinks: 30, life: 100 * time.Millisecond}
			m, err := s.run(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			if m.rows == 0 || m.elapsed <= 0 || m.total < m.rows {
				t.Errorf("%d rows of %d in %v", m.rows, m.total, m.elapsed)
			}
			names := make(map[string][]*sample)
			for _, name := range s.needs() {
				names[name] = []*sample{m}
			}
			r := summarize(s, names)
			want := len(s.goals)
			if now, _ := residentMemory(); now < 0 {
				want-- // the goals about memory need a system that tells
			}
			if len(r.Goals) < want {
				t.Errorf("%d verdicts on %d goals: %v", len(r.Goals), len(s.goals), r.Goals)
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
		t.Errorf("%s: %+v, %v", line, flat, err)
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

func TestCheckSpan(t *testing.T) {
	report := buffer.Report{Sinks: []buffer.SinkReport{{Local: 6, Staging: 3, Imported: 1}}}
	for _, tt := range []struct {
		want span
		ok   bool
	}{{span{10, 10}, true}, {span{8, 12}, true}, {span{11, 12}, false}, {span{8, 9}, false}} {
		if n, err := checkSpan(report, tt.want); (err == nil) != tt.ok || tt.ok && n != 10 {
			t.Errorf("10 rows, %+v wanted: %d, %v", tt.want, n, err)
		}
	}
	report.Sinks[0].Differences = []string{"chunk 7"}
	if _, err := checkSpan(report, span{0, 100}); err == nil || !strings.Contains(err.Error(), "chunk 7") {
		t.Errorf("a difference gives %v", err)
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
	w := workloads()[1]
	dir := t.TempDir()
	eng, err := openAgain(t.Context(), dir, forebay.Options{Staging: closedStaging{}})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	_, err = fillAndKill(t.Context(), dir, w, 1000)
	if err == nil || !regexp.MustCompile("ended after 0 of 1000").MatchString(err.Error()) {
		t.Errorf("error is %v, though the folder is in use", err)
	}
}
