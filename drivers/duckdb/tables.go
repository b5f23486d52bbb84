package duckdb

import (
	"context"
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
const createOwnTables = `
	CREATE TABLE IF NOT EXISTS _forebay_imports (
		file_id VARCHAR PRIMARY KEY, table_id VARCHAR NOT NULL, rows BIGINT NOT NULL, imported_at TIMESTAMP WITH TIME ZONE NOT NULL
	);
	CREATE TABLE IF NOT EXISTS _forebay_tables (id VARCHAR PRIMARY KEY, columns VARCHAR NOT NULL, creation VARCHAR NOT NULL)`

// storageOf is the type of a column in DuckDB.
func storageOf(t datatype.Type) string {
	switch t {
	case datatype.Bool:
		return "BOOLEAN"
	case datatype.Int64:
		return "BIGINT"
	case datatype.Float64:
		return "DOUBLE"
	case datatype.Timestamp:
		return "TIMESTAMP WITH TIME ZONE"
	case datatype.Date:
		return "DATE"
	case datatype.UUID:
		return "UUID"
	case datatype.JSON:
		return "JSON"
	case datatype.Bytes:
		return "BLOB"
	}
	if precision, scale, ok := t.DecimalOf(); ok {
		return fmt.Sprintf("DECIMAL(%d,%d)", precision, scale)
	}
	return "VARCHAR"
}

// typeOf returns the type of a column that has the type storage in DuckDB. It is other if that is stored so, because VARCHAR stands for two types.
func typeOf(storage string, other datatype.Type) datatype.Type {
	if storageOf(other) == storage {
		return other
	}
	for _, t := range []datatype.Type{
		datatype.String, datatype.Bool, datatype.Int64, datatype.Float64, datatype.Timestamp, datatype.Date, datatype.UUID, datatype.JSON, datatype.Bytes,
	} {
		if storageOf(t) == storage {
			return t
		}
	}
	if strings.HasPrefix(storage, "DECIMAL(") {
		return datatype.Type(strings.ToLower(storage))
	}
	return datatype.Type(storage) // no cell fits this type
}

// checkTable refuses names that DuckDB cannot keep.
func checkTable(t driver.Table) error {
	for _, name := range append(t.Names(), t.ID) {
		if strings.Contains(name, "\x00") || strings.ToValidUTF8(name, "") != name {
			return driver.Permanent(fmt.Errorf("duckdb: the table %.100q or a column has a name that is not UTF-8 without NUL", t.ID))
		}
	}
	if strings.HasPrefix(strings.ToLower(t.ID), "_forebay_") {
		return driver.Permanent(fmt.Errorf("duckdb: the table %q has a name that this driver keeps for itself: choose a different one", t.ID))
	}
	return nil
}

// ensure creates or extends the table as t needs it.
func ensure(ctx context.Context, c *conn, t driver.Table) error {
	if err := c.exec(ctx, createOwnTables); err != nil { // again, because they may have been dropped
		return err
	}
	have, err := columnsOf(ctx, c, t)
	if err != nil {
		return err
	}
	want, err := t.Fit(have)
	if err != nil || slices.Equal(have, want) {
		return err
	}
	types, err := json.Marshal(want)
	if err != nil {
		return err
	}
	creation := "creation"
	if len(have) == 0 {
		creation = "excluded.creation"
	}
	for _, change := range sqlfile.Changes(t.ID, have, want, storageOf, "") {
		if err := c.exec(ctx, "%s", change); err != nil {
			return err
		}
	}
	return c.exec(ctx, "INSERT INTO _forebay_tables VALUES (%s, %s, %s) ON CONFLICT DO UPDATE SET columns = excluded.columns, creation = %s",
		literal(t.ID), literal(string(types)), literal(t.Creation), creation)
}

// columnsOf returns the columns of a table as they are now, none if it is absent. The driver's own table says whether a VARCHAR is untyped or
// a string. If it does not, the column is what t wants.
func columnsOf(ctx context.Context, c *conn, t driver.Table) ([]datatype.Column, error) {
	const here = "database_name = current_database() AND schema_name = 'main'"
	rows, err := c.query(ctx, `SELECT table_name, column_name, data_type, is_nullable::VARCHAR,
			(table_name IN (SELECT view_name FROM duckdb_views() WHERE %s))::VARCHAR
		FROM duckdb_columns() WHERE %[1]s AND lower(table_name) = lower(%s) ORDER BY column_index`, here, literal(t.ID))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var stored []datatype.Column
	texts, err := c.query(ctx, "SELECT columns FROM _forebay_tables WHERE id = %s", literal(t.ID))
	if err == nil && len(texts) > 0 {
		err = json.Unmarshal([]byte(texts[0][0]), &stored)
	}
	if err != nil {
		return nil, err
	}
	var have []datatype.Column
	for _, row := range rows {
		switch {
		case row[0] != t.ID:
			return nil, driver.Permanent(fmt.Errorf("the database has a table %q, and DuckDB ignores the case of names: choose another name than %q", row[0], t.ID))
		case row[4] == "true":
			return nil, driver.Permanent(fmt.Errorf("%q is a view: choose another name, or make it a table", t.ID))
		}
		var other datatype.Type
		for _, list := range [][]datatype.Column{t.Columns, stored} { // the later list wins
			i := slices.IndexFunc(list, func(o datatype.Column) bool { return strings.EqualFold(o.Name, row[1]) })
			if i >= 0 && storageOf(list[i].Type) == row[2] {
				other = list[i].Type
			}
		}
		have = append(have, datatype.Column{Name: row[1], Type: typeOf(row[2], other), Required: row[3] == "false"})
	}
	return have, nil
}

// Ensure implements [driver.Target]. A table created by another program may be used, if its columns have the types of this driver.
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	err := t.change(ctx, table.ID, func(ctx context.Context, c *conn) error { return ensure(ctx, c, table) })
	if errors.As(err, new(*driver.SchemaError)) {
		return fmt.Errorf("duckdb: %w", err) // it names the table
	}
	return wrap(err, "table %q", table.ID)
}

// change runs a transaction that may change a table. It waits until no import of the table runs.
func (t *Target) change(ctx context.Context, table string, call func(ctx context.Context, c *conn) error) error {
	unlock, err := t.lock(ctx, table, true)
	if err != nil {
		return err
	}
	defer unlock()
	return again(ctx, func() error { return t.transaction(ctx, call) })
}

// Extend implements [driver.Extender].
func (t *Target) Extend(ctx context.Context, table driver.Table) error {
	table.Extend = true
	return t.Ensure(ctx, table)
}

// Uncreate implements [driver.Uncreator].
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) error {
	if creation == "" || checkTable(driver.Table{ID: tableID}) != nil {
		return nil
	}
	err := t.change(ctx, tableID, func(ctx context.Context, c *conn) error { return uncreate(ctx, c, tableID, creation) })
	return wrap(err, "table %q", tableID)
}

func uncreate(ctx context.Context, c *conn, id, creation string) error {
	if err := c.exec(ctx, createOwnTables); err != nil {
		return err
	}
	marked, err := c.query(ctx, `SELECT id FROM _forebay_tables WHERE id = %s AND creation = %s AND id IN
		(SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'main')`, literal(id), literal(creation))
	if err != nil || len(marked) == 0 {
		return err
	}
	filled, err := c.query(ctx, "SELECT 'x' FROM %s LIMIT 1", sqlfile.Quote(id))
	if err != nil || len(filled) > 0 {
		return err
	}
	if err := c.exec(ctx, "DROP TABLE %s", sqlfile.Quote(id)); err != nil {
		return err
	}
	return c.exec(ctx, "DELETE FROM _forebay_tables WHERE id = %s", literal(id))
}
