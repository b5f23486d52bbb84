package main

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
)

// upload measures the way of sealed slices into a staging directory, and nothing else. First rows are ingested while the
// staging accepts nothing, then it accepts all of them while nothing is ingested and nothing is imported.
func upload(w workload, c forebay.Compression) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		staging := &gatedStaging{Staging: dir.Staging(filepath.Join(e.dir, "staging")), open: make(chan struct{})}
		s := setup{
			options: forebay.Options{Staging: staging, Target: closedTarget{}},
			source:  forebay.Source{Settings: forebay.Settings{Compression: c}},
		}
		return s.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
			cpu := processCPU()
			ingested, err := ingestion{workload: w, callers: 64}.measure(ctx, e, eng)
			if err != nil {
				return nil, err
			}
			ingestCPU := processCPU() - cpu

			// A flush seals the open slices. It cannot end, as nothing is imported.
			cleanUp()
			flush, cancel := context.WithCancel(ctx)
			var flushing sync.WaitGroup
			defer flushing.Wait()
			defer cancel()
			before := readUsage(e)
			flushing.Go(func() { _ = eng.Flush(flush, sourceID, sinkID) })
			close(staging.open)
			waiting := eng.Stats().LocalBytes
			if err := until(ctx, 10*time.Millisecond, func() bool { return eng.Stats().LocalBytes == 0 }); err != nil {
				return nil, err
			}
			s := readUsage(e).since(before)
			s.Rows, s.Total, s.Overloads = ingested.Total, ingested.Total, ingested.Overloads
			s.Bytes = ingested.Total * (ingested.Bytes / ingested.Rows)
			if s.CPU >= 0 {
				s.Figures = map[string]float64{
					"ingest_cpu_ns_per_row": float64(ingestCPU) / float64(s.Rows),
					"of_ingest_cpu":         float64(s.CPU) / float64(ingestCPU),
					"stored_per_byte":       float64(waiting) / float64(s.Bytes),
				}
			}
			return s, nil
		})
	}
}

// gatedStaging lets every Put wait until it is open.
type gatedStaging struct {
	driver.Staging
	open chan struct{}
}

func (s *gatedStaging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	select {
	case <-s.open:
		return s.Staging.Put(ctx, obj, src)
	case <-ctx.Done():
		return ctx.Err()
	}
}
