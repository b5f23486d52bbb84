package mysql

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

// newFile returns a file with one slice for each group of 20 rows.
func newFile(id string, table driver.Table, rows ...[]string) *driver.File {
	return buffertest.NewFile(id, table, rows...)
}

func mustImport(tb testing.TB, target *Target, files ...*driver.File) {
	tb.Helper()
	drivertest.Import(tb, target, files...)
}

func mustEnsure(tb testing.TB, target *Target, table driver.Table) {
	tb.Helper()
	if err := target.Ensure(context.Background(), table); err != nil {
		tb.Fatalf("Ensure(%s) = %v", table.ID, err)
	}
}

// tables lets suites read and change the tables of a target.
func tables(tb testing.TB, target *Target) drivertest.Tables {
	return drivertest.Tables{
		Target: target,
		Rows:   func(table string) [][]string { return readTable(tb, target.database, table) },
		Exec:   func(statement string) { exec(tb, target, statement) },
	}
}

// expectRows compares a table, whose rows have no order.
func expectRows(tb testing.TB, target *Target, table string, want ...[]string) {
	tb.Helper()
	drivertest.Rows(tb, table, readTable(tb, target.database, table), want)
}

func table(id string, columns ...datatype.Column) driver.Table {
	return driver.Table{ID: id, Columns: columns}
}

func col(name string, t datatype.Type) datatype.Column { return datatype.Column{Name: name, Type: t} }

func required(c datatype.Column) datatype.Column {
	c.Required = true
	return c
}

// exec runs SQL in the database of a target.
func exec(tb testing.TB, target *Target, sql string) {
	tb.Helper()
	server.Exec(tb, target.database, sql)
}

// expectRefused checks that an error names these rows and no others.
func expectRefused(tb testing.TB, err error, want ...driver.RowError) {
	tb.Helper()
	var refused *driver.RowsError
	if !errors.As(err, &refused) || !slices.Equal(refused.Rows, want) || !refused.Complete {
		tb.Errorf("got %#v (%v), want a complete *driver.RowsError with %#v", err, err, want)
	}
}
