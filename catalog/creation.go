package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/forebay/forebay"
)

// A change that begins to use tables has the target create those that are absent, before it is known whether the change
// succeeds. A table that a failed change leaves behind would refuse the corrected one. So the names of the tables, and the
// mark that the target gives to those that it creates, are written before the target is called, and removed in the same
// write as the change is made. What is left of such records after a failure or a crash is undone: the target removes the
// tables that have the mark and no rows.

// creation is the record of tables that a change may create.
type creation struct {
	// ID is the mark of the tables.
	ID string `json:"id"`
	// Source is the source of the change, Task its task.
	Source string `json:"source"`
	Task   string `json:"task,omitempty"`
	// Tables are sorted.
	Tables []string `json:"tables"`
}

// id is empty for no creation.
func (cr *creation) id() string {
	if cr == nil {
		return ""
	}
	return cr.ID
}

// beginCreation writes the record of the tables that a change may create; nil when there are none, or when the target
// could not undo it.
func (c *Catalog) beginCreation(sourceID, task string, old, next *tree) (*creation, error) {
	if !c.eng.CanUncreate() {
		return nil, nil
	}
	had := old.takers()
	var tables []string
	for _, s := range next.takers() {
		if !slices.ContainsFunc(had, func(o Sink) bool { return o.TableID == s.TableID }) {
			tables = append(tables, s.TableID)
		}
	}
	if len(tables) == 0 {
		return nil, nil
	}
	slices.Sort(tables)
	cr := &creation{ID: "forebay-" + uuid.NewString(), Source: sourceID, Task: task, Tables: slices.Compact(tables)}
	err := c.store.Commit(map[string][]byte{creationKey(cr.ID): encode(cr)})
	if err == nil {
		return cr, nil
	}
	if !errors.Is(err, ErrNotCommitted) {
		c.owe(creationKey(cr.ID), nil) // nothing was created under it
	}
	return nil, fmt.Errorf("the change could not be stored: %w", err)
}

// takers returns the sinks that take events.
func (t *tree) takers() []Sink {
	if !t.live() {
		return nil
	}
	return slices.DeleteFunc(t.sorted(false), func(s Sink) bool { return s.DisabledWith(t.source) != nil })
}

// undoCreation has the target remove what is left of a creation, and forgets it. A table that a live sink has by now stays.
// It reports false when it is to be tried again: rows are on their way to the tables, other changes than the caller's own
// begin to use them, or the target or the store has failed.
func (c *Catalog) undoCreation(ctx context.Context, cr *creation, own int) bool {
	waits := c.waits(cr.Source) // such rows would meet the end of their table; once they are in it, it stays
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.free()
	defer delete(c.undoing, cr.ID)
	if waits || slices.ContainsFunc(cr.Tables, func(table string) bool { return c.claimed[table] > own }) {
		return false
	}
	tables := slices.DeleteFunc(slices.Clone(cr.Tables), func(table string) bool { return c.user(table) != "" })
	c.undoing[cr.ID] = tables
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	err := c.eng.Uncreate(ctx, cr.ID, tables...)
	if err == nil {
		err = c.store.Commit(map[string][]byte{creationKey(cr.ID): nil})
	}
	c.mu.Lock()
	if err != nil {
		c.log.Warn("tables that a failed change has created could not be removed, it is tried again",
			"source", cr.Source, "task", cr.Task, "tables", tables, "error", err)
	}
	return err == nil
}

// resumeCreations has sweep undo what a crash has left. Until that was tried once, changes that begin to use the tables
// wait for it.
func (c *Catalog) resumeCreations() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, cr := range c.creations {
		c.undoing[id] = cr.Tables
	}
	if len(c.creations) > 0 {
		c.wakeSweep()
	}
}

// isUndoing tells whether one of some tables is being removed. c.mu is held.
func (c *Catalog) isUndoing(tables map[string]bool) bool {
	for _, undone := range c.undoing {
		if slices.ContainsFunc(undone, func(table string) bool { return tables[table] }) {
			return true
		}
	}
	return false
}

// waits tells whether rows of a source are on their way to its tables.
func (c *Catalog) waits(sourceID string) bool {
	return slices.ContainsFunc(c.eng.Stats().Sinks, func(s forebay.SinkStats) bool {
		return s.Source == sourceID && s.Local.Rows+s.Staging.Rows > 0
	})
}

// refuses tells whether a problem of a table refuses the change: not where a live sink had the table before, with the same
// columns, because then it is no fault of the change.
func (ch *change) refuses(old *tree, p forebay.TableProblem) bool {
	if old == nil || slices.Contains(ch.created, p.Sink) {
		return true
	}
	before, had := old.sinks[p.Sink]
	now := ch.next.sinks[p.Sink]
	return !had || before.TableID != now.TableID || !slices.EqualFunc(before.Columns, now.Columns, sameName)
}

// warn adds the problems of tables that did not refuse the change to what the user is told.
func (ch *change) warn(problems []forebay.TableProblem) {
	var names []string
	for _, p := range problems {
		ch.warnings = append(ch.warnings, Warning{SinkID: p.Sink, Message: sentence(p.Err)})
		names = append(names, fmt.Sprintf("%q", p.Sink))
	}
	switch len(names) {
	case 0:
	case 1:
		ch.result += fmt.Sprintf(" The table of sink %s cannot take its rows, see the warnings.", names[0])
	default:
		ch.result += fmt.Sprintf(" The tables of sinks %s cannot take their rows, see the warnings.", strings.Join(names, ", "))
	}
}
