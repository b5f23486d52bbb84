package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/trigger"
)

// An ingestion is a variant of in-process ingestion.
type ingestion struct {
	workload workload
	// callers wait for each other's syncs; batch is the number of records of one call.
	callers, batch int
	// submit is the number of records that a caller submits one by one before it waits for them.
	submit   int
	settings forebay.Settings
	// flow lets rows go on through staging to the table while they come in; otherwise they stay in the local level.
	flow bool
}

const (
	sourceID = "web"
	sinkID   = "events"
)

func (i ingestion) run(ctx context.Context, e *env) (_ *sample, err error) {
	row, err := i.workload.row()
	if err != nil {
		return nil, err
	}
	db, err := openEngine(ctx, e, i.settings, i.flow)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()

	every := 1
	if i.settings.Sync == forebay.SyncUnsafe {
		every = 16
	}
	var overloads atomic.Int64
	s, err := measure(ctx, e, load{
		callers: i.callers, rowBytes: len(row), every: every,
		start: func(caller int) (operation, error) {
			switch {
			case i.batch > 1:
				return i.batches(ctx, db.eng, caller, &overloads), nil
			case i.submit > 1:
				return i.submissions(ctx, db.eng, caller, &overloads), nil
			}
			return i.singles(ctx, db.eng, caller, &overloads), nil
		},
	})
	if err != nil {
		return nil, err
	}
	s.overloads = overloads.Load()
	return s, db.verify(ctx, s.total)
}

func (i ingestion) singles(ctx context.Context, eng *forebay.Engine, caller int, overloads *atomic.Int64) operation {
	records := i.workload.records(caller, max(4, 4096/i.callers))
	n := 0
	return func() (int, error) {
		n++
		res, err := eng.Ingest(ctx, sourceID, again(records[n%len(records)]))
		if err != nil {
			return 0, backOff(err, overloads)
		}
		return kept(res)
	}
}

func (i ingestion) batches(ctx context.Context, eng *forebay.Engine, caller int, overloads *atomic.Int64) operation {
	records := i.workload.records(caller, i.batch)
	return func() (int, error) {
		for _, r := range records {
			again(r)
		}
		results, err := eng.IngestBatch(ctx, sourceID, records)
		if err != nil {
			// Memory and disk are checked before anything of a batch is taken, so nothing of it is stored.
			return 0, backOff(err, overloads)
		}
		if len(results) != len(records) {
			return 0, fmt.Errorf("%d results for %d records", len(results), len(records))
		}
		for _, res := range results {
			if _, err := kept(res); err != nil {
				return 0, err
			}
		}
		return len(results), nil
	}
}

func (i ingestion) submissions(ctx context.Context, eng *forebay.Engine, caller int, overloads *atomic.Int64) operation {
	records := i.workload.records(caller, i.submit)
	pending := make([]forebay.Pending, len(records))
	return func() (rows int, err error) {
		for n, r := range records {
			if pending[n], err = eng.Submit(ctx, sourceID, again(r)); err != nil {
				return 0, err
			}
		}
		for _, p := range pending {
			res, err := p.Wait(ctx)
			if err != nil {
				if err := backOff(err, overloads); err != nil {
					return rows, err
				}
				continue
			}
			n, err := kept(res)
			if err != nil {
				return rows, err
			}
			rows += n
		}
		return rows, nil
	}
}

// kept returns 1 for a record that the sink has taken.
func kept(res forebay.Result) (int, error) {
	if len(res.Sinks) != 1 {
		return 0, fmt.Errorf("%d sinks took the record, want 1", len(res.Sinks))
	}
	if s := res.Sinks[0].Status; s != forebay.Stored && s != forebay.Queued {
		return 0, fmt.Errorf("the record was %v", s)
	}
	return 1, nil
}

// backOff waits after a refusal for lack of room, as a client does, and counts it. Other errors are returned.
func backOff(err error, overloads *atomic.Int64) error {
	var overload *buffer.OverloadError
	if !errors.As(err, &overload) {
		return err
	}
	overloads.Add(1)
	time.Sleep(min(overload.RetryAfter, 10*time.Millisecond))
	return nil
}

// An instance is an engine with one source and one sink in a folder of its own.
type instance struct {
	dir  string
	eng  *forebay.Engine
	flow bool
}

// openEngine opens an engine. Without flow its staging takes nothing, so that every row stays in the local level.
func openEngine(ctx context.Context, e *env, settings forebay.Settings, flow bool) (*instance, error) {
	return openSplitting(ctx, e, settings, flow, forebay.SplitNone)
}

// openSplitting is openEngine with a source whose handler takes bodies apart.
func openSplitting(ctx context.Context, e *env, settings forebay.Settings, flow bool, split forebay.Split) (*instance, error) {
	dir, err := os.MkdirTemp(e.dir, "engine-")
	if err != nil {
		return nil, err
	}
	opts := forebay.Options{Buffer: buffer.Options{}.OnDisk(localdisk.Of(e.volume.fs()))}
	if !flow {
		opts.Staging = closedStaging{}
		settings.Upload = trigger.Upload().Max
	}
	eng, err := forebay.Open(dir, opts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	i := &instance{dir: dir, eng: eng, flow: flow}
	err = eng.Define(ctx, forebay.Source{
		ID: sourceID, Secret: secret, Split: split, Settings: settings,
		Sinks: []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: columns()}}},
	})
	if err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

// verifyTimeout ends the check of one measurement. The flush then says what holds up the rows.
const verifyTimeout = 2 * time.Minute

// verify fails unless the engine holds exactly the acknowledged rows, by reading what is stored. With flow they must
// be in the table.
func (i *instance) verify(ctx context.Context, acknowledged int64) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	if i.flow {
		if err := i.eng.FlushAll(ctx); err != nil {
			return err
		}
	}
	report, err := i.eng.Verify(ctx)
	if err != nil {
		return err
	}
	return checkReport(report, acknowledged, i.flow)
}

func checkReport(report buffer.Report, acknowledged int64, imported bool) error {
	if len(report.Sinks) != 1 {
		return fmt.Errorf("%d sinks were verified, want 1", len(report.Sinks))
	}
	s := report.Sinks[0]
	if !report.OK() {
		return fmt.Errorf("the ledger does not hold: %q", s.Differences)
	}
	if found := s.Local + s.Staging + s.Imported; found != acknowledged {
		return fmt.Errorf("%d rows are stored (local %d, staging %d, table %d), %d were acknowledged",
			found, s.Local, s.Staging, s.Imported, acknowledged)
	}
	if imported && s.Imported != acknowledged {
		return fmt.Errorf("%d rows are in the table after the flush, %d were acknowledged", s.Imported, acknowledged)
	}
	return nil
}

func (i *instance) close() error {
	return errors.Join(i.eng.Close(), os.RemoveAll(i.dir))
}

// closedStaging accepts nothing until the engine gives up. Rows wait in the local level meanwhile, as they do when a
// staging is out of reach.
type closedStaging struct{ buffer.Staging }

func (closedStaging) Put(ctx context.Context, _ buffer.Object, _ buffer.Content) error {
	<-ctx.Done()
	return ctx.Err()
}
