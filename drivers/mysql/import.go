package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/driver"
)

var (
	// errPrepare ends an attempt that needs a change of the tables first, which would commit the transaction.
	errPrepare = errors.New("the table must be created or extended first")
	// errImported ends a transaction of a file that is imported already.
	errImported = errors.New("imported already")
)

// attempts bounds the attempts of one Import. A person may drop a column or the table after each Ensure, and transactions may block each other.
const attempts = 5

// Import implements [driver.Target].
func (t *Target) Import(ctx context.Context, f *driver.File) error {
	if err := t.check(f.Table); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := t.transaction(ctx, func(tx *sql.Tx) error { return t.importOnce(ctx, tx, f) })
		switch {
		case attempt < attempts && errors.Is(err, errPrepare):
			if err := t.Ensure(ctx, f.Table); err != nil {
				return err
			}
		case attempt < attempts && number(err) == deadlock: // the server has rolled back
		default:
			if refused, ok := errors.AsType[*driver.RowsError](err); ok && t.options.TrustTriggers {
				refused.Unsure = false
			}
			return err
		}
	}
}

func (t *Target) importOnce(ctx context.Context, tx *sql.Tx, f *driver.File) error {
	in, err := t.prepare(ctx, tx, f)
	if err != nil {
		return err
	}
	if in.load {
		const savepoint = reserved + "load"
		if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
			return err
		}
		if done, err := in.loadData(ctx, tx, f); done || err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); err != nil {
			return err
		}
	}
	return in.insertAll(ctx, tx, f)
}

// intake is how the rows of a file come into their table.
type intake struct {
	fields    fields
	into      string // the table, as SQL
	load      bool   // by LOAD DATA
	maxPacket int
	upsert    string // what ends an INSERT
}

// prepare records the id of the file and finds how its rows are stored. The error is errImported if they are.
func (t *Target) prepare(ctx context.Context, tx *sql.Tx, f *driver.File) (*intake, error) {
	s, err := readSession(ctx, tx)
	if err == nil {
		err = s.check(t, f.Table.ID)
	}
	if err != nil {
		return nil, err
	}
	// The id comes first. While an older attempt is open, this waits for its end.
	fresh, err := t.record(ctx, tx, f.ID, f.Table.ID, f.Rows)
	if err == nil && !fresh {
		if rows, err := t.recorded(ctx, tx, f.ID); err != nil || rows >= 0 {
			return nil, cmp.Or(err, errImported)
		}
		return nil, driver.Permanent(fmt.Errorf("file %s: %w", f.ID, driver.ErrVoid))
	}
	if err == nil {
		// Until the end of the transaction no other session changes the columns that are read next. A lock for reading alone would have to be
		// exchanged later, after a waiting change.
		_, err = tx.ExecContext(ctx, "SELECT 1 FROM "+t.table(f.Table.ID)+" LIMIT 0 FOR UPDATE")
	}
	if number(err) == noSuchTable {
		return nil, errPrepare
	}
	if err != nil {
		return nil, err
	}
	r, err := t.relation(ctx, tx, f.Table.ID)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errPrepare
	}
	counted, have, want, err := fit(f.Table, r.columns)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(want, have) {
		return nil, errPrepare
	}
	in := &intake{fields: fieldsOf(f.Table, counted, have), into: t.table(f.Table.ID), load: s.localInfile && !t.options.InsertOnly, maxPacket: s.maxPacket}
	if key := t.options.Keys[f.Table.ID]; key != nil {
		if err := t.checkKey(ctx, tx, f.Table.ID); err != nil {
			return nil, err
		}
		// LOAD DATA … REPLACE would delete rows first, with the columns that this file lacks.
		in.load, in.upsert = false, in.fields.update()
	}
	return in, nil
}

// update returns what makes an INSERT replace the rows whose keys exist.
func (s fields) update() string {
	var set []string
	for _, f := range s {
		if name := quote(f.name); !f.key {
			set = append(set, name+" = VALUES("+name+")")
		}
	}
	if set == nil { // nothing but keys
		name := quote(s[0].name)
		set = append(set, name+" = "+name)
	}
	return " ON DUPLICATE KEY UPDATE " + strings.Join(set, ", ")
}

// void stands in the place of the number of rows of a file that is ruled out.
const void = -1

// record adds the id of a file, and reports false if it is there.
func (t *Target) record(ctx context.Context, tx *sql.Tx, fileID, tableID string, rows int64) (fresh bool, err error) {
	_, err = tx.ExecContext(ctx, "INSERT INTO "+t.table(imports)+" (file_id, table_name, row_count, imported_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))", fileID, tableID, rows)
	if number(err) == dupEntry {
		return false, nil
	}
	return err == nil, err
}

// recorded returns the number of rows that is recorded for a file.
func (t *Target) recorded(ctx context.Context, tx *sql.Tx, fileID string) (rows int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT row_count FROM "+t.table(imports)+" WHERE file_id = ?", fileID).Scan(&rows)
	return rows, err
}

// Void implements [driver.Voider]. Like Import it waits for an open transaction that has the id.
func (t *Target) Void(ctx context.Context, table driver.Table, fileID string) (imported bool, err error) {
	if err := t.check(table); err != nil {
		return false, err
	}
	for attempt := 1; ; attempt++ {
		imported = false
		err := t.transaction(ctx, func(tx *sql.Tx) error {
			fresh, err := t.record(ctx, tx, fileID, table.ID, void)
			if err == nil && !fresh {
				var rows int64
				rows, err = t.recorded(ctx, tx, fileID)
				imported = err == nil && rows >= 0
			}
			return err
		})
		switch {
		case attempt < attempts && number(err) == noSuchTable: // nothing was imported yet
			if err := t.Ensure(ctx, table); err != nil {
				return false, err
			}
		case attempt < attempts && number(err) == deadlock:
		default:
			return imported && err == nil, err
		}
	}
}

// transaction runs do in a transaction and commits it.
func (t *Target) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	// Each statement must see rows committed while the previous statement waited for a lock.
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return classify(err)
	}
	if err = do(tx); err == nil {
		// An error here says nothing about the outcome. The next attempt finds the id, or imports.
		return wrap(tx.Commit())
	}
	_ = tx.Rollback() // a connection that cannot roll back is closed
	switch {
	case errors.Is(err, errImported):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return classify(err)
}

// CountFile implements [driver.Counter]. It returns the rows that the import has written. Rows that were deleted since count too.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (rows int64, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT row_count FROM "+t.table(imports)+" WHERE file_id = ? AND table_name = ?", fileID, table.ID).Scan(&rows)
	if errors.Is(err, sql.ErrNoRows) || number(err) == noSuchTable {
		return 0, nil
	}
	return max(0, rows), classify(err)
}

// notAllowed reports whether the server, or a proxy before it, refuses LOAD DATA LOCAL.
func notAllowed(e *mysql.MySQLError) bool {
	return e.Number == commandNotAllowed || e.Number == localInfileDisabled
}
