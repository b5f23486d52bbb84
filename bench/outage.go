package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
)

// outage measures what a staging out of reach costs: ingestion before it, ingestion while the backlog grows from three
// quarters of its size to all of it, and how fast it leaves the local level when the staging is back while rows keep
// arriving. It is a process of its own, because its memory is measured.
func outage(w workload) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		row, err := w.row()
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp(e.dir, "outage-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		r, err := inChild[outageReport](ctx, "outage", outageArgs{
			Dir: dir, Workload: w.name, Backlog: int64(e.size.backlog), Window: e.duration,
		})
		if err != nil {
			return nil, err
		}
		s := &sample{
			rows: r.Rows, bytes: r.Rows * int64(len(row)), total: r.Total, elapsed: r.Elapsed, cpu: r.CPU, written: -1,
			overloads: r.Overloads,
		}
		s.figures = map[string]float64{
			"normal_rows_per_s":    r.Normal,
			"backlogged_of_normal": s.rowsPerSecond() / r.Normal,
			"backlog_mb":           float64(r.Backlog) / 1e6,
			"arrival_mb_per_s":     r.Arrival / 1e6,
			"drain_mb_per_s":       r.Drain / 1e6,
			"drain_of_arrival":     r.Drain / r.Arrival,
		}
		if r.Peak > 0 {
			s.figures["peak_normal_mb"] = float64(r.PeakNormal) / 1e6
			s.figures["peak_backlogged_mb"] = float64(r.PeakBacklogged) / 1e6
			s.figures["peak_mb"] = float64(r.Peak) / 1e6
		}
		return s, nil
	}
}

type outageArgs struct {
	Dir, Workload string
	Backlog       int64
	Window        time.Duration
}

type outageReport struct {
	// Normal is rows per second before the outage.
	Normal float64
	// Rows, Elapsed and CPU are of the last quarter of the backlog; Total are all rows of the run.
	Rows, Total  int64
	Elapsed, CPU time.Duration
	Overloads    int64
	// Backlog is what waited when the staging came back. Drain and Arrival are bytes per second since then: what left
	// the local level and what came to it.
	Backlog        int64
	Drain, Arrival float64
	// The most resident memory until the end of each part.
	PeakNormal, PeakBacklogged, Peak int64
}

// arrivalShare is how much of the normal load goes on while the backlog drains: a service that used more of its machine
// than this would have no room to catch up.
const arrivalShare = 0.25

const outageCallers = 64

func outlast(ctx context.Context, a outageArgs, _ io.Writer) (r outageReport, err error) {
	w := workloadNamed(a.Workload)
	row, err := w.row()
	if err != nil {
		return r, err
	}
	staging := &outageStaging{Staging: dir.Staging(filepath.Join(a.Dir, "staging"))}
	eng, err := openAgain(ctx, a.Dir, forebay.Options{Staging: staging})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	load := startLoad(ctx, outageCallers, func(caller int, overloads *atomic.Int64) operation {
		// The calls get the outer context: an acknowledgement that is on its way counts when the load ends.
		return ingestion{workload: w, callers: outageCallers}.singles(ctx, eng, caller, overloads)
	})
	defer load.stop()

	wait(ctx, warmUpTime(a.Window), load.failed)
	begin, before := time.Now(), load.rows.Load()
	wait(ctx, a.Window, load.failed)
	r.Normal = float64(load.rows.Load()-before) / time.Since(begin).Seconds()
	_, r.PeakNormal = residentMemory()

	staging.down.Store(true)
	local := func() int64 { return eng.Stats().LocalBytes }
	base := local() // of the open slice
	if err := load.until(ctx, func() bool { return local() >= base+a.Backlog*3/4 }); err != nil {
		return r, err
	}
	begin, before = time.Now(), load.rows.Load()
	cpu := processCPU()
	if err := load.until(ctx, func() bool { return local() >= base+a.Backlog && load.rows.Load() > before }); err != nil {
		return r, err
	}
	r.Rows, r.Elapsed, r.CPU = load.rows.Load()-before, time.Since(begin), processCPU()-cpu
	_, r.PeakBacklogged = residentMemory()

	load.pace(r.Normal * arrivalShare)
	staging.down.Store(false)
	if err := eng.Retry(ctx, sourceID, sinkID); err != nil { // what an operator calls; else the backoff decides
		return r, err
	}
	begin, before = time.Now(), load.rows.Load()
	r.Backlog = local()
	end := r.Backlog
	if err := load.until(ctx, func() bool {
		end = local()
		return end <= r.Backlog/10 && load.rows.Load() > before
	}); err != nil {
		return r, err
	}
	passed := time.Since(begin).Seconds()
	arrived := float64(load.rows.Load()-before) * float64(len(row))
	r.Arrival = arrived / passed
	r.Drain = (float64(r.Backlog-end) + arrived) / passed
	if err := load.stop(); err != nil {
		return r, err
	}
	_, r.Peak = residentMemory()
	r.Total, r.Overloads = load.rows.Load(), load.overloads.Load()
	ctx, cancel := context.WithTimeout(ctx, longTimeout)
	defer cancel()
	if err := eng.FlushAll(ctx); err != nil {
		return r, err
	}
	report, err := eng.Verify(ctx)
	if err != nil {
		return r, err
	}
	return r, checkReport(report, r.Total, true)
}

// outageStaging refuses everything while it is down, as a host that cannot be reached.
type outageStaging struct {
	buffer.Staging
	down atomic.Bool
}

var errDown = errors.New("staging is down")

func (s *outageStaging) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	if s.down.Load() {
		return errDown
	}
	return s.Staging.Put(ctx, obj, src)
}

// A background is a load that goes on while other things are measured.
type background struct {
	rows, overloads atomic.Int64
	// failed is closed when a caller has met an error, or at the end.
	failed <-chan struct{}
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{}
	// gap is the distance of the calls of one caller in nanoseconds; 0 is as fast as they can.
	gap atomic.Int64
}

// startLoad starts callers that repeat what start returns for each of them.
func startLoad(ctx context.Context, callers int, start func(caller int, overloads *atomic.Int64) operation) *background {
	b := &background{ended: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.failed = b.ctx.Done()
	left := atomic.Int64{}
	left.Store(int64(callers))
	for caller := range callers {
		op := start(caller, &b.overloads)
		go func() {
			defer func() {
				if left.Add(-1) == 0 {
					close(b.ended)
				}
			}()
			next := time.Now()
			for b.ctx.Err() == nil {
				rows, err := op()
				if err != nil {
					b.cancel(err)
					return
				}
				b.rows.Add(int64(rows))
				gap := time.Duration(b.gap.Load())
				if gap == 0 {
					next = time.Now()
					continue
				}
				next = next.Add(gap)
				wait(b.ctx, time.Until(next), nil)
			}
		}()
	}
	return b
}

// pace limits the load to that many rows per second over all callers.
func (b *background) pace(rowsPerSecond float64) {
	b.gap.Store(int64(outageCallers / rowsPerSecond * float64(time.Second)))
}

// until returns when the condition holds.
func (b *background) until(ctx context.Context, holds func() bool) error {
	for !holds() {
		wait(ctx, 5*time.Millisecond, b.failed)
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
	}
	return nil
}

var errStopped = errors.New("stopped")

// stop returns when all callers have ended. It may be called again.
func (b *background) stop() error {
	b.cancel(errStopped)
	<-b.ended
	if err := context.Cause(b.ctx); !errors.Is(err, errStopped) {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}
