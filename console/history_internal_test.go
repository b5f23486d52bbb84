package console

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
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
	const want = `[[1795435200000,null,null,0,3,null,null],[1795435210000,1234,2,10,3,6,0],[1795435219999,1234,2,20,3,0,18],` +
		`[1795435500000,1234,2,300,3,null,null],[1795435510000,1234,2,310,3,null,null]]`
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
