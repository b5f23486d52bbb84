package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// openSinks measures memory and CPU of many sinks of which each has rows that wait, while 100 rows a second arrive over
// all of them. It is a process of its own, and so are its limits: see quiet.
func openSinks(variant string) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		dir, err := os.MkdirTemp(e.dir, "sinks-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		args := sinksArgs{Dir: dir, Sinks: e.size.sinks, Window: e.duration}
		name := "sinks/" + variant
		switch variant {
		case "buffer/flow":
			name, args.Flow = "sinks/buffer", true
		case "buffer/nosync":
			name, args.NoSync = "sinks/buffer", true
		}
		r, err := inChild[sinksReport](ctx, name, args)
		if err != nil {
			return nil, err
		}
		s := &sample{rows: r.Rows, total: r.Total, elapsed: r.Elapsed, cpu: r.CPU, written: -1}
		cores := r.CPU.Seconds() / r.Elapsed.Seconds()
		s.figures = map[string]float64{"sinks": float64(r.Sinks), "cores": cores}
		if r.Resident > 0 {
			s.figures["resident_mb"] = float64(r.Resident) / 1e6
		}
		if r.Pace > 0 && r.Floor > 0 {
			s.figures["pace_cores"], s.figures["floor_cores"] = r.Pace, r.Floor
			s.figures["of_floor_cores"] = cores / r.Floor
		}
		return s, nil
	}
}

type sinksArgs struct {
	Dir    string
	Sinks  int
	Window time.Duration
	// Flow lets each row go on to its table at once. Otherwise they wait, as under conditions of hours.
	Flow bool
	// NoSync leaves the rows to the next commit; otherwise each is waited for.
	NoSync bool
}

type sinksReport struct {
	Sinks        int
	Rows, Total  int64
	Elapsed, CPU time.Duration
	// Resident is the most memory at any second of the window.
	Resident int64
	// Pace and Floor are the cores that the load took where each call did nothing, and where it wrote a row to a file and
	// synced it; 0 where they were not measured.
	Pace, Floor float64
}

// quietRate is the load over all sinks, in rows per second.
const quietRate = 100

// openSinksOfEngine has sources of 100 sinks each, as many as a service may have. One record is a row in each sink of
// its source.
func openSinksOfEngine(ctx context.Context, a sinksArgs, _ io.Writer) (r sinksReport, err error) {
	eng, err := forebay.Open(a.Dir, forebay.Options{Staging: closedStaging{}, Target: closedTarget{}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	perSource := min(a.Sinks, forebay.MaxSinks)
	var sources []string
	for ; r.Sinks < a.Sinks && len(sources) < forebay.MaxSources; r.Sinks += perSource {
		def := forebay.Source{
			ID: fmt.Sprintf("source-%d", len(sources)), Secret: secret,
			Settings: forebay.Settings{Upload: trigger.Upload().Max, Import: trigger.Import().Max},
		}
		for i := range perSource {
			id := fmt.Sprintf("sink-%d", i)
			def.Sinks = append(def.Sinks, forebay.Sink{
				ID: id, Table: forebay.Table{ID: "in.c-" + def.ID + "." + id, Columns: columns()},
			})
		}
		if err := eng.Define(ctx, def); err != nil {
			return r, err
		}
		sources = append(sources, def.ID)
	}
	record := workloads()[0].records(0, 1)[0]
	n := 0
	add := func() (int, error) {
		res, err := eng.Ingest(ctx, sources[n%len(sources)], again(record))
		n++
		return len(res.Sinks), err
	}
	if err := r.measure(ctx, a.Dir, 0, quiet{window: a.Window, calls: len(sources), rowsPerCall: perSource, add: add}); err != nil {
		return r, err
	}
	report, err := eng.Verify(ctx)
	if err != nil {
		return r, err
	}
	return r, checkAllStored(report, r.Sinks, r.Total)
}

// openSinksOfBuffer appends each row by itself, and waits for it.
func openSinksOfBuffer(ctx context.Context, a sinksArgs, _ io.Writer) (r sinksReport, err error) {
	opts := buffer.Options{Staging: closedStaging{}, Target: closedTarget{}}
	conditions := [2]trigger.Conditions{trigger.Upload().Max, trigger.Import().Max}
	target := &countingTarget{TableDir: dir.Tables(filepath.Join(a.Dir, "tables"))}
	if a.Flow {
		opts.Staging, opts.Target = dir.Staging(filepath.Join(a.Dir, "staging")), target
		conditions = [2]trigger.Conditions{trigger.Upload().Default, trigger.Import().Default}
		// Within the intervals of the defaults no row of a window of seconds would move.
		conditions[0].Count, conditions[1].Count = 1, 1
	}
	db, err := openBuffer(ctx, filepath.Join(a.Dir, "local"), opts, a.Sinks, buffer.Gzip, conditions)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	row, err := workloads()[0].row()
	if err != nil {
		return r, err
	}
	r.Sinks = a.Sinks
	n := 0
	add := func() (int, error) {
		ticket, err := db.Append(ctx, time.Now(), buffer.Rows{Sink: db.sinks[n%a.Sinks], Data: row, Count: 1})
		n++
		filled := n == a.Sinks // every sink has its row: they are on disk before the quiet load begins
		if err != nil || a.NoSync && !filled {
			return 1, err
		}
		return 1, ticket.Wait(ctx)
	}
	q := quiet{window: a.Window, calls: a.Sinks, rowsPerCall: 1, add: add}
	if a.Flow {
		q.drained, q.lead = func() bool { return target.rows.Load() == r.Total }, min(time.Second, a.Window)
	} else {
		q.alone = true
	}
	if err := r.measure(ctx, a.Dir, len(row), q); err != nil {
		return r, err
	}
	if a.Flow && target.rows.Load() <= int64(a.Sinks) {
		return r, errors.New("no row of the window reached a table in it")
	}
	report, err := db.Verify(ctx)
	if err != nil {
		return r, err
	}
	if a.Flow { // what moves while it is read is not in the count: the ledger alone has all
		for i, s := range report.Sinks {
			report.Sinks[i].Local = s.Accepted - s.Staging - s.Imported
		}
	}
	return r, checkAllStored(report, r.Sinks, r.Total)
}

// quiet is the quiet load: after as many calls as fill every sink once, 100 rows a second.
type quiet struct {
	window      time.Duration
	calls       int
	rowsPerCall int
	add         func() (rows int, err error)
	// drained, if set, reports whether all rows have left the buffer: the load begins then.
	drained func() bool
	// lead is how long the load lasts before it is measured.
	lead time.Duration
	// alone is set when nothing goes on after a call. Then the limits are measured as well, in turns with the rows and in
	// the same process: what it costs to sleep, to be woken and to sync changes threefold from one minute to the next.
	alone bool
}

// turn is how long rows and limits are measured in turns. The CPU of the rest after it counts as well: the last rows are
// committed then.
const (
	turn = 500 * time.Millisecond
	rest = 60 * time.Millisecond
)

// measure puts the load on.
func (r *sinksReport) measure(ctx context.Context, dir string, rowBytes int, q quiet) (err error) {
	one := func() error {
		rows, err := q.add()
		if err == nil && rows != q.rowsPerCall {
			err = fmt.Errorf("a call stored %d rows, want %d", rows, q.rowsPerCall)
		}
		r.Total += int64(rows)
		return err
	}
	for range q.calls {
		if err := one(); err != nil {
			return err
		}
	}
	for q.drained != nil && !q.drained() {
		if wait(ctx, 20*time.Millisecond, nil); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	// loads are the rows and, behind them, the limits: each with its calls, CPU and time.
	type cost struct{ cpu, elapsed time.Duration }
	loads, costs := []func() error{one}, make([]cost, 3)
	if q.alone {
		disk, e := openRing(nil, filepath.Join(dir, "floor"), 1<<20)
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, disk.close()) }()
		row := noise(rowBytes)
		loads = append(loads, func() error { return nil }, func() error { return disk.append(row) })
	}
	if err := paced(ctx, q.lead, q.rowsPerCall, one); err != nil {
		return err
	}
	length := min(max(turn, gapOf(q.rowsPerCall)), q.window)
	before := r.Total
	for costs[0].elapsed < q.window {
		for i, load := range loads {
			begin, cpu := time.Now(), processCPU()
			if err := paced(ctx, length, q.rowsPerCall, load); err != nil {
				return err
			}
			costs[i].elapsed += time.Since(begin)
			if q.alone {
				wait(ctx, rest, nil)
			}
			costs[i].cpu += processCPU() - cpu
			now, _ := residentMemory()
			r.Resident = max(r.Resident, now)
		}
	}
	r.Elapsed, r.CPU, r.Rows = costs[0].elapsed, costs[0].cpu, r.Total-before
	if q.alone {
		r.Pace = costs[1].cpu.Seconds() / costs[1].elapsed.Seconds()
		r.Floor = costs[2].cpu.Seconds() / costs[2].elapsed.Seconds()
	}
	return nil
}

// gapOf is the time between two calls.
func gapOf(rowsPerCall int) time.Duration {
	return time.Second * time.Duration(rowsPerCall) / quietRate
}

// paced makes calls at the pace of the quiet load.
func paced(ctx context.Context, length time.Duration, rowsPerCall int, call func() error) error {
	begin := time.Now()
	for next := begin; time.Since(begin) < length; {
		if err := call(); err != nil {
			return err
		}
		next = next.Add(gapOf(rowsPerCall))
		if wait(ctx, time.Until(next), nil); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func checkAllStored(report buffer.Report, sinks int, rows int64) error {
	found := int64(0)
	for _, s := range report.Sinks {
		found += s.Local + s.Staging + s.Imported
	}
	if !report.OK() || len(report.Sinks) != sinks || found != rows {
		return fmt.Errorf("%d rows of %d sinks are stored, %d of %d were acknowledged; the ledger holds: %v",
			found, len(report.Sinks), rows, sinks, report.OK())
	}
	return nil
}

// closedTarget takes every definition and no rows.
type closedTarget struct{}

func (closedTarget) Ensure(context.Context, buffer.Table) error { return nil }

func (closedTarget) Import(ctx context.Context, _ *buffer.File) error {
	<-ctx.Done()
	return ctx.Err()
}

// countingTarget counts the rows that have reached the tables.
type countingTarget struct {
	*dir.TableDir
	rows atomic.Int64
}

func (c *countingTarget) Import(ctx context.Context, f *buffer.File) error {
	err := c.TableDir.Import(ctx, f)
	if err == nil {
		c.rows.Add(f.Rows)
	}
	return err
}

// sinkBuffer is a buffer with many sinks.
type sinkBuffer struct {
	*buffer.Buffer
	sinks []*buffer.SinkHandle
}

// openBuffer defines the sinks side by side, so that many share one sync.
func openBuffer(ctx context.Context, path string, opts buffer.Options, sinks int, encoding buffer.Encoding, conditions [2]trigger.Conditions) (*sinkBuffer, error) {
	opened, err := buffer.Open(path, opts)
	if err != nil {
		return nil, err
	}
	db := &sinkBuffer{Buffer: opened, sinks: make([]*buffer.SinkHandle, sinks)}
	mapper, err := mapping.Compile(columns(), mapping.Options{})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	names := mapper.ColumnNames()
	const lanes = 64
	var defining sync.WaitGroup
	failures := make([]error, lanes)
	for lane := range lanes {
		defining.Go(func() {
			for i := lane; i < sinks; i += lanes {
				id := fmt.Sprintf("sink-%05d", i)
				var err error
				db.sinks[i], err = db.Define(ctx, buffer.SinkConfig{
					ID: id, Table: buffer.Table{ID: "in.c-web." + id, Columns: names}, Encoding: encoding,
					Upload: conditions[0], Import: conditions[1],
				})
				failures[lane] = errors.Join(failures[lane], err)
			}
		})
	}
	defining.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return db, nil
}

// spreadOver ingests from 1024 callers into a number of sinks, each row into the next one, mapping included. It uses the
// buffer itself: the record of an engine goes to all sinks of its source, which would be another load.
func spreadOver(w workload, sinks int) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		path, err := os.MkdirTemp(e.dir, "spread-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
		db, err := openBuffer(ctx, path, buffer.Options{Staging: closedStaging{}, Target: closedTarget{}},
			sinks, buffer.Gzip, [2]trigger.Conditions{trigger.Upload().Max, trigger.Import().Max})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		mapper, err := mapping.Compile(columns(), mapping.Options{})
		if err != nil {
			return nil, err
		}
		row, err := w.row()
		if err != nil {
			return nil, err
		}
		const callers = 1024
		s, err := measure(ctx, e, load{
			callers: callers, rowBytes: len(row), every: 1,
			start: func(caller int) (operation, error) {
				records := w.records(caller, 4)
				n := caller
				var data []byte
				return func() (int, error) {
					record := again(records[n%len(records)])
					record.Received = time.Now()
					var err error
					if data, err = mapper.AppendRow(data[:0], record); err != nil {
						return 0, err
					}
					ticket, err := db.Append(ctx, record.Received, buffer.Rows{Sink: db.sinks[n%sinks], Data: data, Count: 1})
					n += callers + 1 // callers go through the sinks one behind the other
					if err != nil {
						return 0, err
					}
					return 1, ticket.Wait(ctx)
				}, nil
			},
		})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
		defer cancel()
		report, err := db.Verify(ctx)
		if err != nil {
			return nil, err
		}
		return s, checkAllStored(report, sinks, s.total)
	}
}
