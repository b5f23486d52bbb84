package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/forebay/forebay/driver"
)

// cleanEvery is the least time between two looks for old ids.
const cleanEvery = time.Hour

// cleanBatch bounds the ids that one transaction deletes.
const cleanBatch = 1000

// Compact implements [driver.Compactor]. It deletes ids that are older than Options.KeepIDs, removes rows as Options.KeepFor says, and empties a
// write-ahead log that has become large, unless a transaction is reading or writing.
func (t *Target) Compact(ctx context.Context, table driver.Table) error {
	now := time.Now()
	last := t.cleaned.Load()
	if t.opts.KeepIDs > 0 && now.Unix()-last >= int64(cleanEvery.Seconds()) && t.cleaned.CompareAndSwap(last, now.Unix()) {
		if err := t.forgetIDs(ctx, now.Add(-t.opts.KeepIDs)); err != nil {
			return wrap(err, "delete old ids")
		}
	}
	if err := t.removeOld(ctx, table); err != nil {
		return wrap(err, "remove old rows of %q", table.ID)
	}
	switch wal, err := os.Stat(t.path + "-wal"); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return wrap(err, "write-ahead log")
	case wal.Size() < t.opts.MaxWAL:
		return nil
	}
	conn, err := t.write.Conn(ctx)
	if err != nil {
		return wrap(err, "write-ahead log")
	}
	defer conn.Close()
	// A reader or writer makes it busy, which is no error. The next call tries again.
	_, err = conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return wrap(classify(err), "write-ahead log")
}

// forgetIDs deletes the ids of files that were imported before a time, oldest first.
func (t *Target) forgetIDs(ctx context.Context, before time.Time) error {
	for deleted := int64(cleanBatch); deleted == cleanBatch; {
		err := t.transaction(ctx, func(ctx context.Context, c tx) error {
			res, err := c.ExecContext(ctx, `DELETE FROM _forebay_imports WHERE imported_at < ? AND rowid IN
				(SELECT rowid FROM _forebay_imports ORDER BY rowid LIMIT ?)`, before.UTC().Format(time.RFC3339), cleanBatch)
			if err == nil {
				deleted, err = res.RowsAffected()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
