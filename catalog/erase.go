package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// erasure is the record of an erasure whose source is gone and whose rows, tables and raw records may be left. It is written with the
// end of the source and removed with the end of the task. Between the two every Open continues it.
type erasure struct {
	// Task ends with the erasure.
	Task Task `json:"task"`
	// Tables are the keys of the tables of the sinks, sorted.
	Tables []string `json:"tables"`
	// Archive is the name of the archive of the source, and Archived says that it may have records. See [Catalog.archived]. Archive is empty if
	// an earlier release has begun the erasure.
	Archive  string `json:"archive,omitempty"`
	Archived bool   `json:"archived,omitempty"`
	// Result is the sentence of the task when all is gone.
	Result string `json:"result"`
}

// EraseSource deletes a source with its sinks, versions, waiting rows, counters, tables and raw records. Nothing brings it back. What
// cannot be deleted, and tables that a sink of another source uses, make the task fail as Partial. The source is gone
// all the same. Raw records that are left then are deleted when the archive can do it, if it is a [forebay.ArchiveEraser].
//
// The source ends at once and permanently. The rows, the tables and the raw records follow, even after a restart. The task has ended
// when nothing is left to do, and until then no source with the id can be made, and no sink for one of the tables.
func (c *Catalog) EraseSource(id string) (Task, error) {
	return c.submit(By{}, "delete.%s", Ref{Source: id}, live(func(ch *change) error {
		erase := func(ref Ref) error {
			return c.store.Scan(versionPrefix(ref), func(key string, _ []byte) error {
				ch.records[key] = nil
				return nil
			})
		}
		err := erase(ch.ref)
		tables := map[string]bool{}
		for sinkID, s := range ch.old.sinks {
			err = errors.Join(err, erase(Ref{id, sinkID}))
			tables[s.table()] = true
		}
		ch.erasure = &erasure{
			Tables: slices.Sorted(maps.Keys(tables)), Result: fmt.Sprintf("Source %q has been erased.", id),
			Archive: ch.old.source.archive(), Archived: c.archived(ch.old),
		}
		ch.next = nil
		return errors.Join(err, c.co.erase(ch))
	}))
}

// resumeErasures continues erasures that an earlier opening has begun, with a hold of the coordinator. The sources are no
// longer in the catalog.
func (c *Catalog) resumeErasures(erasures []*erasure, hold string) {
	erasures = slices.DeleteFunc(erasures, func(e *erasure) bool { return !c.tasks.resume(e.Task) })
	for _, e := range erasures { // all before the first can end
		c.tables.erase(e.Task.ID, e.Tables)
	}
	for _, e := range erasures {
		go func() {
			ctx, cancel := context.WithTimeout(c.ctx, taskTimeout)
			defer cancel()
			c.finishErasure(ctx, e, hold)
		}()
	}
}

// finishErasure erases the rest and ends the task.
func (c *Catalog) finishErasure(ctx context.Context, e *erasure, hold string) {
	done := e.Task
	defer c.co.release(hold)
	erased := c.co.erasing(e.Task.SourceID)
	err := c.erase(ctx, e, hold)
	rawLeft := c.eraseArchiveOf(ctx, e, hold)
	err = errors.Join(err, rawLeft)
	erased(err)
	c.tables.endErasure(e.Task.ID)
	switch {
	case c.ctx.Err() != nil:
		c.tasks.end(done, ErrClosed)
		return
	case c.co.owns(hold) != nil:
		c.co.disown(done)
		return
	}
	done.Status, done.Result, done.FinishedAt = Succeeded, e.Result, now()
	if err != nil {
		c.log.Warn("source erased but data remains", "task", done.ID, "cause", err, "next", "the rest is erased later; check the named store if it happens again")
		done.Status, done.Result, done.Failure, done.Partial = Failed, "", sentence(err), true
	}
	end := map[string][]byte{taskKey(done.ID): encode(done), erasureKey(done): nil}
	if rawLeft == nil && c.isLeft(e.Archive) {
		end[leftKey(e.Archive)] = nil
	}
	c.co.end(hold, end)
	if err := c.store.Commit(end); err != nil {
		c.repairs.writeLater(end)
	}
	if rawLeft != nil && !c.co.isShared() { // else each engine tries again when it has followed the erasure
		c.repairs.add(func() { c.repairs.archives[e.Archive] = true })
	}
	c.tasks.end(done, nil)
}

// eraseAttempts is how often rows are looked for, because a request that had begun before the source ended may store its event
// after they were given up.
const eraseAttempts = 3

// erase gives up the rows of a source that wait, drops its tables and forgets its counters. It may be repeated.
func (c *Catalog) erase(ctx context.Context, e *erasure, hold string) error {
	return eraseWith(ctx, c.eng, e.Task.SourceID, func() error { return c.dropTables(ctx, e, hold) })
}

// eraseRows gives up the rows of a source that wait in an engine, and forgets its counters. It may be repeated.
func eraseRows(ctx context.Context, eng *forebay.Engine, source string) error {
	return eraseWith(ctx, eng, source, func() error { return nil })
}

// eraseWith calls drop when the rows have been given up, and perhaps again.
func eraseWith(ctx context.Context, eng *forebay.Engine, source string, drop func() error) error {
	for attempt := 1; ; attempt++ {
		err := errors.Join(discardRows(ctx, eng, source), drop())
		again := false
		for _, s := range eng.Stats().Sinks {
			if s.Source != source {
				continue
			}
			switch forget := eng.Forget(ctx, s.Source, s.Sink); {
			case errors.Is(forget, buffer.ErrSinkInUse):
				again = true
			case forget != nil:
				err = errors.Join(err, fmt.Errorf("counters of sink %q: %w", s.Sink, forget))
			}
		}
		if !again {
			err = errors.Join(err, eng.Forget(ctx, source))
		}
		switch {
		case !again:
			return err
		case attempt < eraseAttempts && ctx.Err() == nil:
		case err == nil:
			return errors.New("rows of the source still come in, they go to its tables")
		default:
			return err
		}
	}
}

// discardRows gives up the files of a source that wait, and its rejected records.
func discardRows(ctx context.Context, eng *forebay.Engine, sourceID string) error {
	var problems []error
	for _, s := range eng.Stats().Sinks {
		if s.Source != sourceID {
			continue
		}
		if s.Quarantine.Records > 0 {
			if _, err := eng.Sink(s.Source, s.Sink).Quarantine().DiscardAll(ctx, forebay.RejectedFilter{}); err != nil {
				problems = append(problems, fmt.Errorf("rejected records of sink %q: %w", s.Sink, err))
			}
		}
		for _, f := range s.Files {
			if f.State == buffer.FileImported || f.State == buffer.FileExpired || f.State == buffer.FileDiscarded {
				continue
			}
			err := eng.Sink(s.Source, s.Sink).Discard(ctx, f.ID)
			if err != nil && !errors.Is(err, buffer.ErrUnknownFile) { // that one has come to its end meanwhile
				problems = append(problems, fmt.Errorf("waiting rows of sink %q: %w", s.Sink, err))
			}
		}
	}
	return errors.Join(problems...)
}

// canDrop reports whether the target of the table with a key can drop it.
func (c *Catalog) canDrop(table string) bool {
	target, _ := splitTable(table)
	return target == "" && c.opts.DropTable != nil || c.opts.DropTables[target] != nil
}

// dropTable drops the table with a key. canDrop must have reported true.
func (c *Catalog) dropTable(ctx context.Context, table string) error {
	target, id := splitTable(table)
	if target == "" {
		return c.opts.DropTable(ctx, id)
	}
	return c.opts.DropTables[target](ctx, id)
}

// dropTables drops the tables of an erasure, except tables that a live sink uses. No change begins to use one meanwhile.
func (c *Catalog) dropTables(ctx context.Context, e *erasure, hold string) error {
	var problems []error
	for _, table := range e.Tables {
		err := c.tables.unclaimed(ctx, table)
		if err == nil {
			err = c.co.owns(hold)
		}
		user := c.defs.userOf(table)
		switch {
		case err != nil:
		case user != "":
			problems = append(problems, fmt.Errorf("table %s stays: sink %s uses it", tableText(table), user))
			continue
		case !c.canDrop(table):
			problems = append(problems, fmt.Errorf("table %s stays: this target cannot drop tables", tableText(table)))
			continue
		default:
			err = c.dropTable(ctx, table)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("table %s: %w", tableText(table), err))
		}
	}
	return errors.Join(problems...)
}
