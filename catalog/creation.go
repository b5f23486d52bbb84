package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
)

// The target creates the tables of a change before it is known whether the change succeeds. A table that a failed change
// leaves in the target would refuse the corrected one. So the names of the tables, and the mark that the target gives to those it
// creates, are written before the target is called, and removed in the write that makes the change. Any such record that
// remains after a failure or a crash is undone. The target removes the tables that have the mark and no rows.

// creation is the record of tables that a change may create.
type creation struct {
	// ID is the mark of the tables.
	ID string `json:"id"`
	// Source is the source of the change, Task its task.
	Source string `json:"source"`
	Task   string `json:"task,omitempty"`
	// Hold is the hold of the change. See coordinator.begin.
	Hold string `json:"hold,omitempty"`
	// Tables are the keys of the tables, sorted.
	Tables []string `json:"tables"`
}

// id is empty for no creation.
func (cr *creation) id() string {
	if cr == nil {
		return ""
	}
	return cr.ID
}

// beginCreation writes the record of the tables that a change may create and whose target could undo it, or nil when there are none.
func (c *Catalog) beginCreation(ch *change, task string) (*creation, error) {
	had := ch.old.tables(true)
	tables := slices.DeleteFunc(ch.next.tables(true), func(table string) bool {
		_, undoes := c.eng.Options().TargetNamed(engineTable(table).Target).(driver.Uncreator)
		return slices.Contains(had, table) || !undoes
	})
	if len(tables) == 0 {
		return nil, nil
	}
	cr := &creation{ID: "forebay-" + uuid.NewString(), Source: ch.ref.Source, Task: task, Hold: ch.hold, Tables: tables}
	if err := c.co.commit(ch.hold, map[string][]byte{creationKey(cr.ID): encode(cr)}); err != nil {
		c.repairs.giveUp(map[string][]byte{creationKey(cr.ID): nil}, err) // nothing was created under it
		return nil, fmt.Errorf("the change could not be stored: %w", err)
	}
	return cr, nil
}

// undoCreation has the target remove the rest of a creation, and forgets it. A table that a live sink uses by now stays.
// It reports false if it must be repeated because rows are on their way to the tables, changes other than the own ones of the
// caller begin to use them, or the target or the store failed.
func (c *Catalog) undoCreation(ctx context.Context, cr *creation, own int) bool {
	if c.co.owns(cr.Hold) != nil {
		c.log.Warn("tables of an ended change left", "task", cr.Task, "tables", cr.Tables, "next", "drop the tables if no sink uses them")
		return true
	}
	defer c.tables.endUndo(cr.ID)
	waits := slices.ContainsFunc(c.eng.Stats().Sinks, func(s forebay.SinkStats) bool {
		return s.Source == cr.Source && s.Local.Rows+s.Staging.Rows > 0
	})
	// Rows that wait would find their table gone. Once they are in it, it stays.
	if waits || !c.tables.undo(cr.ID, cr.Tables, own) {
		return false
	}
	var tables []forebay.Table
	for _, table := range cr.Tables {
		if c.defs.userOf(table) == "" {
			tables = append(tables, engineTable(table))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	err := c.eng.Uncreate(ctx, cr.ID, tables...)
	if err == nil {
		end := map[string][]byte{creationKey(cr.ID): nil}
		if own == 0 && cr.Hold != "" { // the task has ended
			end[cr.Hold] = nil
		}
		if err = c.store.Commit(end); err == nil && own == 0 {
			c.co.narrow(cr.Hold, nil)
		}
	}
	if err != nil {
		c.log.Warn("tables of a failed change not removed",
			"source", cr.Source, "task", cr.Task, "tables", cr.Tables, "cause", err, "next", "it is retried automatically")
	}
	return err == nil
}

// resumeCreations has the repairs undo the creations that a crash has left. Until that was tried once, changes that begin to use the
// tables wait for it.
func (c *Catalog) resumeCreations(creations []*creation) {
	for _, cr := range creations {
		c.tables.undo(cr.ID, cr.Tables, 0)
		c.repairs.undoLater(cr)
	}
}

// refuses reports whether a problem of a table refuses the change. It does not if a live sink had the table before with the
// same columns and the same rule, because then the table was changed from outside.
func (ch *change) refuses(p forebay.TableProblem) bool {
	if ch.old == nil || ch.created[p.Sink] {
		return true
	}
	before, now := ch.old.sinks[p.Sink], ch.next.sinks[p.Sink]
	return before == nil || now == nil || before.table() != now.table() || before.Extend != now.Extend || !slices.EqualFunc(before.Columns, now.Columns, sameInTable)
}

// warn adds the problems of tables that did not refuse the change to the warnings and the result for the user.
func (ch *change) warn(problems []forebay.TableProblem) {
	var waits, keeps []string
	for _, p := range problems {
		ch.warnings = append(ch.warnings, Warning{SinkID: p.Sink, Message: sentence(p.Err)})
		if name := fmt.Sprintf("%q", p.Sink); p.Kept {
			keeps = append(keeps, name)
		} else {
			waits = append(waits, name)
		}
	}
	switch len(waits) {
	case 0:
	case 1:
		ch.result += fmt.Sprintf(" The table of sink %s cannot take its rows, see the warnings.", waits[0])
	default:
		ch.result += fmt.Sprintf(" The tables of sinks %s cannot take their rows, see the warnings.", strings.Join(waits, ", "))
	}
	for _, name := range keeps {
		ch.result += fmt.Sprintf(" Sink %s continues with its earlier columns, see the warnings.", name)
	}
}
