package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Catalogs on a shared store keep out of each other's way with holds. A hold is a record that says which source and which tables a change
// of a node needs. It is committed with the record of the task, if no other change has a hold on the same, and removed with the end of the task.
// Every commit of the change is conditional. The hold must still be there.
//
// The node beats while it has holds, which means that it writes them again. When others have not seen a beat for a lease, the first of them
// takes the hold over. The task has failed, or its erasure is continued. So a node that was paused for longer cannot commit its planned
// change, however late it wakes up. Its work outside the store meanwhile, such as dropping a table of an erasure, cannot be refused.

// hold is the record of a change in progress.
type hold struct {
	// Node has the change; Opening is new for each time that the catalog of the node is opened.
	Node    string `json:"node"`
	Opening string `json:"opening"`
	// Task is empty for a change without a task.
	Task string `json:"task,omitempty"`
	// Entity and Source name the entity and the source of the change. The Source is empty if only tables are needed still.
	Entity string `json:"entity,omitempty"`
	Source string `json:"source,omitempty"`
	// Tables are the tables that the change begins to use, or drops.
	Tables []string `json:"tables,omitempty"`
	// Adds is set if there is a live source more after the change.
	Adds bool `json:"adds,omitempty"`
	// Drops is set if the Tables are dropped once more after an erasure. Earlier releases wait for the end of a hold only with this mark.
	Drops bool `json:"drops,omitempty"`
	// Beat counts the times that the hold was written.
	Beat int `json:"beat"`
}

const (
	holdPrefix   = "hold/"
	defaultLease = 30 * time.Second
	minLease     = 3 * time.Second
)

// holds are the holds that a catalog on a shared store knows. others has the versions that took received last.
type holds struct {
	mu     sync.Mutex
	own    map[string]hold
	others map[string]seenHold
}

// seenHold is the hold of another catalog.
type seenHold struct {
	record []byte
	hold   hold
	since  time.Time // when this record was seen first
}

// follow takes over what another catalog has written. record is nil when it has removed the hold, which may have been an own one.
func (h *holds) follow(key string, record []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.own, key)
	delete(h.others, key)
	var read hold
	if record != nil && json.Unmarshal(record, &read) == nil {
		h.others[key] = seenHold{record, read, time.Now()}
	}
}

func (h *holds) add(key string, own hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own[key] = own
}

func (h *holds) owns(key string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.own[key]; !ok && key != "" {
		return ErrChanged
	}
	return nil
}

// rest reports whether narrow reduced the hold to some tables.
func (h hold) rest() bool { return h.Source == "" && len(h.Tables) > 0 }

func (h *holds) release(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.own[key].rest() {
		delete(h.own, key)
	}
}

func (h *holds) narrow(key string, tables []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own, ok := h.own[key]
	if delete(h.own, key); ok && len(tables) > 0 {
		own.Entity, own.Source, own.Adds, own.Tables = "", "", false, tables
		h.own[key] = own
	}
}

func (h *holds) end(key string, records map[string][]byte) {
	if key == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	records[key] = nil
	if own := h.own[key]; own.rest() {
		records[key] = encode(own)
	}
}

// beat writes a hold again with other records of its change, unless they have it.
func (h *holds) beat(key string, records map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own, ok := h.own[key]
	if _, has := records[key]; ok && !has {
		own.Beat++
		h.own[key] = own
		records[key] = encode(own)
	}
}

// all returns copies.
func (h *holds) all() (own map[string]hold, others map[string]seenHold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.own), maps.Clone(h.others)
}

// resetSilence restarts the silence timers of the others, because this node could not read the journal.
func (h *holds) resetSilence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, o := range h.others {
		o.since = time.Now()
		h.others[key] = o
	}
}

// lookAgain is how often a change looks whether another node still has its source or tables.
const lookAgain = 100 * time.Millisecond

// begin refuses a change with a task at once if another task is in the way, whose id the caller gets.
func (s *shared) begin(
	ctx context.Context, ref Ref, entity, task string, planned func() (*change, error), records map[string][]byte,
) (key string, err error) {
	wait, cancel := context.WithTimeout(ctx, waitForOthers)
	defer cancel()
	for {
		key, err = s.tryBegin(ref, entity, task, planned, records)
		if refused, ok := errors.AsType[*Error](err); !ok || refused.Code != Busy || task == "" || refused.Task != "" || !s.await(wait) {
			return key, err
		}
	}
}

// await waits before this node looks again whether a hold has ended, which the store does not say.
func (s *shared) await(ctx context.Context) bool {
	select {
	case <-time.After(lookAgain):
		return true
	case <-ctx.Done():
		return false
	}
}

// tryBegin is begin without waiting. It plans again if another node has changed the source meanwhile.
func (s *shared) tryBegin(ref Ref, entity, task string, planned func() (*change, error), records map[string][]byte) (key string, err error) {
	if err := s.catchUp(s.c.ctx, commitTimeout); err != nil {
		return "", err
	}
	key = holdPrefix + uuid.NewString()
	for {
		ch, err := planned()
		if err != nil {
			return "", err
		}
		own := hold{
			Node: s.opts.Node, Opening: s.opening, Task: task, Entity: entity, Source: ref.Source,
			Tables: newTables(ch.old, ch.next), Adds: ch.next.live() && !ch.old.live(),
		}
		if ch.erasure != nil {
			own.Tables = ch.erasure.Tables
		}
		all := map[string][]byte{key: encode(own)}
		maps.Copy(all, records)
		err = s.store.CommitIf(func() error {
			if s.c.defs.get(ref.Source) != ch.old {
				return ErrChanged
			}
			return s.conflict(own)
		}, all)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err == nil {
			s.add(key, own)
			return key, nil
		}
		s.c.repairs.giveUp(all, err) // no caller will ask for it
		if refused, ok := errors.AsType[*Error](err); ok {
			err = refused
		}
		return "", err
	}
}

// conflict refuses a hold that an existing one excludes.
func (s *shared) conflict(h hold) error {
	adding := map[string]bool{}
	var refused error
	err := scan(s.c.store, holdPrefix, func(_ string, o *hold) {
		if o.Adds && o.Source != h.Source {
			adding[o.Source] = true
		}
		table := slices.IndexFunc(h.Tables, func(table string) bool { return slices.Contains(o.Tables, table) })
		switch {
		case refused != nil:
		case o.Opening == h.Opening && (o.Task == "" || h.Task == ""): // of the two, the change without a task waits. See Catalog.direct.
		case o.Entity != "" && o.Entity == h.Entity:
			refused = busy(h.Entity, o.Task)
		case o.Opening == h.Opening: // keylock and tableClaims exclude the other changes
		case o.Source != "" && o.Source == h.Source:
			refused = busy(h.Source, o.Task)
		case table >= 0:
			refused = busy(h.Tables[table], o.Task)
		}
	})
	if err = cmp.Or(err, refused); err != nil || !h.Adds {
		return err
	}
	for _, t := range s.c.defs.all() {
		if t.live() {
			adding[t.source.ID] = true
		}
	}
	if len(adding) >= s.c.eng.Options().MaxSources {
		return s.c.tooManySources()
	}
	return nil
}

// commit changes the record of the hold each time, so that takeOver, which has looked at the records of the change before, is refused.
func (s *shared) commit(key string, records map[string][]byte) error {
	s.beat(key, records)
	return s.store.CommitIf(func() error {
		// The record is gone if a commit before this one has ended the change.
		if record, err := s.c.store.Get(key); err != nil || record == nil {
			return cmp.Or(err, ErrChanged)
		}
		return s.owns(key)
	}, records)
}

// watchHolds beats for the holds of this catalog, and takes over holds of other catalogs that are silent for a lease.
func (s *shared) watchHolds() {
	defer s.c.tasks.work.Done()
	tick := time.NewTicker(s.opts.Lease / 3)
	defer tick.Stop()
	for {
		own, others := s.all()
		if len(others) > 0 && s.catchUp(s.c.ctx, s.opts.Lease/3) != nil {
			s.resetSilence()
			others = nil
		}
		for key, h := range own {
			err := s.commit(key, map[string][]byte{}) // the next beat is the next attempt
			if err != nil && s.c.ctx.Err() == nil && !errors.Is(err, ErrChanged) {
				s.c.log.Warn("other nodes not told of a change", "task", h.Task, "cause", err, "next", "check the connection to the servers")
			}
		}
		for key, o := range others {
			if time.Since(o.since) >= s.opts.Lease || o.hold.Node == s.opts.Node {
				s.takeOver(key, o)
			}
		}
		select {
		case <-tick.C:
		case <-s.c.ctx.Done():
			return
		}
	}
}

// takeOver ends or continues the change of a node that was stopped.
func (s *shared) takeOver(key string, o seenHold) {
	records := map[string][]byte{key: nil}
	var erasures []*erasure
	var tables []string
	next, own := holdPrefix+uuid.NewString(), o.hold
	own.Node, own.Opening = s.opts.Node, s.opening
	err := errors.Join(
		scan(s.c.store, erasurePrefix, func(_ string, e *erasure) {
			if e.Task.ID == o.hold.Task {
				erasures = append(erasures, e)
				records[next] = encode(own)
			}
		}),
		scan(s.c.store, creationPrefix, func(creation string, cr *creation) {
			if cr.Hold == key {
				records[creation] = nil
				tables = append(tables, cr.Tables...)
			}
		}),
	)
	if len(erasures) == 0 && o.hold.Task != "" {
		err = errors.Join(err, scan(s.c.store, taskKey(o.hold.Task), func(key string, t *Task) {
			if t.ID == o.hold.Task && !t.Finished() {
				t.Status, t.Failure, t.FinishedAt = Failed, t.interrupted(), now()
				records[key] = encode(t)
			}
		}))
	}
	if err == nil {
		err = s.store.CommitIf(func() error {
			record, err := s.c.store.Get(key)
			if err == nil && !bytes.Equal(record, o.record) {
				err = ErrChanged
			}
			return err
		}, records)
	}
	if pending, ok := errors.AsType[*PendingError](err); ok {
		select {
		case <-pending.Done():
			err = pending.Outcome()
		case <-s.c.ctx.Done():
		}
	}
	switch {
	case errors.Is(err, ErrChanged): // another node was faster, or the owner has beaten
		return
	case err != nil:
		s.c.log.Warn("change of a stopped node not taken over", "node", o.hold.Node, "task", o.hold.Task, "cause", err, "next", "it is retried automatically")
		return
	}
	s.c.log.Warn("node stopped during a change", "node", o.hold.Node, "task", o.hold.Task, "continued", len(erasures) > 0, "next", "read the task; retry the change if it was not continued")
	if len(tables) > 0 {
		// Rows that the node has accepted may be on their way to them.
		s.c.log.Warn("tables of a failed change left", "node", o.hold.Node, "tables", tables, "next", "drop the tables if no sink uses them")
	}
	s.follow(key, nil)
	if len(erasures) > 0 {
		s.add(next, own)
		s.c.resumeErasures(erasures, next)
	}
}
