package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/forebay/forebay"
)

// Adoption is the engine of an instance that this node has taken over from another node, and drains.
type Adoption struct {
	adopted
	s *shared
	// turn is held while the engine has a definition.
	turn sync.Mutex
}

// Adopt makes this catalog, which must be on a shared store, serve the statistics, waiting files and rejected records of an instance. See
// [SharedOptions.Instance]. The engine takes only the rows of replayed records. epoch is higher than that of every node that has had the instance
// before. The caller calls Follow and Finish while it drains the engine, and Close before it closes the engine.
func (c *Catalog) Adopt(instance string, epoch uint64, eng *forebay.Engine) (*Adoption, error) {
	s, ok := c.co.(*shared)
	if !ok {
		return nil, fmt.Errorf("catalog: adopt instance %s: the store is not shared", instance)
	}
	a := &Adoption{s: s}
	a.adopted = adopted{place{eng, instance, a.withDefinition}, epoch, new(rejectsMove)}
	s.adopted.mu.Lock()
	defer s.adopted.mu.Unlock()
	s.adopted.list = append(s.adopted.list, a)
	return a, nil
}

// Follow gives up the rows of sources that were erased while the instance was away. It returns at once if there are none, and may be repeated.
func (a *Adoption) Follow(ctx context.Context) error {
	v := a.s.members.view()
	for _, source := range v.owedSources(a.instance) {
		if err := eraseRows(ctx, a.eng, source); err != nil {
			return fmt.Errorf("catalog: source %s was erased, rows of instance %s are left: %w", source, a.instance, err)
		}
	}
	return nil
}

// Finish ends the instance when all its rows are in their tables.
// Tables and raw records of erased sources, which an import of the instance may have made again,
// are dropped. Its counters stay in the statistics. It does nothing if the instance has ended
// before. After an error it may be repeated, including by another node that has adopted the instance since.
func (a *Adoption) Finish(ctx context.Context) error {
	if err := a.s.catchUp(ctx, commitTimeout); err != nil {
		return err
	}
	if err := a.Follow(ctx); err != nil {
		return err
	}
	v := a.s.members.view()
	erased := append(v.owed(a.instance, ""), v.drops(a.instance)...)
	if err := errors.Join(a.s.eraseAgain(ctx, erased), a.s.awaitDrop(ctx, erased)); err != nil {
		return fmt.Errorf("catalog: tables or raw records of erased sources of instance %s are left: %w", a.instance, err)
	}
	sinks := a.counts()
	return a.s.changeMembers(func(v membersView) map[string][]byte {
		if _, ok := v.instances[a.instance]; !ok {
			return nil
		}
		erased := v.owedSources(a.instance)
		records := v.replace(a.instance, nil)
		for _, st := range sinks {
			t := a.s.c.defs.get(st.Source)
			if t == nil || t.sinks[st.Sink] == nil || slices.Contains(erased, st.Source) {
				continue
			}
			created := t.sinks[st.Sink].Created.At
			n := v.ended[st.Source+"/"+st.Sink]
			if !n.Created.Equal(created) {
				n = endedCounts{Created: created}
			}
			n.Target.add(st.Target)
			n.Expired.add(st.Expired)
			n.Damaged.add(st.Damaged)
			n.Discarded.add(st.Discarded)
			n.Quarantine.add(newQuarantineStatistics(st.Quarantine))
			records[endedKey(st.Source, st.Sink)] = encode(n)
		}
		return records
	})
}

// PauseRejects refuses edits, replays and discards of the engine's rejected records until resume, and waits for the running ones. Callers repeat
// a refused call.
func (a *Adoption) PauseRejects() (resume func()) {
	a.setMove(true, false)
	return func() { a.setMove(false, false) }
}

// RejectsMoved says that the rejected records have moved to another engine, which serves them from now on.
func (a *Adoption) RejectsMoved() { a.setMove(true, true) }

func (a *Adoption) setMove(paused, moved bool) {
	a.move.Lock()
	defer a.move.Unlock()
	a.move.paused, a.move.moved = paused, moved
}

// Owes reports whether a source was erased whose rows the engine may have. Call it when copies of rejected records are in the engine of this node,
// and give the copies up if it is true. If it is false, each later erasure finds the copies.
func (a *Adoption) Owes(ctx context.Context) (bool, error) {
	if err := a.s.catchUp(ctx, commitTimeout); err != nil {
		return false, err
	}
	return len(a.s.members.view().owedSources(a.instance)) > 0, nil
}

// Close ends the adoption. No request reaches the engine after it.
func (a *Adoption) Close() {
	a.s.adopted.mu.Lock()
	defer a.s.adopted.mu.Unlock()
	a.s.adopted.list = slices.DeleteFunc(a.s.adopted.list, func(one *Adoption) bool { return one == a })
}

// withDefinition calls run while the engine has the definition of a sink. It has none else.
func (a *Adoption) withDefinition(ctx context.Context, ref Ref, run func() error) (err error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	t, _, err := a.s.c.find(ref)
	if err != nil {
		return err
	}
	def, err := t.definition(a.s.c.keys)
	if err != nil {
		return err
	}
	def.Sinks = slices.DeleteFunc(def.Sinks, func(s forebay.Sink) bool { return s.ID != ref.Sink })
	compiled, err := a.eng.Compile(def)
	if err != nil {
		return err
	}
	defer func() {
		if gone := a.eng.Remove(context.WithoutCancel(ctx), ref.Source); gone != nil && !errors.Is(gone, forebay.ErrUnknownSource) {
			err = errors.Join(err, fmt.Errorf("end source %s in the adopted instance %s: %w", ref.Source, a.instance, gone))
		}
	}()
	if _, err := compiled.Apply(ctx, forebay.ApplyOptions{Refuse: func(forebay.TableProblem) bool { return false }}); err != nil {
		return err
	}
	return run()
}
