// Package driver is the contract between an engine and the stores that its rows go to. A [Target] has the tables, and a [Staging] keeps the
// sealed slices of a file until the file is imported. The smallest target of a database:
//
//	type Target struct{ db *sql.DB }
//
//	func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
//		have, err := t.createIfAbsent(ctx, table) // the columns that the table has
//		if err != nil {
//			return err
//		}
//		_, err = table.Fit(have) // a *driver.SchemaError if they differ
//		return err
//	}
//
//	func (t *Target) Import(ctx context.Context, f *driver.File) error {
//		if err := t.Ensure(ctx, f.Table); err != nil {
//			return err
//		}
//		tx, err := t.db.BeginTx(ctx, nil)
//		if err != nil {
//			return err
//		}
//		defer tx.Rollback()
//		done, err := tx.ExecContext(ctx, `INSERT INTO imported (id) VALUES ($1) ON CONFLICT DO NOTHING`, f.ID)
//		if err != nil {
//			return err
//		}
//		if n, err := done.RowsAffected(); n == 0 {
//			return err // an earlier attempt stored the rows
//		}
//		rows := f.ReadRows(ctx)
//		defer rows.Close()
//		for rows.Next() {
//			if err := insert(ctx, tx, f.Table, rows.Cells()); err != nil {
//				return err
//			}
//		}
//		if err := rows.Err(); err != nil {
//			return err // store nothing
//		}
//		return tx.Commit()
//	}
//
// The id of the file is in the same transaction as the rows. The engine repeats Import with this id after a crash and after every error with
// an unknown outcome, so the table gets each row exactly once. The comment of [Target] is the whole contract.
//
// The other interfaces are optional. A target implements the interfaces whose promise it can keep: [Extender] adds columns, [Limiter] names
// values that it cannot store, [Counter], [Taker] and [Voider] report about a file, and [Exclusive] is for a store of one process.
//
// The engine reacts to the kind of an error. It retries a plain error with a growing pause. It holds the file and retries slowly after a
// [*SchemaError], a [*RowsError] and an error that is marked by [Permanent].
//
// This package imports neither the engine nor its store, so a driver compiles without them. The suite buffer/buffertest checks a driver, and
// drivers/template is one to copy.
package driver
