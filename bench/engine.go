package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/trigger"
)

const (
	sourceID = "web"
	sinkID   = "events"
	// secret is the last part of the path of the benchmark's source.
	secret = "0123456789abcdef0123456789abcdef0123456789abcdef"
)

// A setup says what kind of engine a scenario needs.
type setup struct {
	options forebay.Options
	// source gets an id, a secret and, unless it has sinks, one sink for webhook events.
	source forebay.Source
	// flow lets rows continue through staging to the table while more arrive. Otherwise the staging accepts nothing, unless the
	// options set one, and every row stays in the local level.
	flow bool
}

// open opens an engine below the folder of the environment, or opens it again.
func (s setup) open(ctx context.Context, e *env) (*forebay.Engine, error) {
	if s.options.Staging == nil && !s.flow {
		s.options.Staging = closedStaging{}
		s.source.Settings.Upload = trigger.Upload().Max
	}
	if e.volume.modelled() {
		s.options.Buffer = localdisk.On(s.options.Buffer, e.volume.fs())
	}
	s.source.ID, s.source.Secret = sourceID, secret
	if s.source.Sinks == nil {
		s.source.Sinks = []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: columns()}}}
	}
	eng, err := forebay.Open(filepath.Join(e.dir, "data"), s.options)
	if err != nil {
		return nil, err
	}
	if err := eng.Define(ctx, s.source); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return eng, nil
}

// measured opens an engine, measures, and fails unless exactly the rows of the sample are stored.
func (s setup) measured(ctx context.Context, e *env, measure func(*forebay.Engine) (*sample, error)) (_ *sample, err error) {
	eng, err := s.open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	m, err := measure(eng)
	if err != nil {
		return nil, err
	}
	return m, verify(ctx, eng, m.Total, s.flow)
}

// verifyTimeout ends the check of one measurement. The flush then says what holds up the rows.
const verifyTimeout = 10 * time.Minute

// verify fails unless the engine holds exactly the acknowledged rows. With flow they must be in the table.
func verify(ctx context.Context, eng *forebay.Engine, acknowledged int64, flow bool) error {
	if flow {
		ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
		defer cancel()
		if err := eng.FlushAll(ctx); err != nil {
			return err
		}
	}
	report, err := countStored(ctx, eng, 1, span{acknowledged, acknowledged})
	if err == nil && flow && report.Sinks[0].Imported != acknowledged {
		err = fmt.Errorf("%d rows are in the table after the flush, %d were acknowledged", report.Sinks[0].Imported, acknowledged)
	}
	return err
}

// A storage is an engine or a buffer. It counts its stored rows.
type storage interface {
	Verify(ctx context.Context) (buffer.Report, error)
	Close() error
}

// countStored counts the stored rows, and fails unless the ledger holds and the rows of all sinks lie within the span.
func countStored(ctx context.Context, db storage, sinks int, want span) (buffer.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	report, err := db.Verify(ctx)
	if err != nil {
		return report, err
	}
	return report, checkStored(report, sinks, want)
}

// span is a number that is known within bounds because any call whose response a killed process did not see may be
// stored.
type span struct{ least, most int64 }

// checkStored fails unless the ledger holds and the rows of all sinks lie within the span.
func checkStored(report buffer.Report, sinks int, want span) error {
	if len(report.Sinks) != sinks {
		return fmt.Errorf("%d sinks were verified, want %d", len(report.Sinks), sinks)
	}
	found := stored(report)
	if !report.OK() || found < want.least || found > want.most {
		return fmt.Errorf("%d rows are stored, %d to %d were acknowledged or on the way; the ledger holds: %t: %+v",
			found, want.least, want.most, report.OK(), report.Sinks[0])
	}
	return nil
}

// stored counts the rows of all sinks.
func stored(report buffer.Report) (rows int64) {
	for _, s := range report.Sinks {
		rows += s.Local + s.Staging + s.Imported
	}
	return rows
}

// closedStaging accepts nothing until the engine gives up. Rows wait in the local level meanwhile, as they do when a
// staging is out of reach.
type closedStaging struct{ driver.Staging }

func (closedStaging) Put(ctx context.Context, _ driver.Object, _ driver.Content) error {
	<-ctx.Done()
	return ctx.Err()
}

// closedTarget takes every definition and no rows.
type closedTarget struct{}

func (closedTarget) Ensure(context.Context, driver.Table) error { return nil }

func (closedTarget) Import(ctx context.Context, _ *driver.File) error {
	<-ctx.Done()
	return ctx.Err()
}
