package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/keylock"
)

// Options of a [Catalog]. The zero value works.
type Options struct {
	// BranchID stands in the ids of tasks. Default: 1.
	BranchID int
	// Store keeps the records. The catalog closes it. Default: the one of the folder that is given to Open.
	Store Store
	// Tokens makes the tokens of sinks. Default: sinks have none.
	Tokens Tokens
	// DropTable deletes a table; one that is gone already is no error. It is called when a source is deleted with all
	// that belongs to it. Default: the tables stay, and the task says so.
	DropTable func(ctx context.Context, tableID string) error
	// Logger gets what an operator should see. Default: nothing is logged.
	Logger *slog.Logger
}

// Validate reports every breach at once.
func (o Options) Validate() error {
	if o.BranchID < 0 {
		return fmt.Errorf("catalog: Options.BranchID is %d, must be positive, or 0 for the default", o.BranchID)
	}
	return nil
}

// Catalog keeps definitions. It is safe for concurrent use.
type Catalog struct {
	opts  Options
	eng   *forebay.Engine
	store Store
	log   *slog.Logger

	// ctx ends with Close; work is what Close waits for.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	// locks are by source: each is held, by the task or by "", while a change of the source is made. They are taken before mu.
	locks keylock.Locks

	mu      sync.RWMutex
	closed  bool
	trees   map[string]*tree  // the trees are immutable
	busy    map[string]string // the running task by entity; "" for a change without one
	tasks   map[string]*running
	retired map[string]retired  // by token id
	stray   map[string]bool     // sources that the engine may have otherwise, because an undo failed
	owed    map[string][]byte   // records that could not be written; see owe
	erasing map[string][]string // the tables of running erasures by task; no change begins to use one of them
	claimed map[string]int      // how many running changes begin to use a table; no erasure drops it meanwhile
	undoing map[string][]string // the tables of creations that are being undone, by creation; changes wait for them
	// creations are those whose change was not made and that are to be undone, by id.
	creations map[string]*creation
	freed     chan struct{} // closed when tables are taken out of erasing or claimed

	wake chan struct{} // has sweep look at stray, owed and creations
}

// Open reads the definitions of a folder and lets the engine follow them. The engine must have no sources that come from
// elsewhere. A definition that the engine refuses is logged and stays out of use until it is changed; the others work.
// Close the catalog before the engine.
func Open(dir string, eng *forebay.Engine, opts Options) (*Catalog, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.BranchID == 0 {
		opts.BranchID = 1
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Store == nil {
		var err error
		if opts.Store, err = OpenStore(dir, opts.Logger); err != nil {
			return nil, err
		}
	}
	c := &Catalog{
		opts: opts, eng: eng, store: opts.Store, log: opts.Logger,
		trees: map[string]*tree{}, busy: map[string]string{},
		tasks: map[string]*running{}, retired: map[string]retired{}, stray: map[string]bool{}, owed: map[string][]byte{},
		erasing: map[string][]string{}, claimed: map[string]int{}, freed: make(chan struct{}),
		undoing: map[string][]string{}, creations: map[string]*creation{},
		wake: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	erasures, err := c.load()
	if err != nil {
		c.cancel()
		return nil, errors.Join(fmt.Errorf("catalog: %w", err), c.store.Close())
	}
	c.followAll()
	c.resume(erasures)
	c.resumeCreations()
	c.work.Add(1)
	go c.sweep()
	return c, nil
}

// Close ends running tasks, which then count as failed, and closes the store. The engine keeps its definitions. It may
// be called twice.
func (c *Catalog) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	if len(c.owed) > 0 {
		if err := c.store.Commit(c.owed); err != nil {
			c.log.Warn("ends of tasks could not be stored", "tasks", len(c.owed), "error", err)
		}
	}
	return c.store.Close()
}

// The keys of the store. Ids contain no '/', so that prefixes end where ids do.
const (
	sourcePrefix   = "source/"
	sinkPrefix     = "sink/"
	taskPrefix     = "task/"
	retiredPrefix  = "retired/"
	erasurePrefix  = "erasure/"
	creationPrefix = "creation/"
)

func sourceKey(id string) string       { return sourcePrefix + id }
func sinkKey(source, id string) string { return sinkPrefix + source + "/" + id }
func taskKey(id string) string         { return taskPrefix + id }
func retiredKey(id string) string      { return retiredPrefix + id }
func erasuresOf(source string) string  { return erasurePrefix + source + "/" }

func creationKey(id string) string { return creationPrefix + id }

// erasureKey is one for each erasure: what of an earlier one of the source is still to be written must not meet it.
func erasureKey(t Task) string { return erasuresOf(t.SourceID) + path.Base(t.ID) }

// versionPrefix is that of all versions of a source, or of one of its sinks.
func versionPrefix(source, sink string) string {
	if sink == "" {
		return "version/source/" + source + "/"
	}
	return "version/sink/" + source + "/" + sink + "/"
}

func versionKey(source, sink string, number int) string {
	return fmt.Sprintf("%s%010d", versionPrefix(source, sink), number)
}

func (c *Catalog) load() (erasures []*erasure, err error) {
	read := func(prefix string, visit func(key string, record []byte) error) error {
		return c.store.Scan(prefix, func(key string, record []byte) error {
			if err := visit(key, record); err != nil {
				return fmt.Errorf("record %s: %w", key, err)
			}
			return nil
		})
	}
	err = errors.Join(
		read(sourcePrefix, func(_ string, record []byte) error {
			t := &tree{sinks: map[string]Sink{}}
			if err := json.Unmarshal(record, &t.source); err != nil {
				return err
			}
			c.trees[t.source.ID] = t
			return nil
		}),
		read(sinkPrefix, func(key string, record []byte) error {
			var s Sink
			if err := json.Unmarshal(record, &s); err != nil {
				return err
			}
			source, _, _ := strings.Cut(key[len(sinkPrefix):], "/")
			if t := c.trees[source]; t != nil {
				t.sinks[s.ID] = s
			}
			return nil
		}),
		read(retiredPrefix, func(_ string, record []byte) error {
			var r retired
			if err := json.Unmarshal(record, &r); err != nil {
				return err
			}
			c.retired[r.Token.ID] = r
			return nil
		}),
		read(erasurePrefix, func(_ string, record []byte) error {
			e := new(erasure)
			erasures = append(erasures, e)
			return json.Unmarshal(record, e)
		}),
		read(creationPrefix, func(_ string, record []byte) error {
			cr := new(creation)
			if err := json.Unmarshal(record, cr); err != nil {
				return err
			}
			c.creations[cr.ID] = cr
			return nil
		}),
	)
	return erasures, errors.Join(err, c.loadTasks(erasures))
}

// now is the time that records carry: milliseconds, as users see it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func (c *Catalog) tree(id string) *tree {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.trees[id]
}

// compile has the engine compile a live tree, and refuses one that it would not take.
func (c *Catalog) compile(t *tree) (*forebay.Definition, error) {
	def, err := t.definition()
	var compiled *forebay.Definition
	if err == nil {
		compiled, err = c.eng.Compile(def)
	}
	if err == nil {
		return compiled, nil
	}
	var texts []string
	if d, ok := err.(*forebay.DefinitionError); ok {
		for _, p := range d.Problems {
			texts = append(texts, p.Error())
		}
	} else {
		texts = append(texts, err.Error())
	}
	return nil, refuse(BadRequest, "%s", sentence(errors.New(strings.Join(texts, "; "))))
}

// change has the source to itself and makes a change.
func (c *Catalog) change(ctx context.Context, task Task, p plan, record func(*change) (key string, value []byte)) error {
	unlock, err := c.locks.Lock(ctx, task.SourceID, task.ID)
	if err != nil {
		return err
	}
	defer unlock()
	return c.apply(ctx, task.SourceID, task.ID, p, record)
}

// apply makes a change: outside first, then the engine, then the store, whose write is what counts. Whatever fails
// before that write is undone; a write that failed is read back (settle). record adds the end of the task to the write, or
// what remains to be done. The caller has the source's lock, for a task unless that is empty.
func (c *Catalog) apply(ctx context.Context, sourceID, task string, p plan, record func(*change) (key string, value []byte)) error {
	at := now()
	old := c.tree(sourceID)
	ch, err := p(at, old)
	if err != nil {
		return err
	}
	next := ch.next
	var def *forebay.Definition
	if next.live() {
		if def, err = c.compile(next); err != nil {
			return err
		}
	}
	release, err := c.claim(ctx, old, next)
	if err != nil {
		return err
	}
	defer release()
	var made []Token
	var gone []retired
	if next != nil {
		next = next.clone()
		if made, gone, err = c.renewTokens(ctx, old, next, at); err != nil {
			return errors.Join(err, c.deleteTokens(made))
		}
	} else if old != nil {
		for _, s := range old.sinks {
			if s.Token.ID != "" {
				gone = append(gone, retired{Token: s.Token, Source: sourceID, Sink: s.ID, At: at})
			}
		}
	}
	intent, err := c.beginCreation(sourceID, task, old, next)
	if err != nil {
		return errors.Join(err, c.deleteTokens(made))
	}
	if c.isStray(sourceID) || !c.follows(def) {
		problems, err := c.force(ctx, sourceID, def, forebay.ApplyOptions{
			Creation: intent.id(), Refuse: func(p forebay.TableProblem) bool { return ch.refuses(old, p) },
		})
		if err != nil {
			return errors.Join(err, c.undo(sourceID, old, made, intent))
		}
		ch.warn(problems)
	}

	records := maps.Clone(ch.versions)
	if records == nil {
		records = map[string][]byte{}
	}
	recordTree(records, sourceID, old, next)
	if old == nil {
		c.endErasures(records, sourceID)
	}
	for _, r := range gone {
		records[retiredKey(r.Token.ID)] = encode(r)
	}
	if intent != nil {
		records[creationKey(intent.ID)] = nil
	}
	if record != nil {
		key, value := record(ch)
		records[key] = value
	}
	if err := c.store.Commit(records); err != nil {
		stored, unknown := c.settle(sourceID, old, next, records, err)
		switch {
		case unknown != nil:
			return unknown // the tokens stay: they may be those of the store
		case !stored:
			return errors.Join(fmt.Errorf("the change could not be stored: %w", err), c.undo(sourceID, old, made, intent))
		}
	}

	c.mu.Lock()
	if next == nil {
		delete(c.trees, sourceID)
	} else {
		c.trees[sourceID] = next
	}
	if e := ch.erasure; e != nil {
		c.erasing[e.Task.ID] = e.Tables
	}
	for _, r := range gone {
		c.retired[r.Token.ID] = r
	}
	delete(c.stray, sourceID)
	c.mu.Unlock()
	return nil
}

// recordTree puts what differs between two trees into a write.
func recordTree(records map[string][]byte, sourceID string, old, next *tree) {
	if next == nil {
		records[sourceKey(sourceID)] = nil
	} else if old == nil || !reflect.DeepEqual(old.source, next.source) {
		records[sourceKey(sourceID)] = encode(next.source)
	}
	if old != nil {
		for id := range old.sinks {
			if next == nil || next.sinks[id].ID == "" {
				records[sinkKey(sourceID, id)] = nil
			}
		}
	}
	if next != nil {
		for id, s := range next.sinks {
			if old == nil || !reflect.DeepEqual(old.sinks[id], s) {
				records[sinkKey(sourceID, id)] = encode(s)
			}
		}
	}
}

// waitForOthers bounds the wait of a change without a task for those of the same source. It leaves time for the answer
// within what callers wait.
const waitForOthers = 20 * time.Second

// direct makes a change without a task. Where another has the source for longer than waitForOthers it is [Busy], and
// nothing was changed. When ctx ends first, and the change has begun, it may go on: the caller learns its outcome by
// reading.
func (c *Catalog) direct(ctx context.Context, entity, sourceID string, p plan) error {
	if err := c.begin(entity, ""); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, waitForOthers)
	defer cancel()
	unlock, err := c.locks.Lock(wait, sourceID, "")
	if err != nil {
		task := c.locks.Holder(sourceID)
		c.end(entity)
		if ctx.Err() == nil {
			err = busy(sourceID, task)
		}
		return err
	}
	result := make(chan error, 1)
	go func() {
		err := c.apply(ctx, sourceID, "", p, nil)
		unlock()
		c.end(entity)
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the change of %q may be made or not, read it: %w", sourceID, context.Cause(ctx))
	}
}

// Ready returns nil when changes can be stored: a [*FailedError] while the default store is opened anew after a failure
// of its disk, [ErrClosed] after Close.
func (c *Catalog) Ready() error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	_, err := c.store.Get(instanceKey) // any record: it is the disk that is asked
	return err
}

// Engine returns the engine that follows the catalog.
func (c *Catalog) Engine() *forebay.Engine { return c.eng }

// follows tells whether the engine has a definition already; nil stands for none.
func (c *Catalog) follows(def *forebay.Definition) bool {
	if def == nil {
		return false
	}
	want := def.Source()
	have, ok := c.eng.Source(want.ID)
	return ok && reflect.DeepEqual(have, want)
}

// force makes the engine do what a definition says, also where it may be in the middle of another one; nil ends the source.
func (c *Catalog) force(ctx context.Context, sourceID string, def *forebay.Definition, opts forebay.ApplyOptions) ([]forebay.TableProblem, error) {
	if def != nil {
		return c.eng.Apply(ctx, def, opts)
	}
	if err := c.eng.Remove(ctx, sourceID); err != nil && !errors.Is(err, forebay.ErrUnknownSource) {
		return nil, err
	}
	return nil, nil
}

// follow makes the engine do what a tree says that was accepted before: whatever has become of its tables.
func (c *Catalog) follow(ctx context.Context, sourceID string, t *tree) error {
	var def *forebay.Definition
	if t.live() {
		var err error
		if def, err = c.compile(t); err != nil {
			return err
		}
	}
	_, err := c.force(ctx, sourceID, def, forebay.ApplyOptions{Refuse: func(forebay.TableProblem) bool { return false }})
	return err
}

// followAll has the engine follow all sources, some side by side: a target that is away costs each of them a time-out.
func (c *Catalog) followAll() {
	ids := slices.Sorted(maps.Keys(c.trees))
	problems := make([]error, len(ids))
	turns := make(chan struct{}, followers)
	var all sync.WaitGroup
	for i, id := range ids {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			problems[i] = c.follow(c.ctx, id, c.trees[id])
		})
	}
	all.Wait()
	for i, err := range problems {
		if err != nil {
			c.log.Error("a source is out of use until it is changed", "source", ids[i], "error", err)
		}
	}
}

// followers is how many sources Open defines side by side.
const followers = 16

// repairFirst is the pause before something that could not be repaired is tried again; it doubles up to sweepEvery.
const repairFirst = time.Second

// sweep cleans up and repairs until Close.
func (c *Catalog) sweep() {
	defer c.work.Done()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	pause := repairFirst
	retry := time.NewTimer(pause)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(c.ctx, sweepTimeout)
			c.deleteRetired(ctx, now())
			c.deleteOldTasks(now())
			cancel()
		case <-retry.C:
		case <-c.wake:
		}
		if c.repair(c.ctx) {
			pause = repairFirst
			retry.Stop()
			continue
		}
		retry.Reset(pause)
		pause = min(2*pause, sweepEvery)
	}
}

// Checkpoint writes a copy of the definitions into a new folder, while changes go on: every change whose task has
// succeeded before the call is in it. [Open] takes the folder up as that of a catalog. It holds the secrets of the
// sources and the tokens of the sinks, as the original does. With an error there is no copy; [errors.ErrUnsupported]
// means that Options.Store is no [Checkpointer].
//
// Copy the rows first, with [forebay.Engine.Checkpoint], and the definitions after them: then a token is there for all
// rows.
func (c *Catalog) Checkpoint(dir string) error {
	store, ok := c.store.(Checkpointer)
	if !ok {
		return fmt.Errorf("catalog: checkpoint %s: %w by the store", dir, errors.ErrUnsupported)
	}
	if err := store.Checkpoint(dir); err != nil {
		return fmt.Errorf("catalog: checkpoint %s: %w", dir, err)
	}
	c.log.Info("checkpoint of the catalog made", "dir", dir)
	return nil
}
