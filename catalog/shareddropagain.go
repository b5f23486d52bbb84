package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// An import that has begun before a source is erased through another node may end after the tables were dropped, and make them again. So
// each instance drops them once more when it has nothing left of the source, which is when its imports have ended, and says that it has
// followed after that. It erases the archive of the source once more as well, because records that wait in the instance may reach it after
// the erasure, and perhaps its node alone can see the folder. The design that lost was an erasure that waits for all instances. It would not
// end while one of them is away.

// dropWait is how long Finish waits for another node that needs one of the tables.
const dropWait = 10 * time.Second

func (s *shared) dropFollowed(ctx context.Context) error {
	drops := s.members.view().drops(s.opts.Instance)
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
	wait, cancel := context.WithTimeout(ctx, dropWait)
	defer cancel()
	for {
		err := s.dropAgain(ctx, erased)
		if !isBusy(err) {
			return err
		}
		if !s.await(wait) {
			return cmp.Or(context.Cause(ctx), err)
		}
		if err := s.catchUp(ctx, commitTimeout); err != nil {
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
	own := hold{Node: s.opts.Node, Opening: s.opening, Tables: tables, Drops: true}
	records := map[string][]byte{key: encode(own)}
	if err := s.store.CommitIf(func() error { return s.conflict(own) }, records); err != nil {
		s.c.repairs.giveUp(records, err)
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
