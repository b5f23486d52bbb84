package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driverkit/keylock"
	"github.com/forebay/forebay/driverkit/warnlog"
)

// Options of a [Catalog]. The zero value works.
type Options struct {
	// BranchID stands in the ids of tasks. Default: 1.
	BranchID int
	// Store keeps the records. The catalog closes it. Default: a store in the folder that is given to Open.
	Store Store
	// Shared is for a catalog that has its definitions in common with others. The module cluster sets it. Default: none.
	Shared SharedOptions
	// Tokens makes the tokens of sinks. Default: sinks have none.
	Tokens Tokens
	// DropTable deletes a table. A missing table is no error. It is called when a source is deleted with all
	// that belongs to it. Default: the tables stay, and the task says so.
	DropTable func(ctx context.Context, tableID string) error
	// DropTables are functions as DropTable for the targets in [forebay.Options.Targets], by name. The tables of a target that is missing here stay.
	DropTables map[string]func(ctx context.Context, tableID string) error
	// Extend is the default of [SinkSpec]. With it, tables of new sinks grow with their columns, which the target must be able to do. Default:
	// a table has exactly the columns of its sink.
	Extend bool
	// Logger gets what an operator should see. Default: warnings and errors go to [slog.Default]. [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Validate reports every breach at once.
func (o Options) Validate() error {
	var problems []error
	if o.BranchID < 0 {
		problems = append(problems, fmt.Errorf("catalog: Options.BranchID is %d, must be positive, or 0 for the default", o.BranchID))
	}
	return errors.Join(append(problems, o.validateShared()...)...)
}

// How the parts work together
//
// A change goes through these states. The letters say who owns the source meanwhile:
//
//	asked     -      submit reserves the entity in tasks, so that another change of it is refused with Busy; the plan is
//	                 asked for the first time, for the response; the record of the task is written
//	waiting   -      for the lock of the source: changes of different sinks of one source come one after the other
//	claiming  lock   tableClaims waits until no erasure and no undone creation has a new table of the change
//	outside   lock   tokens are made; the record of a creation is written; the engine gets the definition
//	storing   lock   one Commit has definitions, version and end of the task: it decides. If its outcome is unknown, readBack
//	                 asks the store until Close, with the old definition in the engine
//	done      -      retiredTokens and definitions are set, then the task ends: readers see both or neither
//	undone    lock   what failed before is put back: engine, tables, tokens
//
// An erasure continues after done: rows, tables and counters, under the reservation of its source and the marks in tableClaims.
//
// A step that cannot be put back or written becomes an entry of repairs. It wakes the sweep, which tries until it succeeds; a
// later change of the source does it, too. Close ends tasks and sweep and writes pending records once more. Open then finds
// the rest, which is the tasks that have not ended and the records of creations and of erasures.
//
// Each part has its own mutex, held for memory only. None calls another part with its mutex held, so there is no order to
// keep. The lock of a source (keylock) is held through calls of drivers and of the store, and taken before any mutex.
// What nodes that share definitions do in addition is in the coordinator (coordinator.go).
//
// Wakers: tableClaims.changed wakes the waiters for tables, running.done the waiters for a task, repairs.wake the sweep.

// Catalog keeps definitions. It is safe for concurrent use.
type Catalog struct {
	opts  Options
	eng   *forebay.Engine
	store Store
	log   *slog.Logger
	keys  keys
	co    coordinator

	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc

	locks   keylock.Locks // by source: held while a change of it is made
	defs    *definitions
	tasks   *tasks
	tables  *tableClaims
	retired *retiredTokens
	repairs *repairs
	shadows shadows
}

// Open reads the definitions of a folder and gives them to the engine, which must have no sources from elsewhere. A
// definition that the engine refuses is logged and stays out of use until it is changed. The others work. Close the
// catalog before the engine.
//
// With Options.Shared it joins the other catalogs, for which it waits at most 15 s. See [OpenContext].
func Open(dir string, eng *forebay.Engine, opts Options) (*Catalog, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	return OpenContext(ctx, dir, eng, opts)
}

// OpenContext is [Open] with another bound. With Options.Shared it waits until the store has noted that the instance may
// have rows. While the store does not respond, it logs that and tries again until ctx ends. The error is a [*JournalError]
// then. After that ctx means nothing, and without such a store it never does.
func OpenContext(ctx context.Context, dir string, eng *forebay.Engine, opts Options) (*Catalog, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.BranchID = cmp.Or(opts.BranchID, 1)
	opts.Logger = warnlog.Or(opts.Logger)
	opts = opts.withShared()
	if opts.Store == nil {
		var err error
		if opts.Store, err = OpenStore(dir, opts.Logger); err != nil {
			return nil, err
		}
	}
	c := &Catalog{
		opts: opts, eng: eng, store: opts.Store, log: opts.Logger, keys: newKeys(eng.Options().Buffer.ImportLimits()),
		defs:   &definitions{trees: map[string]*tree{}},
		tasks:  &tasks{reserved: map[string]string{}, byID: map[string]*running{}},
		tables: newTableClaims(), retired: &retiredTokens{byID: map[string]retired{}}, repairs: newRepairs(),
	}
	c.co = newCoordinator(c)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	erasures, creations, err := c.load()
	if err == nil {
		err = c.co.open(ctx, erasures)
	}
	if err != nil {
		c.cancel()
		return nil, errors.Join(err, c.store.Close())
	}
	c.syncAll()
	c.co.start(erasures, creations)
	c.tasks.work.Add(1)
	go c.sweep()
	return c, nil
}

// Close ends running tasks and closes the store. Erasures and replays of archives continue after the next Open, other tasks count as failed. The
// engine keeps its definitions. Close may be called twice.
// After a failure of the default store that was not fixed yet, Close returns the [*FailedError]. Nothing
// that was confirmed is lost, and the next [OpenStore] reads the records on the disk.
func (c *Catalog) Close() error {
	if !c.tasks.close() {
		return nil
	}
	c.cancel()
	c.tasks.work.Wait()
	if pending := c.repairs.pendingWrites; len(pending) > 0 {
		if err := c.store.Commit(pending); err != nil {
			c.log.Warn("results of tasks not stored", "tasks", len(pending), "cause", err, "next", "check the disk of the data directory")
		}
	}
	return c.store.Close()
}

// Ready returns nil when changes can be stored, a [*FailedError] while the default store is reopened after a failure of
// its disk, and [ErrClosed] after Close.
func (c *Catalog) Ready() error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	_, err := c.store.Get(storeIDKey) // any record will do
	return err
}

// Engine returns the engine that has the definitions of the catalog.
func (c *Catalog) Engine() *forebay.Engine { return c.eng }

// Checkpoint writes a copy of the definitions into a new folder, while changes continue. Every change whose task has
// succeeded before the call is in it. [Open] opens the folder as a catalog. It holds the secrets of the
// sources and the tokens of the sinks, as the original does. With an error there is no copy; [errors.ErrUnsupported]
// means that Options.Store is neither a [Checkpointer] nor a [SharedStore].
//
// Copy the rows first, with [forebay.Engine.Checkpoint], and the definitions after them, so that a token exists for all
// rows.
func (c *Catalog) Checkpoint(dir string) error {
	if err := c.co.checkpoint(dir); err != nil {
		return fmt.Errorf("catalog: checkpoint %s: %w", dir, err)
	}
	c.log.Info("catalog checkpoint made", "dir", dir)
	return nil
}
