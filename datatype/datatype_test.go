package datatype_test

import (
	"testing"

	"github.com/forebay/forebay/datatype"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		typ datatype.Type
		err string
	}{
		{datatype.Untyped, ""},
		{datatype.Int64, ""},
		{datatype.Decimal(38, 38), ""},
		{"decimal(10,2)", ""},
		{"int", `"int" is not a data type; use string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes`},
		{"decimal(10, 2)", `"decimal(10, 2)" is not a data type; use string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes`},
		{datatype.Decimal(39, 0), "decimal(39,0): the precision is 1 to 38 digits"},
		{datatype.Decimal(0, 0), "decimal(0,0): the precision is 1 to 38 digits"},
		{datatype.Decimal(4, 5), "decimal(4,5): the scale is 0 to 4, the precision"},
		{datatype.Decimal(4, -1), "decimal(4,-1): the scale is 0 to 4, the precision"},
	} {
		got := ""
		if err := c.typ.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.err {
			t.Errorf("%q: got %s, want %s", c.typ, got, c.err)
		}
	}
}

func TestDecimalOf(t *testing.T) {
	if p, s, ok := datatype.Decimal(12, 3).DecimalOf(); p != 12 || s != 3 || !ok {
		t.Errorf("decimal(12,3): %d, %d, %v", p, s, ok)
	}
	for _, typ := range []datatype.Type{"", "int64", "decimal", "decimal(01,2)", "decimal(1)", "decimal(1,2"} {
		if _, _, ok := typ.DecimalOf(); ok {
			t.Errorf("%q is a decimal", typ)
		}
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		table, value datatype.Type
		want         bool
	}{
		{"", "", true},
		{"string", "", false},
		{"", "string", false},
		{"int64", "int64", true},
		{"float64", "int64", false}, // above 2^53
		{"decimal(19,0)", "int64", true},
		{"decimal(21,2)", "int64", true},
		{"decimal(20,2)", "int64", false},
		{"int64", "decimal(19,0)", false},
		{"decimal(8,2)", "decimal(8,2)", true},
		{"decimal(9,2)", "decimal(8,2)", true},
		{"decimal(8,2)", "decimal(9,2)", false},
		{"decimal(9,3)", "decimal(8,2)", false},
		{"timestamp", "date", false},
		{"string", "uuid", false},
	} {
		if got := c.table.Holds(c.value); got != c.want {
			t.Errorf("%q holds %q: %v, want %v", c.table, c.value, got, c.want)
		}
	}
}
