package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/curves"
)

// sample is one line of the record, by column. NaN is a figure that was unknown at that time.
type sample [len(samples)]float64

// The figures of a sample.
const (
	seconds = iota
	dayNumber
	acknowledged
	perSecond
	ackMedian
	ackP99
	ackMost
	sending
	resident
	residentMost
	handles
	goroutines
	heap
	kept
	localRows
	stagingRows
	quarantined
	diskBytes
	faulty
	machineLoad
)

var samples = [...]string{
	seconds: "seconds", dayNumber: "day", acknowledged: "events", perSecond: "events_per_second", ackMedian: "ack_p50_ms", ackP99: "ack_p99_ms", ackMost: "ack_max_ms", sending: "events_waiting",
	resident: "resident_bytes_mean", residentMost: "resident_bytes_most", handles: "handles_most", goroutines: "goroutines_most", heap: "heap_bytes_mean", kept: "instances_kept",
	localRows: "local_rows", stagingRows: "staging_rows", quarantined: "quarantined", diskBytes: "disk_bytes", faulty: "fault",
	machineLoad: "load_of_the_machine",
}

type recorder struct {
	cfg      config
	calendar calendar
	load     *load
	faults   *faults
	api      *api
	list     []sample
	last     time.Time // of the last sample
}

// run takes samples until ctx ends.
func (r *recorder) run(ctx context.Context, every time.Duration) {
	for r.last = time.Now(); ctxio.Sleep(ctx, every) == nil; {
		r.list = append(r.list, r.sample(ctx))
	}
}

func (r *recorder) sample(ctx context.Context) (s sample) {
	now := time.Now()
	s[seconds], s[dayNumber] = now.Sub(r.calendar.begin).Seconds(), float64(r.calendar.dayOf(now)+1)
	took, waiting := r.load.since()
	s[acknowledged], s[sending] = float64(len(took)), float64(waiting)
	s[perSecond] = s[acknowledged] / now.Sub(r.last).Seconds()
	r.last = now
	quantile := func(q float64) float64 {
		if len(took) == 0 {
			return math.NaN()
		}
		return float64(took[int(q*float64(len(took)-1))]) / float64(time.Millisecond)
	}
	s[ackMedian], s[ackP99], s[ackMost] = quantile(0.5), quantile(0.99), quantile(1)
	alive := 0
	for _, p := range r.load.nodes {
		m, status, pid := p.state()
		bytes, open := ofProcess(pid)
		if bytes == 0 {
			continue
		}
		alive++
		s[kept] += float64(len(status.Adopting))
		s[heap] += float64(m.Heap)
		s[resident] += bytes
		s[residentMost] = max(s[residentMost], bytes)
		s[handles] = max(s[handles], open)
		s[goroutines] = max(s[goroutines], float64(m.Goroutines))
	}
	s[resident] /= float64(alive) // NaN if there is none
	s[heap] /= float64(alive)
	for sink := range sinks {
		ask, cancel := context.WithTimeout(ctx, 3*time.Second)
		st, err := r.api.statistics(ask, sink)
		cancel()
		if err != nil || len(st.Missing) > 0 {
			s[localRows], s[stagingRows], s[quarantined] = math.NaN(), math.NaN(), math.NaN()
			break
		}
		s[localRows] += float64(st.Levels.Local.RecordsCount)
		s[stagingRows] += float64(st.Levels.Staging.RecordsCount)
		s[quarantined] += float64(st.Quarantine.Records)
	}
	_ = filepath.WalkDir(r.cfg.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				s[diskBytes] += float64(info.Size())
			}
		}
		return nil // files come and go
	})
	if list := r.faults.history(); len(list) > 0 && list[len(list)-1].end.IsZero() {
		s[faulty] = 1
	}
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &s[machineLoad])
	return s
}

// ofProcess returns the memory of a process and the number of its handles, as the kernel counts them.
func ofProcess(pid int) (bytes, handles float64) {
	at := filepath.Join("/proc", strconv.Itoa(pid))
	text, _ := os.ReadFile(filepath.Join(at, "statm"))
	var size, pages int
	_, _ = fmt.Sscan(string(text), &size, &pages)
	open, _ := os.ReadDir(filepath.Join(at, "fd"))
	return float64(pages * os.Getpagesize()), float64(len(open))
}

// write writes the samples and the plot.
func (r *recorder) write() error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(samples[:]) // into memory
	for _, s := range r.list {
		row := make([]string, len(s))
		for i, v := range s {
			if !math.IsNaN(v) {
				row[i] = strconv.FormatFloat(v, 'f', min(3, decimals(v)), 64)
			}
		}
		_ = w.Write(row)
	}
	w.Flush()
	return errors.Join(os.WriteFile(r.cfg.out+".csv", out.Bytes(), 0o644), os.WriteFile(r.cfg.out+".svg", r.plot(), 0o644))
}

func decimals(v float64) int {
	if v == math.Trunc(v) {
		return 0
	}
	return 3
}

func (r *recorder) plot() []byte {
	column := func(i int) (v []float64) {
		for _, s := range r.list {
			v = append(v, s[i])
		}
		return v
	}
	p := curves.Plot{Times: column(seconds), End: r.cfg.duration.Seconds()}
	for _, panel := range []struct {
		title, unit string
		scale       float64
		column      int
	}{
		{"acknowledged", "events/s", 1, perSecond},
		{"ack, median", "ms", 1, ackMedian},
		{"ack, p99", "s", 1000, ackP99},
		{"memory of a node", "MiB", 1 << 20, resident},
		{"live heap of a node", "MiB", 1 << 20, heap},
		{"instances kept", "", 1, kept},
		{"handles, most", "", 1, handles},
		{"goroutines, most", "", 1, goroutines},
		{"on local disk", "rows", 1, localRows},
		{"in staging", "rows", 1, stagingRows},
		{"in quarantine", "records", 1, quarantined},
		{"files of the nodes", "MiB", 1 << 20, diskBytes},
	} {
		p.Panels = append(p.Panels, curves.Panel{Title: panel.title, Unit: panel.unit, Scale: panel.scale, Values: column(panel.column)})
	}
	for day := 1; day < r.cfg.days; day++ {
		p.Lines = append(p.Lines, r.calendar.at(day, 0).Sub(r.calendar.begin).Seconds())
	}
	for _, h := range r.faults.history() {
		p.Spans = append(p.Spans, [2]float64{h.begin.Sub(r.calendar.begin).Seconds(), h.end.Sub(r.calendar.begin).Seconds()})
	}
	return p.SVG()
}

// ofDay returns the figures of a column on a day, in order.
func (r *recorder) ofDay(day, column int) (v []float64) {
	for _, s := range r.list {
		if int(s[dayNumber]) == day+1 && !math.IsNaN(s[column]) {
			v = append(v, s[column])
		}
	}
	slices.Sort(v)
	return v
}

func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func most(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

// table is the table by day, in Markdown.
func (r *recorder) table() string {
	var b strings.Builder
	b.WriteString("| day | events | most events/s | ack, median | ack p99, median and worst of 10 s | memory of a node, median and most | live heap, median | instances kept, median | most handles | most goroutines | most rows waiting | most in quarantine | faults | load |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for day := range r.cfg.days {
		of := func(column int) []float64 { return r.ofDay(day, column) }
		n := 0.0
		for _, v := range of(acknowledged) {
			n += v
		}
		var waiting []float64
		for _, s := range r.list {
			if w := s[localRows] + s[stagingRows]; int(s[dayNumber]) == day+1 && !math.IsNaN(w) {
				waiting = append(waiting, w)
			}
		}
		slices.Sort(waiting)
		faults := 0
		for _, h := range r.faults.history() {
			if r.calendar.dayOf(h.begin) == day {
				faults++
			}
		}
		p99 := of(ackP99)
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.1f ms | %.0f ms, %.1f s | %.0f MiB, %.0f MiB | %.0f MiB | %.0f | %.0f | %.0f | %.0f | %.0f | %d | %.0f |\n", day+1, n, most(of(perSecond)),
			median(of(ackMedian)), median(p99), most(p99)/1000, median(of(resident))/(1<<20), most(of(residentMost))/(1<<20), median(of(heap))/(1<<20), median(of(kept)), most(of(handles)), most(of(goroutines)), most(waiting),
			most(of(quarantined)), faults, median(of(machineLoad)))
	}
	return b.String()
}

// memoryFactor is how much more memory nodes may take on a later day than on the second. They are younger on the first one, and the write
// buffers of a store grow until they are full once. After that the load is the same each day, so a leak that matters shows as a multiple.
// Some room is needed, because an instance that another node has taken over takes memory until its quarantine is empty.
const memoryFactor = 1.5

// grows reports whether the nodes take too much memory on a day after the second, or nothing for a run that is too short to tell.
func (r *recorder) grows() error {
	if r.cfg.days < 3 || r.calendar.day < 2*time.Minute {
		return nil
	}
	second := median(r.ofDay(1, resident))
	for day := 2; day < r.cfg.days; day++ {
		if m := median(r.ofDay(day, resident)); m > memoryFactor*second {
			return fmt.Errorf("the nodes have taken %.0f MiB each on day %d, and %.0f MiB on the second", m/(1<<20), day+1, second/(1<<20))
		}
	}
	return nil
}
