package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
)

// The records of members tell the catalogs on a shared store which instances may have rows. An instance is the engine of a node, under a name
// that is never used again, so that another node can continue it.
//
// It becomes a member with a commit, before its engine has the first definition. It ends with a commit too, which its adopter makes when all
// rows are in their tables. This commit removes the member and adds its counters to the sums of all ended instances. So in any state of
// the store each row is counted once, by a member or as ended.
//
// An erasure leaves a record that every member must follow, except members that joined later. They have read it before their engine had
// the first row. A member that has followed says so in its own record. So it does not matter when it follows, and whether the node itself
// or an adopter does it. The last one removes the record.

// member is the record of an instance that may have rows.
type member struct {
	// Node is the node that has, or had, the engine.
	Node string `json:"node"`
	// Erased are the erasures that the instance has nothing left of, by what follows erasedPrefix.
	Erased []string `json:"erased,omitempty"`
	// Drop names the erasures in Erased whose tables and raw records the instance has still to drop.
	Drop []string `json:"drop,omitempty"`
}

// endedCounts are the counters of a sink in all instances that have ended.
type endedCounts struct {
	// Created tells a sink from an erased one of the same id.
	Created   time.Time   `json:"created"`
	Target    levelRecord `json:"target"`
	Expired   levelRecord `json:"expired,omitzero"`
	Damaged   levelRecord `json:"damaged,omitzero"`
	Discarded levelRecord `json:"discarded,omitzero"`
	// Quarantine has no records. An instance ends when it has none left.
	Quarantine QuarantineStatistics `json:"quarantine,omitzero"`
}

// levelRecord is a [buffer.Level].
type levelRecord struct {
	Rows        int64     `json:"rows"`
	RawBytes    int64     `json:"rawBytes"`
	StoredBytes int64     `json:"storedBytes"`
	FirstAt     time.Time `json:"firstAt,omitzero"`
	LastAt      time.Time `json:"lastAt,omitzero"`
}

// erasedMark is the record of an erasure that members have to follow.
type erasedMark struct {
	At time.Time `json:"at"`
	// Tables are the tables that the erasure drops. Each member drops them too. See shareddropagain.go.
	Tables []string `json:"tables,omitempty"`
	// Archive is the archive that it erases. Earlier releases leave it out.
	Archive string `json:"archive,omitempty"`
}

const (
	memberPrefix = "member/"
	endedPrefix  = "ended/"
	erasedPrefix = "erased/"
)

func endedKey(source, sink string) string { return endedPrefix + source + "/" + sink }

// erasedSource returns the source of an erasure.
func erasedSource(erased string) string { return path.Dir(erased) }

// membersView is a state of the members. It never changes.
type membersView struct {
	version   int
	instances map[string]member
	ended     map[string]endedCounts // by what follows endedPrefix
	erased    map[string]erasedMark  // by what follows erasedPrefix
}

// members are the members that are in the store.
type members struct {
	mu  sync.RWMutex
	now membersView
}

func (m *members) view() membersView {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now
}

// apply takes over the records of a commit.
func (m *members) apply(records map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, changed := m.now, false
	var problems []error
	for key, record := range records {
		prefix, rest, _ := strings.Cut(key, "/")
		var err error
		switch prefix + "/" {
		case memberPrefix:
			next.instances, err = with(next.instances, rest, record)
		case endedPrefix:
			next.ended, err = with(next.ended, rest, record)
		case erasedPrefix:
			next.erased, err = with(next.erased, rest, record) // even with an error, because the rows must go all the same
		default:
			continue
		}
		changed = true
		if err != nil {
			problems = append(problems, fmt.Errorf("record %s: %w", key, err))
		}
	}
	if changed {
		next.version++
		m.now = next
	}
	return errors.Join(problems...)
}

// with returns a copy of a map with a record. A nil record is removed.
func with[R any](all map[string]R, key string, record []byte) (map[string]R, error) {
	next := maps.Clone(all)
	if next == nil {
		next = map[string]R{}
	}
	delete(next, key)
	var value R
	if record == nil {
		return next, nil
	}
	err := json.Unmarshal(record, &value)
	next[key] = value
	return next, err
}

// owed returns the erasures of a source that an instance has to follow, or of all sources for "".
func (v membersView) owed(instance, source string) (list []string) {
	m, ok := v.instances[instance]
	if !ok {
		return nil
	}
	for erased := range v.erased {
		if (source == "" || erasedSource(erased) == source) && !slices.Contains(m.Erased, erased) {
			list = append(list, erased)
		}
	}
	return list
}

// owedSources returns the sources of which an instance has to follow an erasure.
func (v membersView) owedSources(instance string) []string {
	var list []string
	for _, erased := range v.owed(instance, "") {
		list = append(list, erasedSource(erased))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (v membersView) hasErased(erased string) bool {
	_, ok := v.erased[erased]
	return ok
}

// drops returns the erasures whose tables an instance has still to drop.
func (v membersView) drops(instance string) []string {
	return slices.DeleteFunc(slices.Clone(v.instances[instance].Drop), func(erased string) bool { return !v.hasErased(erased) })
}

// erasedTables returns the tables of some erasures, sorted.
func (v membersView) erasedTables(erased []string) (tables []string) {
	for _, e := range erased {
		tables = append(tables, v.erased[e].Tables...)
	}
	slices.Sort(tables)
	return slices.Compact(tables)
}

// replace returns the records that make m the record of an instance. Nil removes it. Erasures that no member still has to follow go too.
func (v membersView) replace(instance string, m *member) map[string][]byte {
	after := maps.Clone(v.instances)
	if after == nil {
		after = map[string]member{}
	}
	if delete(after, instance); m != nil {
		after[instance] = *m
	}
	records := map[string][]byte{memberPrefix + instance: nil}
	gone := map[string]bool{}
	for erased := range v.erased {
		owes := func(m member) bool { return !slices.Contains(m.Erased, erased) || slices.Contains(m.Drop, erased) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(after)), owes) {
			records[erasedPrefix+erased], gone[erased] = nil, true
		}
	}
	if m != nil {
		stay := *m
		end := func(erased string) bool { return !v.hasErased(erased) || gone[erased] }
		stay.Erased, stay.Drop = slices.DeleteFunc(slices.Clone(m.Erased), end), slices.DeleteFunc(slices.Clone(m.Drop), end)
		slices.Sort(stay.Erased)
		records[memberPrefix+instance] = encode(stay)
	}
	return records
}

// changeMembers commits what build makes of the members, in exactly the state that it was made of. Without records there is nothing to do.
func (s *shared) changeMembers(build func(membersView) map[string][]byte) error {
	for {
		v := s.members.view()
		records := build(v)
		if len(records) == 0 {
			return nil
		}
		err := s.store.CommitIf(func() error {
			if s.members.view().version != v.version {
				return ErrChanged
			}
			return nil
		}, records)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

// join makes the instance of this catalog a member, for which it waits until ctx ends. Its engine has no definitions yet. With an error the
// store may be closed.
func (s *shared) join(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.c.store.Close() }) // which ends a commit; Open closes it again
	var away error                                                   // why the attempt before has failed
	for {
		err := s.tryJoin(ctx)
		if err == nil && stop() {
			return nil
		}
		pending, unsure := errors.AsType[*PendingError](err)
		journal, silent := errors.AsType[*JournalError](err)
		ended := context.Cause(ctx)
		if silent && !unsure && ended != nil && journal.Err != ended {
			away = journal.Err // the last attempt has found a reason
		}
		switch {
		case errors.Is(away, ended) && ended != nil:
			return &JournalError{Err: away}
		case ended != nil && away != nil:
			return &JournalError{Err: fmt.Errorf("%w, after %w", ended, away)}
		case ended != nil:
			return &JournalError{Err: ended}
		case !unsure && (!silent || journal.Final):
			stop()
			return err
		}
		away = journal.Err
		s.c.log.Warn("instance waits for the journal of definitions", "instance", s.opts.Instance, "cause", away, "next", "check that a majority of the servers is running")
		if unsure {
			select {
			case <-pending.Done(): // the next attempt sees whether it is stored
			case <-ctx.Done():
			}
		}
	}
}

// tryJoin makes one attempt to join, which ends with a [*JournalError] while the journal does not respond.
func (s *shared) tryJoin(ctx context.Context) error {
	if _, ok := s.members.view().instances[s.opts.Instance]; ok {
		return nil // of an earlier opening, which may have left rows
	}
	if err := s.catchUp(ctx, commitTimeout); err != nil {
		return err
	}
	return s.changeMembers(func(v membersView) map[string][]byte {
		if _, ok := v.instances[s.opts.Instance]; ok {
			return nil
		}
		return v.replace(s.opts.Instance, &member{Node: s.opts.Node, Erased: slices.Collect(maps.Keys(v.erased))})
	})
}

// followed says that the instance of this catalog has nothing left of some erasures, but perhaps tables and raw records. See shareddropagain.go.
func (s *shared) followed(erased []string, tables bool) error {
	return s.changeMembers(func(v membersView) map[string][]byte {
		m, ok := v.instances[s.opts.Instance]
		if !ok || !slices.ContainsFunc(erased, func(e string) bool { return v.hasErased(e) && !slices.Contains(m.Erased, e) }) {
			return nil
		}
		m.Erased = append(slices.Clone(m.Erased), erased...)
		if tables {
			m.Drop = append(slices.Clone(m.Drop), erased...)
		}
		return v.replace(s.opts.Instance, &m)
	})
}

// droppedAgain says that the instance of this catalog has dropped the tables of some erasures again.
func (s *shared) droppedAgain(erased []string) error {
	return s.changeMembers(func(v membersView) map[string][]byte {
		m, ok := v.instances[s.opts.Instance]
		if !ok {
			return nil
		}
		m.Drop = slices.DeleteFunc(slices.Clone(m.Drop), func(e string) bool { return slices.Contains(erased, e) })
		return v.replace(s.opts.Instance, &m)
	})
}

func (l *levelRecord) add(more buffer.Level) {
	*l = levelRecord(sumOf(buffer.Level(*l), more))
}
