package catalog

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driverkit/ctxio"
)

func (c *Catalog) engineHas(def *forebay.Definition) bool {
	if def == nil {
		return false
	}
	want := def.Source()
	have, ok := c.eng.Source(want.ID)
	return ok && reflect.DeepEqual(have, want)
}

// defineInEngine gives the engine a definition, even if it may be in the middle of a change. Nil ends the source.
func (c *Catalog) defineInEngine(
	ctx context.Context, sourceID string, def *forebay.Definition, opts forebay.ApplyOptions,
) ([]forebay.TableProblem, error) {
	if def != nil {
		return def.Apply(ctx, opts)
	}
	if err := c.eng.Remove(ctx, sourceID); err != nil && !errors.Is(err, forebay.ErrUnknownSource) {
		return nil, err
	}
	return nil, nil
}

// syncEngine gives the engine a tree that was accepted before, whatever has become of its tables.
func (c *Catalog) syncEngine(ctx context.Context, sourceID string, t *tree) error {
	def, err := c.compile(t)
	if err != nil {
		return err
	}
	_, err = c.defineInEngine(ctx, sourceID, def, forebay.ApplyOptions{Refuse: func(forebay.TableProblem) bool { return false }})
	return err
}

// undoTimeout bounds a step of an undo, which begins when the time of the task may be over.
const undoTimeout = 30 * time.Second

// restore is syncEngine with a bound of time.
func (c *Catalog) restore(ctx context.Context, sourceID string, t *tree) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	return c.syncEngine(ctx, sourceID, t)
}

// syncedAtOnce is how many sources Open defines side by side.
const syncedAtOnce = 16

// syncAll gives the engine all sources, several at a time, because a target that is away costs each of them a time-out.
func (c *Catalog) syncAll() {
	trees := c.defs.all()
	problems := make([]error, len(trees))
	turns := make(chan struct{}, syncedAtOnce)
	var all sync.WaitGroup
	for i, t := range trees {
		if c.repairs.outOfSyncSince(t.source.ID) > 0 {
			continue // the coordinator has more to do first
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			problems[i] = c.syncEngine(c.ctx, t.source.ID, t)
		})
	}
	all.Wait()
	for i, err := range problems {
		if err != nil {
			c.log.Error("source out of use", "source", trees[i].source.ID, "cause", err, "next", "repair the definition that the cause names")
		}
	}
}

// unknownError ends a change whose outcome only the next Open learns.
type unknownError struct{ err error }

func (e *unknownError) Error() string {
	return "the catalog was closed before it was known whether the change is stored, the next Open will tell: " + e.err.Error()
}

func (e *unknownError) Unwrap() error { return e.err }

// readBack finds out whether the records of a change are stored, whose commit failed with cause. Until that is known the
// engine has the old tree, which was acknowledged last. Only Close ends the attempts.
func (c *Catalog) readBack(ch *change, records map[string][]byte, cause error) (stored bool, err error) {
	if errors.Is(cause, ErrNotCommitted) {
		return false, nil
	}
	ctx, source := c.ctx, ch.ref.Source
	onOld := false
	pause := ctxio.Pause{First: 50 * time.Millisecond, Last: 10 * time.Second}
	for {
		stored, next, err := c.co.outcome(ch, records, cause)
		switch {
		case err == nil && stored && onOld:
			if err = c.restore(ctx, source, next); err == nil || ctx.Err() != nil {
				return true, nil // after Close the next Open gives the engine the new tree
			}
		case err == nil:
			return stored, nil
		case !onOld:
			c.log.Warn("outcome of a definition change unknown", "source", source, "cause", cause, "next", "the definition is read again")
			onOld = c.restore(ctx, source, ch.old) == nil
		}
		if pause.Wait(ctx) != nil {
			if stored {
				return true, nil
			}
			return false, &unknownError{cause}
		}
	}
}

// isStored reports whether the store has the records of a commit. No other goroutine writes their keys meanwhile, because they belong to
// the source whose lock the caller has, or to its task.
func (c *Catalog) isStored(records map[string][]byte) (bool, error) {
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

// undo puts the engine, the tokens and the tables back to the state of the catalog. The repairs repeat failed work on the
// engine and the tables. The caller has claimed the tables.
func (c *Catalog) undo(ch *change, made []Token, intent *creation) error {
	source := ch.ref.Source
	err := c.restore(context.WithoutCancel(c.ctx), source, ch.old)
	if err != nil {
		c.repairs.syncLater(source)
	}
	if intent != nil && !c.undoCreation(c.ctx, intent, 1) { // after Close the next Open does it
		c.co.narrow(ch.hold, intent.Tables)
		c.repairs.undoLater(intent)
	}
	return errors.Join(err, c.deleteTokens(made))
}
