package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Query implements [driver.Querier]. The query returns the rows that were stored last. If a column hides the row id, all columns order the rows.
func (t *Target) Query(table driver.Table) (language, query string) {
	order := "rowid"
	if hidesRowID(table.Columns) {
		order = "ALL"
	}
	return "DuckDB", "SELECT * FROM " + sqlfile.Quote(table.ID) + " ORDER BY " + order + " DESC LIMIT 20"
}

// hidesRowID reports whether a column has the name of the row id, which then has no name.
func hidesRowID(columns []datatype.Column) bool {
	return slices.ContainsFunc(columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, "rowid") })
}

// Tail implements [driver.Tailer]. The rows are in the order of their row ids, which ascend with the imports. It reads in a transaction that cannot
// write, during imports. With Options.Shared the file is open meanwhile, so an import of another process fails and is repeated.
func (t *Target) Tail(ctx context.Context, table string, n int) (tail driver.Tail, err error) {
	if err := checkTable(driver.Table{ID: table}); err != nil {
		return tail, err
	}
	err = t.reading(ctx, func(ctx context.Context, c *conn) error {
		tail, err = readTail(ctx, c, table, n)
		return err
	})
	return tail, wrap(err, "read the end of %q", table)
}

// reading runs a call in a transaction that cannot write, and ends it. The context of the call also ends when the database must be opened again.
// No error of the call ends the life of the database, because reads are not committed.
func (t *Target) reading(ctx context.Context, call func(ctx context.Context, c *conn) error) error {
	c, err := t.connect()
	if err != nil {
		return err
	}
	defer c.close()
	if err := t.file.Check(); err != nil {
		return err
	}
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	if err = c.exec(during, "BEGIN TRANSACTION READ ONLY"); err == nil {
		err = call(during, c)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && during.Err() != nil && t.failure() != nil:
		return t.failure()
	}
	return classify(err)
}

func readTail(ctx context.Context, c *conn, table string, n int) (none driver.Tail, err error) {
	known, err := columnsOf(ctx, c, driver.Table{ID: table})
	if err != nil {
		return none, err
	}
	switch {
	case known == nil:
		return none, fs.ErrNotExist
	case hidesRowID(known):
		return none, driver.Permanent(errors.New("a column has the name rowid, so the order of the rows cannot be read: rename it"))
	}
	columns := make([]sqltail.Column, len(known))
	for i, k := range known {
		columns[i] = tailColumn(k)
	}
	var imported time.Time
	at, err := c.query(ctx, "SELECT coalesce(epoch_us(max(imported_at)), 0)::VARCHAR FROM _forebay_imports WHERE table_id = %s AND rows > 0", literal(table))
	if err != nil {
		return none, err
	}
	if micros, err := strconv.ParseInt(at[0][0], 10, 64); err == nil && micros > 0 {
		imported = time.UnixMicro(micros)
	}
	last, err := c.query(ctx, "SELECT coalesce(max(rowid), -1)::VARCHAR FROM %s", sqlfile.Quote(table))
	if err != nil {
		return none, err
	}
	to, err := strconv.ParseInt(last[0][0], 10, 64)
	if err != nil {
		return none, err
	}
	for reach := int64(tailReach); ; reach *= tailReach {
		from := max(0, to-reach)
		tail, found, err := readFrom(ctx, c, columns, table, from, n)
		if err != nil {
			return none, err
		}
		if found >= n || from == 0 {
			return tail.End(imported)
		}
	}
}

// tailReach is the number of row ids among which the newest rows are looked for first. DuckDB sorts all rows that a query has not excluded, and
// deleted rows leave gaps.
const tailReach = 4096

// readFrom reads the newest n rows from a row id on, and returns how many it has found.
func readFrom(ctx context.Context, c *conn, columns []sqltail.Column, table string, from int64, n int) (tail *sqltail.Tail, found int, err error) {
	tail = sqltail.New(columns, sqltail.MaxBytes)
	var added error
	relation := fmt.Sprintf("%s WHERE rowid >= %d", sqlfile.Quote(table), from)
	err = c.run(ctx, sqltail.Query(columns, relation, []string{"rowid"}, n, sqltail.MaxBytes), func(res mapping.Result) {
		for chunk := mapping.FetchChunk(res); chunk.Ptr != nil; chunk = mapping.FetchChunk(res) {
			for _, row := range cellsOf(chunk) {
				added = errors.Join(added, tail.Add(row))
				found++
			}
			mapping.DestroyDataChunk(&chunk)
		}
	})
	return tail, found, errors.Join(err, added)
}

// tailColumn returns how a column is read.
func tailColumn(c datatype.Column) sqltail.Column {
	k := sqltail.Column{
		Column: c, Name: sqlfile.Quote(c.Name),
		Text: func(name string) string { return name + "::VARCHAR" },
		Size: func(string) string { return "16" },
	}
	switch c.Type {
	case datatype.Untyped, datatype.String, datatype.JSON:
		k.Size = func(name string) string { return "strlen(" + name + ")" }
	case datatype.Bytes:
		k.Size = func(name string) string { return "octet_length(" + name + ")" }
		k.Text = func(name string) string { return "to_base64(" + name + ")" }
	case datatype.Timestamp:
		k.Text = func(name string) string {
			return "strftime(make_timestamp(epoch_us(" + name + ")), '%Y-%m-%dT%H:%M:%S.%fZ')"
		}
	case datatype.Bool, datatype.Int64, datatype.Float64, datatype.Date, datatype.UUID:
	default: // a decimal, or a type that package datatype lacks
		k.Size = func(name string) string { return "strlen(" + name + "::VARCHAR)" }
	}
	return k
}

// cellsOf returns the rows of a chunk whose columns are VARCHAR. NULL is nil.
func cellsOf(chunk mapping.DataChunk) [][][]byte {
	size, width := int(mapping.DataChunkGetSize(chunk)), int(mapping.DataChunkGetColumnCount(chunk))
	rows := make([][][]byte, size)
	for i := range rows {
		rows[i] = make([][]byte, width)
	}
	for j := range width {
		vector := mapping.DataChunkGetVector(chunk, mapping.IdxT(j))
		values := unsafe.Slice((*mapping.StringT)(mapping.VectorGetData(vector)), size)
		valid := mapping.VectorGetValidity(vector)
		for i := range rows {
			if valid == nil || mapping.ValidityRowIsValid(valid, mapping.IdxT(i)) {
				rows[i][j] = []byte(mapping.StringTData(&values[i]))
			}
		}
	}
	return rows
}
