package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// sample is one line of the record, by column.
type sample [len(columns)]float64

const (
	seconds = iota
	events
	waitingRows
	heapBytes
	residentBytes
	goroutines
	handles
	openSlices
	openFiles
	diskBytes
)

var columns = [...]string{
	seconds: "seconds", events: "events", waitingRows: "waiting_rows", heapBytes: "heap_bytes", residentBytes: "resident_bytes",
	goroutines: "goroutines", handles: "handles", openSlices: "slices", openFiles: "files", diskBytes: "disk_bytes",
}

type recorder struct {
	out     string
	file    *os.File
	csv     *csv.Writer
	samples []sample
}

func newRecorder(out string) (*recorder, error) {
	f, err := os.Create(out + ".csv")
	if err != nil {
		return nil, err
	}
	r := &recorder{out: out, file: f, csv: csv.NewWriter(f)}
	return r, r.csv.Write(columns[:])
}

func (r *recorder) add(s sample) error {
	r.samples = append(r.samples, s)
	var row []string
	for _, v := range s {
		row = append(row, strconv.FormatFloat(v, 'f', -1, 64))
	}
	return r.csv.Write(row)
}

func (r *recorder) close() error {
	r.csv.Flush()
	return errors.Join(r.csv.Error(), r.file.Close(), os.WriteFile(r.out+".svg", plot(r.samples), 0o644))
}

// record takes a sample a second until ctx ends.
func (s *soak) record(ctx context.Context, r *recorder, start time.Time) {
	for ctx.Err() == nil {
		_ = r.add(s.sample(start)) // close reports the error
		_ = ctxio.Sleep(ctx, time.Second)
	}
}

func (s *soak) sample(start time.Time) sample {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	out := sample{
		seconds: time.Since(start).Seconds(), heapBytes: float64(mem.HeapAlloc), residentBytes: resident(),
		goroutines: float64(runtime.NumGoroutine()),
	}
	open, _ := os.ReadDir("/proc/self/fd") // 0 elsewhere
	out[handles] = float64(len(open))
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, k := range s.eng.Stats().Sinks {
		out[events] += float64(k.Accepted)
		out[waitingRows] += float64(k.Local.Rows + k.Staging.Rows)
		for _, n := range k.Slices {
			out[openSlices] += float64(n)
		}
		out[openFiles] += float64(len(k.Files))
	}
	_ = filepath.WalkDir(s.cfg.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				out[diskBytes] += float64(info.Size())
			}
		}
		return nil // files come and go
	})
	return out
}

// resident is the memory of the process as the kernel counts it; 0 without /proc.
func resident() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, pages int
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return float64(pages * os.Getpagesize())
}

// summary compares the second quarter of the run with the last, because constant resources have equal medians.
func (r *recorder) summary() string {
	n := len(r.samples)
	if n < 8 {
		return "too short for a comparison"
	}
	median := func(part []sample, column int) float64 {
		var v []float64
		for _, s := range part {
			v = append(v, s[column])
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	text := "medians of the second and of the last quarter:"
	for i, name := range columns[2:] {
		text += fmt.Sprintf("\n  %-15s %14.0f %14.0f", name, median(r.samples[n/4:n/2], i+2), median(r.samples[3*n/4:], i+2))
	}
	return text
}
