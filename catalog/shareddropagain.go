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
func (s *shared) letDrop(asked time.Time) bool {
	if time.Since(asked) >= dropWait || s.pause(s.c.ctx) != nil {
		return false
	}
	return s.catchUp(s.c.ctx, commitTimeout) == nil
}

func (s *shared) pause(ctx context.Context) error {
	select {
	case <-time.After(dropPause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *shared) dropFollowed(ctx context.Context) error {
	drops := s.members.view().drops(s.c.opts.Instance)
	if len(drops) == 0 {
		return nil
	}
	if err := errors.Join(s.eraseAgain(ctx, drops), s.dropAgain(ctx, drops)); err != nil {
		return err
	}
	return s.droppedAgain(drops)
}

// awaitDrop is dropAgain, and waits while another node needs one of the tables.
func (s *shared) awaitDrop(ctx context.Context, erased []string) error {
	for began := time.Now(); ; {
		err := s.dropAgain(ctx, erased)
		refused, isRefused := errors.AsType[*Error](err)
		_, dropped := errors.AsType[*droppedError](err)
		if !dropped && (!isRefused || refused.Code != Busy) || time.Since(began) >= dropWait {
			return err
		}
		if err := errors.Join(s.pause(ctx), s.catchUp(ctx, commitTimeout)); err != nil {
			return err
		}
	}
}

// dropAgain drops the tables of erasures that an instance has followed, except tables that a live sink uses by now. It may be repeated.
func (s *shared) dropAgain(ctx context.Context, erased []string) error {
	tables := slices.DeleteFunc(s.members.view().erasedTables(erased), func(table string) bool { return !s.c.canDrop(table) || s.c.defs.userOf(table) != "" })
	if len(tables) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	return s.tryDropAgain(ctx, tables)
}

// tryDropAgain has a hold on the tables while it drops them, so that no change begins to use one meanwhile.
func (s *shared) tryDropAgain(ctx context.Context, tables []string) error {
	id := uuid.NewString()
	if !s.c.tables.undo(id, tables, 0) { // a change of this node is about to use one, or has found that it exists
		return busy(tables[0], "")
	}
	defer s.c.tables.endUndo(id)
	key := holdPrefix + id
	own := hold{Node: s.c.opts.Node, Opening: s.opening, Tables: tables, Drops: true}
	if err := s.store.commitIf(func() error { return s.conflict(own) }, map[string][]byte{key: encode(own)}); err != nil {
		if !errors.Is(err, ErrNotCommitted) {
			s.c.repairs.writeLater(map[string][]byte{key: nil})
		}
		return err
	}
	s.add(key, own)
	var problems []error
	for _, table := range tables {
		switch {
		case s.owns(key) != nil:
			problems = append(problems, ErrChanged) // this node was silent for a lease
		case s.c.defs.userOf(table) == "":
			if err := s.c.dropTable(ctx, table); err != nil {
				problems = append(problems, fmt.Errorf("table %s: %w", tableText(table), err))
			}
		}
	}
	end := map[string][]byte{key: nil}
	err := s.commit(key, end)
	s.narrow(key, nil)
	if err != nil && !errors.Is(err, ErrChanged) {
		s.c.repairs.writeLater(end)
	}
	return errors.Join(problems...)
}

// eraseAgain deletes the raw records of erasures that an instance has followed.
func (s *shared) eraseAgain(ctx context.Context, erased []string) error {
	v := s.members.view()
	var problems []error
	for _, e := range erased {
		archive := v.erased[e].Archive
		if archive == "" {
			continue // an earlier release has begun it
		}
		if err := s.c.eraseArchive(ctx, archive); err != nil && !cannotErase(err) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
