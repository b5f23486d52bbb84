package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
)

// An upload is the way of sealed slices into a staging directory, and nothing else: first rows are ingested while the
// staging takes nothing, then it takes all of them while nothing is ingested and nothing is imported.
type upload struct {
	workload    workload
	compression forebay.Compression
}

func (u upload) run(ctx context.Context, e *env) (_ *sample, err error) {
	row, err := u.workload.row()
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(e.dir, "upload-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	staging := &gatedStaging{Staging: dir.Staging(filepath.Join(path, "staging")), open: make(chan struct{})}
	eng, err := forebay.Open(filepath.Join(path, "data"), forebay.Options{Staging: staging, Target: closedTarget{}})
	if err != nil {
		return nil, err
	}
	db := &instance{dir: path, eng: eng}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := eng.Define(ctx, forebay.Source{
		ID: sourceID, Secret: secret, Settings: forebay.Settings{Compression: u.compression},
		Sinks: []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: columns()}}},
	}); err != nil {
		return nil, err
	}
	var overloads atomic.Int64
	const callers = 64
	cpu := processCPU()
	ingested, err := measure(ctx, e, load{
		callers: callers, rowBytes: len(row), every: 1,
		start: func(caller int) (operation, error) {
			return ingestion{workload: u.workload, callers: callers}.singles(ctx, eng, caller, &overloads), nil
		},
	})
	if err != nil {
		return nil, err
	}
	ingestCPU := processCPU() - cpu

	// A flush seals what is open. It cannot end, as nothing is imported.
	settle()
	flush, cancel := context.WithCancel(ctx)
	var flushing sync.WaitGroup
	defer flushing.Wait()
	defer cancel()
	before := readUsage(e)
	flushing.Go(func() { _ = eng.Flush(flush, sourceID, sinkID) })
	close(staging.open)
	stored := eng.Stats().LocalBytes
	for eng.Stats().LocalBytes > 0 {
		wait(ctx, 10*time.Millisecond, nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	s := readUsage(e).since(before)
	s.rows, s.total, s.overloads = ingested.total, ingested.total, overloads.Load()
	s.bytes = s.rows * int64(len(row))
	if s.cpu >= 0 {
		s.figures = map[string]float64{
			"ingest_cpu_ns_per_row": float64(ingestCPU) / float64(s.rows),
			"of_ingest_cpu":         float64(s.cpu) / float64(ingestCPU),
			"stored_per_byte":       float64(stored) / float64(s.bytes),
		}
	}
	return s, db.verify(ctx, s.total)
}

// gatedStaging lets every Put wait until it is open.
type gatedStaging struct {
	buffer.Staging
	open chan struct{}
}

func (s *gatedStaging) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	select {
	case <-s.open:
		return s.Staging.Put(ctx, obj, src)
	case <-ctx.Done():
		return ctx.Err()
	}
}
