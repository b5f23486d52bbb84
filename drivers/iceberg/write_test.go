package iceberg_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
)

// Rows that cannot be stored are named with a reason, and without their values, which may be secret.
func TestBadCellsAreNamed(t *testing.T) {
	columns := []datatype.Column{
		{Name: "id", Type: datatype.Int64, Required: true}, {Name: "text", Type: datatype.String}, {Name: "price", Type: datatype.Decimal(5, 2)},
	}
	target := open(t, filepath.Join(t.TempDir(), "lake"), iceberg.Options{})
	err := target.Import(t.Context(), fileOf("file-1", columns, [][]string{
		{"1", "a", "1.00"}, {buffertest.Null, "a", "1.00"}, {"1", "secret\xff", "1.00"}, {"1", "a", "secret"}, {"2", "a", "1.00"},
	}))
	var refused *driver.RowsError
	if !errors.As(err, &refused) || !refused.Complete || len(refused.Rows) != 3 {
		t.Fatalf("Import = %v, want the three bad rows", err)
	}
	for i, want := range []driver.RowError{{Column: "id", Reason: "nullValue"}, {Column: "text", Reason: "notUTF8"}, {Column: "price", Reason: "malformed"}} {
		if got := refused.Rows[i]; got.Row != int64(1+i) || got.Column != want.Column || got.Reason != want.Reason || strings.Contains(got.Message, "secret") {
			t.Errorf("row %d: %+v, want column %q and reason %q", 1+i, got, want.Column, want.Reason)
		}
	}
	if rows := rowsOf(t, target.Catalog(), "events"); len(rows) > 0 {
		t.Errorf("rows %q of a refused file are in the table", rows)
	}
}
