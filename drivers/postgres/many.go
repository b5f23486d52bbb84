package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/driver"
)

// ImportMany implements [driver.ManyImporter]. The ids, the locks and the columns of all files take one statement each.
func (t *Target) ImportMany(ctx context.Context, files []*driver.File) error {
	var raw int64
	for _, f := range files {
		if err := t.check(f.Table); err != nil {
			return err
		}
		raw += f.RawBytes
	}
	return t.transaction(ctx, t.options.LockTimeout, t.importTimeout(raw), func(tx pgx.Tx) error {
		files, err := t.recordMany(ctx, tx, files)
		if err != nil || len(files) == 0 {
			return err
		}
		tables := tablesOf(files)
		// As in prepare, no transaction changes the tables until the commit.
		if _, err := tx.Exec(ctx, "LOCK TABLE ONLY "+strings.Join(t.quoteTables(tables), ", ONLY ")+" IN ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		columns, err := t.columnsOf(ctx, tx, tables)
		if err != nil {
			return err
		}
		for _, f := range files {
			in, err := t.intakeOf(ctx, tx, f, columns[f.Table.ID])
			if err == nil {
				err = in.fill(ctx, tx, f)
			}
			if err == nil && in.upsert != "" { // the next file may have the same name for it
				_, err = tx.Exec(ctx, "DROP TABLE "+in.into)
			}
			if err != nil {
				return fmt.Errorf("postgres: import %s into %q: %w", f.ID, f.Table.ID, err)
			}
		}
		return nil
	})
}

// recordMany records the ids of files, and returns the files whose ids were not recorded before.
func (t *Target) recordMany(ctx context.Context, tx pgx.Tx, files []*driver.File) (left []*driver.File, err error) {
	var ids, tables []string
	var counts []int64
	for _, f := range files {
		ids, tables, counts = append(ids, f.ID), append(tables, f.Table.ID), append(counts, f.Rows)
	}
	// The order keeps two calls with the same ids from waiting for each other.
	rows, err := tx.Query(ctx, `INSERT INTO `+t.table(imports)+` (file_id, table_name, rows)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS f (id, name, rows) ORDER BY id ON CONFLICT DO NOTHING RETURNING file_id`, ids, tables, counts)
	if err != nil {
		return nil, err
	}
	recorded, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if slices.Contains(recorded, f.ID) {
			left = append(left, f)
			continue
		}
		if rows, err := t.recorded(ctx, tx, f.ID); err != nil {
			return nil, err
		} else if rows < 0 {
			return nil, driver.Permanent(fmt.Errorf("file %s: %w", f.ID, driver.ErrVoid))
		}
	}
	return left, nil
}

// tablesOf returns the names of the tables of files, each once, in an order that is the same for all transactions.
func tablesOf(files []*driver.File) []string {
	var ids []string
	for _, f := range files {
		ids = append(ids, f.Table.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// quoteTables returns the names of tables as SQL.
func (t *Target) quoteTables(ids []string) []string {
	var quoted []string
	for _, id := range ids {
		quoted = append(quoted, t.table(id))
	}
	return quoted
}
