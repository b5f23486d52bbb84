package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Query implements [driver.Querier]. The query returns the rows of the last blocks of the table. A search by another order would read the whole table.
func (t *Target) Query(table driver.Table) (language, query string) {
	name := t.table(table.ID)
	return "PostgreSQL", fmt.Sprintf(`SELECT * FROM %s
WHERE ctid >= (SELECT format('(%%s,0)', greatest(0, pg_relation_size(%s) / current_setting('block_size')::int - 100))::tid)
ORDER BY ctid DESC LIMIT 20`, name, literal(name))
}

// literal returns a text as SQL.
func literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		quoted = "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

const (
	// tailBlocks is the number of blocks of 8 KiB in which the newest rows are looked for first, maxTailBlocks the greatest number.
	tailBlocks, maxTailBlocks = 16, 4096
	// tailParts bounds the number of partitions, the newest ones, that are searched for rows.
	tailParts = 100
	// tailTimeout bounds each statement. A change of the table waits for its end.
	tailTimeout = 5 * time.Second
	// tailLockTimeout is how long a change of the table is waited for.
	tailLockTimeout = time.Second
)

// Tail implements [driver.Tailer]. It reads the last blocks of the table, in the order of the transactions that wrote the rows. After rows were
// deleted, PostgreSQL stores new rows in the free blocks, and Tail does not find them there. It looks through up to 32 MiB, and returns fewer rows if
// it finds fewer. The transaction is read-only, and its lock lets imports pass.
func (t *Target) Tail(ctx context.Context, table string, n int) (tail driver.Tail, err error) {
	if err := checkID(table); err != nil {
		return tail, driver.Permanent(wrap(err))
	}
	tx, err := t.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return tail, classify(err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(end) // a connection that cannot roll back is closed
	}()
	if err = t.set(ctx, tx, tailLockTimeout, tailTimeout); err == nil {
		_, err = tx.Exec(ctx, "SELECT set_config('DateStyle', 'ISO, YMD', true), set_config('extra_float_digits', '1', true)")
	}
	if err == nil {
		tail, err = t.tail(ctx, tx, table, n)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("read the end of %s: %w", t.table(table), err)
	}
	return tail, classify(err)
}

func (t *Target) tail(ctx context.Context, tx pgx.Tx, table string, n int) (none driver.Tail, err error) {
	known, err := t.columns(ctx, tx, table)
	if err != nil {
		return none, err
	}
	if known == nil {
		return none, fs.ErrNotExist
	}
	columns := make([]sqltail.Column, len(known))
	for i, c := range known {
		columns[i] = c.tailColumn()
	}
	parts, err := readLeaves(ctx, tx, t.table(table))
	if err != nil {
		return none, err
	}
	if len(parts) > tailParts {
		parts = parts[len(parts)-tailParts:]
	}
	if len(parts) == 0 {
		return sqltail.New(columns, sqltail.MaxBytes).End(time.Time{})
	}
	for blocks := int64(tailBlocks); ; blocks *= 16 {
		from, all := lastBlocks(columns, parts, max(1, blocks/int64(len(parts))))
		tail, found, err := readTail(ctx, tx, columns, from, n)
		if err != nil {
			return none, err
		}
		if found < n && !all && blocks < maxTailBlocks {
			continue
		}
		imported, err := t.importedAt(ctx, tx, table, from)
		if err != nil {
			return none, err
		}
		return tail.End(imported)
	}
}

// newest is the order of rows. Transactions that began later have a smaller age.
var newest = []string{"-pg_catalog.age(xmin)", "ctid"}

// lastBlocks returns the last blocks of each part as SQL for FROM. all reports whether these are all blocks.
func lastBlocks(columns []sqltail.Column, parts []leaf, blocks int64) (from string, all bool) {
	names := "xmin, ctid"
	for _, c := range columns {
		names += ", " + c.Name
	}
	all = true
	var selects []string
	for _, p := range parts {
		all = all && p.Blocks <= blocks
		selects = append(selects, fmt.Sprintf("SELECT %s FROM ONLY %s WHERE ctid >= '(%d,0)'", names, p.Name, max(0, p.Blocks-blocks)))
	}
	return "(" + strings.Join(selects, " UNION ALL ") + ") AS ends", all
}

func readTail(ctx context.Context, tx pgx.Tx, columns []sqltail.Column, from string, n int) (tail *sqltail.Tail, found int, err error) {
	rows, err := tx.Query(ctx, sqltail.Query(columns, from, newest, n, sqltail.MaxBytes))
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	tail = sqltail.New(columns, sqltail.MaxBytes)
	for ; rows.Next(); found++ {
		cells := make([][]byte, len(columns)+1)
		for i, value := range rows.RawValues() { // texts, which the connection overwrites
			if value != nil {
				cells[i] = append([]byte{}, value...)
			}
		}
		if err := tail.Add(cells); err != nil {
			return nil, 0, err
		}
	}
	return tail, found, rows.Err()
}

// importedAt returns when the newest row was imported. The table of imports has a row of the same transaction. The time is zero if it is not among
// the last ones.
func (t *Target) importedAt(ctx context.Context, tx pgx.Tx, table, from string) (at time.Time, err error) {
	parts, err := readLeaves(ctx, tx, t.table(imports))
	if err != nil || len(parts) == 0 {
		return at, err
	}
	var found *time.Time
	err = tx.QueryRow(ctx, fmt.Sprintf("SELECT max(imported_at) FROM ONLY %s WHERE ctid >= '(%d,0)' AND table_name = $1 AND rows > 0 AND xmin = (SELECT xmin FROM %s ORDER BY %s DESC LIMIT 1)",
		parts[0].Name, max(0, parts[0].Blocks-tailBlocks*16), from, strings.Join(newest, " DESC, ")), table).Scan(&found)
	if err != nil || found == nil {
		return at, err
	}
	return *found, nil
}

// tailColumn returns how a column is read. The sizes are those before compression if PostgreSQL knows them without reading the value.
func (c column) tailColumn() sqltail.Column {
	k := sqltail.Column{
		Name: quote(c.name),
		Text: func(name string) string { return name + "::text" },
		Size: func(name string) string { return "pg_catalog.pg_column_size(" + name + ")" },
	}
	k.Column.Name, k.Column.Type, k.Column.Required = c.name, c.dataType(), c.required
	switch c.oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID:
		k.Size = func(name string) string { return "octet_length(" + name + ")" }
	}
	switch c.oid {
	case pgtype.TimestamptzOID:
		k.Text = func(name string) string { // infinity has no such form
			return fmt.Sprintf(`coalesce(pg_catalog.to_char(%s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), %[1]s::text)`, name)
		}
	case pgtype.ByteaOID:
		k.Text = func(name string) string {
			return fmt.Sprintf(`pg_catalog.translate(pg_catalog.encode(%s, 'base64'), E'\n', '')`, name)
		}
	}
	return k
}
