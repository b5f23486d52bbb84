package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// historySample is a sample of two sinks, of which one has a row on the local level since began, and one a row in staging for 3 s.
func historySample(began time.Time, after time.Duration, accepted, overloads, rejections int64) *sample {
	s := &sample{at: began.Add(after), flows: make([]flow, 2)}
	s.stats = forebay.Stats{Overloads: overloads, Sinks: []forebay.SinkStats{
		{SinkStats: buffer.SinkStats{ID: "a/b", Accepted: accepted, Local: buffer.Level{Rows: 1, FirstAt: began}}, Rejected: map[string]int64{"x": rejections}},
		{SinkStats: buffer.SinkStats{ID: "a/c", Staging: buffer.Level{Rows: 1, FirstAt: s.at.Add(-3 * time.Second)}}},
	}}
	s.finish()
	return s
}

// Points come every 10 s, for an hour. Rows counted without a viewer belong to no minute.
func TestHistory(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var h history
	at := func(after time.Duration, accepted, overloads, rejections int64) {
		h.remember(historySample(began, after, accepted, overloads, rejections))
	}
	at(0, 1000, 5, 7)
	at(time.Second, 1000, 5, 7) // too early
	at(10*time.Second, 13340, 6, 7)
	at(20*time.Second-time.Millisecond, 13340, 6, 10) // ticks are not exact
	at(5*time.Minute, 99999, 100, 100)                // no viewer for a while
	at(5*time.Minute+10*time.Second, 0, 0, 0)         // a new engine would begin at 0
	got, err := json.Marshal(h.series[0].points)
	const none = `,null,null,null,null,null,null]`
	const want = `[[1795435200000,null,null,0,3,null,null` + none + `,[1795435210000,1234,0,10,3,6,0` + none + `,[1795435219999,0,0,20,3,0,18` + none +
		`,[1795435500000,null,null,300,3,null,null` + none + `,[1795435510000,null,0,310,3,null,null` + none + `]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	for i := range 2 * 360 {
		at(time.Hour+time.Duration(i)*pointEvery, 0, 0, 0)
	}
	p := h.series[0].points
	if n := len(p); n != 360 || p[n-1].at.Sub(p[0].at) != time.Hour-pointEvery {
		t.Errorf("got %d points from %v to %v, want 360 in an hour", n, p[0].at, p[n-1].at)
	}
}

// A week takes a bounded number of points, and the points of a long range are the rates and the greatest ages of their whole time.
func TestHistoryOfAWeek(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var h history
	const week = int64(8 * 24 * time.Hour / pointEvery)
	for i := range week {
		s := historySample(began, time.Duration(i)*pointEvery, i*20, 0, 0)
		s.stats.Sinks[0].Local.FirstAt = s.at.Add(-time.Second)
		if i%6 == 3 {
			s.stats.Sinks[0].Local.FirstAt = s.at.Add(-50 * time.Second) // a spike between two points
		}
		h.remember(s)
	}
	for i, want := range []int{360, 360, 288, 336} {
		p := h.series[i].points
		if len(p) != want || p[len(p)-1].at.Sub(p[0].at) != ranges[i].span-ranges[i].every {
			t.Errorf("%s: got %d points from %v to %v, want %d", ranges[i].name, len(p), p[0].at, p[len(p)-1].at, want)
		}
		if last := p[len(p)-1]; i > 0 && (last.in != 2 || last.local != 50) {
			t.Errorf("%s: got %v rows/s and an age of %v s, want 2 and 50", ranges[i].name, last.in, last.local)
		}
	}
}

// Starts, changed definitions and trouble are marks, a bounded number of them.
func TestMarks(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var h history
	at := func(i int, change func(*forebay.Stats)) {
		s := historySample(began, time.Duration(i)*pointEvery, 0, 0, 0)
		for j := range s.stats.Sinks {
			s.stats.Sinks[j].Local, s.stats.Sinks[j].Staging = buffer.Level{}, buffer.Level{}
		}
		if change != nil {
			change(&s.stats)
		}
		s.finish()
		h.remember(s)
	}
	at(0, nil)
	at(1, func(st *forebay.Stats) { st.Sinks[0].Version = 2 })
	fails := func(st *forebay.Stats) {
		st.Sinks[0].Version = 2
		st.Sinks[0].Files = []buffer.FileStats{{State: buffer.FileImporting, Attempt: 3, RetryReason: "the value 4711", Level: buffer.Level{Rows: 1}}}
	}
	at(2, fails)
	at(3, fails)
	at(4, func(st *forebay.Stats) { st.Sinks[0].Version = 2 })
	var got []string
	for _, m := range h.marks {
		got = append(got, time.Time(m.At).UTC().Format("15:04:05 ")+m.Kind+" "+m.Text)
	}
	want := "12:00:10 definition Definition changed: a/b\n12:00:20 trouble 1 of 2 sinks is held up. Nothing is lost.\n12:00:40 well All sinks work again."
	if strings.Join(got, "\n") != want {
		t.Errorf("marks:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
	for i := range 1000 {
		h.mark(began, "start", fmt.Sprint(i))
	}
	if n := len(h.marks); n != maxMarks || h.marks[n-1].Text != "999" {
		t.Errorf("got %d marks, want %d, the newest last", n, maxMarks)
	}
}

// The file restores the points and marks, except old ones, and an unreadable file is replaced.
func TestHistoryFile(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "history")
	var log bytes.Buffer
	opts := Options{HistoryFile: path, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	c := &Console{opts: opts.withDefaults()}
	c.sampler.init(c)
	for i := range int64(8 * 24 * time.Hour / pointEvery) {
		c.sampler.history.remember(historySample(began, time.Duration(i)*pointEvery, i*20, 0, 0))
	}
	c.sampler.history.mark(began.Add(8*24*time.Hour), "start", "now")
	c.sampler.saveHistory()
	info, err := os.Stat(path)
	if err != nil || info.Size() > 250_000 || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %+v, %v, want no error and info.Size() <= 250_000 and info.Mode().Perm() == 0o600", info, err)
	}
	t.Logf("a week has %d bytes", info.Size())
	now := began.Add(8*24*time.Hour + 30*time.Minute)
	load := func() (*sampler, error) {
		again := &Console{opts: opts.withDefaults()}
		again.sampler.init(again)
		err := again.sampler.loadHistory(now)
		return &again.sampler, err
	}
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{180, 330, 282, 335} {
		a, b := s.history.series[i].points, c.sampler.history.series[i].points
		if len(a) != want {
			t.Errorf("%s: got %d points, want %d", ranges[i].name, len(a), want)
			continue
		}
		got, _ := json.Marshal(a)
		if all, _ := json.Marshal(b[len(b)-want:]); string(got) != string(all) {
			t.Errorf("%s: got points %.300s\nwant %.300s", ranges[i].name, got, all)
		}
	}
	if n := len(s.history.marks); n != 2 || s.history.marks[1].Kind != "start" {
		t.Errorf("marks %+v", s.history.marks)
	}
	s.history.remember(historySample(began, now.Sub(began), 0, 0, 0)) // the first point after a start has no rates
	if p := s.history.series[0].points; !math.IsNaN(p[len(p)-1].in) {
		t.Errorf("got %+v, want math.IsNaN(p[len(p)-1].in)", p[len(p)-1])
	}
	for name, damaged := range map[string]string{
		"no JSON": "xyz", "cut": string(readFile(t, path)[:1000]), "another version": `{"version":9}`, "a short point": `{"version":1,"points":{"1h":[[1]]}}`,
		"a point without a time": `{"version":1,"points":{"1h":[[null,1,1,1,1,1,1,1,1,1,1,1,1]]}}`, "too large": strings.Repeat(" ", maxHistoryFile+1),
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := load()
		if err == nil || len(s.history.series[0].points) > 0 || len(s.history.marks) != 1 {
			t.Errorf("%s: got %v, %d points, %d marks, want an error, 0, 1", name, err, len(s.history.series[0].points), len(s.history.marks))
		}
		s.history.remember(historySample(began, now.Sub(began), 0, 0, 0))
		s.saveHistory()
		if s, err := load(); err != nil || len(s.history.series[0].points) != 1 {
			t.Errorf("%s: after it was written again: %v", name, err)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A point has the latencies measured since the previous point, and none if nothing was measured.
func TestLatenciesOfAPoint(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "a", Table: forebay.Table{ID: "web.a", Columns: mapping.Columns{mapping.UUID("id")}}}}}); err != nil {
		t.Fatal(err)
	}
	var h history
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	next := func(after time.Duration) [3]bool {
		s := &sample{at: began.Add(after), stats: eng.Stats(), flows: make([]flow, 1)}
		s.finish()
		h.remember(s)
		p := h.series[0].points[len(h.series[0].points)-1]
		var known [3]bool
		for i, took := range p.took {
			known[i] = !math.IsNaN(took[0])
			if known[i] && (took[0] <= 0 || took[1] < took[0]) {
				t.Errorf("quantiles %v", p.took)
			}
		}
		return known
	}
	if got := next(0); got != [3]bool{} {
		t.Errorf("the first point has %v", got)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	if got := next(pointEvery); got != [3]bool{true, false, false} {
		t.Errorf("after a commit: %v", got)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if got := next(2 * pointEvery); got != [3]bool{true, true, true} {
		t.Errorf("after an import: %v", got)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	if got := next(time.Hour); got != [3]bool{} {
		t.Errorf("after nobody has looked: %v", got)
	}
	for i, p := range h.series[0].points[:len(h.series[0].points)-1] {
		if p.counters != nil {
			t.Errorf("point %d keeps its counters", i)
		}
	}
}
