package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/forebay/forebay"
)

// A table has a key, which is unique among the tables of all targets. The key is its id
// if it is in the default target, as in records of earlier releases, else the name of the target, a dot and the id.
// An id has two dots, and a name has none.

// table returns the key of the table of a sink.
func (s SinkContent) table() string {
	if s.Target == "" {
		return s.TableID
	}
	return s.Target + "." + s.TableID
}

// splitTable returns the target and the id of the table with a key.
func splitTable(key string) (target, id string) {
	if strings.Count(key, ".") < 3 {
		return "", key
	}
	target, id, _ = strings.Cut(key, ".")
	return target, id
}

// engineTable is the table with a key, without columns.
func engineTable(key string) forebay.Table {
	target, id := splitTable(key)
	return forebay.Table{ID: id, Target: target}
}

// tableText names the table with a key in messages.
func tableText(key string) string {
	target, id := splitTable(key)
	if target == "" {
		return fmt.Sprintf("%q", id)
	}
	return fmt.Sprintf("%q in target %q", id, target)
}

// tableClaims keeps changes that run at the same time from each other's tables. Without it a table could be dropped that
// another change has just found. A table is, at one moment, only one of
//
//   - claimed, by any number of changes that begin to use it, until they have ended
//   - erasing, by one erasure, which drops it
//   - undoing, by one failed creation, whose table is removed
//
// A change that wants to claim waits for the end of erasing and undoing. It has the lock of its source meanwhile. An erasure
// marks its tables and then waits for the claims that were there before, without any lock. So there is no cycle.
type tableClaims struct {
	mu      sync.Mutex
	claimed map[string]int      // how many changes have each table
	erasing map[string][]string // by task
	undoing map[string][]string // by creation
	changed chan struct{}       // closed and replaced whenever a table is let go
}

func newTableClaims() *tableClaims {
	return &tableClaims{
		claimed: map[string]int{}, erasing: map[string][]string{}, undoing: map[string][]string{}, changed: make(chan struct{}),
	}
}

// wait returns when ready does. t.mu is held, but not during the wait.
func (t *tableClaims) wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// letGo wakes all waiting goroutines. t.mu is held.
func (t *tableClaims) letGo() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// claim has the tables until release. It waits for erasures and undone creations of them.
func (t *tableClaims) claim(ctx context.Context, tables []string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.wait(ctx, func() bool { _, task := t.eraser(tables); return task == "" && !t.isUndone(tables) }); err != nil {
		if table, task := t.eraser(tables); task != "" {
			return nil, fmt.Errorf("task %q is erasing table %s: %w", task, tableText(table), err)
		}
		return nil, fmt.Errorf("the creation of a table is being undone: %w", err)
	}
	for _, table := range tables {
		t.claimed[table]++
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, table := range tables {
			if t.claimed[table]--; t.claimed[table] == 0 {
				delete(t.claimed, table)
			}
		}
		t.letGo()
	}, nil
}

// erase marks the tables of an erasure. No change claims them until endErasure.
func (t *tableClaims) erase(task string, tables []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erasing[task] = tables
}

func (t *tableClaims) endErasure(task string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.erasing, task)
	t.letGo()
}

// erasureOf returns one of some tables that is being erased, and the task, or empty results when none is.
func (t *tableClaims) erasureOf(tables []string) (table, task string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.eraser(tables)
}

// eraser is erasureOf. t.mu is held.
func (t *tableClaims) eraser(tables []string) (table, task string) {
	for _, task := range slices.Sorted(maps.Keys(t.erasing)) {
		for _, table := range t.erasing[task] {
			if slices.Contains(tables, table) {
				return table, task
			}
		}
	}
	return "", ""
}

// unclaimed waits for the changes that claimed a table.
func (t *tableClaims) unclaimed(ctx context.Context, table string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wait(ctx, func() bool { return t.claimed[table] == 0 })
}

// undo marks the tables of a creation, so that no change claims them until endUndo. It reports false if a table has more
// claims than the caller's own.
func (t *tableClaims) undo(creation string, tables []string, own int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.ContainsFunc(tables, func(table string) bool { return t.claimed[table] > own }) {
		return false
	}
	t.undoing[creation] = tables
	return true
}

func (t *tableClaims) endUndo(creation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.undoing, creation)
	t.letGo()
}

// isUndone reports whether the creation of one of some tables is being undone. t.mu is held.
func (t *tableClaims) isUndone(tables []string) bool {
	for _, undone := range t.undoing {
		if slices.ContainsFunc(undone, func(table string) bool { return slices.Contains(tables, table) }) {
			return true
		}
	}
	return false
}

// newTables returns the keys of the tables that next uses and old does not.
func newTables(old, next *tree) []string {
	had := old.tables(false)
	return slices.DeleteFunc(next.tables(false), func(table string) bool { return slices.Contains(had, table) })
}
