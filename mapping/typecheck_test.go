package mapping

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
)

// TestTypeFaults has each fault of a typed definition at its field.
func TestTypeFaults(t *testing.T) {
	id := UUID("id")
	path := func(t datatype.Type, o TypeOptions) Columns { return Columns{id, Path("c", "v", DataType(t), With(o))} }
	for _, tc := range []struct {
		cols Columns
		want string // of one fault, or empty for none
	}{
		{path("int", TypeOptions{}), `column 2 ("c"): dataType: "int" is not a data type; use string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes`},
		{path("decimal(39,0)", TypeOptions{}), `column 2 ("c"): dataType: decimal(39,0): the precision is 1 to 38 digits`},
		{path("", TypeOptions{Required: true}), `column 2 ("c"): required: applies only to columns with a dataType; remove it, or change the column`},
		{path(datatype.Int64, TypeOptions{Epoch: EpochNanos}), ``},
		{path(datatype.Int64, TypeOptions{Epoch: "h"}), `column 2 ("c"): epoch: "h" is not a unit; use s, ms, us or ns`},
		{path(datatype.JSON, TypeOptions{AnyKind: true}), `column 2 ("c"): anyKind: applies only to strings from a path or template; remove it, or change the column`},
		{path(datatype.Float64, TypeOptions{Epoch: EpochMillis}), `column 2 ("c"): epoch: applies only to int64 and timestamps, and dates with fromTimestamp, from a path or template; remove it, or change the column`},
		{path(datatype.Date, TypeOptions{AssumeUTC: true}), `column 2 ("c"): assumeUtc: applies only to timestamps, and dates with fromTimestamp, from a path or template; remove it, or change the column`},
		{path(datatype.Date, TypeOptions{ClampLeapSecond: true}), `column 2 ("c"): clampLeapSecond: applies only to timestamps, and dates with fromTimestamp, from a path or template; remove it, or change the column`},
		{path(datatype.Date, TypeOptions{AssumeUTC: true, FromTimestamp: true, Epoch: EpochNanos}), ``},
		{path(datatype.Timestamp, TypeOptions{FromTimestamp: true}), `column 2 ("c"): fromTimestamp: applies only to dates from a path or template; remove it, or change the column`},
		{path(datatype.Timestamp, TypeOptions{Epoch: "h"}), `column 2 ("c"): epoch: "h" is not a unit; use s, ms, us or ns`},
		{path(datatype.Timestamp, TypeOptions{NotBefore: "2020-01-01"}), `column 2 ("c"): notBefore: "2020-01-01" is not a time as 2006-01-02T15:04:05Z`},
		{path(datatype.Date, TypeOptions{NotAfter: "2020-02-30"}), `column 2 ("c"): notAfter: "2020-02-30" is out of the range of date`},
		{path(datatype.String, TypeOptions{NotAfter: "x"}), `column 2 ("c"): notAfter: applies only to timestamps and dates; remove it, or change the column`},
		{path(datatype.String, TypeOptions{ElsePath: "a["}), `column 2 ("c"): elsePath:1:2: '[' without ']'; write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[`},
		{path(datatype.String, TypeOptions{ElseArrival: true, Required: true}), `column 2 ("c"): elseArrival: applies only to timestamps, dates with fromTimestamp and int64 with epoch, with a path; remove it, or change the column`},
		{path(datatype.Int64, TypeOptions{ElseArrival: true}), `column 2 ("c"): elseArrival: applies only to timestamps, dates with fromTimestamp and int64 with epoch, with a path; remove it, or change the column`},
		{path(datatype.Int64, TypeOptions{ElseArrival: true, Epoch: EpochNanos, Required: true}), ``},
		{path(datatype.Float64, TypeOptions{Round: true}), `column 2 ("c"): round: applies only to decimals; remove it, or change the column`},
		{path(datatype.String, TypeOptions{ParseText: true}), `column 2 ("c"): parseText: applies only to json from a path or template; remove it, or change the column`},
		{Columns{id, Path("c", "v", DataType(datatype.String), RawString())}, `column 2 ("c"): rawString: applies to columns without a dataType; string stores the plain text`},
		{Columns{id, IP("c", DataType(datatype.Int64))}, `column 2 ("c"): dataType: int64 does not fit a column of the kind ip; use one of [string]`},
		{Columns{id, Headers("c", DataType(datatype.Bytes))}, `column 2 ("c"): dataType: bytes does not fit a column of the kind headers; use one of [json string]`},
		{Columns{id, Body("c", DataType(datatype.JSON), With(TypeOptions{EmptyIsNull: true}))}, `column 2 ("c"): emptyIsNull: applies only to typed columns with a path or template, and bodies as string or bytes; remove it, or change the column`},
		{Columns{id, Path("c", "v", DataType(datatype.Int64), Default("x"))}, `column 2 ("c"): defaultValue (Default): int64: malformed: "x" is not a number in decimal digits`},
		{Columns{id, Path("c", "v", DataType(datatype.Int64), Default(nil), Required())}, `column 2 ("c"): defaultValue (Default): is null, and the column is required`},
		{Columns{id, {Type: TypePath, Name: "c", Default: []byte("nul"), DataType: datatype.JSON}}, `column 2 ("c"): defaultValue (Default): is not a JSON value: unknown word at byte 0 of "nul"`},
		{Columns{Path("c", "v", DataType(datatype.Int64))}, `column 1 ("c"): required: the only column of a mapping cannot be nullable, because a row of one NULL is an empty line; set required, or add a column`},
		{Columns{Path("c", "v", DataType(datatype.Int64), Required())}, ``},
		{Columns{UUID("c", DataType(datatype.UUID))}, ``},
		{Columns{Path("c", "v")}, ``},
		{Columns{id, Path("ID", "v", DataType(datatype.Int64))}, `column 2 ("ID"): name: column 1 has the same name but for its case, which databases do not tell apart`},
		{Columns{Path("straße", "v"), Path("STRAßE", "v", DataType(datatype.Int64))}, `column 2 ("STRAßE"): name: column 1 has the same name but for its case, which databases do not tell apart`},
		{Columns{id, Path("ID", "v")}, ``},
		{Columns{id, Path(strings.Repeat("ž", 32), "v", DataType(datatype.Int64))}, `name: has 64 bytes, at most 63 are allowed`},
		{Columns{Path("_Forebay_n", "v"), Body("b", DataType(datatype.Bytes))}, `column 1 ("_Forebay_n"): name: begins with _forebay_, which targets keep for their own columns`},
		{Columns{Path("a\x00b", "v"), Body("b", DataType(datatype.Bytes))}, `column 1 ("a\x00b"): name: has a control character`},
		{Columns{Path("a ", "v"), Body("b", DataType(datatype.Bytes))}, `column 1 ("a "): name: begins or ends with a space`},
		{Columns{Path("a\xff", "v"), Body("b", DataType(datatype.Bytes))}, `name: is not UTF-8`},
		{Columns{Path("_forebay_n\t ", "v"), Body("b")}, ``},
	} {
		_, err := Compile(tc.cols, Options{})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%+v: got %v, want no error", tc.cols, err)
		case tc.want != "" && (err == nil || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), tc.want)):
			t.Errorf("%+v:\n%v\nwant %s", tc.cols, err, tc.want)
		}
	}
	if _, err := Compile(Columns{id}, Options{Limits: datatype.Limits{MaxCell: -1}}); err == nil {
		t.Error("a negative limit is accepted")
	}
}

// A default is stored as the cell that its value has.
func TestTypedDefault(t *testing.T) {
	m := mustCompile(t, UUID("id"), Path("n", "n", DataType(datatype.Decimal(6, 2)), Default(1e2)), Path("j", "j", DataType(datatype.JSON), Default([]byte(`"`))),
		Path("t", "t", DataType(datatype.Timestamp), Default("2026-01-01T00:00:00+01:00"), DefaultOnNull()), Path("z", "z", DataType(datatype.Bool), Default(nil)))
	for _, body := range []string{`{"t":null}`, `nothing`} {
		cells := m.Cells(JSON([]byte(body)))
		for i, want := range []string{"100.00", `"Ig=="`, "2025-12-31T23:00:00.000000Z", ""} {
			if c := cells[i+1]; c.Value != want || c.Err != nil || c.Null != (i == 3) {
				t.Errorf("%s: got %+v, want %q", body, c, want)
			}
		}
	}
}
