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
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// quietRate is the load over all sinks, in rows per second.
const quietRate = 100

// onStorage measures, and fails unless all rows of the sample are stored in that many sinks. It closes db.
func onStorage(ctx context.Context, db storage, sinks int, measure func() (*sample, error)) (_ *sample, err error) {
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := measure()
	if err != nil {
		return nil, err
	}
	_, err = countStored(ctx, db, sinks, span{s.Total, s.Total})
	return s, err
}

// onSources measures on an engine with sources of as many sinks each, whose rows wait.
func onSources(ctx context.Context, e *env, sources, sinks int, measure func(eng *forebay.Engine, ids []string) (*sample, error)) (*sample, error) {
	eng, err := forebay.Open(e.dir, forebay.Options{Staging: closedStaging{}, Target: closedTarget{}})
	if err != nil {
		return nil, err
	}
	ids := make([]string, sources)
	for n := range ids {
		ids[n] = fmt.Sprintf("source-%d", n)
		def := forebay.Source{ID: ids[n], Settings: forebay.Settings{Upload: trigger.Upload().Max, Import: trigger.Import().Max}}
		for i := range sinks {
			id := fmt.Sprintf("sink-%d", i)
			def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: "in.c-" + def.ID + "." + id, Columns: columns()}})
		}
		if err := eng.Define(ctx, def); err != nil {
			return nil, errors.Join(err, eng.Close())
		}
	}
	return onStorage(ctx, eng, sources*sinks, func() (*sample, error) { return measure(eng, ids) })
}

// openSinksOfEngine measures memory and CPU of many sinks, each with rows that wait, while 100 rows a second arrive
// over all of them. Sources have 100 sinks each, as many as a service may have. One record is a row in each sink of its
// source.
func openSinksOfEngine(ctx context.Context, e *env) (*sample, error) {
	perSource := min(e.size.Sinks, forebay.MaxSinks)
	sources := min((e.size.Sinks+perSource-1)/perSource, forebay.DefaultMaxSources)
	return onSources(ctx, e, sources, perSource, func(eng *forebay.Engine, ids []string) (*sample, error) {
		record := workloads()[0].records(0, 1)[0]
		n := 0
		add := func() (int, error) {
			res, err := eng.Ingest(ctx, ids[n%sources], again(record))
			n++
			return len(res.Sinks), err
		}
		return quiet{calls: sources, rowsPerCall: perSource, add: add}.measure(ctx, e, sources*perSource)
	})
}

// sourcesTimesSinks ingests from 1024 callers into sources with as many sinks each. A record is a row in each sink of its
// source. It shows how much callers of different sources share.
func sourcesTimesSinks(w workload, sources, sinks int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		row := w.row()
		return onSources(ctx, e, sources, sinks, func(eng *forebay.Engine, ids []string) (*sample, error) {
			return measure(ctx, e, load{
				callers: manyCallers, rowBytes: len(row), every: 1,
				start: func(caller int) operation {
					records := w.records(caller, 4)
					n := caller
					return func() (int, error) {
						n++
						res, err := eng.Ingest(ctx, ids[n%sources], again(records[n%len(records)]))
						return len(res.Sinks), err
					}
				},
			})
		})
	}
}

// openSinksOfBuffer appends each row separately and waits for it, except with noWait. With flow each row continues to its
// table at once. Otherwise it waits, as under conditions of hours.
func openSinksOfBuffer(flow, noWait bool) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		opts := buffer.Options{Staging: closedStaging{}, Target: closedTarget{}}
		conditions := [2]trigger.Conditions{trigger.Upload().Max, trigger.Import().Max}
		target := &countingTarget{TableDir: dir.Tables(filepath.Join(e.dir, "tables"))}
		if flow {
			opts.Staging, opts.Target = dir.Staging(filepath.Join(e.dir, "staging")), target
			conditions = [2]trigger.Conditions{trigger.Upload().Default, trigger.Import().Default}
			// Within the intervals of the defaults no row of a window of seconds would move.
			conditions[0].Count, conditions[1].Count = 1, 1
		}
		sinks := e.size.Sinks
		db, err := openBuffer(ctx, filepath.Join(e.dir, "local"), opts, sinks, conditions)
		if err != nil {
			return nil, err
		}
		row := workloads()[0].row()
		n := 0
		add := func() (int, error) {
			ticket, err := db.Append(ctx, time.Now(), buffer.Rows{Sink: db.sinks[n%sinks], Data: row, Count: 1})
			n++
			filled := n == sinks // every sink has its row, and they are on disk before the quiet load begins
			if err != nil || noWait && !filled {
				return 1, err
			}
			return 1, ticket.Wait(ctx)
		}
		q := quiet{calls: sinks, rowsPerCall: 1, rowBytes: len(row), add: add, alone: !flow}
		if flow {
			q.drained, q.lead = func() bool { return target.rows.Load() == int64(n) }, min(time.Second, e.duration)
		}
		db.moving = flow
		return onStorage(ctx, db, sinks, func() (*sample, error) {
			s, err := q.measure(ctx, e, sinks)
			if err == nil && flow && target.rows.Load() <= int64(sinks) {
				err = errors.New("no row of the window reached a table in it")
			}
			return s, err
		})
	}
}

// quiet is the quiet load, 100 rows a second after as many calls as fill every sink once.
type quiet struct {
	calls                 int
	rowsPerCall, rowBytes int
	add                   func() (rows int, err error)
	// drained, if set, reports whether all rows have left the buffer. The load begins then.
	drained func() bool
	// lead is how long the load lasts before it is measured.
	lead time.Duration
	// alone is set when no work continues after a call. Then the limits are measured too, in turns with the rows and in
	// the same process because the cost of sleeping, waking and syncing varies threefold from one minute to the next.
	alone bool
}

// turn is how long rows and limits are measured in turns. The CPU of the rest after it counts as well, because the last rows are
// committed then.
const (
	turn = 500 * time.Millisecond
	rest = 60 * time.Millisecond
)

// measure puts the load on.
func (q quiet) measure(ctx context.Context, e *env, sinks int) (_ *sample, err error) {
	s := &sample{Written: -1}
	one := func() error {
		rows, err := q.add()
		if err == nil && rows != q.rowsPerCall {
			err = fmt.Errorf("a call stored %d rows, want %d", rows, q.rowsPerCall)
		}
		s.Total += int64(rows)
		return err
	}
	for range q.calls {
		if err := one(); err != nil {
			return nil, err
		}
	}
	if q.drained != nil {
		if err := until(ctx, 20*time.Millisecond, q.drained); err != nil {
			return nil, err
		}
	}
	// loads are the rows and then the limits, each with its CPU and time.
	type cost struct{ cpu, elapsed time.Duration }
	loads, costs := []func() error{one}, make([]cost, 3)
	if q.alone {
		var disk ring
		defer func() { err = errors.Join(err, disk.close()) }()
		if err := disk.open(nil, filepath.Join(e.dir, "floor"), 1<<20); err != nil {
			return nil, err
		}
		row := noise(q.rowBytes)
		loads = append(loads, func() error { return nil }, func() error { return disk.append(row) })
	}
	if err := paced(ctx, q.lead, q.rowsPerCall, one); err != nil {
		return nil, err
	}
	length := min(max(turn, gapOf(q.rowsPerCall)), e.duration)
	before, resident := s.Total, int64(0)
	for costs[0].elapsed < e.duration {
		for i, load := range loads {
			begin, cpu := time.Now(), processCPU()
			if err := paced(ctx, length, q.rowsPerCall, load); err != nil {
				return nil, err
			}
			costs[i].elapsed += time.Since(begin)
			if q.alone {
				wait(ctx, rest, nil)
			}
			costs[i].cpu += processCPU() - cpu
			now, _ := residentMemory()
			resident = max(resident, now)
		}
	}
	s.Elapsed, s.CPU, s.Rows = costs[0].elapsed, costs[0].cpu, s.Total-before
	cores := func(c cost) float64 { return c.cpu.Seconds() / c.elapsed.Seconds() }
	s.Figures = map[string]float64{"sinks": float64(sinks), "cores": cores(costs[0])}
	if resident > 0 {
		s.Figures["resident_mb"] = float64(resident) / 1e6
	}
	if pace, floor := cores(costs[1]), cores(costs[2]); q.alone && pace > 0 && floor > 0 {
		s.Figures["pace_cores"], s.Figures["floor_cores"] = pace, floor
		s.Figures["of_floor_cores"] = cores(costs[0]) / floor
	}
	return s, nil
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

// countingTarget counts the rows that have reached the tables.
type countingTarget struct {
	*dir.TableDir
	rows atomic.Int64
}

func (c *countingTarget) Import(ctx context.Context, f *driver.File) error {
	err := c.TableDir.Import(ctx, f)
	if err == nil {
		c.rows.Add(f.Rows)
	}
	return err
}

type sinkBuffer struct {
	*buffer.Buffer
	sinks []*buffer.DefinedSink
	// moving is set when rows move while they are counted.
	moving bool
}

// Verify takes the local rows from the ledger when rows move, because rows that move during the read are not in the count.
func (b *sinkBuffer) Verify(ctx context.Context) (buffer.Report, error) {
	report, err := b.Buffer.Verify(ctx)
	for i, s := range report.Sinks {
		if b.moving {
			report.Sinks[i].Local = s.Accepted - s.Staging - s.Imported
		}
	}
	return report, err
}

// openBuffer defines the sinks side by side, so that many share one sync.
func openBuffer(ctx context.Context, path string, opts buffer.Options, sinks int, conditions [2]trigger.Conditions) (*sinkBuffer, error) {
	opened, err := buffer.Open(path, opts)
	if err != nil {
		return nil, err
	}
	db := &sinkBuffer{Buffer: opened, sinks: make([]*buffer.DefinedSink, sinks)}
	names := must(mapping.Compile(columns(), mapping.Options{})).Columns()
	const lanes = 64
	var defining sync.WaitGroup
	failures := make([]error, lanes)
	for lane := range lanes {
		defining.Go(func() {
			for i := lane; i < sinks; i += lanes {
				id := fmt.Sprintf("sink-%05d", i)
				var err error
				db.sinks[i], err = db.Define(ctx, buffer.SinkConfig{
					ID: id, Table: driver.Table{ID: "in.c-web." + id, Columns: names}, Encoding: driver.Gzip,
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
// buffer itself, because the record of an engine goes to all sinks of its source, which would be another load.
func spreadOver(w workload, sinks int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		db, err := openBuffer(ctx, e.dir, buffer.Options{Staging: closedStaging{}, Target: closedTarget{}},
			sinks, [2]trigger.Conditions{trigger.Upload().Max, trigger.Import().Max})
		if err != nil {
			return nil, err
		}
		mapper := must(mapping.Compile(columns(), mapping.Options{}))
		l := load{
			callers: manyCallers, rowBytes: len(w.row()), every: 1,
			start: func(caller int) operation {
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
					n += manyCallers + 1 // callers use the sinks in turn
					if err != nil {
						return 0, err
					}
					return 1, ticket.Wait(ctx)
				}
			},
		}
		return onStorage(ctx, db, sinks, func() (*sample, error) { return measure(ctx, e, l) })
	}
}
