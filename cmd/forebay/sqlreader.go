package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/forebay/forebay/datatype"
)

// sqlReader reads the tables of a database. Its columns have no types.
type sqlReader struct {
	db *sql.DB
	// exists asks whether there is a table. Its name is the parameter.
	exists string
}

// Exists reports whether the database has a table.
func (r sqlReader) Exists(ctx context.Context, table string) (found bool, err error) {
	err = r.db.QueryRowContext(ctx, r.exists, table).Scan(&found)
	return found, err
}

// query reads a table, and limit is a clause.
func (r sqlReader) query(table, limit string) (*sql.Rows, []string, error) {
	rows, err := r.db.Query(`SELECT * FROM "` + strings.ReplaceAll(table, `"`, `""`) + `"` + limit)
	if err != nil {
		return nil, nil, err
	}
	names, err := rows.Columns()
	if err != nil {
		return nil, nil, errors.Join(err, rows.Close())
	}
	return rows, names, nil
}

// Columns implements [store.Reader].
func (r sqlReader) Columns(table string) ([]datatype.Column, error) {
	rows, names, err := r.query(table, " LIMIT 0")
	if err != nil {
		return nil, err
	}
	columns := make([]datatype.Column, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns, errors.Join(rows.Err(), rows.Close())
}

// Rows implements [store.Reader].
func (r sqlReader) Rows(table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		rows, names, err := r.query(table, "")
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		cells, to := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		for rows.Next() {
			if err := rows.Scan(to...); err != nil {
				yield(nil, err)
				return
			}
			row := make([]string, len(cells))
			for i, cell := range cells {
				row[i] = sqlText(cell)
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// sqlText writes a value as a cell.
func sqlText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []byte:
		if id, err := uuid.FromBytes(v); err == nil && !utf8.Valid(v) {
			return id.String()
		}
		return string(v)
	}
	return fmt.Sprint(value)
}
