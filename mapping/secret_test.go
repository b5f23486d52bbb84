package mapping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
)

// TestSecretColumn holds that no failure of a secret column shows its value, and that the failure of another column does.
func TestSecretColumn(t *testing.T) {
	const value = "hunter2"
	body := JSON([]byte(`{"v":"` + value + `","o":{"k":"` + value + `"},"n":7}`))
	type failure struct {
		name   string
		column Column
		reason Reason
		hidden string // what its error says in place of the value
	}
	cases := []failure{
		{"template", Template("c", `error Body("v")`), TemplateFailed, `column "c": 1:1: the template failed; its message is not shown, because the column is secret, in error Body("v")`},
		{"field of a template", Template("c", `Body(Body("v"))`), MissingValue, ""},
		{"number of a template", Template("c", `std.parseInt(Body("v"))`), TemplateFailed, ""},
		{"result of a template", Template("c", `Body("v")`, DataType(datatype.UUID)), Malformed, ""},
		{"object", Path("c", "o", DataType(datatype.Int64)), WrongKind, ""},
		{"json", Path("c", "v", DataType(datatype.JSON), With(TypeOptions{ParseText: true})), Malformed, ""},
	}
	for _, typ := range []datatype.Type{datatype.Int64, datatype.Bool, datatype.Float64, datatype.Decimal(6, 2), datatype.Timestamp, datatype.Date, datatype.UUID} {
		cases = append(cases, failure{string(typ), Path("c", "v", DataType(typ)), Malformed, `column "c": ` + string(typ) + ": malformed: *** is not "})
	}
	for _, tc := range cases {
		for _, secret := range []bool{false, true} {
			tc.column.Secret = secret
			m := mustCompile(t, UUID("id"), tc.column)
			_, err := m.AppendRow(nil, body)
			cell := m.Cells(body)[1]
			shown := fmt.Sprintf("%v %+v %#v", err, cell, reflectError(err))
			if reasonOf(err) != tc.reason || strings.Contains(shown, value) == secret {
				t.Errorf("%s, secret %t: got %s, want reason %s, the value only if it is no secret", tc.name, secret, shown, tc.reason)
			}
			if secret && !strings.HasPrefix(err.Error(), tc.hidden) {
				t.Errorf("%s: got %v, want %s", tc.name, err, tc.hidden)
			}
		}
	}
	if _, err := Compile(Columns{UUID("id"), Path("c", "v", DataType(datatype.Int64), Default(value), Secret())}, Options{}); err == nil || strings.Contains(err.Error(), value) {
		t.Errorf("a default that does not fit: %v", err)
	}
}

// reflectError has the exported fields of an error and of its cause.
func reflectError(err error) []any {
	e := err.(*Error)
	return []any{*e, e.Err}
}

// TestSecretTag checks that a field of a Go struct can be marked in its tag.
func TestSecretTag(t *testing.T) {
	columns, err := ColumnsOf[struct {
		Card string `forebay:"card,secret,required=false"`
		Kind string
	}]()
	if err != nil || !columns[0].Secret || columns[0].TypeOptions.Required || columns[1].Secret {
		t.Errorf("got %+v, %v, want an optional secret column and one that is no secret, no error", columns, err)
	}
}

// TestSecretCell checks that a payload test masks the secret cells of the row.
func TestSecretCell(t *testing.T) {
	m := mustCompile(t, Path("a", "v", Secret()), Path("b", "v", DataType(datatype.String), Secret()), Path("c", "none", DataType(datatype.Int64), Secret()), Path("d", "v"))
	r := JSON([]byte(`{"v":"hunter2"}`))
	row, err := m.AppendRow(nil, r)
	if want := `"""hunter2""","hunter2",,"""hunter2"""` + "\n"; err != nil || string(row) != want {
		t.Errorf("row %s, error %v, want %s", row, err, want)
	}
	for i, want := range []Cell{
		{Column: "a", Value: "***"}, {Column: "b", Type: datatype.String, Value: "***"}, {Column: "c", Type: datatype.Int64, Null: true}, {Column: "d", Value: `"hunter2"`},
	} {
		if got := m.Cells(r)[i]; got != want {
			t.Errorf("cell %d is %+v, want %+v", i, got, want)
		}
	}
}
