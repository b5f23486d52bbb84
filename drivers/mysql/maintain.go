package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"time"

	"github.com/forebay/forebay/driver"
)

// Compact implements [driver.Compactor]. It forgets the ids of files that were imported before Options.KeepIDs, and removes rows as
// Options.KeepFor says.
func (t *Target) Compact(ctx context.Context, table driver.Table) error {
	if err := t.forgetIDs(ctx); err != nil {
		return err
	}
	return t.removeOld(ctx, table)
}

// removeBatch bounds the rows that one transaction removes. A large one would keep replicas and the undo log busy.
const removeBatch = 5000

// forgetIDs deletes old ids of files, at most once an hour.
func (t *Target) forgetIDs(ctx context.Context) error {
	now, last := time.Now().Unix(), t.cleaned.Load()
	if now-last < int64(time.Hour/time.Second) || !t.cleaned.CompareAndSwap(last, now) {
		return nil
	}
	return t.remove(ctx, t.table(imports), fmt.Sprintf("imported_at < UTC_TIMESTAMP(6) - INTERVAL %d SECOND", int64(t.options.KeepIDs.Seconds())))
}

// moment is a literal of the condition that package retention writes. MySQL does not read its T and Z.
var moment = regexp.MustCompile(`'(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d\.\d{6})Z'`)

// removeOld removes the rows whose time has passed.
func (t *Target) removeOld(ctx context.Context, table driver.Table) error {
	if err := t.check(table); err != nil {
		return err
	}
	return t.keep.Sweep(table, quote, func(condition string) error {
		return t.remove(ctx, t.table(table.ID), moment.ReplaceAllString(condition, "'$1 $2'"))
	})
}

// remove deletes rows in batches. With READ COMMITTED a statement keeps no lock of the rows that it only looks at, so imports continue.
func (t *Target) remove(ctx context.Context, table, condition string) error {
	for {
		var removed int64
		err := t.transaction(ctx, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s LIMIT %d", table, condition, removeBatch))
			if err == nil {
				removed, err = result.RowsAffected()
			}
			return err
		})
		if number(err) == noSuchTable { // nothing was imported yet, or the table was dropped
			return nil
		}
		if err != nil || removed < removeBatch {
			return err
		}
	}
}
