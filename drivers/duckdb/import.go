package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/driver"
)

// errDefine ends an attempt for which the table must be changed first. The change is a separate transaction, because until its end no
// other transaction can change or fill the table.
var errDefine = errors.New("the table must be created or extended first")

// Import implements [driver.Target], exactly once. The rows and the id of the file are one transaction, which begins with the id.
func (t *Target) Import(ctx context.Context, f *driver.File) error {
	if err := checkTable(f.Table); err != nil {
		return err
	}
	err := t.importFile(ctx, f)
	if errors.Is(err, errDefine) {
		if err := t.Ensure(ctx, f.Table); err != nil {
			return err
		}
		err = t.importFile(ctx, f)
	}
	return wrap(err, "import %s into %q", f.ID, f.Table.ID)
}

func (t *Target) importFile(ctx context.Context, f *driver.File) error {
	unlockFile, err := t.lockFile(ctx, f.ID)
	if err != nil {
		return err
	}
	defer unlockFile()
	unlock, err := t.lock(ctx, f.Table.ID, false)
	if err != nil {
		return err
	}
	defer unlock()
	return again(ctx, func() error { return t.importOnce(ctx, f) })
}

func (t *Target) importOnce(ctx context.Context, f *driver.File) error {
	err := t.transaction(ctx, func(ctx context.Context, c *conn) error {
		if found, err := recordID(ctx, c, f); err != nil || found {
			return err
		}
		return appendFile(ctx, c, f, noProbe)
	})
	var failed *appendError
	if !errors.As(err, &failed) || !refusesRow(err) || ctx.Err() != nil {
		return err
	}
	return t.findRefused(ctx, f, failed)
}

// hasID is a condition for the record of a file. It makes DuckDB read the records, because an index in memory may know ids that are not stored.
func hasID(id string) string { return "concat(file_id, '') = " + literal(id) }

// recordID records that the file is imported, or finds that it is.
func recordID(ctx context.Context, c *conn, f *driver.File) (found bool, err error) {
	now := literal(timestamp(time.Now()))
	known, err := c.query(ctx, "SELECT rows::VARCHAR FROM _forebay_imports WHERE %s", hasID(f.ID))
	switch {
	case kindOf(err) == mapping.ErrorTypeCatalog:
		return false, errDefine
	case err != nil:
		return false, err
	case len(known) > 0 && known[0][0] == void:
		return true, driver.Permanent(driver.ErrVoid)
	case len(known) > 0:
		// The attempt may have been killed between writing its commit and syncing it. DuckDB reads such a commit after a restart, but a
		// power cut would still undo it. Another commit syncs the whole log.
		return true, c.exec(ctx, "UPDATE _forebay_imports SET imported_at = %s WHERE file_id = %s", now, literal(f.ID))
	}
	err = c.exec(ctx, "INSERT INTO _forebay_imports VALUES (%s, %s, %d, %s)", literal(f.ID), literal(f.Table.ID), f.Rows, now)
	if kindOf(err) == mapping.ErrorTypeConstraint {
		err = &lateError{err}
	}
	return false, err
}

// void stands in the place of the number of rows of a file that is ruled out.
const void = "-1"

// Void implements [driver.Voider]. The primary key of the ids lets either it or an import commit.
func (t *Target) Void(ctx context.Context, table driver.Table, fileID string) (imported bool, err error) {
	if err := checkTable(table); err != nil {
		return false, err
	}
	call := func() error {
		unlockFile, err := t.lockFile(ctx, fileID)
		if err != nil {
			return err
		}
		defer unlockFile()
		unlock, err := t.lock(ctx, table.ID, false)
		if err != nil {
			return err
		}
		defer unlock()
		return again(ctx, func() error {
			return t.transaction(ctx, func(ctx context.Context, c *conn) (err error) {
				imported, err = voidID(ctx, c, table.ID, fileID)
				return err
			})
		})
	}
	if err = call(); errors.Is(err, errDefine) { // the table of the ids was dropped
		if err = t.Ensure(ctx, table); err == nil {
			err = call()
		}
	}
	return imported && err == nil, wrap(err, "rule out %s in %q", fileID, table.ID)
}

// voidID records that a file is ruled out, or finds that it is imported.
func voidID(ctx context.Context, c *conn, table, id string) (imported bool, err error) {
	now := literal(timestamp(time.Now()))
	known, err := c.query(ctx, "SELECT rows::VARCHAR FROM _forebay_imports WHERE %s", hasID(id))
	switch {
	case kindOf(err) == mapping.ErrorTypeCatalog:
		return false, errDefine
	case err != nil:
		return false, err
	case len(known) > 0: // it may not be synced, see recordID
		return known[0][0] != void, c.exec(ctx, "UPDATE _forebay_imports SET imported_at = %s WHERE file_id = %s", now, literal(id))
	}
	err = c.exec(ctx, "INSERT INTO _forebay_imports VALUES (%s, %s, %s, %s)", literal(id), literal(table), void, now)
	if kindOf(err) == mapping.ErrorTypeConstraint {
		err = &lateError{err}
	}
	return false, err
}

// findRefused finds the first row that breaks a constraint, in transactions that are rolled back. DuckDB itself names the value, not the row,
// and ends the transaction.
func (t *Target) findRefused(ctx context.Context, f *driver.File, failed *appendError) error {
	errFound := errors.New("all rows were taken")
	for _, step := range []int64{batchRows, 1} {
		from := failed.from
		err := t.transaction(ctx, func(ctx context.Context, c *conn) error {
			return cmp.Or(appendFile(ctx, c, f, probe{from, step}), errFound)
		})
		failed = nil
		if errors.Is(err, errFound) || !errors.As(err, &failed) || !refusesRow(err) {
			return err // another transaction has changed the conflicting row, so a retry helps
		}
	}
	refused := &driver.RowsError{}
	refused.Add(driver.RowError{Row: failed.from, Reason: "constraint", Message: withoutValues(failed.Error())})
	return refused
}

// appendFile appends the rows of a file to the table, which must have the columns that it needs.
func appendFile(ctx context.Context, c *conn, f *driver.File, p probe) error {
	have, err := columnsOf(ctx, c, f.Table)
	if kindOf(err) == mapping.ErrorTypeCatalog {
		return errDefine // the driver's own table is absent
	}
	if err != nil {
		return err
	}
	want, err := f.Table.Fit(have)
	if err != nil {
		return err
	}
	if len(have) == 0 || !slices.Equal(have, want) {
		return errDefine
	}
	a, err := newAppender(c, f.Table, have)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.append(f.ReadRows(ctx), p); err != nil {
		return err
	}
	if a.rows != f.Rows {
		return fmt.Errorf("%d rows were appended, the file has %d", a.rows, f.Rows)
	}
	return nil
}
