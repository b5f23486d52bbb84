package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// An import that has begun before a source is erased through another node may end after the tables were dropped, and make them again. So
// each instance drops them once more when it has nothing left of the source, which is when its imports have ended, and says that it has
// followed after that. The design that lost was an erasure that waits for all instances. It would not end while one of them is away.

// droppedError refuses a change whose table, of which it has the key, another node is about to drop again.
type droppedError struct{ table string }

func (e *droppedError) Error() string {
	return fmt.Sprintf("table %s was erased, and another node is dropping the rest of it", tableText(e.table))
}

// The pauses and the end of waiting for a hold of another node.
const (
	dropPause = 50 * time.Millisecond
	dropWait  = 10 * time.Second
)

// letDrop waits a moment for another node that drops a table again. It reports whether to try again.
func (c *Catalog) letDrop(asked time.Time) bool {
	if time.Since(asked) >= dropWait || c.pause(c.ctx) != nil {
		return false
	}
	return c.CatchUp(c.ctx) == nil
}

func (c *Catalog) pause(ctx context.Context) error {
	select {
	case <-time.After(dropPause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dropFollowed drops the tables and raw records of erasures that the instance of this catalog has followed.
func (c *Catalog) dropFollowed(ctx context.Context) error {
	if c.shared == nil {
		return nil
	}
	drops := c.members.view().drops(c.opts.Instance)
	if len(drops) == 0 {
		return nil
	}
	if err := errors.Join(c.eraseAgain(ctx, drops), c.dropAgain(ctx, drops)); err != nil {
		return err
	}
	return c.droppedAgain(drops)
}

// awaitDrop is dropAgain, and waits while another node needs one of the tables.
func (c *Catalog) awaitDrop(ctx context.Context, erased []string) error {
	for began := time.Now(); ; {
		err := c.dropAgain(ctx, erased)
		refused, isRefused := errors.AsType[*Error](err)
		_, dropped := errors.AsType[*droppedError](err)
		if !dropped && (!isRefused || refused.Code != Busy) || time.Since(began) >= dropWait {
			return err
		}
		if err := errors.Join(c.pause(ctx), c.CatchUp(ctx)); err != nil {
			return err
		}
	}
}

// dropAgain drops the tables of erasures that an instance has followed, except tables that a live sink uses by now. It may be repeated.
func (c *Catalog) dropAgain(ctx context.Context, erased []string) error {
	tables := slices.DeleteFunc(c.members.view().erasedTables(erased), func(table string) bool { return !c.canDrop(table) || c.defs.userOf(table) != "" })
	if len(tables) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	return c.tryDropAgain(ctx, tables)
}

// tryDropAgain has a hold on the tables while it drops them, so that no change begins to use one meanwhile.
func (c *Catalog) tryDropAgain(ctx context.Context, tables []string) error {
	id := uuid.NewString()
	if !c.tables.undo(id, tables, 0) { // a change of this node is about to use one, or has found that it exists
		return busy(tables[0], "")
	}
	defer c.tables.endUndo(id)
	key := holdPrefix + id
	own := hold{Node: c.opts.Node, Opening: c.held.opening, Tables: tables, Drops: true}
	if err := c.shared.commitIf(func() error { return c.conflict(own) }, map[string][]byte{key: encode(own)}); err != nil {
		if !errors.Is(err, ErrNotCommitted) {
			c.repairs.writeLater(map[string][]byte{key: nil})
		}
		return err
	}
	c.held.add(key, own)
	var problems []error
	for _, table := range tables {
		switch {
		case !c.held.has(key):
			problems = append(problems, ErrChanged) // this node was silent for a lease
		case c.defs.userOf(table) == "":
			if err := c.dropTable(ctx, table); err != nil {
				problems = append(problems, fmt.Errorf("table %s: %w", tableText(table), err))
			}
		}
	}
	end := map[string][]byte{key: nil}
	err := c.commit(key, end)
	c.held.drop(key)
	if err != nil && !errors.Is(err, ErrChanged) {
		c.repairs.writeLater(end)
	}
	return errors.Join(problems...)
}
