package forebay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/tablecall"
)

// The tables of a definition are looked at in this order. When a problem refuses the definition, no later step is taken, because a table
// that has grown would hold back the rows that wait for it without Extend.
const (
	ensureKnown  = iota // the problem is known without the target
	ensureTable         // a call that holds back no rows of the sink
	ensureGrowth        // the first call with Extend for a table that the sink had without
	ensureSteps
)

// tableCheck is what ensureTables does for a sink.
type tableCheck struct {
	cfg  buffer.SinkConfig
	sink *compiledSink
	step int
	err  error
	// problem and kept are set if err refuses nothing.
	problem *TableProblem
	kept    *keptSink
}

// ensureTables creates or compares the tables of new and changed sinks. It returns the problems that do not refuse the
// definition, and the sinks that continue with the columns accepted last. The error joins the problems that refuse it.
func (e *Engine) ensureTables(ctx context.Context, d *Definition, opts ApplyOptions) ([]TableProblem, map[string]keptSink, error) {
	var all []*tableCheck
	for i := range d.sinks {
		c := &d.sinks[i]
		if cfg := bufferConfig(d.source.ID, c); !c.Disabled && !e.buf.Defined(cfg) {
			all = append(all, e.tableCheck(cfg, c))
		}
	}
	begun, down := time.Now(), map[string]bool{} // by target
	for step := range ensureSteps {
		var checks []*tableCheck
		asked := map[string][]*tableCheck{} // by target
		for _, c := range all {
			if c.step != step {
				continue
			}
			checks = append(checks, c)
			switch target := c.cfg.Table.Target; {
			case step == ensureKnown:
			case down[target] && time.Since(begun) >= tablecall.Timeout:
				c.err = tablecall.ErrNotChecked
			default:
				asked[target] = append(asked[target], c)
			}
		}
		var targets sync.WaitGroup // a target that is down delays no other target
		for _, of := range asked {
			targets.Go(func() { e.callEnsure(ctx, of, opts.Creation) })
		}
		targets.Wait()
		if err := e.judge(ctx, d.source.ID, checks, opts.Refuse); err != nil {
			return nil, nil, err
		}
		for _, c := range checks {
			if c.err != nil && !driver.IsPermanent(c.err) {
				down[c.cfg.Table.Target] = true
			}
		}
	}
	var problems []TableProblem
	kept := map[string]keptSink{}
	for _, c := range all {
		if c.problem != nil {
			problems = append(problems, *c.problem)
		}
		if c.kept != nil {
			kept[c.sink.ID] = *c.kept
		}
	}
	return problems, kept, nil
}

// tableCheck collects the facts about a sink that are known without the target.
func (e *Engine) tableCheck(cfg buffer.SinkConfig, sink *compiledSink) *tableCheck {
	c := &tableCheck{cfg: cfg, sink: sink, step: ensureTable}
	if !cfg.Table.Extend {
		return c
	}
	if c.err = e.accepts(cfg); c.err != nil {
		c.step = ensureKnown
	} else if before, known := e.buf.TableOf(cfg.ID); known && before.ID == cfg.Table.ID && before.Target == cfg.Table.Target && !before.Extend {
		c.step = ensureGrowth
	}
	return c
}

// callEnsure asks a target for its tables.
func (e *Engine) callEnsure(ctx context.Context, checks []*tableCheck, creation string) {
	tablecall.All(ctx, len(checks), func(ctx context.Context, i int) error {
		table := checks[i].cfg.Table
		target := e.opts.TargetNamed(table.Target)
		table.Creation = creation
		return e.buf.Alone(ctx, table, func(ctx context.Context) error {
			if table.Extend {
				return driver.HintUnreachable(target.(driver.Extender).Extend(ctx, table))
			}
			return table.HintExtend(target, driver.HintUnreachable(target.Ensure(ctx, table)))
		})
	}, func(i int, err error) { checks[i].err = err })
}

// judge decides about the sinks that have an error. It joins the errors that refuse the definition.
func (e *Engine) judge(ctx context.Context, sourceID string, checks []*tableCheck, refuse func(TableProblem) bool) error {
	if refuse == nil {
		refuse = func(p TableProblem) bool { return !p.Known && !p.Kept }
	}
	var refused []error
	var unchecked uncheckedTables
	defer func() { unchecked.log(e.log) }()
	for _, c := range checks {
		if c.err == nil {
			continue
		}
		id, table := c.cfg.ID, c.cfg.Table
		if !driver.IsPermanent(c.err) {
			if ctx.Err() != nil {
				refused = append(refused, fmt.Errorf("define sink %q: %w", id, c.err))
				break // it is the same for all
			}
			unchecked.add(id, table.ID, c.err)
			continue
		}
		before, known := e.buf.TableOf(id)
		p := TableProblem{
			Source: sourceID, Sink: c.sink.ID, Table: table.ID, Err: c.err,
			Known: known && before.ID == table.ID && before.Target == table.Target && slices.Equal(before.Columns, table.Columns),
		}
		var last compiledSink
		if !p.Known {
			last, p.Kept = e.lastAccepted(sourceID, *c.sink)
		}
		if refuse(p) {
			refused = append(refused, fmt.Errorf("define sink %q: %w", id, c.err))
			continue
		}
		c.problem = &p
		if p.Kept {
			c.kept = &keptSink{last, c.err}
			e.log.Warn("change of a sink refused", "sink", id, "table", p.Table, "cause", c.err, "next", "change the columns as the cause says")
			continue
		}
		e.log.Warn("table cannot take the rows of a sink", "sink", id, "table", p.Table, "cause", c.err, "next", "repair the table or the sink; the rows wait in staging")
	}
	return errors.Join(refused...)
}

// uncheckedTables are the tables of a definition that the target did not check. One warning names all of them, because a target that is down,
// or refuses the login, fails every call in the same way.
type uncheckedTables struct {
	sinks, tables []string
	first         error // the first that says more than that a call was not made
}

func (u *uncheckedTables) add(sink, table string, err error) {
	u.sinks, u.tables = append(u.sinks, sink), append(u.tables, table)
	if u.first == nil || errors.Is(u.first, tablecall.ErrNotChecked) {
		u.first = err
	}
}

func (u *uncheckedTables) log(logger *slog.Logger) {
	if u.first != nil {
		logger.Warn("tables not checked", "sinks", u.sinks, "tables", u.tables, "cause", u.first, "next", "check the target; imports create the tables")
	}
}
