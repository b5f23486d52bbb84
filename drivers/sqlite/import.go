package sqlite

import (
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

// Import implements [driver.Target], exactly once. The rows and the id of the file are one transaction, which begins with the id.
func (t *Target) Import(ctx context.Context, f *driver.File) error {
	if err := checkTable(f.Table); err != nil {
		return err
	}
	f = withStallTimeout(f, t.opts.StallTimeout)
	err := t.importOnce(ctx, f, batchRows)
	if errors.As(err, new(*batchError)) {
		err = t.importOnce(ctx, f, 1) // and names each row that is refused
	}
	if refused, ok := errors.AsType[*driver.RowsError](err); ok && t.opts.TrustTriggers {
		refused.Unsure = false
	}
	return wrap(err, "import %s into %q", f.ID, f.Table.ID)
}

// importOnce imports with statements of up to batch rows.
func (t *Target) importOnce(ctx context.Context, f *driver.File, batch int) error {
	found, voided := false, false
	err := t.transaction(ctx, func(ctx context.Context, c tx) (err error) {
		found, voided, err = t.importFile(ctx, c, f, batch)
		return err
	})
	if err != nil || !found {
		return err
	}
	if err := t.syncPages(ctx); err != nil || !voided {
		return err
	}
	return driver.Permanent(driver.ErrVoid)
}

// importFile imports within a transaction. found says that the id is there already, voided that it is ruled out.
func (t *Target) importFile(ctx context.Context, c tx, f *driver.File, batch int) (found, voided bool, err error) {
	// No other connection writes from here on, so an absent id stays absent.
	res, err := c.ExecContext(ctx, "INSERT INTO _forebay_imports VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		f.ID, f.Table.ID, f.Rows, time.Now().UTC().Format(time.RFC3339))
	if err != nil {
		return false, false, err
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return false, false, err
	case n == 0:
		if voided, err = isVoid(ctx, c, f.ID); err != nil {
			return true, false, err
		}
		return true, voided, syncLog(ctx, c, f.ID)
	}
	columns, err := t.known.ensure(ctx, c, f.Table, t.opts.Indexes)
	if err != nil {
		return false, false, err
	}
	return false, false, c.Raw(func(conn any) error { return insertFile(ctx, conn.(driverConn), f, columns, batch) })
}

// ImportMany implements [driver.ManyImporter].
func (t *Target) ImportMany(ctx context.Context, files []*driver.File) error {
	for _, f := range files {
		if err := checkTable(f.Table); err != nil {
			return err
		}
	}
	again := false
	err := t.transaction(ctx, func(ctx context.Context, c tx) error {
		for _, f := range files {
			found, voided, err := t.importFile(ctx, c, withStallTimeout(f, t.opts.StallTimeout), batchRows)
			if err == nil && voided {
				err = driver.Permanent(driver.ErrVoid)
			}
			if err != nil {
				return wrap(err, "import %s into %q", f.ID, f.Table.ID)
			}
			again = again || found
		}
		return nil
	})
	if err == nil && again {
		err = t.syncPages(ctx)
	}
	return wrap(err, "import %d files", len(files))
}

// syncPages makes a commit durable that an earlier attempt has made.
func (t *Target) syncPages(ctx context.Context) error {
	// The sync of the attempt may also have failed before it was killed. The kernel then takes lost pages of the log for written ones and
	// does not sync them. A checkpoint writes these pages again, into the database. A reader of an old state prevents that, which is no error.
	_, err := t.write.ExecContext(ctx, "PRAGMA wal_checkpoint(FULL)")
	return classify(err)
}

// void stands in the place of the number of rows of a file that is ruled out.
const void = -1

// isVoid reports whether a file whose id is recorded was ruled out.
func isVoid(ctx context.Context, c tx, id string) (bool, error) {
	var rows int64
	err := c.QueryRowContext(ctx, "SELECT rows FROM _forebay_imports WHERE file_id = ?", id).Scan(&rows)
	return rows == void, err
}

// Void implements [driver.Voider]. Like Import it waits for other writers.
func (t *Target) Void(ctx context.Context, table driver.Table, fileID string) (imported bool, err error) {
	if err := checkTable(table); err != nil {
		return false, err
	}
	found := false
	err = t.transaction(ctx, func(ctx context.Context, c tx) error {
		res, err := c.ExecContext(ctx, "INSERT INTO _forebay_imports VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			fileID, table.ID, void, time.Now().UTC().Format(time.RFC3339))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		voided, err := isVoid(ctx, c, fileID)
		if err != nil {
			return err
		}
		found, imported = true, !voided
		return syncLog(ctx, c, fileID)
	})
	if err == nil && found {
		err = t.syncPages(ctx)
	}
	return imported, wrap(err, "rule out %s in %q", fileID, table.ID)
}

// batchError ends an attempt in which SQLite refuses a statement of several rows. SQLite does not say which row it refuses, and with a clause
// such as ON CONFLICT FAIL some of the rows stay inserted.
type batchError struct{ error }

func (e *batchError) Unwrap() error { return e.error }

// syncLog makes an import durable whose id was found. The attempt may have been killed between writing its commit and syncing it. SQLite
// reads such a commit after a restart, but a power cut would still undo it. A commit that changes a page syncs the whole log.
func syncLog(ctx context.Context, c tx, id string) error {
	_, err := c.ExecContext(ctx, "UPDATE _forebay_imports SET imported_at = substr(imported_at, 1, 19) || ? WHERE file_id = ?",
		time.Now().UTC().Format(".000000000Z"), id)
	return err
}

// driverConn is a connection below database/sql, which would copy each cell and look at its type once more.
type driverConn interface {
	sqldriver.ExecerContext
	sqldriver.ConnPrepareContext
}

const (
	// batchRows is the number of rows that one statement inserts. More rows are no faster.
	batchRows = 50
	// maxVariables is the limit of SQLite.
	maxVariables = 32766
)

// inserter inserts the rows of a file in batches.
type inserter struct {
	conn    driverConn
	table   driver.Table
	columns []datatype.Column
	places  []int          // of the cell of each column in a row of the file, -1 for none
	rows    int            // of a full batch
	full    sqldriver.Stmt // nil until a batch is full

	args    []sqldriver.NamedValue // of the batch
	numbers []int64                // of its rows in the file
	text    []byte                 // of its cells, which are made a string at once
	spans   []span

	refused driver.RowsError
}

// span is the place of the text of an argument in inserter.text.
type span struct{ arg, from, to int }

func insertFile(ctx context.Context, conn driverConn, f *driver.File, columns []datatype.Column, batch int) (err error) {
	in := &inserter{
		conn: conn, table: f.Table, columns: columns, places: f.Table.Places(columns), rows: max(1, min(batch, maxVariables/len(columns))),
	}
	defer func() {
		if in.full != nil {
			err = errors.Join(err, in.full.Close())
		}
	}()
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		if !in.add(rows.Cells(), rows.Row()) {
			return in.refusal(false)
		}
		if len(in.numbers) == in.rows {
			if in.full == nil {
				if in.full, err = in.prepare(ctx, in.rows); err != nil {
					return err
				}
			}
			if err := in.flush(ctx, in.full); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n := len(in.numbers); n > 0 {
		last, err := in.prepare(ctx, n)
		if err != nil {
			return err
		}
		if err := errors.Join(in.flush(ctx, last), last.Close()); err != nil {
			return err
		}
	}
	if len(in.refused.Rows) > 0 {
		return in.refusal(true)
	}
	return nil
}

// refusal returns the error with all refused rows, both the rows that the driver refuses and the rows that SQLite refuses.
func (in *inserter) refusal(complete bool) error {
	slices.SortFunc(in.refused.Rows, func(a, b driver.RowError) int { return cmp.Compare(a.Row, b.Row) })
	in.refused.Complete = complete
	return &in.refused
}

// prepare prepares a statement that inserts n rows.
func (in *inserter) prepare(ctx context.Context, n int) (sqldriver.Stmt, error) {
	var names []string
	for _, c := range in.columns {
		names = append(names, sqlfile.Quote(c.Name))
	}
	row := "(" + strings.Repeat("?,", len(names)-1) + "?)"
	return in.conn.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", sqlfile.Quote(in.table.ID), strings.Join(names, ","),
		strings.Repeat(row+",", n-1)+row))
}

// flush inserts the batch. A refused row is noted if it is the only row of the batch. The transaction is rolled back at the end, when all
// refused rows are known.
func (in *inserter) flush(ctx context.Context, stmt sqldriver.Stmt) error {
	text := string(in.text)
	for _, s := range in.spans {
		in.args[s.arg].Value = text[s.from:s.to]
	}
	err := exec(ctx, stmt, in.args, len(in.numbers))
	switch {
	case !refusesRow(err):
	case in.rows > 1:
		err = &batchError{err}
	default:
		err = in.refuse(ctx, in.numbers[0], err)
	}
	in.args, in.numbers, in.text, in.spans = in.args[:0], in.numbers[:0], in.text[:0], in.spans[:0]
	return err
}

// refuse notes a row that SQLite refuses.
func (in *inserter) refuse(ctx context.Context, number int64, cause error) error {
	code, message := refusal(cause)
	in.refused.Unsure = in.refused.Unsure || code == sqlite3.SQLITE_CONSTRAINT_TRIGGER // a trigger can say anything
	if !in.refused.Add(driver.RowError{Row: number, Reason: fmt.Sprint(code), Message: message}) {
		return in.refusal(false)
	}
	// A constraint or trigger may have rolled back the transaction. Without a new one each of the next rows would be committed by itself.
	if _, err := in.conn.ExecContext(ctx, "BEGIN IMMEDIATE", nil); err != nil && !noTransaction(err) {
		return err
	}
	return nil
}

// exec inserts rows. It fails if the table leaves out a row without an error, because the file would count as stored whole.
func exec(ctx context.Context, stmt sqldriver.Stmt, args []sqldriver.NamedValue, rows int) error {
	res, err := stmt.(sqldriver.StmtExecContext).ExecContext(ctx, args)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == int64(rows) {
		return err
	}
	return driver.Permanent(errors.New("the table leaves out a row without an error: look for RAISE(IGNORE) in its triggers, and for ON CONFLICT IGNORE"))
}
