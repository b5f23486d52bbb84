package drivertest

import (
	"database/sql"
	"fmt"
	"io"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
)

// Opened returns a target that was opened, and closes it after the test.
func Opened[T io.Closer](tb testing.TB, target T, err error) T {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := target.Close(); err != nil {
			tb.Error(err)
		}
	})
	return target
}

// Cells returns the rows of a query, with the values of the library of the database.
func Cells(tb testing.TB, db *sql.DB, query string, args ...any) (all [][]any) {
	tb.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		tb.Fatalf("%s: got %v, want rows", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		tb.Fatal(err)
	}
	for rows.Next() {
		cells, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := rows.Scan(places...); err != nil {
			tb.Fatal(err)
		}
		all = append(all, cells)
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("%s: got %v, want no error", query, err)
	}
	return all
}

// Texts returns the rows of a query as texts. NULL is [buffertest.Null].
func Texts(tb testing.TB, db *sql.DB, query string, args ...any) (all [][]string) {
	tb.Helper()
	for _, cells := range Cells(tb, db, query, args...) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			switch value := cell.(type) {
			case nil:
				texts[i] = buffertest.Null
			case []byte:
				texts[i] = string(value)
			default:
				texts[i] = fmt.Sprint(value)
			}
		}
		all = append(all, texts)
	}
	return all
}
