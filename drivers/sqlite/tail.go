package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Query implements [driver.Querier]. The query returns the rows that were stored last.
func (t *Target) Query(table driver.Table) (language, query string) {
	query = "SELECT * FROM " + sqlfile.Quote(table.ID)
	if id := rowID(table.Columns); id != "" {
		query += " ORDER BY " + id + " DESC"
	}
	return "SQLite", query + " LIMIT 20"
}

// rowID returns a name of the row id of a table, "" if columns have all of its names.
func rowID(columns []datatype.Column) string {
	for _, name := range []string{"rowid", "_rowid_", "oid"} {
		if !slices.ContainsFunc(columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, name) }) {
			return name
		}
	}
	return ""
}

// Tail implements [driver.Tailer]. The rows are in the order of their row ids, which ascend with the imports. It reads during imports, on a
// connection that cannot write, and does not read cells beyond 4 MiB.
func (t *Target) Tail(ctx context.Context, table string, n int) (driver.Tail, error) {
	if err := checkTable(driver.Table{ID: table}); err != nil {
		return driver.Tail{}, wrap(err, "read the end of %q", table)
	}
	tail, err := t.tail(ctx, table, n)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return tail, wrap(classify(err), "read the end of %q", table)
}

func (t *Target) tail(ctx context.Context, table string, n int) (none driver.Tail, err error) {
	conn, err := t.read.Conn(ctx)
	if err != nil {
		return none, err
	}
	defer conn.Close()
	if err := t.file.Check(); err != nil {
		return none, err
	}
	// The columns and the rows are of one moment. A read-only transaction cannot fail to end.
	reading, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return none, err
	}
	defer func() { _ = reading.Rollback() }()
	known, err := columnsOf(ctx, reading, driver.Table{ID: table})
	if err != nil {
		return none, err
	}
	if known == nil {
		return none, fs.ErrNotExist
	}
	columns := make([]sqltail.Column, len(known))
	for i, c := range known {
		columns[i] = sqltail.Column{Column: c, Name: sqlfile.Quote(c.Name), Text: textOf(c.Type), Size: sizeOf}
	}
	id := rowID(known)
	if id == "" {
		return none, driver.Permanent(errors.New("columns have all names of the row id, so the order of the rows cannot be read: rename one"))
	}
	imported, err := lastImport(ctx, reading, table)
	if err != nil {
		return none, err
	}
	rows, err := reading.QueryContext(ctx, sqltail.Query(columns, sqlfile.Quote(table), []string{id}, n, sqltail.MaxBytes))
	if err != nil {
		if strings.Contains(err.Error(), "no such column: "+id) {
			err = driver.Permanent(errors.New("the table is WITHOUT ROWID, so the order of its imports is not known: read it with a query"))
		}
		return none, err
	}
	defer rows.Close()
	tail := sqltail.New(columns, sqltail.MaxBytes)
	values, places := make([]any, len(columns)+1), make([]any, len(columns)+1)
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return none, err
		}
		cells := make([][]byte, len(values))
		for i, value := range values {
			cells[i] = cellOf(value)
		}
		if err := tail.Add(cells); err != nil {
			return none, err
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return none, err
	}
	return tail.End(imported)
}

// textOf returns how a value is read.
func textOf(typ datatype.Type) func(string) string {
	if typ == datatype.Bool {
		return func(name string) string {
			return fmt.Sprintf("CASE %s WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE %[1]s END", name)
		}
	}
	return func(name string) string { return name }
}

// sizeOf reads only the header of a row.
func sizeOf(name string) string { return "octet_length(" + name + ")" }

// cellOf returns a value as text, and bytes in base64.
func cellOf(value any) []byte {
	switch v := value.(type) {
	case nil:
		return nil
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case float64:
		return datatype.AppendFloat64(nil, v)
	case []byte:
		return base64.StdEncoding.AppendEncode([]byte{}, v)
	}
	return []byte(fmt.Sprint(value))
}

// lookBack is the number of imports among which the last one of a table is looked for.
const lookBack = 10_000

// lastImport returns when rows were last imported into a table, the zero time if that was long ago.
func lastImport(ctx context.Context, q querier, table string) (at time.Time, err error) {
	var text string
	err = q.QueryRowContext(ctx, `SELECT imported_at FROM _forebay_imports WHERE rowid > (SELECT max(rowid) FROM _forebay_imports) - ? AND table_id = ?
		AND rows > 0 ORDER BY rowid DESC LIMIT 1`, lookBack, table).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return at, nil
	}
	if err == nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	return at, err
}
