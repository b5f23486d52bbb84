package pipebench

import (
	"context"
	"database/sql"
	"errors"
)

// OwnSQL creates the table with a statement and inserts events through a pool, which it closes. Batches go in one transaction. row returns
// the values of the columns.
func OwnSQL(ctx context.Context, db *sql.DB, create string, row func(Event) []any) (o Own, err error) {
	var insert *sql.Stmt
	if _, err = db.ExecContext(ctx, create); err == nil {
		insert, err = db.PrepareContext(ctx, "INSERT INTO "+Table+" VALUES (?, ?, ?, ?)")
	}
	if err != nil {
		return o, errors.Join(err, db.Close())
	}
	return Own{
		Insert: func(ctx context.Context, e Event) error {
			_, err := insert.ExecContext(ctx, row(e)...)
			return err
		},
		InsertBatch: func(ctx context.Context, batch []Event) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			stmt := tx.StmtContext(ctx, insert)
			for _, e := range batch {
				if _, err := stmt.ExecContext(ctx, row(e)...); err != nil {
					return errors.Join(err, tx.Rollback())
				}
			}
			return tx.Commit()
		},
		Close: func() error { return errors.Join(insert.Close(), db.Close()) },
	}, nil
}
