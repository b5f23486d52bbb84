package console

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// Points come every 10 s, for an hour; what was counted while nobody looked belongs to no minute.
func TestHistory(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var s sampler
	at := func(after time.Duration, overloads, rejections int64) *sample {
		is := &sample{at: began.Add(after), total: flow{in: 1234.5, out: 2, known: after > 0}}
		is.stats = forebay.Stats{Overloads: overloads, Sinks: []forebay.SinkStats{
			{SinkStats: buffer.SinkStats{ID: "a/b", Local: buffer.Level{Rows: 1, FirstAt: began}}, Rejected: map[string]int64{"x": rejections}},
			{SinkStats: buffer.SinkStats{ID: "a/c", Staging: buffer.Level{Rows: 1, FirstAt: is.at.Add(-3 * time.Second)}}},
		}}
		return is
	}
	s.remember(at(0, 5, 7))
	s.remember(at(time.Second, 5, 7)) // too early
	s.remember(at(10*time.Second, 6, 7))
	s.remember(at(20*time.Second-time.Millisecond, 6, 10)) // ticks are not exact
	s.remember(at(5*time.Minute, 100, 100))                // nobody has looked
	s.remember(at(5*time.Minute+10*time.Second, 0, 0))     // a new engine would begin at 0
	got, err := json.Marshal(s.history)
	const none = `,null,null,null,null,null,null],`
	const want = `[[1795435200000,null,null,0,3,null,null` + none + `[1795435210000,1234,2,10,3,6,0` + none + `[1795435219999,1234,2,20,3,0,18` + none +
		`[1795435500000,1234,2,300,3,null,null` + none + `[1795435510000,1234,2,310,3,null,null,null,null,null,null,null,null]]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for i := range 2 * historyPoints {
		s.remember(at(time.Hour+time.Duration(i)*pointEvery, 0, 0))
	}
	if n := len(s.history); n != historyPoints || s.history[n-1].at.Sub(s.history[0].at) != time.Hour-pointEvery {
		t.Errorf("%d points from %v to %v", n, s.history[0].at, s.history[n-1].at)
	}
}

// A point has the latencies of what was measured since the point before, and none of what was not.
func TestLatenciesOfAPoint(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "a", Table: forebay.Table{ID: "web.a", Columns: mapping.Columns{mapping.UUID("id")}}}}}); err != nil {
		t.Fatal(err)
	}
	var s sampler
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	next := func(after time.Duration) [3]bool {
		s.remember(&sample{at: began.Add(after), stats: eng.Stats()})
		p := s.history[len(s.history)-1]
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
	for i, p := range s.history[:len(s.history)-1] {
		if p.latencies != nil {
			t.Errorf("point %d keeps its counters", i)
		}
	}
}
