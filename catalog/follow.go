package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// CatchUp returns when this catalog shows all changes made through any node before the call. Without a store that several catalogs share it
// returns at once. The error is a [*JournalError] if the journal does not respond.
func (c *Catalog) CatchUp(ctx context.Context) error { return c.catchUp(ctx, commitTimeout) }

func (c *Catalog) catchUp(ctx context.Context, timeout time.Duration) error {
	if c.shared == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.shared.catchUp(ctx); err != nil {
		return &JournalError{err}
	}
	return nil
}

// took copies a stored commit into memory. It also runs for this catalog's own commits, whose effect on its own tasks and engine
// the change itself applies.
func (c *Catalog) took(records map[string][]byte, own bool) {
	sources := map[string]bool{}
	var ended []func()
	var erased []string
	problems := []error{c.members.apply(records)}
	for key, record := range records {
		kind, rest, _ := strings.Cut(key, "/")
		switch kind + "/" {
		case sourcePrefix:
			sources[rest] = true
		case sinkPrefix:
			source, _, _ := strings.Cut(rest, "/")
			sources[source] = true
		case retiredPrefix:
			r := new(retired)
			if record == nil {
				c.retired.remove(rest)
			} else if err := json.Unmarshal(record, r); err == nil {
				c.retired.add(*r)
			} else {
				problems = append(problems, fmt.Errorf("record %s: %w", key, err))
			}
		case taskPrefix:
			t := Task{ID: rest}
			if record != nil {
				if err := json.Unmarshal(record, &t); err != nil {
					problems = append(problems, fmt.Errorf("record %s: %w", key, err))
					continue
				}
			}
			ended = append(ended, func() { c.tasks.follow(t, record == nil, own) })
		case erasedPrefix:
			if record != nil && !own {
				erased = append(erased, erasedSource(rest))
			}
		case holdPrefix:
			if !own {
				c.held.follow(key, record)
			}
		}
	}
	for _, source := range erased {
		if len(c.members.view().owed(c.opts.Instance, source)) > 0 {
			c.repairs.eraseLater(source)
		}
	}
	for source := range sources {
		t, err := readTree(c.store, source)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		c.defs.set(source, t)
		c.shadows.keep(source, t)
		if !own {
			c.repairs.syncLater(source)
		}
	}
	for _, end := range ended { // a reader that sees the end of a task finds its changes
		end()
	}
	if err := errors.Join(problems...); err != nil {
		c.log.Error("change of another node not readable", "cause", err, "next", "upgrade this node if the other nodes have a newer release")
	}
}

// eraseFollowed removes from the engine what belongs to a source that another node has erased, perhaps while this one was away. What
// the engine has of the source is from before, because it gets a new one of this id only then. The caller has the lock of the source.
func (c *Catalog) eraseFollowed(ctx context.Context, source string) error {
	if !c.repairs.isErased(source) {
		return nil
	}
	owed := c.members.view().owed(c.opts.Instance, source)
	_, err := c.defineInEngine(ctx, source, nil, forebay.ApplyOptions{})
	if err == nil {
		err = eraseRows(ctx, c.eng, source)
	}
	if err == nil {
		err = c.followed(owed, c.opts.DropTable != nil || len(c.opts.DropTables) > 0 || c.canEraseArchive())
	}
	if err == nil {
		c.repairs.add(func() {}) // which drop the tables and raw records
		c.repairs.eraseDone(source, func() bool { return len(c.members.view().owed(c.opts.Instance, source)) == 0 })
	}
	return err
}

// syncFollowed gives the engine what other nodes have changed, before a change that may need the room. The engine must have ended a source
// before it can begin a new one at the limit.
func (c *Catalog) syncFollowed(ctx context.Context) {
	if c.shared != nil {
		c.syncOutOfSync(ctx)
	}
}
