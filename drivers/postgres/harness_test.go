package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
)

// newFile returns a file with one slice for each group of 20 rows.
func newFile(id string, table driver.Table, rows ...[]string) *driver.File {
	return buffertest.NewFile(id, table, rows...)
}

func mustImport(tb testing.TB, target *Target, f *driver.File) {
	tb.Helper()
	if err := target.Import(context.Background(), f); err != nil {
		tb.Fatalf("Import(%s) = %v", f.ID, err)
	}
}

func mustEnsure(tb testing.TB, target *Target, table driver.Table) {
	tb.Helper()
	if err := target.Ensure(context.Background(), table); err != nil {
		tb.Fatalf("Ensure(%s) = %v", table.ID, err)
	}
}

// expectRows compares a table, whose rows have no order.
func expectRows(tb testing.TB, target *Target, table string, want ...[]string) {
	tb.Helper()
	got := readTable(tb, target.options.Schema, table)
	slices.SortFunc(got, slices.Compare[[]string])
	slices.SortFunc(want, slices.Compare[[]string])
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		tb.Errorf("table %s has %q, want %q", table, got, want)
	}
}

// expectRetryable checks that an error is repeated soon.
func expectRetryable(tb testing.TB, what string, err error) {
	tb.Helper()
	var refused *driver.RowsError
	if err == nil || driver.IsPermanent(err) || errors.As(err, &refused) {
		tb.Errorf("%s = %v, want an error that a retry fixes", what, err)
	}
}

// expectPermanent checks that an error requires an operator, and checks its text.
func expectPermanent(tb testing.TB, what string, err error, words ...string) {
	tb.Helper()
	var refused *driver.RowsError
	if err == nil || !driver.IsPermanent(err) || errors.As(err, &refused) {
		tb.Errorf("%s = %v, want a permanent error", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			tb.Errorf("%s = %v, want it to contain %q", what, err, word)
		}
	}
}

func table(id string, columns ...datatype.Column) driver.Table {
	return driver.Table{ID: id, Columns: columns}
}

func col(name string, t datatype.Type) datatype.Column { return datatype.Column{Name: name, Type: t} }

func required(c datatype.Column) datatype.Column {
	c.Required = true
	return c
}

// exec runs SQL in the schema of a target.
func exec(tb testing.TB, target *Target, sql string) {
	tb.Helper()
	pgtest.Exec(tb, server.Connect(tb), "SET search_path = "+target.options.Schema+"; "+sql)
}
