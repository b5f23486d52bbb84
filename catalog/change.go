package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// plan makes a change of one source and its sinks by changing ch.next. It is called twice, for the response to the caller and again
// when the change is made, so it must depend on nothing but the change and the store.
type plan func(ch *change) error

// change is a change in the making.
type change struct {
	// ref is the source or sink that the caller wants to change.
	ref Ref
	by  By
	at  time.Time
	// old is the tree in the catalog, or nil for none. next replaces it. A nil next erases the source.
	old, next *tree
	// records are the versions that the change adds, by key. A nil version is removed.
	records map[string][]byte
	// result is the sentence of the task.
	result string
	// erasure is what remains to be done after the change was stored, or nil for nothing.
	erasure *erasure
	// created are the sinks that are new or come back. Their tables must be right, even where a deleted sink of the id had
	// the table before.
	created map[string]bool
	// hold is what coordinator.begin has returned.
	hold string
	// warnings are for the user, although the change was made.
	warnings []Warning
}

// plan applies p to the current tree.
func (c *Catalog) plan(by By, ref Ref, p plan, at time.Time) (*change, error) {
	old := c.defs.get(ref.Source)
	ch := &change{ref: ref, by: by, at: at, old: old, next: old.clone(), records: map[string][]byte{}, created: map[string]bool{}}
	return ch, p(ch)
}

// live wraps a plan for a source, and a sink if ref has one, that must not be deleted.
func live(p plan) plan {
	return func(ch *change) error {
		if !ch.old.live() {
			return notFound(Ref{Source: ch.ref.Source})
		}
		if ch.ref.Sink != "" && ch.old.sink(ch.ref.Sink) == nil {
			return notFound(ch.ref)
		}
		if !ch.at.Before(ch.next.source.OldSecretUntil) {
			ch.next.source.endOldSecret() // it is refused already
		}
		return p(ch)
	}
}

// seen refuses the change if the source or sink that it is about has another version. 0 stands for any.
func (ch *change) seen(number int) error {
	if now := ch.lifecycle().Version.Number; number != 0 && number != now {
		return refuse(VersionChanged, "%s has changed: its version is %d, and the change was made for version %d.", ch.ref.title(), now, number)
	}
	return nil
}

// lifecycle returns the Lifecycle of the source or sink that the change is about.
func (ch *change) lifecycle() *Lifecycle {
	if ch.ref.Sink == "" {
		return &ch.next.source.Lifecycle
	}
	return &ch.next.sinks[ch.ref.Sink].Lifecycle
}

// compile has the engine compile a live tree, and refuses one that it would not take. It returns nil for a deleted tree.
func (c *Catalog) compile(t *tree) (*forebay.Definition, error) {
	if !t.live() {
		return nil, nil
	}
	def, err := t.definition(c.keys)
	var compiled *forebay.Definition
	if err == nil {
		compiled, err = c.eng.Compile(def)
	}
	if err == nil {
		return compiled, nil
	}
	texts := []string{err.Error()}
	if d, ok := err.(*forebay.DefinitionError); ok {
		texts = nil
		for _, p := range d.Problems {
			texts = append(texts, p.Error())
		}
	}
	return nil, refuse(BadRequest, "%s", sentence(errors.New(strings.Join(texts, "; "))))
}

// apply changes the tokens first, then the engine, then the store, whose write decides. What fails before that write is
// undone. A write that failed is read back. record adds the end of the task to the write, or what remains to be done. record is nil
// for a change without a task. The caller has the lock of the source, and a hold of coordinator.begin.
func (c *Catalog) apply(ctx context.Context, by By, ref Ref, task, hold string, p plan, record func(*change) (key string, value []byte)) error {
	outOfSync := c.repairs.outOfSyncSince(ref.Source)
	if err := c.co.eraseFollowed(ctx, ref.Source); err != nil {
		return err
	}
	ch, err := c.plan(by, ref, p, now())
	if err != nil {
		return err
	}
	ch.hold = hold
	def, err := c.compile(ch.next)
	if err != nil {
		return err
	}
	release, err := c.tables.claim(ctx, newTables(ch.old, ch.next))
	if err != nil {
		return err
	}
	defer release()
	made, gone, err := c.renewTokens(ctx, ch)
	if err != nil {
		return errors.Join(err, c.deleteTokens(made))
	}
	intent, err := c.beginCreation(ch, task)
	if err != nil {
		return errors.Join(err, c.deleteTokens(made))
	}
	if outOfSync > 0 || !c.engineHas(def) {
		problems, err := c.defineInEngine(ctx, ref.Source, def, forebay.ApplyOptions{Creation: intent.id(), Refuse: ch.refuses})
		if err != nil {
			return errors.Join(err, c.undo(ch, made, intent))
		}
		ch.warn(problems)
	}

	records := ch.treeRecords()
	for _, r := range gone {
		records[retiredKey(r.Token.ID)] = encode(r)
	}
	if ch.old == nil {
		c.repairs.endErasures(records, ref.Source)
	}
	if intent != nil {
		records[creationKey(intent.ID)] = nil
	}
	if record != nil {
		key, value := record(ch)
		records[key] = value
	}
	if ch.erasure == nil {
		c.co.end(hold, records)
	}
	if err := c.co.commit(hold, records); err != nil {
		stored, unknown := c.readBack(ch, records, err)
		switch {
		case unknown != nil:
			return unknown // the tokens stay because the store may have them
		case !stored:
			return errors.Join(fmt.Errorf("the change could not be stored: %w", err), c.undo(ch, made, intent))
		}
	}
	// Readers of definitions that see the end of something must find what replaces it.
	if e := ch.erasure; e != nil {
		c.tables.erase(e.Task.ID, e.Tables)
	}
	c.co.show(ch, gone)
	c.repairs.synced(ref.Source, outOfSync)
	return nil
}

// treeRecords returns the records that the change writes. These are the versions and the differences between the two trees.
func (ch *change) treeRecords() map[string][]byte {
	records, source := ch.records, ch.ref.Source
	if ch.next == nil {
		records[sourceKey(source)] = nil
		for id := range ch.old.sinks {
			records[sinkKey(source, id)] = nil
		}
		return records
	}
	if ch.old == nil || !reflect.DeepEqual(ch.old.source, ch.next.source) {
		records[sourceKey(source)] = encode(ch.next.source)
	}
	for id, s := range ch.next.sinks {
		if ch.old == nil || !reflect.DeepEqual(ch.old.sinks[id], s) {
			records[sinkKey(source, id)] = encode(s)
		}
	}
	return records
}

// waitForOthers bounds how long a change without a task waits for others of the same source, and a task for a change of another node. It leaves time for the response within the time that
// callers wait.
const waitForOthers = 20 * time.Second

// direct makes a change without a task. It waits for other changes of the same source, with a task or without one. If it has waited for
// waitForOthers, it is refused with [Busy]. If ctx ends after the change has begun, the change continues, and the caller learns its outcome by
// reading.
func (c *Catalog) direct(ctx context.Context, by By, ref Ref, entity string, p plan) error {
	leave, err := c.tasks.join()
	if err != nil {
		return err
	}
	hold, unlock, err := c.turn(ctx, by, ref, entity, p)
	if err != nil {
		leave()
		return err
	}
	result := make(chan error, 1)
	go func() {
		err := c.apply(ctx, by, ref, "", hold, p, nil)
		if err != nil && hold != "" {
			c.repairs.writeLater(map[string][]byte{hold: nil})
		}
		c.co.release(hold)
		unlock()
		leave()
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the change of %q may be made or not, read it: %w", ref.Source, context.Cause(ctx))
	}
}

// turn waits until a change without a task may begin, for waitForOthers at most. It returns the lock of the source and the hold of the change.
func (c *Catalog) turn(ctx context.Context, by By, ref Ref, entity string, p plan) (hold string, unlock func(), err error) {
	wait, cancel := context.WithTimeout(ctx, waitForOthers)
	defer cancel()
	planned := func() (*change, error) { return c.plan(by, ref, p, now()) }
	for {
		unlock, lockErr := c.locks.Lock(wait, ref.Source, "")
		if lockErr != nil {
			if holder := c.locks.Holder(ref.Source); err == nil || holder != "" {
				err = busy(ref.Source, holder)
			}
			return "", nil, cmp.Or(context.Cause(ctx), err)
		}
		if hold, err = c.co.begin(wait, ref, entity, "", planned, nil); err == nil {
			return hold, unlock, nil
		}
		unlock() // while the change of another node is waited for, this node follows its changes of the source
		if !isBusy(err) || !c.co.await(wait) {
			return "", nil, cmp.Or(context.Cause(ctx), err)
		}
	}
}
