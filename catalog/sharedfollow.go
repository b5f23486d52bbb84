package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay"
)

// CatchUp returns when this catalog shows all changes made through any node before the call. Without a store that several catalogs share it
// returns at once. The error is a [*JournalError] if the store does not respond.
func (c *Catalog) CatchUp(ctx context.Context) error { return c.co.catchUp(ctx, commitTimeout) }

func (s *shared) catchUp(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.store.CatchUp(ctx)
}

// took copies a stored commit into memory.
func (s *shared) took(records map[string][]byte, own bool) {
	if err := s.apply(records, own); err != nil {
		s.c.log.Error("change of another node not readable", "cause", err, "next", "upgrade this node if the other nodes have a newer release")
	}
}

// apply copies records into memory. It also runs for this catalog's own commits, whose effect on its own tasks and engine the change itself
// applies.
func (s *shared) apply(records map[string][]byte, own bool) error {
	sources := map[string]bool{}
	var ended []func()
	var erased []string
	problems := []error{s.members.apply(records)}
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
				s.c.retired.remove(rest)
			} else if err := json.Unmarshal(record, r); err == nil {
				s.c.retired.add(*r)
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
			ended = append(ended, func() { s.c.tasks.follow(t, record == nil, own) })
		case erasedPrefix:
			if record != nil && !own {
				erased = append(erased, erasedSource(rest))
			}
		case holdPrefix:
			if !own {
				s.follow(key, record)
			}
		}
	}
	for _, source := range erased {
		if len(s.members.view().owed(s.opts.Instance, source)) > 0 {
			s.eraseLater(source)
		}
	}
	for source := range sources {
		t, err := readTree(s.c.store, source)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		s.c.defs.set(source, t)
		s.c.shadows.keep(source, t)
		if !own {
			s.c.repairs.syncLater(source)
		}
	}
	for _, end := range ended { // a reader that sees the end of a task finds its changes
		end()
	}
	return errors.Join(problems...)
}

// show has nothing left to do after took.
func (s *shared) show(*change, []retired) {}

// outcome returns the tree that took has read, or what another node has made of it since.
func (s *shared) outcome(ch *change, records map[string][]byte, cause error) (stored bool, next *tree, err error) {
	if pending, ok := errors.AsType[*PendingError](cause); ok {
		err = pending.Outcome()
		if stored = err == nil; errors.Is(err, ErrNotCommitted) {
			err = nil
		}
	} else {
		stored, err = s.c.isStored(records)
	}
	return stored, s.c.defs.get(ch.ref.Source), err
}

// erase adds the records that other instances have to follow.
func (s *shared) erase(ch *change) error {
	ch.records[erasedPrefix+ch.ref.Source+"/"+uuid.NewString()] = encode(erasedMark{At: ch.at, Tables: ch.erasure.Tables, Archive: ch.erasure.Archive})
	return s.c.store.Scan(endedKey(ch.ref.Source, ""), func(key string, _ []byte) error {
		ch.records[key] = nil
		return nil
	})
}

func (s *shared) erasing(source string) (done func(error)) {
	owed := s.members.view().owed(s.opts.Instance, source)
	return func(err error) {
		if err != nil || s.followed(owed, false) != nil {
			s.eraseLater(source)
		}
	}
}

func (s *shared) eraseLater(source string) {
	s.erasedMu.Lock()
	s.erased[source] = true
	s.erasedMu.Unlock()
	s.c.repairs.syncLater(source)
}

// eraseFollowed may run long after the erasure, if this node was away. What the engine has of the source is from before it, because the engine
// gets a new source of this id only then.
func (s *shared) eraseFollowed(ctx context.Context, source string) error {
	s.erasedMu.Lock()
	erased := s.erased[source]
	s.erasedMu.Unlock()
	if !erased {
		return nil
	}
	owed := s.members.view().owed(s.opts.Instance, source)
	_, err := s.c.defineInEngine(ctx, source, nil, forebay.ApplyOptions{})
	if err == nil {
		err = eraseRows(ctx, s.c.eng, source)
	}
	if err == nil {
		err = s.followed(owed, s.c.opts.DropTable != nil || len(s.c.opts.DropTables) > 0 || s.c.canEraseArchive())
	}
	if err != nil {
		return err
	}
	s.erasedMu.Lock()
	if len(s.members.view().owed(s.opts.Instance, source)) == 0 { // else there is another erasure by now
		delete(s.erased, source)
	}
	s.erasedMu.Unlock()
	s.c.repairs.add(func() {}) // which drop the tables and raw records
	return nil
}

// syncFollowed precedes a change, because at the limit the engine must have ended a source before it can begin a new one.
func (s *shared) syncFollowed(ctx context.Context) { s.c.syncOutOfSync(ctx) }

// disown follows the task from now on.
func (s *shared) disown(task Task) {
	s.c.log.Warn("task ended by another node", "task", task.ID, "next", "find out why this node was silent")
	s.c.tasks.disown(task)
	if record, err := s.c.store.Get(taskKey(task.ID)); err == nil && record != nil && json.Unmarshal(record, &task) == nil {
		s.c.tasks.follow(task, false, false)
	}
}

// disown leaves a task to another catalog, which has taken it over.
func (t *tasks) disown(task Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveBack(task.ID)
	t.byID[task.ID].elsewhere = true
	t.work.Done()
}

// follow takes over the record of a task, or its removal, unless the task runs here. own is set if this catalog has written the record.
func (t *tasks) follow(task Task, removed, own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[task.ID]
	switch {
	case r == nil && own: // it is about to start here
	case r != nil && !r.elsewhere && !r.task.Finished():
	case removed:
		delete(t.byID, task.ID)
	case r == nil:
		r = &running{task: task, done: make(chan struct{}), elsewhere: true}
		t.byID[task.ID] = r
		if task.Finished() {
			close(r.done)
		}
	default:
		if task.Finished() && !r.task.Finished() {
			close(r.done)
		}
		r.task = task
	}
}
