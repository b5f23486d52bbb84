// Package tables creates, compares and removes the tables of definitions at their targets. A target that is down costs little time.
package tables

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
)

// Tables are the tables of an engine.
type Tables struct {
	// Buffer knows the tables that were accepted last.
	Buffer *buffer.Buffer
	// Target returns the target with a name.
	Target func(name string) driver.Target
	// Log gets the problems that refuse nothing.
	Log *slog.Logger
}

// Sink is a sink of a definition.
type Sink struct {
	// ID is its id within the source.
	ID string
	// Config is its next definition in the buffer.
	Config buffer.SinkConfig
	// Keeps reports whether it can continue with the columns that were accepted last. Ensure calls it when the table cannot follow.
	Keeps func() bool
}

// Options are the choices of [Tables.Ensure].
type Options struct {
	// Refuse reports whether a problem refuses the definition. Default: a problem refuses unless it is Known or Kept.
	Refuse func(buffer.TableProblem) bool
	// Creation marks the tables that the call creates. Default: they are not marked.
	Creation string
}

// The tables of a definition are looked at in this order. When a problem refuses the definition, no later step is taken, because a table
// that has grown would hold back the rows that wait for it without Extend.
const (
	ensureKnown  = iota // the problem is known without the target
	ensureTable         // a call that holds back no rows of the sink
	ensureGrowth        // the first call with Extend for a table that the sink had without
	ensureSteps
)

// check is what Ensure does for a sink.
type check struct {
	Sink
	step    int
	err     error
	problem *buffer.TableProblem // set if err refuses nothing
}

// Ensure creates or compares the tables of those sinks of a source that are new or changed. It returns the problems that do not refuse the
// definition, in the order of the sinks. A sink whose problem is Kept continues with the columns accepted last. The error joins the problems that
// refuse the definition.
func (t Tables) Ensure(ctx context.Context, source string, sinks []Sink, opts Options) ([]buffer.TableProblem, error) {
	var all []*check
	for _, s := range sinks {
		if !t.Buffer.Defined(s.Config) {
			all = append(all, t.check(s))
		}
	}
	begun, down := time.Now(), map[string]bool{} // by target
	for step := range ensureSteps {
		var checks []*check
		asked := map[string][]*check{} // by target
		for _, c := range all {
			if c.step != step {
				continue
			}
			checks = append(checks, c)
			switch target := c.Config.Table.Target; {
			case step == ensureKnown:
			case down[target] && time.Since(begun) >= timeout:
				c.err = errNotChecked
			default:
				asked[target] = append(asked[target], c)
			}
		}
		var targets sync.WaitGroup // a target that is down delays no other target
		for _, of := range asked {
			targets.Go(func() { t.callEnsure(ctx, of, opts.Creation) })
		}
		targets.Wait()
		if err := t.judge(ctx, source, checks, opts.Refuse); err != nil {
			return nil, err
		}
		for _, c := range checks {
			if c.err != nil && !driver.IsPermanent(c.err) {
				down[c.Config.Table.Target] = true
			}
		}
	}
	var problems []buffer.TableProblem
	for _, c := range all {
		if c.problem != nil {
			problems = append(problems, *c.problem)
		}
	}
	return problems, nil
}

// check collects the facts about a sink that are known without the target.
func (t Tables) check(s Sink) *check {
	c := &check{Sink: s, step: ensureTable}
	if !s.Config.Table.Extend {
		return c
	}
	if c.err = t.Accepts(s.Config); c.err != nil {
		c.step = ensureKnown
	} else if before, known := t.Buffer.Sink(s.Config.ID).Table(); known && same(before, s.Config.Table) && !before.Extend {
		c.step = ensureGrowth
	}
	return c
}

// Accepts returns the problem of a table with Extend that is known without the target.
func (t Tables) Accepts(cfg buffer.SinkConfig) error {
	if _, ok := t.Target(cfg.Table.Target).(driver.Extender); !ok {
		return driver.Permanent(fmt.Errorf("table %q: the target cannot add columns to its tables: define the sink without Extend", cfg.Table.ID))
	}
	return t.Buffer.Accepts(cfg)
}

// same reports whether a sink had its table before.
func same(before, t driver.Table) bool { return before.ID == t.ID && before.Target == t.Target }

// callEnsure asks a target for its tables.
func (t Tables) callEnsure(ctx context.Context, checks []*check, creation string) {
	callAll(ctx, len(checks), func(ctx context.Context, i int) error {
		table := checks[i].Config.Table
		target := t.Target(table.Target)
		table.Creation = creation
		return t.Buffer.Alone(ctx, table, func(ctx context.Context) error {
			if table.Extend {
				return driver.HintUnreachable(target.(driver.Extender).Extend(ctx, table))
			}
			return table.HintExtend(target, driver.HintUnreachable(target.Ensure(ctx, table)))
		})
	}, func(i int, err error) { checks[i].err = err })
}

// judge decides about the sinks that have an error. It joins the errors that refuse the definition.
func (t Tables) judge(ctx context.Context, source string, checks []*check, refuse func(buffer.TableProblem) bool) error {
	if refuse == nil {
		refuse = func(p buffer.TableProblem) bool { return !p.Known && !p.Kept }
	}
	var refused []error
	var unchecked uncheckedTables
	defer func() { unchecked.log(t.Log) }()
	for _, c := range checks {
		if c.err == nil {
			continue
		}
		id, table := c.Config.ID, c.Config.Table
		if !driver.IsPermanent(c.err) {
			if ctx.Err() != nil {
				refused = append(refused, fmt.Errorf("define sink %q: %w", id, c.err))
				break // it is the same for all
			}
			unchecked.add(id, table.ID, c.err)
			continue
		}
		before, known := t.Buffer.Sink(id).Table()
		p := buffer.TableProblem{
			Source: source, Sink: c.ID, Table: table.ID, Err: c.err,
			Known: known && same(before, table) && slices.Equal(before.Columns, table.Columns),
		}
		p.Kept = !p.Known && c.Keeps()
		if refuse(p) {
			refused = append(refused, fmt.Errorf("define sink %q: %w", id, c.err))
			continue
		}
		c.problem = &p
		if p.Kept {
			t.Log.Warn("change of a sink refused", "sink", id, "table", p.Table, "cause", c.err, "next", "change the columns as the cause says")
			continue
		}
		t.Log.Warn("table cannot take the rows of a sink", "sink", id, "table", p.Table, "cause", c.err, "next", "repair the table or the sink; the rows wait in staging")
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
	if u.first == nil || errors.Is(u.first, errNotChecked) {
		u.first = err
	}
}

func (u *uncheckedTables) log(logger *slog.Logger) {
	if u.first != nil {
		logger.Warn("tables not checked", "sinks", u.sinks, "tables", u.tables, "cause", u.first, "next", "check the target; imports create the tables")
	}
}

// Uncreate removes those tables that their target has created with a mark. It fails for tables that the target could not check, and removes nothing
// if a sink uses one of the tables. user returns the id of such a sink. Tables of targets that are no [driver.Uncreator] stay.
func (t Tables) Uncreate(ctx context.Context, creation string, tables []driver.Table, user func(driver.Table) (sinkID string, used bool)) error {
	tables = slices.DeleteFunc(slices.Clone(tables), func(table driver.Table) bool {
		_, ok := t.Target(table.Target).(driver.Uncreator)
		return !ok
	})
	for _, table := range tables {
		if id, used := user(table); used {
			return fmt.Errorf("remove table %q: sink %q uses it", table.ID, id)
		}
	}
	problems := make([]error, len(tables))
	callAll(ctx, len(tables), func(ctx context.Context, i int) error {
		table := tables[i]
		return t.Buffer.Alone(ctx, driver.Table{ID: table.ID, Target: table.Target}, func(ctx context.Context) error {
			return t.Target(table.Target).(driver.Uncreator).Uncreate(ctx, table.ID, creation)
		})
	}, func(i int, err error) {
		if err != nil {
			problems[i] = fmt.Errorf("remove table %q: %w", tables[i].ID, err)
		}
	})
	return errors.Join(problems...)
}
