package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// An ingestion is a variant of in-process ingestion.
type ingestion struct {
	workload workload
	// callers wait for each other's syncs, and batch is the number of records of one call.
	callers, batch int
	// submit is the number of records that a caller submits one by one before it waits for them.
	submit   int
	settings forebay.Settings
	// flow lets rows continue through staging to the table while more arrive. Otherwise they stay in the local level.
	flow bool
}

func (i ingestion) run(ctx context.Context, e *env) (*sample, error) {
	return setup{source: forebay.Source{Settings: i.settings}, flow: i.flow}.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
		return i.measure(ctx, e, eng)
	})
}

func (i ingestion) measure(ctx context.Context, e *env, eng *forebay.Engine) (*sample, error) {
	row := i.workload.row()
	every := 1
	if i.settings.Sync == forebay.SyncUnsafe {
		every = 16
	}
	var overloads atomic.Int64
	s, err := measure(ctx, e, load{
		callers: i.callers, rowBytes: len(row), every: every,
		start: func(caller int) operation {
			switch {
			case i.batch > 1:
				return i.batches(ctx, eng, caller, &overloads)
			case i.submit > 1:
				return i.submissions(ctx, eng, caller, &overloads)
			}
			return i.singles(ctx, eng, caller, &overloads)
		},
	})
	if err != nil {
		return nil, err
	}
	s.Overloads = overloads.Load()
	return s, nil
}

func (i ingestion) singles(ctx context.Context, eng *forebay.Engine, caller int, overloads *atomic.Int64) operation {
	return single(ctx, eng, i.workload.records(caller, max(4, 4096/i.callers)), overloads)
}

// single ingests records one by one.
func single(ctx context.Context, eng *forebay.Engine, records []*mapping.Record, overloads *atomic.Int64) operation {
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

// kept returns 1 for a record that the sink, and the archive if there is one, have taken.
func kept(res forebay.Result) (int, error) {
	if n := len(res.Sinks); n != 1 && (n != 2 || res.Sinks[0].Sink != forebay.ArchiveSink && res.Sinks[1].Sink != forebay.ArchiveSink) {
		return 0, fmt.Errorf("%d sinks took the record, want 1", n)
	}
	for i := range res.Sinks {
		if s := res.Sinks[i].Status; s != forebay.Stored && s != forebay.Queued {
			return 0, fmt.Errorf("the record was %v", s)
		}
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
