package console

import (
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// Sentences name lost and refused rows, hanging work and when rows expire.
func TestSentences(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	sampleOf := func(change func(*forebay.Stats, *forebay.SinkStats)) *sample {
		s := &sample{at: at, flows: make([]flow, 1)}
		s.stats = forebay.Stats{MaxSinkBytes: 1000, MaxDiskBytes: 5000, Retention: 24 * time.Hour, Sinks: []forebay.SinkStats{{SinkStats: buffer.SinkStats{ID: "a/b", Accepted: 10}}}}
		change(&s.stats, &s.stats.Sinks[0])
		s.finish()
		return s
	}
	failed := func(_ *forebay.Stats, k *forebay.SinkStats) {
		k.Local = buffer.Level{Rows: 3, FirstAt: at}
		k.Files = []buffer.FileStats{{State: buffer.FileImporting, Attempt: 2, RetryReason: "columns differ.", FirstFailed: at.Add(-4 * time.Minute), RetryAfter: at.Add(40 * time.Second), Level: buffer.Level{Rows: 3}}}
	}
	for name, tc := range map[string]struct {
		change       func(*forebay.Stats, *forebay.SinkStats)
		why, verdict string
	}{
		"a failure": {failed, "Import fails: columns differ. Since 11:56, 2 attempts. 3 rows in 1 file wait. Next attempt in 40 s. Rows expire 11:56.", "1 of 1 sinks is held up. Nothing is lost."},
		"an import that hangs": {func(_ *forebay.Stats, k *forebay.SinkStats) {
			k.Local = buffer.Level{Rows: 3, FirstAt: at}
			k.Files = []buffer.FileStats{{State: buffer.FileImporting, CallSince: at.Add(-6 * time.Minute)}}
		}, "The driver has not returned from an import for 6 min 00 s.", "The sink flows. Nothing waits."},
		"an import that takes its time": {func(_ *forebay.Stats, k *forebay.SinkStats) {
			k.Files = []buffer.FileStats{{State: buffer.FileImporting, CallSince: at.Add(-30 * time.Second)}}
		}, "Nothing waits.", "The sink is idle. Nothing waits."},
		"lost rows": {func(_ *forebay.Stats, k *forebay.SinkStats) {
			k.Expired.Rows, k.Damaged.Rows, k.Unstored = 120, 3, 1
			k.Files = []buffer.FileStats{{State: buffer.FileExpired, FinishedAt: at.Add(-3 * time.Hour)}}
		}, "Nothing waits. Lost: 120 expired, 3 damaged on disk, 1 not stored since the start.", "Rows were given up: 120 expired, 3 damaged on disk, 1 not stored since the start. The last ones expired at 09:00."},
		"a sink without room": {func(all *forebay.Stats, k *forebay.SinkStats) {
			k.WaitingBytes, k.RefusingSince, all.Overloads = 1000, at.Add(-time.Minute), 4312
			k.Rejected = map[string]int64{"failed": 1204, "malformed": 7}
		}, "Refusing new records since 11:59: 1000 B of 1000 B of this sink's disk limit is used. 1,204 records were not taken since the start.", "Refusing records of 1 of 1 sinks. 4,312 calls were refused since the start."},
		"no room": {func(all *forebay.Stats, _ *forebay.SinkStats) {
			all.RefusingSince, all.Overloads = at.Add(-time.Minute), 1
		}, "Nothing waits.", "Refusing records since 11:59: the disk limit is reached. 1 call was refused since the start."},
	} {
		s := sampleOf(tc.change)
		if why := s.sink(0).why().String(); why != tc.why {
			t.Errorf("%s: got %q, want %q", name, why, tc.why)
		}
		if verdict := topOf(s).Verdict.String(); verdict != tc.verdict {
			t.Errorf("%s: the verdict is %q, want %q", name, verdict, tc.verdict)
		}
	}
}
