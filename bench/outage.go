package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
)

// arrivalShare is the part of the normal load that continues while the backlog drains. A service that used more of its machine
// than this would have no room to catch up.
const arrivalShare = 0.25

const outageCallers = 64

// seldom is the distance of looks at the backlog.
const seldom = 50 * time.Millisecond

// outage measures the cost of an unreachable staging: ingestion before the outage, ingestion while the backlog grows from three
// quarters of its size to all of it, and how fast it leaves the local level when the staging is back while rows keep
// arriving.
func outage(w workload) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		staging := &outageStaging{Staging: dir.Staging(filepath.Join(e.dir, "staging"))}
		s := backlogged(staging)
		s.flow = true
		return s.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) { return outlast(ctx, e, w, eng, staging) })
	}
}

func outlast(ctx context.Context, e *env, w workload, eng *forebay.Engine, staging *outageStaging) (*sample, error) {
	row := w.row()
	load := startLoad(ctx, outageCallers, func(caller int, overloads *atomic.Int64) operation {
		// The calls get the outer context, because an acknowledgement that is on its way counts when the load ends.
		return ingestion{workload: w, callers: outageCallers}.singles(ctx, eng, caller, overloads)
	})
	defer load.stop()

	wait(load.ctx, warmUpTime(e.duration), nil)
	begin, before := time.Now(), load.rows.Load()
	wait(load.ctx, e.duration, nil)
	normal := float64(load.rows.Load()-before) / time.Since(begin).Seconds()
	_, peakNormal := residentMemory()

	staging.down.Store(true)
	local := func() int64 { return eng.Stats().LocalBytes }
	base, backlog := local(), int64(e.size.Backlog) // base is of the open slice
	if err := until(load.ctx, seldom, func() bool { return local() >= base+backlog*3/4 }); err != nil {
		return nil, err
	}
	use, before := readUsage(e), load.rows.Load()
	if err := until(load.ctx, seldom, func() bool { return local() >= base+backlog && load.rows.Load() > before }); err != nil {
		return nil, err
	}
	s := readUsage(e).since(use)
	s.Rows = load.rows.Load() - before
	s.Bytes = s.Rows * int64(len(row))
	_, peakBacklogged := residentMemory()

	load.pace(normal * arrivalShare)
	staging.down.Store(false)
	if err := eng.Sink(sourceID, sinkID).Retry(ctx); err != nil { // what an operator calls, else the backoff decides
		return nil, err
	}
	begin, before = time.Now(), load.rows.Load()
	full := local()
	end := full
	if err := until(load.ctx, seldom, func() bool {
		end = local()
		return end <= full/10 && load.rows.Load() > before
	}); err != nil {
		return nil, err
	}
	passed := time.Since(begin).Seconds()
	arrived := float64(load.rows.Load()-before) * float64(len(row))
	drained := float64(full-end) + arrived
	if err := load.stop(); err != nil {
		return nil, err
	}
	s.Total, s.Overloads = load.rows.Load(), load.overloads.Load()
	s.Figures = map[string]float64{
		"normal_rows_per_s":    normal,
		"backlogged_of_normal": s.rowsPerSecond() / normal,
		"backlog_mb":           float64(full) / 1e6,
		"arrival_mb_per_s":     arrived / passed / 1e6,
		"drain_mb_per_s":       drained / passed / 1e6,
		"drain_of_arrival":     drained / arrived,
	}
	if _, peak := residentMemory(); peak > 0 {
		s.Figures["peak_normal_mb"] = float64(peakNormal) / 1e6
		s.Figures["peak_backlogged_mb"] = float64(peakBacklogged) / 1e6
		s.Figures["peak_mb"] = float64(peak) / 1e6
	}
	return s, nil
}

// outageStaging refuses everything while it is down, as a host that cannot be reached.
type outageStaging struct {
	driver.Staging
	down atomic.Bool
}

var errDown = errors.New("staging is down")

func (s *outageStaging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if s.down.Load() {
		return errDown
	}
	return s.Staging.Put(ctx, obj, src)
}

// A background is a load that continues while other things are measured.
type background struct {
	rows, overloads atomic.Int64
	// ctx ends when a caller has met an error, or at the end.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	callers sync.WaitGroup
	// gap is the distance of the calls of one caller in nanoseconds; 0 is as fast as they can.
	gap atomic.Int64
}

// startLoad starts callers that repeat the operation that start returns for each of them.
func startLoad(ctx context.Context, callers int, start func(caller int, overloads *atomic.Int64) operation) *background {
	b := new(background)
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	for caller := range callers {
		op := start(caller, &b.overloads)
		b.callers.Go(func() {
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
		})
	}
	return b
}

// pace limits the load to that many rows per second over all callers.
func (b *background) pace(rowsPerSecond float64) {
	b.gap.Store(int64(outageCallers / rowsPerSecond * float64(time.Second)))
}

var errStopped = errors.New("stopped")

// stop returns when all callers have ended. It may be called again.
func (b *background) stop() error {
	b.cancel(errStopped)
	b.callers.Wait()
	if err := context.Cause(b.ctx); !errors.Is(err, errStopped) {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}
