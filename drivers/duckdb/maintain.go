package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

const (
	// cleanEvery is the least time between two looks for old ids.
	cleanEvery = time.Hour
	// checkpointBytes is the size of the log from which on Compact empties it. A program that is killed reads it again at its next start.
	checkpointBytes = 4 << 20
)

// removeRows bounds the rows that one transaction removes.
const removeRows = 100_000

// Compact implements [driver.Compactor]. It deletes ids that are older than Options.KeepIDs, removes rows as Options.KeepFor says, and moves the
// rows of the log into the file when there are many, unless another transaction is writing.
func (t *Target) Compact(ctx context.Context, table driver.Table) error {
	now := time.Now()
	last := t.cleaned.Load()
	if t.keepIDs > 0 && now.Unix()-last >= int64(cleanEvery.Seconds()) && t.cleaned.CompareAndSwap(last, now.Unix()) {
		err := t.transaction(ctx, func(ctx context.Context, c *conn) error {
			return c.exec(ctx, "DELETE FROM _forebay_imports WHERE imported_at < %s", literal(timestamp(now.Add(-t.keepIDs))))
		})
		if err != nil {
			return wrap(err, "delete old ids")
		}
	}
	if err := t.removeOld(ctx, table); err != nil {
		return wrap(err, "remove old rows of %q", table.ID)
	}
	switch log, err := os.Stat(t.place.path + ".wal"); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return wrap(err, "log")
	case log.Size() < checkpointBytes:
		return nil
	}
	c, err := t.connect()
	if err != nil {
		return wrap(err, "checkpoint")
	}
	defer c.close()
	err = t.write(c, "CHECKPOINT")
	if kindOf(err) == mapping.ErrorTypeTransaction { // another transaction writes, so the next call tries again
		err = nil
	}
	return wrap(classify(err), "checkpoint")
}

// removeOld removes the rows whose time has passed, some in each transaction. Imports run meanwhile.
func (t *Target) removeOld(ctx context.Context, table driver.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	return t.keep.Sweep(table, sqlfile.Quote, func(condition string) error {
		name := sqlfile.Quote(table.ID)
		statement := fmt.Sprintf("DELETE FROM %s WHERE %s AND rowid IN (SELECT rowid FROM %[1]s WHERE %[2]s LIMIT %d)", name, condition, removeRows)
		for {
			removed, err := t.remove(ctx, table.ID, statement)
			if err != nil || removed < removeRows {
				return err
			}
		}
	})
}

// remove runs a statement that removes rows, and returns their number. A dropped table has none.
func (t *Target) remove(ctx context.Context, table, statement string) (removed int64, err error) {
	unlock, err := t.lock(ctx, table, false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	err = again(ctx, func() error {
		return t.transaction(ctx, func(ctx context.Context, c *conn) error {
			err := c.run(ctx, statement, func(res mapping.Result) { removed = int64(mapping.RowsChanged(&res)) })
			if kindOf(err) == mapping.ErrorTypeCatalog {
				removed, err = 0, nil
			}
			return err
		})
	})
	return removed, err
}

// timestamp returns a time as DuckDB reads it.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000Z") }
