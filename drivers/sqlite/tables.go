package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

// createOwnTables creates the tables of the driver. They are in the same database, so its copies and backups have the rows together with
// the ids of their files.
func createOwnTables(ctx context.Context, c tx) error {
	// The row ids of imports ascend with time. The deletion of old ids relies on that.
	_, err := c.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS _forebay_imports (
			file_id TEXT PRIMARY KEY NOT NULL, table_id TEXT NOT NULL, rows INTEGER NOT NULL, imported_at TEXT NOT NULL
		) STRICT;
		CREATE TABLE IF NOT EXISTS _forebay_tables (
			id TEXT PRIMARY KEY NOT NULL, columns TEXT NOT NULL, creation TEXT NOT NULL
		) STRICT`)
	return err
}

// storageOf is the type of a column in SQLite, which has fewer types.
func storageOf(t datatype.Type) string {
	switch t {
	case datatype.Bool, datatype.Int64:
		return "INTEGER"
	case datatype.Float64:
		return "REAL"
	case datatype.Bytes:
		return "BLOB"
	}
	return "TEXT"
}

// checkTable refuses names that SQLite cannot keep.
func checkTable(t driver.Table) error {
	switch lower := strings.ToLower(t.ID); {
	case strings.HasPrefix(lower, "sqlite_"), strings.HasPrefix(lower, "_forebay_"):
		return driver.Permanent(fmt.Errorf("the table %q has a name that SQLite or this driver keeps for itself: choose a different one", t.ID))
	case slices.ContainsFunc(append(t.Names(), t.ID), func(name string) bool { return strings.Contains(name, "\x00") }):
		return driver.Permanent(fmt.Errorf("the table %.100q or a column has a NUL in its name", t.ID))
	}
	return nil
}

// knownTables are tables that fit, so that an import of a few rows need not read the schema. They are of the connection that writes, within a
// transaction. They hold until another connection has committed, or this one changes a table.
type knownTables struct {
	conn    any   // the connection below database/sql
	version int64 // of the data that other connections commit
	// changed is set when the transaction has changed a table. The schema that it reads then may be rolled back.
	changed bool
	fitting map[string]fittingTable
	// rows are where tables are in the schema, which has no index of names. They are checked at each use, so they need not be right.
	rows map[string]int64
}

// fittingTable is a table of files and its columns in the database.
type fittingTable struct {
	table   driver.Table
	columns []datatype.Column
}

// maxKnown bounds the tables that are known.
const maxKnown = 20_000

// begin forgets the tables if they may have changed since the last transaction.
func (k *knownTables) begin(ctx context.Context, c tx) error {
	var conn any
	var version int64
	if err := c.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return err
	}
	if err := c.Raw(func(raw any) error { conn = raw; return nil }); err != nil {
		return err
	}
	if conn != k.conn || version != k.version || k.changed || len(k.fitting) >= maxKnown {
		*k = knownTables{conn: conn, version: version, fitting: make(map[string]fittingTable), rows: k.rows}
	}
	return nil
}

// ensure creates or extends the table as t needs it, and returns its columns.
func (k *knownTables) ensure(ctx context.Context, c tx, t driver.Table, indexes [][]string) ([]datatype.Column, error) {
	if known, ok := k.fitting[t.ID]; ok && !k.changed && known.table.Extend == t.Extend && slices.Equal(known.table.Columns, t.Columns) {
		return known.columns, nil
	}
	have, err := k.columnsOf(ctx, c, t)
	if err != nil {
		return nil, err
	}
	want, err := t.Fit(have)
	if err != nil {
		return nil, err
	}
	if slices.Equal(have, want) {
		if !k.changed {
			t.Columns = slices.Clone(t.Columns) // the caller may change them
			k.fitting[t.ID] = fittingTable{t, slices.Clone(want)}
		}
		return want, nil
	}
	k.changed = true
	changes := sqlfile.Changes(t.ID, have, want, storageOf, " STRICT")
	if len(have) == 0 {
		changes = append(changes, createIndexes(t.ID, want, indexes)...)
	}
	for _, change := range changes {
		if _, err := c.ExecContext(ctx, change); err != nil {
			return nil, err
		}
	}
	if len(have) == 0 {
		if err := k.note(ctx, c, t.ID); err != nil {
			return nil, err
		}
	}
	types, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	_, err = c.ExecContext(ctx, `INSERT INTO _forebay_tables VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET columns = excluded.columns,
		creation = iif(?, excluded.creation, creation)`, t.ID, string(types), t.Creation, len(have) == 0)
	return want, err
}

// createIndexes returns the statements that create the indexes of a new table, of those whose columns it has.
func createIndexes(table string, columns []datatype.Column, indexes [][]string) (statements []string) {
	for _, index := range indexes {
		var quoted []string
		for _, name := range index {
			if slices.ContainsFunc(columns, func(c datatype.Column) bool { return c.Name == name }) {
				quoted = append(quoted, sqlfile.Quote(name))
			}
		}
		if len(quoted) == len(index) {
			statements = append(statements, fmt.Sprintf("CREATE INDEX %s ON %s (%s)",
				sqlfile.Quote(table+"_"+strings.Join(index, "_")), sqlfile.Quote(table), strings.Join(quoted, ", ")))
		}
	}
	return statements
}

// querier is a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// columnsOf is the function columnsOf without a search of the whole schema for each of thousands of tables.
func (k *knownTables) columnsOf(ctx context.Context, c querier, t driver.Table) ([]datatype.Column, error) {
	if row, ok := k.rows[t.ID]; ok {
		if have, err := columnsAt(ctx, c, t, row); have != nil || err != nil {
			return have, err
		}
	}
	var exists bool // in any case of letters
	if err := c.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?))", t.ID).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	if err := k.noteAll(ctx, c); err != nil {
		return nil, err
	}
	if row, ok := k.rows[t.ID]; ok {
		return columnsAt(ctx, c, t, row)
	}
	return columnsOf(ctx, c, t)
}

// note notes where a new table is in the schema.
func (k *knownTables) note(ctx context.Context, c querier, table string) error {
	var row int64
	err := c.QueryRowContext(ctx, "SELECT rowid FROM sqlite_schema WHERE type = 'table' AND name = ? ORDER BY rowid DESC LIMIT 1", table).Scan(&row)
	if k.rows == nil {
		k.rows = make(map[string]int64)
	}
	k.rows[table] = row
	return err
}

// noteAll notes where all tables are in the schema.
func (k *knownTables) noteAll(ctx context.Context, c querier) error {
	rows, err := c.QueryContext(ctx, "SELECT rowid, name FROM sqlite_schema WHERE type = 'table'")
	if err != nil {
		return err
	}
	defer rows.Close()
	k.rows = make(map[string]int64)
	for rows.Next() {
		var row int64
		var name string
		if err := rows.Scan(&row, &name); err != nil {
			return err
		}
		k.rows[name] = row
	}
	return errors.Join(rows.Err(), rows.Close())
}

// columnsOf returns the columns of a table, none if it is absent. Names, order and NOT NULL come from the table as it is now, because it may
// have been altered. SQLite does not know the types. The driver's own table has them. A column that is not listed there has the type that t
// wants, if its declaration can hold that.
func columnsOf(ctx context.Context, c querier, t driver.Table) ([]datatype.Column, error) {
	return readColumns(ctx, c, t, "s.type IN ('table', 'view') AND s.name = ? COLLATE NOCASE", t.ID)
}

// columnsAt returns the columns of a table if it is in this row of the schema.
func columnsAt(ctx context.Context, c querier, t driver.Table, row int64) ([]datatype.Column, error) {
	return readColumns(ctx, c, t, "s.rowid = ? AND s.type = 'table' AND s.name = ?", row, t.ID)
}

func readColumns(ctx context.Context, c querier, t driver.Table, where string, args ...any) ([]datatype.Column, error) {
	rows, err := c.QueryContext(ctx, `SELECT s.name, s.type, i.name, i.type, i."notnull" FROM sqlite_schema s, pragma_table_info(s.name) i
		WHERE `+where+` ORDER BY i.cid`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var have []datatype.Column
	var declared []string
	for rows.Next() {
		var table, kind, storage string
		var col datatype.Column
		if err := rows.Scan(&table, &kind, &col.Name, &storage, &col.Required); err != nil {
			return nil, err
		}
		if table != t.ID {
			return nil, driver.Permanent(fmt.Errorf("the database has a table %q, and SQLite ignores the case of names: choose another name than %q", table, t.ID))
		}
		if kind != "table" {
			return nil, driver.Permanent(fmt.Errorf("%q is a view: choose another name, or make it a table", table))
		}
		have, declared = append(have, col), append(declared, storage)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || have == nil {
		return nil, err
	}
	var text string
	var stored []datatype.Column
	err = c.QueryRowContext(ctx, "SELECT columns FROM _forebay_tables WHERE id = ?", t.ID).Scan(&text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &stored)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	named := func(list []datatype.Column, name string) *datatype.Column {
		if i := slices.IndexFunc(list, func(o datatype.Column) bool { return strings.EqualFold(o.Name, name) }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	for i := range have {
		col := &have[i]
		switch s, w := named(stored, col.Name), named(t.Columns, col.Name); {
		case s != nil && strings.EqualFold(storageOf(s.Type), declared[i]):
			col.Type = s.Type
		case w != nil && strings.EqualFold(storageOf(w.Type), declared[i]):
			col.Type = w.Type
		default:
			col.Type = datatype.Type(declared[i])
		}
	}
	return have, nil
}

// Ensure implements [driver.Target]. A table created by another program may be used. Its columns then have the storage classes
// of the types, best in a STRICT table.
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	err := t.transaction(ctx, func(ctx context.Context, c tx) error {
		_, err := t.known.ensure(ctx, c, table, t.opts.Indexes)
		return err
	})
	if errors.As(err, new(*driver.SchemaError)) {
		return fmt.Errorf("sqlite: %w", err) // it names the table
	}
	return wrap(err, "table %q", table.ID)
}

// Extend implements [driver.Extender].
func (t *Target) Extend(ctx context.Context, table driver.Table) error {
	table.Extend = true
	return t.Ensure(ctx, table)
}

// Uncreate implements [driver.Uncreator].
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) error {
	if creation == "" {
		return nil
	}
	err := t.transaction(ctx, func(ctx context.Context, c tx) error {
		var marked bool
		err := c.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM _forebay_tables JOIN sqlite_schema ON type = 'table' AND name = id
			WHERE id = ? AND creation = ?)`, tableID, creation).Scan(&marked)
		if err != nil || !marked {
			return cmp.Or(err, errDone)
		}
		var filled bool
		err = c.QueryRowContext(ctx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s)", sqlfile.Quote(tableID))).Scan(&filled)
		if err != nil || filled {
			return cmp.Or(err, errDone)
		}
		t.known.changed = true
		_, err = c.ExecContext(ctx, fmt.Sprintf("DROP TABLE %s; DELETE FROM _forebay_tables WHERE id = ?", sqlfile.Quote(tableID)), tableID)
		return err
	})
	return wrap(err, "table %q", tableID)
}

// wrap adds the subject of a call to its error.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s: %w", fmt.Sprintf(format, args...), err)
}
