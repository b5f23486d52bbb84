package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// ofFootprint returns the scenarios of an idle engine's cost.
func ofFootprint() []scenario {
	return []scenario{
		{name: "footprint/open", group: "footprint", run: openIdle, goals: []goal{atMost("open_ms", 30)}},
		{name: "footprint/idle", group: "footprint", run: stayIdle, goals: []goal{atMost("cpu_percent", 0.1), atMost("private_mb", 20)}},
	}
}

// idleArgs are the arguments of the jobs footprint/open and footprint/idle.
type idleArgs struct {
	Dir string
	For time.Duration
}

// open opens an engine with one source, as a service does that has just started.
func (a idleArgs) open(ctx context.Context) (*forebay.Engine, error) {
	eng, err := forebay.Open(a.Dir, forebay.Options{})
	if err != nil {
		return nil, err
	}
	err = eng.Define(ctx, forebay.Source{ID: sourceID, Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
		ID: "events", Columns: mapping.Columns{mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user", "user.id"), mapping.Body("body")},
	}}}})
	return eng, err
}

// openIdle measures how long an engine with nothing waiting takes to open. Each opening is in a separate process, and the folder was used
// and closed before.
func openIdle(ctx context.Context, e *env) (*sample, error) {
	args := idleArgs{Dir: filepath.Join(e.dir, "data")}
	if _, err := inChild[time.Duration](ctx, "footprint/open", args); err != nil { // the folder is new
		return nil, err
	}
	s := &sample{Written: -1}
	var times []time.Duration
	for began := time.Now(); time.Since(began) < e.duration || len(times) < 5; {
		took, err := inChild[time.Duration](ctx, "footprint/open", args)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		s.Elapsed += took
	}
	slices.Sort(times)
	s.Rows, s.Total = int64(len(times)), int64(len(times))
	s.Figures = map[string]float64{
		"open_ms": times[len(times)/2].Seconds() * 1e3, "open_max_ms": times[len(times)-1].Seconds() * 1e3, "opened": float64(len(times)),
	}
	return s, nil
}

// openEmpty returns how long it takes to open an engine and to define its source.
func openEmpty(ctx context.Context, a idleArgs, _ io.Writer) (took time.Duration, err error) {
	begin := time.Now()
	eng, err := a.open(ctx)
	took = time.Since(begin)
	if err == nil {
		_, err = eng.Ingest(ctx, sourceID, mapping.JSON([]byte(`{"user":{"id":1}}`)))
		err = errors.Join(err, eng.Flush(ctx, sourceID), eng.Close())
	}
	return took, err
}

// idleReport is the cost of a process whose engine is idle.
type idleReport struct {
	Elapsed, CPU            time.Duration
	Private, Resident, Heap int64
	Goroutines              int
}

// stayIdle measures a process whose engine has taken one event and has nothing more to do.
func stayIdle(ctx context.Context, e *env) (*sample, error) {
	r, err := inChild[idleReport](ctx, "footprint/idle", idleArgs{filepath.Join(e.dir, "data"), e.duration})
	if err != nil {
		return nil, err
	}
	s := &sample{Rows: 1, Total: 1, Elapsed: r.Elapsed, CPU: r.CPU, Written: -1, Figures: map[string]float64{
		"cpu_percent": 100 * r.CPU.Seconds() / r.Elapsed.Seconds(), "heap_mb": float64(r.Heap) / 1e6, "goroutines": float64(r.Goroutines),
	}}
	if r.Private > 0 && r.Resident > 0 {
		s.Figures["private_mb"], s.Figures["resident_mb"] = float64(r.Private)/1e6, float64(r.Resident)/1e6
	}
	return s, nil
}

func idle(ctx context.Context, a idleArgs, _ io.Writer) (r idleReport, err error) {
	eng, err := a.open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if _, err := eng.Ingest(ctx, sourceID, mapping.JSON([]byte(`{"user":{"id":1}}`))); err != nil {
		return r, err
	}
	if err := eng.Flush(ctx, sourceID); err != nil {
		return r, err
	}
	if n := eng.Stats().LocalBytes; n != 0 {
		return r, fmt.Errorf("%d bytes wait", n)
	}
	begin, cpu := time.Now(), processCPU()
	wait(ctx, a.For, nil)
	r.Elapsed, r.CPU = time.Since(begin), processCPU()-cpu
	r.Resident, _ = residentMemory()
	r.Private = privateMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Heap, r.Goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	return r, ctx.Err()
}
