package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A commit that fails may be on disk. What a change then does stands in the documentation of the package; this file does
// it, and what is left to be repeated when the disk or the engine fail while something is undone.

// The first and the last pause between two attempts to find out what the store has, or to repair.
const (
	settleFirst = 50 * time.Millisecond
	settleLast  = 10 * time.Second
)

// unknownError ends a change whose outcome only the next Open learns.
type unknownError struct{ err error }

func (e *unknownError) Error() string {
	return fmt.Sprintf("the catalog was closed before it was known whether the change is stored, the next Open will tell: %v", e.err)
}

func (e *unknownError) Unwrap() error { return e.err }

// settle finds out whether the records of a change are stored, whose commit has failed with cause. Until that is known
// the engine follows the old tree, which is the last that was acknowledged. It gives up with Close alone.
func (c *Catalog) settle(sourceID string, old, next *tree, records map[string][]byte, cause error) (stored bool, err error) {
	if errors.Is(cause, ErrNotCommitted) {
		return false, nil
	}
	ctx := c.ctx
	onOld := false
	for pause := settleFirst; ; pause = min(2*pause, settleLast) {
		stored, err := c.holds(records)
		switch {
		case err == nil && stored && onOld:
			if err = c.restore(ctx, sourceID, next); err == nil || ctx.Err() != nil {
				return true, nil // after Close the next Open follows
			}
		case err == nil:
			return stored, nil
		case !onOld:
			c.log.Warn("it is not known whether a change is stored, it is read back", "source", sourceID, "error", cause)
			onOld = c.restore(ctx, sourceID, old) == nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if stored {
				return true, nil
			}
			return false, &unknownError{cause}
		}
	}
}

// holds reports whether the store has the records of a commit. Nobody else writes their keys meanwhile: they belong to
// the source whose lock the caller has, or to its task.
func (c *Catalog) holds(records map[string][]byte) (bool, error) {
	for _, key := range slices.Sorted(maps.Keys(records)) {
		have, err := c.store.Get(key)
		if err != nil {
			return false, err
		}
		if want := records[key]; (have == nil) != (want == nil) || !bytes.Equal(have, want) {
			return false, nil
		}
	}
	return true, nil
}

// undoTimeout bounds what is undone after a task's own time may be over.
const undoTimeout = 30 * time.Second

// undo puts the engine, the tokens and the tables back to what the catalog says. What of the engine and the tables fails is
// repeated by sweep. The caller has claimed the tables.
func (c *Catalog) undo(sourceID string, old *tree, made []Token, intent *creation) error {
	err := c.restore(context.WithoutCancel(c.ctx), sourceID, old)
	if err != nil {
		c.mu.Lock()
		c.stray[sourceID] = true
		c.mu.Unlock()
		c.wakeSweep()
	}
	if intent != nil && !c.undoCreation(c.ctx, intent, 1) { // after Close the next Open does it
		c.mu.Lock()
		c.creations[intent.ID] = intent
		c.mu.Unlock()
		c.wakeSweep()
	}
	return errors.Join(err, c.deleteTokens(made))
}

func (c *Catalog) deleteTokens(made []Token) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), undoTimeout)
	defer cancel()
	var problems []error
	for _, t := range made {
		problems = append(problems, c.opts.Tokens.DeleteToken(ctx, t.ID))
	}
	return errors.Join(problems...)
}

// owe has sweep write a record that could not be written now; nil removes the key.
func (c *Catalog) owe(key string, record []byte) {
	c.mu.Lock()
	c.owed[key] = record
	c.mu.Unlock()
	c.wakeSweep()
}

func (c *Catalog) wakeSweep() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// repair writes what is owed, has the engine follow the sources that it strayed from, and undoes creations. It reports
// whether nothing is left.
func (c *Catalog) repair(ctx context.Context) bool {
	c.mu.RLock()
	owed, stray, creations := maps.Clone(c.owed), slices.Sorted(maps.Keys(c.stray)), maps.Clone(c.creations)
	c.mu.RUnlock()
	done := true
	if len(owed) > 0 {
		if err := c.store.Commit(owed); err != nil {
			c.log.Warn("ends of tasks could not be stored, they will be", "tasks", len(owed), "error", err)
			done = false
		} else {
			c.mu.Lock()
			for key, record := range owed {
				if bytes.Equal(c.owed[key], record) {
					delete(c.owed, key)
				}
			}
			c.mu.Unlock()
		}
	}
	for _, id := range stray {
		if err := c.followAgain(ctx, id); err != nil {
			c.log.Warn("the engine does not follow a source yet", "source", id, "error", err)
			done = false
		}
	}
	for _, id := range slices.Sorted(maps.Keys(creations)) {
		if !c.undoCreation(ctx, creations[id], 0) {
			done = false
			continue
		}
		c.mu.Lock()
		delete(c.creations, id)
		c.mu.Unlock()
	}
	return done
}

func (c *Catalog) followAgain(ctx context.Context, sourceID string) error {
	unlock, err := c.locks.Lock(ctx, sourceID, "")
	if err != nil {
		return err
	}
	defer unlock()
	if !c.isStray(sourceID) {
		return nil // a change has repaired it
	}
	if err := c.restore(ctx, sourceID, c.tree(sourceID)); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.stray, sourceID)
	c.mu.Unlock()
	return nil
}

// isStray tells whether the engine may have a source otherwise than the catalog says.
func (c *Catalog) isStray(sourceID string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.stray[sourceID]
}

// restore is follow with a bound of time.
func (c *Catalog) restore(ctx context.Context, sourceID string, t *tree) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	return c.follow(ctx, sourceID, t)
}
