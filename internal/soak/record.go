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
)

// sample is one line of the record.
type sample struct {
	at                                     time.Duration
	events, waiting                        int64
	heap, resident                         int64 // bytes
	goroutines, handles, slices, fileCount int64
	disk                                   int64
}

var columns = []string{
	"seconds", "events", "waiting_rows", "heap_bytes", "resident_bytes", "goroutines", "handles", "slices", "files", "disk_bytes",
}

func (s sample) values() []float64 {
	return []float64{
		s.at.Seconds(), float64(s.events), float64(s.waiting), float64(s.heap), float64(s.resident), float64(s.goroutines),
		float64(s.handles), float64(s.slices), float64(s.fileCount), float64(s.disk),
	}
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
	return r, r.csv.Write(columns)
}

func (r *recorder) add(s sample) error {
	r.samples = append(r.samples, s)
	var row []string
	for _, v := range s.values() {
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
		sleep(ctx, time.Second)
	}
}

func (s *soak) sample(start time.Time) sample {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	out := sample{
		at: time.Since(start), heap: int64(mem.HeapAlloc), resident: resident(), goroutines: int64(runtime.NumGoroutine()),
		handles: handles(),
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, k := range s.eng.Stats().Sinks {
		out.events += k.Accepted
		out.waiting += k.Local.Rows + k.Staging.Rows
		for _, n := range k.Slices {
			out.slices += int64(n)
		}
		out.fileCount += int64(len(k.Files))
	}
	_ = filepath.WalkDir(s.cfg.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				out.disk += info.Size()
			}
		}
		return nil // files come and go
	})
	return out
}

// resident is the memory of the process as the kernel counts it; 0 without /proc.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// handles is the number of open files and sockets; 0 without /proc.
func handles() int64 {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(list))
}

func removeAll(dir string) error { return os.RemoveAll(dir) }

// summary compares the second quarter of the run with the last: constant resources have equal medians.
func (r *recorder) summary() string {
	n := len(r.samples)
	if n < 8 {
		return "too short for a comparison"
	}
	median := func(part []sample, column int) float64 {
		var v []float64
		for _, s := range part {
			v = append(v, s.values()[column])
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
