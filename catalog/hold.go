package catalog

import (
	"bytes"
	"cmp"
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
	// Drops is set if the Tables are dropped once more after an erasure. Others wait for the end of that, which is near.
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
	mu      sync.Mutex
	opening string
	own     map[string]hold
	others  map[string]seenHold
}

// seenHold is the hold of another catalog.
type seenHold struct {
	record []byte
	hold   hold
	since  time.Time // when this record was seen first
}

func newHolds() *holds {
	return &holds{opening: uuid.NewString(), own: map[string]hold{}, others: map[string]seenHold{}}
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

func (h *holds) drop(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.own, key)
}

func (h *holds) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.own[key]
	return ok
}

// ended forgets a hold whose task has ended, unless it still has tables.
func (h *holds) ended(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own, ok := h.own[key]; ok && own.Source != "" {
		delete(h.own, key)
	}
}

// narrow leaves nothing of a hold but some tables.
func (h *holds) narrow(key string, tables []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own, ok := h.own[key]; ok {
		own.Entity, own.Source, own.Adds, own.Tables = "", "", false, tables
		h.own[key] = own
	}
}

// end adds to the last write of a change the end of its hold, or the rest of it.
func (h *holds) end(key string, records map[string][]byte) {
	if key == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	records[key] = nil
	if own, ok := h.own[key]; ok && own.Source == "" {
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

// deaf starts to count the silence of the others again, because this node cannot hear them.
func (h *holds) deaf() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, o := range h.others {
		o.since = time.Now()
		h.others[key] = o
	}
}

// begin makes the first write of a change, which planned has planned. In a shared store it adds a hold for the change, and plans again if
// another node has changed the source meanwhile. It returns the key of the hold, or "" without a shared store.
func (c *Catalog) begin(ref Ref, entity, task string, planned func() (*change, error), records map[string][]byte) (key string, err error) {
	if c.shared != nil {
		if err := c.CatchUp(c.ctx); err != nil {
			return "", err
		}
		key = holdPrefix + uuid.NewString()
	}
	asked := time.Now()
	for {
		ch, err := planned()
		if err != nil {
			return "", err
		}
		all := maps.Clone(records)
		var own hold
		if c.shared == nil {
			err = c.store.Commit(all)
		} else {
			own = hold{
				Node: c.opts.Node, Opening: c.held.opening, Task: task, Entity: entity, Source: ref.Source,
				Tables: newTables(ch.old, ch.next), Adds: ch.next.live() && !ch.old.live(),
			}
			if ch.erasure != nil {
				own.Tables = ch.erasure.Tables
			}
			all[key] = encode(own)
			err = c.shared.commitIf(func() error {
				if c.defs.get(ref.Source) != ch.old {
					return ErrChanged
				}
				return c.conflict(own)
			}, all)
		}
		dropped, isDropped := errors.AsType[*droppedError](err)
		if isDropped && c.letDrop(asked) {
			continue
		}
		switch {
		case err == nil && c.shared != nil:
			c.held.add(key, own)
			return key, nil
		case err == nil:
			return "", nil
		case isDropped:
			return "", busy(dropped.table, "")
		case errors.Is(err, ErrChanged):
			continue
		case !errors.Is(err, ErrNotCommitted):
			for key := range all {
				all[key] = nil // no caller will ask for it
			}
			c.repairs.writeLater(all)
		}
		if refused, ok := errors.AsType[*Error](err); ok {
			err = refused
		}
		return "", err
	}
}

// conflict refuses a hold that an existing one excludes.
func (c *Catalog) conflict(h hold) error {
	adding := map[string]bool{}
	var refused error
	err := scan(c.store, holdPrefix, func(_ string, o *hold) {
		if o.Adds && o.Source != h.Source {
			adding[o.Source] = true
		}
		table := slices.IndexFunc(h.Tables, func(table string) bool { return slices.Contains(o.Tables, table) })
		switch {
		case refused != nil:
		case o.Opening == h.Opening && (o.Task == "" || h.Task == ""): // of the two, the change without a task waits. See Catalog.direct.
		case o.Entity != "" && o.Entity == h.Entity:
			refused = busy(h.Entity, o.Task)
		case o.Opening == h.Opening: // keylock and tableClaims see to the rest
		case o.Source != "" && o.Source == h.Source:
			refused = busy(h.Source, o.Task)
		case table >= 0 && o.Drops:
			refused = &droppedError{h.Tables[table]}
		case table >= 0:
			refused = busy(h.Tables[table], o.Task)
		}
	})
	if err = cmp.Or(err, refused); err != nil || !h.Adds {
		return err
	}
	for _, t := range c.defs.all() {
		if t.live() {
			adding[t.source.ID] = true
		}
	}
	if len(adding) >= c.eng.Options().MaxSources {
		return c.tooManySources()
	}
	return nil
}

// commit writes records of a change. The error is [ErrChanged] if the change has lost its hold. Each commit changes the record of the hold, so
// that takeOver, which has looked at the records of the change before, is refused.
func (c *Catalog) commit(key string, records map[string][]byte) error {
	if c.shared == nil {
		return c.store.Commit(records)
	}
	c.held.beat(key, records)
	return c.shared.commitIf(func() error {
		// The record is gone if a commit before this one has ended the change.
		if record, err := c.store.Get(key); err != nil || record == nil || !c.held.has(key) {
			return cmp.Or(err, ErrChanged)
		}
		return nil
	}, records)
}

// watchHolds beats for the holds of this catalog, and takes over holds of other catalogs that are silent for a lease.
func (c *Catalog) watchHolds() {
	defer c.tasks.work.Done()
	tick := time.NewTicker(c.opts.Lease / 3)
	defer tick.Stop()
	for {
		own, others := c.held.all()
		if len(others) > 0 && c.catchUp(c.ctx, c.opts.Lease/3) != nil {
			c.held.deaf()
			others = nil
		}
		for key, h := range own {
			err := c.commit(key, map[string][]byte{}) // the next beat is the next attempt
			if err != nil && c.ctx.Err() == nil && !errors.Is(err, ErrChanged) {
				c.log.Warn("other nodes not told of a change", "task", h.Task, "cause", err, "next", "check the connection to the servers")
			}
		}
		for key, o := range others {
			if time.Since(o.since) >= c.opts.Lease || o.hold.Node == c.opts.Node {
				c.takeOver(key, o)
			}
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
	}
}

// takeOver ends or continues the change of a node that was stopped.
func (c *Catalog) takeOver(key string, o seenHold) {
	records := map[string][]byte{key: nil}
	var erasures []*erasure
	var tables []string
	next, own := holdPrefix+uuid.NewString(), o.hold
	own.Node, own.Opening = c.opts.Node, c.held.opening
	err := errors.Join(
		scan(c.store, erasurePrefix, func(_ string, e *erasure) {
			if e.Task.ID == o.hold.Task {
				erasures = append(erasures, e)
				records[next] = encode(own)
			}
		}),
		scan(c.store, creationPrefix, func(creation string, cr *creation) {
			if cr.Hold == key {
				records[creation] = nil
				tables = append(tables, cr.Tables...)
			}
		}),
	)
	if len(erasures) == 0 && o.hold.Task != "" {
		err = errors.Join(err, scan(c.store, taskKey(o.hold.Task), func(key string, t *Task) {
			if t.ID == o.hold.Task && !t.Finished() {
				t.Status, t.Failure, t.FinishedAt = Failed, t.interrupted(), now()
				records[key] = encode(t)
			}
		}))
	}
	if err == nil {
		err = c.shared.commitIf(func() error {
			record, err := c.store.Get(key)
			if err == nil && !bytes.Equal(record, o.record) {
				err = ErrChanged
			}
			return err
		}, records)
	}
	if pending, ok := errors.AsType[*pendingError](err); ok {
		select {
		case <-pending.commit.done:
			if stored, unknown := pending.outcome(); stored || unknown == nil {
				err = pending.commit.err
			}
		case <-c.ctx.Done():
		}
	}
	switch {
	case errors.Is(err, ErrChanged): // another node was faster, or the owner has beaten
		return
	case err != nil:
		c.log.Warn("change of a stopped node not taken over", "node", o.hold.Node, "task", o.hold.Task, "cause", err, "next", "it is retried automatically")
		return
	}
	c.log.Warn("node stopped during a change", "node", o.hold.Node, "task", o.hold.Task, "continued", len(erasures) > 0, "next", "read the task; retry the change if it was not continued")
	if len(tables) > 0 {
		// Rows that the node has accepted may be on their way to them.
		c.log.Warn("tables of a failed change left", "node", o.hold.Node, "tables", tables, "next", "drop the tables if no sink uses them")
	}
	c.held.follow(key, nil)
	if len(erasures) > 0 {
		c.held.add(next, own)
		c.resumeErasures(erasures, next)
	}
}
