package iceberg

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/driver"
)

const (
	// leastSnapshots is the number of snapshots that stay whatever their age.
	leastSnapshots = 10
	// expireTogether is the least number of old snapshots for which expiry is worth its commit.
	expireTogether = 50
)

// compaction is one call of Compact.
type compaction struct {
	t      *Target
	c      *committer
	ctx    context.Context
	id     table.Identifier
	loaded *table.Table // nil until it is needed, and after a commit
}

// Compact implements [driver.Compactor]. It merges small data files, as Options.MergeTo says. It expires old snapshots, as
// Options.KeepSnapshots says, and deletes the files that only they have. It removes old data files of killed processes, as
// Options.KeepOrphans says. Rows and ids stay.
func (t *Target) Compact(ctx context.Context, bt driver.Table) (err error) {
	defer catch(&err)
	id, err := t.identifier(bt.ID)
	if err != nil {
		return err
	}
	x := &compaction{t: t, c: t.committerOf(id), ctx: ctx, id: id}
	if !x.c.compacting.TryLock() {
		return nil // for another sink with this table
	}
	defer x.c.compacting.Unlock()
	return errors.Join(
		wrap(x.expire(), "expire snapshots of table %q", bt.ID),
		wrap(x.mergeFiles(), "merge data files of table %q", bt.ID),
		wrap(x.removeOrphans(), "remove orphans of table %q", bt.ID),
	)
}

// table returns the table as it was read by this call, nil if it is absent.
func (x *compaction) table() (_ *table.Table, err error) {
	if x.loaded == nil {
		x.loaded, err = x.t.load(x.ctx, x.id)
	}
	return x.loaded, err
}

// inTurn calls a function while no other call commits to the table.
func (x *compaction) inTurn(fn func() error) error {
	select {
	case <-x.ctx.Done():
		return x.ctx.Err()
	case x.c.turn <- struct{}{}:
	}
	defer func() { <-x.c.turn }()
	return fn()
}

// expire expires old snapshots, if there are enough.
func (x *compaction) expire() error {
	if x.t.opts.KeepSnapshots < 0 || time.Now().Before(x.c.expireAt) {
		return nil
	}
	return x.inTurn(func() error { // imports of this process wait, so that they do not conflict
		tbl, err := x.table()
		if err != nil || tbl == nil {
			return err
		}
		var made []int64 // when each snapshot was, in milliseconds
		for _, s := range tbl.Metadata().Snapshots() {
			made = append(made, s.TimestampMs)
		}
		slices.Sort(made)
		enough := time.Now() // since when there are enough snapshots for an expiry, now at the earliest
		if len(made) >= expireTogether {
			enough = time.UnixMilli(made[expireTogether-1])
		}
		x.c.expireAt = enough.Add(x.t.opts.KeepSnapshots)
		if time.Now().Before(x.c.expireAt) || len(made)-leastSnapshots < expireTogether {
			return nil
		}
		x.loaded = nil
		tx := onceOnly(x.t.catalog, tbl).NewTransaction()
		if err = tx.ExpireSnapshots(table.WithRetainLast(leastSnapshots), table.WithOlderThan(x.t.opts.KeepSnapshots)); err == nil {
			_, err = tx.Commit(x.ctx)
		}
		if err != nil {
			if now, loadErr := x.t.load(x.ctx, x.id); loadErr == nil && now != nil && now.MetadataLocation() != tbl.MetadataLocation() {
				return nil // another commit was faster, or this one succeeded and its response was lost. The next call continues
			}
		}
		return err
	})
}
