package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// reopen measures how soon an engine is ready after its process was killed with a backlog in the local level, and the
// memory it takes, for a tenth of the backlog and for all of it. Filling and opening
// are separate processes. The first is killed while it ingests.
func reopen(w workload) scenarioFunc {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		row := w.row()
		var opened [2]openReport
		var stored span
		args := backlogArgs{Dir: e.dir, Workload: w.name}
		for i, until := range []int64{int64(e.size.Backlog) / 10, int64(e.size.Backlog)} {
			n, err := fillAndKill(ctx, args, until/int64(len(row))-stored.least)
			if err != nil {
				return nil, err
			}
			dropCache(e.dir)
			if opened[i], err = inChild[openReport](ctx, "backlog/open", args); err != nil {
				return nil, err
			}
			stored.least += n.least + 1 // the row that showed it ready
			stored.most += n.most + 1
		}
		found, err := countBacklog(ctx, e, stored)
		if err != nil {
			return nil, err
		}
		tenth, full := opened[0], opened[1]
		s := &sample{Rows: found, Bytes: found * int64(len(row)), Total: found, Elapsed: full.Ready, CPU: full.CPU, Written: -1}
		s.Figures = map[string]float64{
			"ready_s": full.Ready.Seconds(), "ready_tenth_s": tenth.Ready.Seconds(),
			"backlog_mb": float64(full.Local) / 1e6,
		}
		if full.Peak > 0 {
			s.Figures["peak_mb"], s.Figures["peak_tenth_mb"] = float64(full.Peak)/1e6, float64(tenth.Peak)/1e6
		}
		return s, nil
	}
}

// backlogArgs are the arguments of the jobs backlog/fill and backlog/open.
type backlogArgs struct{ Dir, Workload string }

// open opens the engine of a backlog, in a folder that may have been used. Its sink compresses nothing, so a backlog of
// some bytes is as many bytes of rows.
func (a backlogArgs) open(ctx context.Context) (*forebay.Engine, error) {
	return backlogged(closedStaging{}).open(ctx, &env{dir: a.Dir})
}

// roomForAll is more than any scenario stores.
const roomForAll = 1 << 50

func backlogged(staging driver.Staging) setup {
	return setup{
		options: forebay.Options{Staging: staging, Buffer: buffer.Tuning{MaxDiskBytes: roomForAll}},
		source:  forebay.Source{Settings: forebay.Settings{Compression: forebay.CompressionNone}},
	}
}

const (
	fillCallers = 16
	fillBatch   = 100
)

// fillAndKill starts a process that ingests until it is killed, which is when it has acknowledged that many rows.
func fillAndKill(ctx context.Context, args backlogArgs, rows int64) (span, error) {
	c, err := startChild(ctx, "backlog/fill", args)
	if err != nil {
		return span{}, err
	}
	var acknowledged int64
	read := func(line string) {
		if n := int64(0); strings.HasPrefix(line, "acknowledged ") {
			if _, err := fmt.Sscanf(line, "acknowledged %d", &n); err == nil { // the last line may be cut off
				acknowledged = max(acknowledged, n)
			}
		}
	}
	for acknowledged < rows && c.lines.Scan() {
		read(c.lines.Text())
	}
	if acknowledged < rows {
		var nothing struct{}
		return span{}, errors.Join(fmt.Errorf("it ended after %d of %d rows", acknowledged, rows), c.wait(&nothing, read))
	}
	if err := c.kill(read); err != nil {
		return span{}, err
	}
	// Each caller may have one response that it has not reported yet, and one call in progress.
	return span{acknowledged, acknowledged + 2*fillCallers*fillBatch}, nil
}

// fillBacklog ingests and says how many rows were acknowledged, until the process is killed.
func fillBacklog(ctx context.Context, a backlogArgs, lines io.Writer) (struct{}, error) {
	eng, err := a.open(ctx)
	if err != nil {
		return struct{}{}, err
	}
	var mu sync.Mutex
	var acknowledged int64
	load := startLoad(ctx, fillCallers, func(caller int, overloads *atomic.Int64) operation {
		op := ingestion{workload: workloadNamed(a.Workload), callers: fillCallers, batch: fillBatch}.batches(ctx, eng, caller, overloads)
		return func() (int, error) {
			rows, err := op()
			mu.Lock()
			defer mu.Unlock()
			acknowledged += int64(rows)
			_, writing := fmt.Fprintf(lines, "acknowledged %d\n", acknowledged)
			return rows, cmp.Or(err, writing)
		}
	})
	<-load.ctx.Done()
	return struct{}{}, load.stop()
}

// openReport says how an engine was opened.
type openReport struct {
	// Ready is the time from the call of Open to the acknowledgement of the first row, CPU the time of all cores in it.
	Ready, CPU time.Duration
	// Peak is the most memory that was resident, until two seconds later.
	Peak int64
	// Local is the stored bytes that were found.
	Local int64
}

func openBacklog(ctx context.Context, a backlogArgs, _ io.Writer) (r openReport, err error) {
	body := workloadNamed(a.Workload).records(0, 1)[0]
	begin, cpu := time.Now(), processCPU()
	eng, err := a.open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if _, err := eng.Ingest(ctx, sourceID, body); err != nil {
		return r, err
	}
	r.Ready, r.CPU = time.Since(begin), processCPU()-cpu
	// What was read back from the log is written to tables now.
	wait(ctx, 2*time.Second, nil)
	_, r.Peak = residentMemory()
	r.Local = eng.Stats().LocalBytes
	return r, nil
}

// countBacklog fails unless the rows that are stored lie within the span. It reads all of them.
func countBacklog(ctx context.Context, e *env, want span) (int64, error) {
	eng, err := backlogged(closedStaging{}).open(ctx, e)
	if err != nil {
		return 0, err
	}
	report, err := countStored(ctx, eng, 1, want)
	return stored(report), errors.Join(err, eng.Close())
}

// workloadNamed returns a workload by its name. The caller knows that it exists.
func workloadNamed(name string) workload {
	all := workloads()
	return all[slices.IndexFunc(all, func(w workload) bool { return w.name == name })]
}
