package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// column is a column of a table as the catalog has it.
type column struct {
	name     string
	oid      uint32 // of the type, or of the base type for a domain
	typmod   int32  // length, precision and scale; -1 for none
	typeName string // as PostgreSQL writes it
	kind     string // pg_type.typtype: "b" base, "e" enum, "d" domain
	required bool
	filled   bool // by the database, if a row has no value for it (default, identity, generated)
	key      bool // a column of Options.Keys
}

const columnsQuery = `SELECT a.attname, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END::bigint,
	CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END, pg_catalog.format_type(a.atttypid, a.atttypmod), t.typtype::text,
	a.attnotnull OR t.typnotnull, a.atthasdef OR a.attidentity <> '', c.relkind::text, c.relname::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE n.nspname = $1 AND c.relname = ANY ($2) ORDER BY c.oid, a.attnum`

// columns reads the columns of a table, or none if it is absent.
func (t *Target) columns(ctx context.Context, tx pgx.Tx, id string) ([]column, error) {
	all, err := t.columnsOf(ctx, tx, []string{id})
	return all[id], err
}

// columnsOf reads the columns of tables, by their ids. A table that is absent has none.
func (t *Target) columnsOf(ctx context.Context, tx pgx.Tx, ids []string) (map[string][]column, error) {
	rows, err := tx.Query(ctx, columnsQuery, t.options.Schema, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]column)
	var c column
	var oid int64
	var relation, id string
	other := "" // a relation that is not a table
	_, err = pgx.ForEachRow(rows, []any{&c.name, &oid, &c.typmod, &c.typeName, &c.kind, &c.required, &c.filled, &relation, &id}, func() error {
		if relation != "r" && relation != "p" {
			other = id
		}
		c.oid, c.key = uint32(oid), slices.Contains(t.options.Keys[id], c.name)
		all[id] = append(all[id], c)
		return nil
	})
	if err == nil && other != "" {
		err = driver.Permanent(fmt.Errorf("%s is not a table", t.table(other)))
	}
	return all, err
}

// dataType returns the type whose values the column holds. A type that is none of ours has the name that PostgreSQL gives it.
func (c column) dataType() datatype.Type {
	switch c.oid {
	case pgtype.TextOID:
		return datatype.String
	case pgtype.VarcharOID:
		if c.typmod < 0 {
			return datatype.Untyped
		}
	case pgtype.BoolOID:
		return datatype.Bool
	case pgtype.Int8OID:
		return datatype.Int64
	case pgtype.Float8OID:
		return datatype.Float64
	case pgtype.NumericOID:
		if c.typmod >= 0 {
			mod := c.typmod - 4
			return datatype.Decimal(int(mod>>16), int(mod&0x7ff^1024-1024))
		}
	case pgtype.TimestamptzOID:
		if c.typmod < 0 || c.typmod == 6 {
			return datatype.Timestamp
		}
	case pgtype.DateOID:
		return datatype.Date
	case pgtype.UUIDOID:
		return datatype.UUID
	case pgtype.JSONOID, pgtype.JSONBOID:
		return datatype.JSON
	case pgtype.ByteaOID:
		return datatype.Bytes
	}
	return datatype.Type(c.typeName)
}

// firstUserOID is the first object id that is not PostgreSQL's own.
const firstUserOID = 16384

// takes reports whether the column holds what values of a type are, though PostgreSQL calls it otherwise, such as numeric without a
// precision, varchar(n), enums, inet, and types of extensions, which read text.
func (c column) takes(t datatype.Type) bool {
	if c.oid == pgtype.NumericOID && c.typmod < 0 {
		_, _, decimal := t.DecimalOf()
		return decimal || t == datatype.Int64
	}
	if t != datatype.String && t != datatype.Untyped {
		return false
	}
	return c.oid == pgtype.VarcharOID && c.typmod >= 0 || c.oid == pgtype.InetOID || c.oid >= firstUserOID && (c.kind == "e" || c.kind == "b")
}

// binary reports whether the encoder writes the binary form of the column's type.
func (c column) binary() bool {
	return c.kind == "b" && c.oid < firstUserOID && c.oid != pgtype.InetOID
}

// fit compares a table with its columns by [driver.Table.Fit]. have are the columns of the table that it counts, want the required columns.
// A column that the database fills is not counted if the mapping lacks it.
func fit(t driver.Table, columns []column) (counted []column, have, want []datatype.Column, err error) {
	for _, c := range columns {
		i := slices.IndexFunc(t.Columns, func(w datatype.Column) bool { return w.Name == c.name })
		if i < 0 && t.Extend {
			i = slices.IndexFunc(t.Columns, func(w datatype.Column) bool { return strings.EqualFold(w.Name, c.name) })
		}
		if i < 0 && c.filled {
			continue
		}
		h := datatype.Column{Name: c.name, Type: c.dataType(), Required: c.required}
		if i >= 0 {
			if c.takes(t.Columns[i].Type) {
				h.Type = t.Columns[i].Type
			}
			if c.key || c.filled { // a NULL is a refused row
				h.Required = h.Required && t.Columns[i].Required
			}
		}
		counted, have = append(counted, c), append(have, h)
	}
	want, err = t.Fit(have)
	return counted, have, want, err
}
