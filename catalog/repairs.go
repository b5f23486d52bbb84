package catalog

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// repairs is what remains to be done because the disk, the engine or the target failed. The sweep does it, with growing
// pauses, until it succeeds.
type repairs struct {
	mu sync.Mutex
	// outOfSync are the sources whose definition in the engine may differ from the catalog's, with the number of the last entry.
	outOfSync map[string]int
	entries   int
	// pendingWrites are records that could not be written. A nil record is to be removed.
	pendingWrites map[string][]byte
	// creations has, by id, the creations whose change was not made.
	creations map[string]*creation
	// archives of erased sources have raw records left, and a record in the store.
	archives map[string]bool
	// wake has room for one token, which starts the sweep.
	wake chan struct{}
}

func newRepairs() *repairs {
	return &repairs{
		outOfSync: map[string]int{}, pendingWrites: map[string][]byte{}, creations: map[string]*creation{}, archives: map[string]bool{},
		wake: make(chan struct{}, 1),
	}
}

// add makes a change of r and wakes the sweep.
func (r *repairs) add(change func()) {
	r.mu.Lock()
	change()
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// writeLater adds pending writes. They replace earlier pending writes of the same keys.
func (r *repairs) writeLater(records map[string][]byte) {
	r.add(func() { maps.Copy(r.pendingWrites, records) })
}

// giveUp schedules the removal of records that a commit may have stored although it failed with err.
func (r *repairs) giveUp(records map[string][]byte, err error) {
	if errors.Is(err, ErrNotCommitted) {
		return
	}
	gone := make(map[string][]byte, len(records))
	for key := range records {
		gone[key] = nil
	}
	r.writeLater(gone)
}

func (r *repairs) syncLater(source string) {
	r.add(func() {
		r.entries++
		r.outOfSync[source] = r.entries
	})
}

func (r *repairs) undoLater(cr *creation) { r.add(func() { r.creations[cr.ID] = cr }) }

// synced says that the engine has the definition that the catalog had when outOfSyncSince returned since.
func (r *repairs) synced(source string, since int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outOfSync[source] == since {
		delete(r.outOfSync, source)
	}
}

// outOfSyncSince returns the number of the last syncLater of a source; 0 if the engine has the catalog's definition.
func (r *repairs) outOfSyncSince(source string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outOfSync[source]
}

// endErasures adds to the write of a new source the ends of erasures of its id that are still to be written. Otherwise the
// next Open would continue them and take the new source for the erased one.
func (r *repairs) endErasures(records map[string][]byte, source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.pendingWrites {
		if strings.HasPrefix(key, erasuresOf(source)) {
			records[key] = nil
		}
	}
}

// written forgets writes that were made, unless other ones have taken their place.
func (r *repairs) written(records map[string][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.pendingWrites, func(key string, pending []byte) bool {
		record, ok := records[key]
		return ok && bytes.Equal(pending, record)
	})
}

// The pauses of the sweep are sweepEvery between clean-ups and repairFirst before the first repetition of a repair. The latter
// doubles up to the former.
const (
	sweepEvery   = time.Minute
	sweepTimeout = 5 * time.Minute
	repairFirst  = time.Second
)

// sweep cleans up and repairs until Close.
func (c *Catalog) sweep() {
	defer c.tasks.work.Done()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	pause := ctxio.Pause{First: repairFirst, Last: sweepEvery}
	retry := time.NewTimer(repairFirst)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(c.ctx, sweepTimeout)
			c.deleteRetired(ctx, now())
			// If the end of a task could not be written, this writes a new one.
			c.repairs.writeLater(c.tasks.expire(now()))
			cancel()
		case <-retry.C:
		case <-c.repairs.wake:
		}
		if c.repair(c.ctx) {
			pause.Reset()
			retry.Stop()
			continue
		}
		retry.Reset(pause.Next())
	}
}

// repair tries everything once and reports whether nothing is left.
func (c *Catalog) repair(ctx context.Context) bool {
	r := c.repairs
	r.mu.Lock()
	pending, creations := maps.Clone(r.pendingWrites), maps.Clone(r.creations)
	r.mu.Unlock()
	done := true
	if len(pending) > 0 {
		if err := c.store.Commit(pending); err != nil {
			c.log.Warn("results of tasks not stored", "tasks", len(pending), "cause", err, "next", "check the disk of the data directory")
			done = false
		} else {
			r.written(pending)
		}
	}
	done = c.syncOutOfSync(ctx) && done
	if err := c.co.dropFollowed(ctx); err != nil {
		c.log.Warn("tables of erased sources left", "cause", err, "next", "it is retried automatically")
		done = false
	}
	done = c.eraseArchives(ctx) && done
	for _, id := range slices.Sorted(maps.Keys(creations)) {
		if !c.undoCreation(ctx, creations[id], 0) {
			done = false
			continue
		}
		r.mu.Lock()
		delete(r.creations, id)
		r.mu.Unlock()
	}
	return done
}

// syncAgain gives the engine the definition of a source unless a change has done so meanwhile.
func (c *Catalog) syncAgain(ctx context.Context, sourceID string) error {
	unlock, err := c.locks.Lock(ctx, sourceID, "")
	if err != nil {
		return err
	}
	defer unlock()
	since := c.repairs.outOfSyncSince(sourceID)
	if since == 0 {
		return nil
	}
	if err := c.co.eraseFollowed(ctx, sourceID); err != nil {
		return err
	}
	if err := c.restore(ctx, sourceID, c.defs.get(sourceID)); err != nil {
		return err
	}
	c.repairs.synced(sourceID, since)
	return nil
}

// syncOutOfSync gives the engine all definitions that it may lack, several at a time, and reports whether it has them.
func (c *Catalog) syncOutOfSync(ctx context.Context) bool {
	r := c.repairs
	r.mu.Lock()
	sources := slices.Collect(maps.Keys(r.outOfSync))
	r.mu.Unlock()
	var failed atomic.Bool
	turns := make(chan struct{}, syncedAtOnce)
	var all sync.WaitGroup
	for _, id := range sources {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := c.syncAgain(ctx, id); err != nil {
				c.log.Warn("engine does not follow a source yet", "source", id, "cause", err, "next", "it is retried automatically")
				failed.Store(true)
			}
		})
	}
	all.Wait()
	return !failed.Load()
}
