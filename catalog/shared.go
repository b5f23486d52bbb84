package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// commitTimeout is how long a call waits for a shared store. It is longer than an election of its servers.
const commitTimeout = 15 * time.Second

// shared is the [coordinator] of a catalog whose store other catalogs have, too.
type shared struct {
	c     *Catalog
	opts  SharedOptions
	store SharedStore
	// opening is new for each time that the catalog of the node is opened.
	opening string
	holds
	members members
	adopted adoptions

	erasedMu sync.Mutex
	// erased are sources that another catalog has erased, whose rows and counters are still in the engine of this one. They are out of sync, too.
	erased map[string]bool
}

// newCoordinator returns the coordinator for the store of a catalog.
func newCoordinator(c *Catalog) coordinator {
	opts := c.opts.Shared
	if opts.Store == nil {
		return alone{c}
	}
	c.tasks.ended = func(ctx context.Context, task Task) {
		if c.repairs.outOfSyncSince(task.SourceID) > 0 {
			_ = c.syncAgain(ctx, task.SourceID) // the sweep logs why, and tries again
		}
	}
	return &shared{
		c: c, opts: opts, store: opts.Store, opening: uuid.NewString(), holds: holds{own: map[string]hold{}, others: map[string]seenHold{}},
		erased: map[string]bool{},
	}
}

func (s *shared) open(ctx context.Context, _ []*erasure) (err error) {
	records := map[string][]byte{}
	for _, prefix := range []string{memberPrefix, endedPrefix, erasedPrefix, holdPrefix, taskPrefix} {
		err = errors.Join(err, s.c.store.Scan(prefix, func(key string, record []byte) error {
			records[key] = bytes.Clone(record)
			return nil
		}))
	}
	if err = errors.Join(err, s.apply(records, false)); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	s.store.Follow(s.took)
	if err := s.join(ctx); err != nil {
		return fmt.Errorf("catalog: instance %s of node %s cannot join the others: %w", s.opts.Instance, s.opts.Node, err)
	}
	s.c.repairs.add(func() {}) // the instance may have tables to drop
	return nil
}

// start resumes no erasure. The catalog that has begun it continues it, or takeOver does.
func (s *shared) start([]*erasure, []*creation) {
	s.c.syncOutOfSync(s.c.ctx)
	s.c.tasks.work.Add(1)
	go s.watchHolds()
}

// checkpoint makes a store of [OpenStore] with the records that this node has read, except for the records of the nodes. Changes in progress
// count as failed there.
func (s *shared) checkpoint(dir string) error {
	records := map[string][]byte{}
	if err := s.store.Scan("", func(key string, record []byte) error {
		prefix, _, _ := strings.Cut(key, "/")
		if !slices.Contains([]string{holdPrefix, creationPrefix, memberPrefix, endedPrefix, erasedPrefix}, prefix+"/") {
			records[key] = bytes.Clone(record)
		}
		return nil
	}); err != nil {
		return err
	}
	return pebblestore.MakeFolder(localdisk.Real(), dir, func(partial string) error {
		copied, err := OpenStore(partial, s.c.log)
		if err != nil {
			return err
		}
		return errors.Join(copied.Commit(records), copied.Close())
	})
}
