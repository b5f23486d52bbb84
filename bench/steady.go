package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/trigger"
)

// steadySinks measures the CPU of many sinks that get a row a second each, while the rows continue to their tables. Sources have 100 sinks each, and a
// record is a row in each sink of its source. The conditions are the defaults if the window is at least as long as the interval of an upload, and
// shorter otherwise. The sources begin one after the other within the interval of an import, so that slices and files end evenly. The
// window begins an interval later, when files are imported and deleted as fast as they begin.
func steadySinks(staging func(e *env) driver.Staging) scenarioFunc {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		w := workloads()[0]
		perSource := min(e.size.Sinks, forebay.MaxSinks)
		sources := (e.size.Sinks + perSource - 1) / perSource
		upload := min(trigger.Upload().Default.Interval, max(e.duration, time.Second))
		interval := upload * (trigger.Import().Default.Interval / trigger.Upload().Default.Interval)
		target := &discardingTarget{}
		eng, err := forebay.Open(filepath.Join(e.dir, "data"), forebay.Options{
			Staging: staging(e), Target: target, MaxSources: sources, Buffer: buffer.Tuning{MinImportInterval: time.Second},
		})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, eng.Close()) }()
		settings := forebay.Settings{Upload: trigger.Conditions{Interval: upload}, Import: trigger.Conditions{Interval: interval}}
		for n := range sources {
			def := forebay.Source{ID: fmt.Sprintf("source-%d", n), Settings: settings}
			for i := range perSource {
				id := fmt.Sprintf("sink-%d", i)
				def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: "in.c-" + def.ID + "." + id, Columns: columns()}})
			}
			if err := eng.Define(ctx, def); err != nil {
				return nil, err
			}
		}

		callers, cancel := context.WithCancelCause(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel(nil)
		var sent atomic.Int64
		for n := range sources {
			running.Go(func() {
				wait(callers, interval*time.Duration(n)/time.Duration(sources), nil)
				record := w.records(n, 1)[0]
				for tick := time.Tick(time.Second); callers.Err() == nil; {
					res, err := eng.Ingest(ctx, fmt.Sprintf("source-%d", n), again(record))
					if sent.Add(int64(len(res.Sinks))); err != nil {
						cancel(err)
						return
					}
					select {
					case <-tick:
					case <-callers.Done():
					}
				}
			})
		}
		wait(callers, 2*interval, nil)
		before, rows, imported := readUsage(e), sent.Load(), target.count()
		wait(callers, max(e.duration, 2*time.Second), nil) // a sink gets a row each second
		s := readUsage(e).since(before)
		after := target.count()
		if e.ended != nil {
			e.ended()
		}
		s.Rows = sent.Load() - rows
		s.Bytes = s.Rows * int64(w.rowBytes)
		cancel(nil)
		running.Wait()
		if err := context.Cause(callers); !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return nil, err
		}
		resident, _ := residentMemory()
		seconds := s.Elapsed.Seconds()
		s.Figures = map[string]float64{
			"sinks": float64(sources * perSource), "cores": s.CPU.Seconds() / seconds, "resident_mb": float64(resident) / 1e6,
			"files_per_s": float64(after.files-imported.files) / seconds, "imports_per_s": float64(after.calls-imported.calls) / seconds,
			"imported_per_s": float64(after.rows-imported.rows) / seconds,
		}
		if err := eng.FlushAll(ctx); err != nil {
			return nil, err
		}
		s.Total = sent.Load()
		if got := target.count().rows; got != s.Total {
			return nil, fmt.Errorf("%d rows were imported, want %d", got, s.Total)
		}
		return s, nil
	}
}

// stagingFolder is the default of an engine.
func stagingFolder(e *env) driver.Staging { return dir.Staging(filepath.Join(e.dir, "staging")) }

// discardingTarget counts the rows of its imports and throws them away.
type discardingTarget struct {
	closedTarget
	mu  sync.Mutex
	sum discarded
}

// discarded is what a discardingTarget has counted.
type discarded struct{ calls, files, rows int64 }

func (t *discardingTarget) count() discarded {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

func (t *discardingTarget) Import(ctx context.Context, f *driver.File) error {
	return t.ImportMany(ctx, []*driver.File{f})
}

// ImportMany implements [driver.ManyImporter].
func (t *discardingTarget) ImportMany(_ context.Context, files []*driver.File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.calls++
	for _, f := range files {
		t.sum.files++
		t.sum.rows += f.Rows
	}
	return nil
}

// memoryStaging keeps objects in memory.
type memoryStaging struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func stagingInMemory(*env) driver.Staging { return &memoryStaging{objects: make(map[string][]byte)} }

func (s *memoryStaging) Put(_ context.Context, obj driver.Object, src driver.Content) error {
	var data bytes.Buffer
	if _, err := src.WriteTo(&data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[obj.ID] = data.Bytes()
	return nil
}

func (s *memoryStaging) Open(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[obj.ID]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (s *memoryStaging) Delete(_ context.Context, objs ...driver.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range objs {
		delete(s.objects, obj.ID)
	}
	return nil
}
