package size

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

const gib = 1 << 30

// The formula gives the figures of the table in docs/deploy.md.
func TestCompute(t *testing.T) {
	for _, tt := range []struct {
		name             string
		rate, row        float64
		largest          float64
		outage           time.Duration
		maxDisk, maxSink int64
		lasts            time.Duration
		limit            string
		forOutage        float64 // GB
		volume           int64
	}{
		{"one busy sink takes half", 1000, 300, 1, 8 * time.Hour, 16 * gib, 0, 7*time.Hour + 57*time.Minute, "-max-sink-bytes", 17.28, 25_920_000_000},
		{"many sinks take three quarters", 1000, 300, 0.1, 8 * time.Hour, 16 * gib, 0, 11*time.Hour + 56*time.Minute, "-max-disk-bytes", 11.52, 17_280_000_000},
		{"a wide limit of a sink", 1000, 300, 1, 0, 16 * gib, 15 * gib, 11*time.Hour + 56*time.Minute, "-max-disk-bytes", 0, 24 * gib},
		{"slow rows expire first", 1, 300, 1, time.Hour, 16 * gib, 0, 168 * time.Hour, "buffer.Tuning.Retention", 0.134217728, 192 << 20},
		{"100 events a second", 100, 300, 1, 24 * time.Hour, 16 * gib, 0, 79*time.Hour + 32*time.Minute, "-max-sink-bytes", 5.184, 7_776_000_000},
		{"10,000 events a second", 10_000, 300, 1, time.Hour, 16 * gib, 0, 48 * time.Minute, "-max-sink-bytes", 21.6, 32_400_000_000},
		{"no rate", 0, 300, 1, time.Hour, 16 * gib, 0, 0, "", 0, 24 * gib},
	} {
		d := Compute(Load{tt.rate * tt.row, tt.largest}, tt.outage, tt.maxDisk, tt.maxSink)
		if d.Lasts.Round(time.Minute) != tt.lasts || !strings.HasPrefix(d.Limit, tt.limit) || (d.Limit == "") != (tt.limit == "") {
			t.Errorf("%s: lasts %v by %q, want %v by %q", tt.name, d.Lasts, d.Limit, tt.lasts, tt.limit)
		}
		if math.Abs(float64(d.ForOutage)-tt.forOutage*1e9) > 1 || math.Abs(float64(d.Volume-tt.volume)) > 2 {
			t.Errorf("%s: got %d bytes on a volume of %d, want %.5f GB and %d", tt.name, d.ForOutage, d.Volume, tt.forOutage, tt.volume)
		}
	}
}

func run(t *testing.T, args ...string) (*report, string) {
	t.Helper()
	var out, text bytes.Buffer
	if err := Run(t.Context(), append([]string{"-json"}, args...), &out, &out); err != nil {
		t.Fatalf("got %q: %v\n%s\nwant no error", args, err, &out)
	}
	r := new(report)
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), args, &text, &text); err != nil {
		t.Fatalf("got %q: %v\n%s\nwant no error", args, err, &text)
	}
	return r, text.String()
}

// In a real data directory, its rows, their sizes and their rates match the sent rows. The data stays, and an engine opens it again.
func TestMeasure(t *testing.T) {
	data, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	columns := mapping.Columns{mapping.Path("text", "text", mapping.RawString())}
	source := forebay.Source{ID: "web", Sinks: []forebay.Sink{
		{ID: "events", Table: forebay.Table{ID: "in.c-web.events", Columns: columns}},
	}}
	quiet := forebay.Source{ID: "quiet", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{ID: "in.c-web.quiet", Columns: columns}}}}
	const rows, rowBytes = 121, 8003 // one second apart, with the text, two quotes and the end of the line
	var limits forebay.Stats
	synctest.Test(t, func(t *testing.T) {
		eng, err := forebay.Open(data, forebay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []forebay.Source{source, quiet} {
			if err := eng.Define(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		record := mapping.JSON(fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("forebay ", 1000)))
		for n := range rows {
			if n > 0 {
				time.Sleep(time.Second)
			}
			if _, err := eng.Ingest(t.Context(), "web", record); err != nil {
				t.Fatal(err)
			}
		}
		limits = eng.Stats()
		if err := eng.Checkpoint(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
		var inUse *buffer.InUseError
		err = Run(t.Context(), []string{data}, new(bytes.Buffer), new(bytes.Buffer))
		if !errors.As(err, &inUse) || !strings.Contains(err.Error(), "forebay size on a checkpoint") || !strings.Contains(err.Error(), "/checkpoint") {
			t.Errorf("a directory in use: %v", err)
		}
		if err := eng.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if limits.MaxSinkBytes != defaultDisk/2 || limits.MaxPendingBytes != pending {
		t.Errorf("the defaults of an engine are %+v", limits)
	}
	for _, dir := range []string{copied, data, data} {
		r, text := run(t, dir)
		if len(r.Sinks) != 2 {
			t.Fatalf("sinks are %+v", r.Sinks)
		}
		s := r.Sinks[1]
		if s.ID != "web/events" || s.Rows != rows || math.Abs(s.RowBytes-rowBytes) > 1 || s.Ratio < 5 || s.StoredBytes < 10 || s.StoredBytes > rowBytes/5 {
			t.Errorf("%s: the sink is %+v", dir, s)
		}
		if math.Abs(s.Rate-float64(rows)/(rows-1)) > 0.01 {
			t.Errorf("%s: the rate is %v", dir, s.Rate)
		}
		if r.InUse <= 0 || r.Disk.LargestSink != 1 || math.Abs(r.Disk.BytesPerSecond-s.Rate*s.StoredBytes) > 0.01 || r.Disk.Lasts != retention {
			t.Errorf("%s: the disk is %+v, in use %d", dir, r.Disk, r.InUse)
		}
		for _, want := range []string{"web/events", "The rate of quiet/events is unknown", "an outage is held, at this rate", "168 h 00 min", "write buffers"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
	// A planned rate with the measured size of a row, and the other way round.
	r, _ := run(t, "-rate", "1000", "-outage", "8h", data)
	if want := 1000 * r.Sinks[1].StoredBytes; math.Abs(r.Disk.BytesPerSecond-want) > 1 || math.Abs(float64(r.Disk.ForOutage)-want*8*3600*2) > 1e4 {
		t.Errorf("the disk is %+v, want %v bytes a second", r.Disk, want)
	}
	r, _ = run(t, "-row-bytes", "5000", data)
	if want := 5000 * r.Sinks[1].Rate; math.Abs(r.Disk.BytesPerSecond-want) > 1 {
		t.Errorf("the disk is %+v, want %v bytes a second", r.Disk, want)
	}
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if st := eng.Stats().Sinks[1]; st.Accepted != rows {
		t.Errorf("the engine has %d rows", st.Accepted)
	}
}

// Rows that arrived together give no rate, and the program says so.
func TestUnknownRate(t *testing.T) {
	m := measure(buffer.SinkStats{ID: "a/b", Accepted: 5, Local: buffer.Level{Rows: 5, RawBytes: 500, StoredBytes: 100, FirstAt: time.Unix(100, 0), LastAt: time.Unix(101, 0)}})
	if m.Rate != 0 || m.BusyRate != 0 || m.StoredBytes != 20 || m.Ratio != 5 {
		t.Errorf("the measure is %+v", m)
	}
	var b strings.Builder
	r := &report{Sinks: []Sink{m}, Disk: Compute(loadOf([]Sink{m}, func(s Sink) float64 { return s.Rate }), time.Hour, defaultDisk, 0)}
	r.Unknown = (&options{}).unknown(r, true)
	if err := r.print(&b, "data", time.Hour); err != nil || !strings.Contains(b.String(), "pass -rate") || !strings.Contains(b.String(), "The rate of a/b is unknown") {
		t.Errorf("got %v\n%s\nwant no error and strings.Contains(b.String(), \"pass -rate\") and strings.Contains(b.String(), \"The rate of a/b is unknown\")", err, &b)
	}
}

// The busiest file counts, and a sink that was dropped does not.
func TestBusy(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	level := func(rows int64, span time.Duration) buffer.Level {
		return buffer.Level{Rows: rows, RawBytes: rows * 400, StoredBytes: rows * 100, FirstAt: at, LastAt: at.Add(span)}
	}
	sinks := []Sink{
		measure(buffer.SinkStats{ID: "a/a", Target: level(7200, 2*time.Hour), Files: []buffer.FileStats{{Level: level(1000, 20*time.Second)}, {Level: level(1000, time.Second)}}}),
		measure(buffer.SinkStats{ID: "a/b", Dropped: true, Target: level(1e6, time.Hour)}),
	}
	load, busy := (&options{}).loads(sinks)
	if math.Abs(load.BytesPerSecond-100) > 1e-6 || math.Abs(busy.BytesPerSecond-5000) > 1e-6 || load.LargestSink != 1 {
		t.Errorf("the loads are %+v and %+v", load, busy)
	}
}

// Without a directory the flags are the formula.
func TestPlan(t *testing.T) {
	r, text := run(t, "-rate", "1000", "-row-bytes", "300", "-outage", "8h", "-connections", "1000", "-target", "parquet:lake")
	if math.Abs(float64(r.Disk.ForOutage)-17.28e9) > 1 || r.Disk.Limit != "-max-sink-bytes" || r.Disk.Volume != 25_920_000_000 {
		t.Errorf("the disk is %+v", r.Disk)
	}
	if want := int64(86_000_000 + 3*64<<20 + 64<<20 + 12_000_000 + 40_000_000 + 260<<20); r.MemoryTotal != want {
		t.Errorf("the memory is %d, want %d", r.MemoryTotal, want)
	}
	for _, want := range []string{"7 h 57 min", "-max-disk-bytes for 8 h 00 min", "17280000000", "an import into Parquet", "NOT KNOWN"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestWrong(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "name a data directory, after the flags, or set -rate and -row-bytes"},
		{[]string{"-rate", "3"}, "-row-bytes"},
		{[]string{"-rate", "-3", "-row-bytes", "1"}, "-rate must be a number of 0 or more"},
		{[]string{"-rate", "NaN", "-row-bytes", "1"}, "-rate must be"},
		{[]string{"-largest-sink", "60", "-rate", "3", "-row-bytes", "1"}, "at most 1"},
		{[]string{"-max-disk-bytes", "16", "-rate", "3", "-row-bytes", "1"}, "-max-disk-bytes is 16, must be 1048576 or more"},
		{[]string{"a", "b"}, `unexpected argument "b"`},
		{[]string{t.TempDir()}, "is not a data directory"},
	} {
		err := Run(t.Context(), tt.args, new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.args, err, tt.want)
		}
	}
}
