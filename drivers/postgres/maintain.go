package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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

// forgetIDs deletes old ids of files, at most once an hour.
func (t *Target) forgetIDs(ctx context.Context) error {
	now, last := time.Now().Unix(), t.cleaned.Load()
	if now-last < int64(time.Hour/time.Second) || !t.cleaned.CompareAndSwap(last, now) {
		return nil
	}
	const batch = 1000
	for {
		tag, err := t.pool.Exec(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE file_id IN
			(SELECT file_id FROM %[1]s WHERE imported_at < now() - make_interval(secs => $1) LIMIT %[2]d FOR UPDATE SKIP LOCKED)`, t.table(imports), batch),
			t.options.KeepIDs.Seconds())
		if sqlState(err) == undefinedTable { // nothing was imported yet
			return nil
		}
		if err != nil || tag.RowsAffected() < batch {
			return classify(err)
		}
	}
}

// removeBlocks bounds the part of a table through which one transaction looks, in blocks of 8 KiB.
const removeBlocks = 2048

// leaves are the tables that have the rows of a table, which are itself, or its partitions, and the number of blocks of each. A table that was created
// later is after the others.
const leaves = `SELECT format('%I.%I', n.nspname, c.relname), (pg_catalog.pg_relation_size(c.oid) / current_setting('block_size')::bigint)::bigint
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND (c.oid = pg_catalog.to_regclass($1) OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))))
ORDER BY c.oid`

// leaf is a row of leaves. Its name is SQL.
type leaf struct {
	Name   string
	Blocks int64
}

// readLeaves returns the tables that have the rows of a table, none if it is absent. The name of the table is SQL.
func readLeaves(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, table string,
) ([]leaf, error) {
	rows, err := q.Query(ctx, leaves, table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[leaf])
}

// removeOld removes the rows whose time has passed. It goes through the blocks of the table once, some in each transaction, so it needs no
// index, and locks nothing that an import needs. A search by the time for some rows at a time would pass the removed ones each time, until a
// vacuum.
func (t *Target) removeOld(ctx context.Context, table driver.Table) error {
	if err := t.check(table); err != nil {
		return err
	}
	return t.keep.Sweep(table, func(name string) string { return quote(name) }, func(condition string) error {
		all, err := readLeaves(ctx, t.pool, t.table(table.ID))
		if err != nil {
			return classify(err)
		}
		for _, l := range all {
			for from := int64(0); from < l.Blocks; from += removeBlocks {
				err := t.transaction(ctx, t.options.LockTimeout, time.Minute, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM ONLY %s WHERE ctid >= '(%d,0)' AND ctid < '(%d,0)' AND %s", l.Name, from, from+removeBlocks, condition))
					return err
				})
				if sqlState(err) == undefinedTable { // dropped meanwhile
					break
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}
