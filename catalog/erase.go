package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

// erasure is the record of an erasure whose source is gone and whose rows and tables may be left. It is written with the
// end of the source and removed with the end of the task: between the two every Open goes on with it.
type erasure struct {
	// Task is the one that ends with it.
	Task Task `json:"task"`
	// Tables are those of the sinks, sorted.
	Tables []string `json:"tables"`
	// Result is the sentence of the task when all is gone.
	Result string `json:"result"`
}

// EraseSource deletes a source with its sinks, versions, waiting rows, counters and tables. Nothing brings it back. What
// cannot be deleted, and tables that a sink of another source uses, make the task fail as Partial: the source is gone
// all the same.
//
// The source ends at once and for good; then follow the rows and the tables, also through a restart. The task has ended
// when nothing is left to do, and until then no source with the id can be made, and no sink for one of the tables.
func (c *Catalog) EraseSource(id string) (Task, error) {
	return c.submit("delete.source", id, "", func(_ time.Time, old *tree) (*change, error) {
		if !old.live() {
			return nil, sourceNotFound(id)
		}
		ch := &change{versions: map[string][]byte{}}
		erase := func(sink string) error {
			return c.store.Scan(versionPrefix(id, sink), func(key string, _ []byte) error {
				ch.versions[key] = nil
				return nil
			})
		}
		err := erase("")
		tables := map[string]bool{}
		for sinkID, s := range old.sinks {
			err = errors.Join(err, erase(sinkID))
			tables[s.TableID] = true
		}
		ch.erasure = &erasure{Tables: slices.Sorted(maps.Keys(tables)), Result: fmt.Sprintf("Source %q has been erased.", id)}
		return ch, err
	})
}

// resume goes on with what an earlier opening has begun. The sources are not in the catalog any more.
func (c *Catalog) resume(erasures []*erasure) {
	c.mu.Lock()
	defer c.mu.Unlock() // the first may end before the last has begun
	for _, e := range erasures {
		if c.tasks[e.Task.ID] == nil { // its record has not come back, for example from a copy of the store
			c.tasks[e.Task.ID] = &running{task: e.Task, done: make(chan struct{})}
		}
		c.busy[entity(e.Task.SourceID, "")] = e.Task.ID
		c.erasing[e.Task.ID] = e.Tables
		c.work.Add(1)
		go func() {
			ctx, cancel := context.WithTimeout(c.ctx, taskTimeout)
			defer cancel()
			c.finishErasure(ctx, e)
		}()
	}
}

// finishErasure erases what is left and ends the task.
func (c *Catalog) finishErasure(ctx context.Context, e *erasure) {
	done := e.Task
	err := c.erase(ctx, e)
	c.mu.Lock()
	delete(c.erasing, e.Task.ID)
	c.free()
	c.mu.Unlock()
	if c.ctx.Err() != nil {
		c.ended(done, ErrClosed)
		return
	}
	done.Status, done.Result, done.FinishedAt = Succeeded, e.Result, now()
	if err != nil {
		c.log.Warn("a source was erased, not all that belonged to it", "task", done.ID, "error", err)
		done.Status, done.Result, done.Failure, done.Partial = Failed, "", sentence(err), true
	}
	end := map[string][]byte{taskKey(done.ID): encode(done), erasureKey(done): nil}
	if err := c.store.Commit(end); err != nil {
		c.mu.Lock()
		maps.Copy(c.owed, end)
		c.mu.Unlock()
		c.wakeSweep()
	}
	c.ended(done, nil)
}

// endErasures adds to the write of a new source the ends of the erasures of its id that could not be written yet: the next
// Open would go on with them, and take the new source for the one that was erased.
func (c *Catalog) endErasures(records map[string][]byte, sourceID string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for key := range c.owed {
		if strings.HasPrefix(key, erasuresOf(sourceID)) {
			records[key] = nil
		}
	}
}

// eraseAttempts is how often rows are looked for: a request that had begun before the source ended may store its event
// after they were given up.
const eraseAttempts = 3

// erase gives up the rows of a source that wait, drops its tables and forgets its counters. It may be repeated.
func (c *Catalog) erase(ctx context.Context, e *erasure) error {
	for attempt := 1; ; attempt++ {
		err := errors.Join(c.discardRows(ctx, e.Task.SourceID), c.dropTables(ctx, e))
		again := false
		for _, s := range c.eng.Stats().Sinks {
			if s.Source != e.Task.SourceID {
				continue
			}
			switch forget := c.eng.Forget(ctx, s.Source, s.Sink); {
			case errors.Is(forget, buffer.ErrSinkInUse):
				again = true
			case forget != nil:
				err = errors.Join(err, fmt.Errorf("counters of sink %q: %w", s.Sink, forget))
			}
		}
		if !again {
			err = errors.Join(err, c.eng.ForgetSource(ctx, e.Task.SourceID))
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

// discardRows gives up the files of a source that wait.
func (c *Catalog) discardRows(ctx context.Context, sourceID string) error {
	var problems []error
	for _, s := range c.eng.Stats().Sinks {
		if s.Source != sourceID {
			continue
		}
		for _, f := range s.Files {
			if f.State == buffer.FileImported || f.State == buffer.FileExpired || f.State == buffer.FileDiscarded {
				continue
			}
			err := c.eng.Discard(ctx, s.Source, s.Sink, f.ID)
			if err != nil && !errors.Is(err, buffer.ErrUnknownFile) { // that one has come to its end meanwhile
				problems = append(problems, fmt.Errorf("waiting rows of sink %q: %w", s.Sink, err))
			}
		}
	}
	return errors.Join(problems...)
}

func (c *Catalog) dropTables(ctx context.Context, e *erasure) error {
	var problems []error
	for _, table := range e.Tables {
		user, err := c.userOf(ctx, table)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("table %q: %w", table, err))
		case user != "":
			problems = append(problems, fmt.Errorf("table %q stays: sink %s uses it", table, user))
		case c.opts.DropTable == nil:
			problems = append(problems, fmt.Errorf("table %q stays: this target cannot drop tables", table))
		default:
			if err := c.opts.DropTable(ctx, table); err != nil {
				problems = append(problems, fmt.Errorf("table %q: %w", table, err))
			}
		}
	}
	return errors.Join(problems...)
}

// userOf returns a live sink whose rows go to a table, as text; empty when there is none. It waits for the changes that
// begin to use the table. No further one does while the table is that of a running erasure.
func (c *Catalog) userOf(ctx context.Context, table string) (string, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for c.claimed[table] > 0 {
		freed := c.freed
		c.mu.RUnlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		c.mu.RLock()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return c.user(table), nil
}

// user is userOf for the definitions as they are. c.mu is held.
func (c *Catalog) user(table string) string {
	for _, id := range slices.Sorted(maps.Keys(c.trees)) {
		if t := c.trees[id]; t.live() {
			for _, s := range t.sorted(false) {
				if s.TableID == table {
					return fmt.Sprintf("%q of source %q", s.ID, id)
				}
			}
		}
	}
	return ""
}

// newTables returns the tables that next uses and old does not.
func newTables(old, next *tree) map[string]bool {
	tables := map[string]bool{}
	if next.live() {
		for _, s := range next.sorted(false) {
			tables[s.TableID] = true
		}
	}
	if old.live() {
		for _, s := range old.sorted(false) {
			delete(tables, s.TableID)
		}
	}
	return tables
}

// erasureOf returns one of some tables that is being erased, and the task; empty when none is. c.mu is held.
func (c *Catalog) erasureOf(tables map[string]bool) (table, task string) {
	for _, task := range slices.Sorted(maps.Keys(c.erasing)) {
		for _, table := range c.erasing[task] {
			if tables[table] {
				return table, task
			}
		}
	}
	return "", ""
}

// claim keeps the tables that a change begins to use from being erased until release, after it has waited for the
// erasures that have them: else a table could be dropped that a sink has found just before.
func (c *Catalog) claim(ctx context.Context, old, next *tree) (release func(), err error) {
	tables := newTables(old, next)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		table, task := c.erasureOf(tables)
		if task == "" && !c.isUndoing(tables) {
			break
		}
		freed := c.freed
		c.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			if task == "" {
				return nil, fmt.Errorf("the creation of a table is being undone: %w", context.Cause(ctx))
			}
			return nil, fmt.Errorf("task %q is erasing table %q: %w", task, table, context.Cause(ctx))
		}
	}
	for table := range tables {
		c.claimed[table]++
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for table := range tables {
			if c.claimed[table]--; c.claimed[table] == 0 {
				delete(c.claimed, table)
			}
		}
		c.free()
	}, nil
}

// free wakes those that wait for tables. c.mu is held.
func (c *Catalog) free() {
	close(c.freed)
	c.freed = make(chan struct{})
}
