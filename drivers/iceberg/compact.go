package iceberg

import (
	"context"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/buffer"
)

const (
	// leastSnapshots is the number of snapshots that stay whatever their age.
	leastSnapshots = 10
	// expireTogether is the least number of old snapshots for which expiry is worth its commit.
	expireTogether = 50
)

// Compact implements [buffer.Compactor]: it expires old snapshots, as Options.KeepSnapshots says, and deletes the files that only they
// have. Rows and ids stay. It merges no data files: other programs do that, see docs/drivers/iceberg.md.
func (t *Target) Compact(ctx context.Context, bt buffer.Table) (err error) {
	defer catch(&err)
	if t.opts.KeepSnapshots < 0 {
		return nil
	}
	id, err := t.identifier(bt.ID)
	if err != nil {
		return err
	}
	c := t.committerOf(id) // imports of this process wait, so that they do not conflict
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	if time.Now().Before(c.compactAt) {
		return nil
	}
	tbl, err := t.load(ctx, id)
	if err != nil || tbl == nil {
		return wrap(err, "table %q", bt.ID)
	}
	var made []int64 // when each snapshot was, in milliseconds
	for _, s := range tbl.Metadata().Snapshots() {
		made = append(made, s.TimestampMs)
	}
	slices.Sort(made)
	enough := time.Now() // when the last of those that make an expiry worth its commit was made, at the earliest
	if len(made) >= expireTogether {
		enough = time.UnixMilli(made[expireTogether-1])
	}
	c.compactAt = enough.Add(t.opts.KeepSnapshots)
	if time.Now().Before(c.compactAt) || len(made)-leastSnapshots < expireTogether {
		return nil
	}
	tx := onceOnly(t.catalog, tbl).NewTransaction()
	if err = tx.ExpireSnapshots(table.WithRetainLast(leastSnapshots), table.WithOlderThan(t.opts.KeepSnapshots)); err == nil {
		_, err = tx.Commit(ctx)
	}
	if err != nil {
		if now, loadErr := t.load(ctx, id); loadErr == nil && now != nil && now.MetadataLocation() != tbl.MetadataLocation() {
			return nil // another commit was faster, or this one succeeded and its answer was lost: the next call goes on
		}
	}
	return wrap(err, "expire snapshots of table %q", bt.ID)
}
