package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

var values = []struct {
	typ    datatype.Type
	column string // the type of the column. Empty means the type of Ensure
	cells  []string
}{
	{datatype.Untyped, "", []string{"", " ", "null", "a\r\nb", `\N`, `\.`, `"`, "'", "\x00", "\x1a", "日本語", "🙂", strings.Repeat("long", 50_000)}},
	{datatype.String, "", []string{"", " ", "ends with spaces  ", "null", "NULL", "a\r\nb", "\t", `\N`, `\\N`, `\.`, `"`, `'); DROP TABLE x; --`, "007", "a\x00b", "\b\x1a\x7f"}},
	{datatype.Bool, "", []string{"true", "false"}},
	{datatype.Int64, "", []string{"0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808"}},
	{datatype.Float64, "", []string{"0", "0.1", "1e+21", "1e-7", "5e-324", "2.2250738585072014e-308", "1.7976931348623157e+308", "-1.7976931348623157e+308", "123456.789", "9007199254740991"}},
	{datatype.Decimal(38, 4), "", []string{
		"0.0000", "1.0000", "-0.0001", "0.1000", "10000.0000", "100000000.0001", "-9999999999999999999999999999999999.9999", "12345.6789",
	}},
	{datatype.Decimal(38, 0), "", []string{"0", "1", "10", "9999", "10000", "-100000000", "99999999999999999999999999999999999999"}},
	{datatype.Decimal(38, 38), "", []string{"0." + strings.Repeat("0", 38), "-0." + strings.Repeat("9", 38), "0." + strings.Repeat("0", 37) + "1"}},
	{datatype.Decimal(9, 6), "", []string{"0.000001", "0.010000", "100.000100", "-999.999999"}},
	{datatype.Timestamp, "", []string{
		"2026-11-22T07:47:19.000001Z", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z",
		"2038-01-19T03:14:08.000000Z", "2026-03-29T02:30:00.000000Z", // an hour that does not exist in Berlin
	}},
	{datatype.Date, "", []string{"2026-11-22", "0001-01-01", "9999-12-31", "2000-02-29", "1999-12-31"}},
	{datatype.UUID, "", []string{"00000000-0000-0000-0000-000000000000", "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b", "ffffffff-ffff-ffff-ffff-ffffffffffff"}},
	{datatype.JSON, "", []string{
		`{"a":[1,null,"null"]}`, `{"b":1,"a":1.50,"a":2}`, `"text"`, "12", "[]", `""`, `"\""`, "1e400", `"\ud83d\ude00"`, `"\u0000"`, `{"a\\b":"\t"}`, "null",
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth),
	}},
	{datatype.Bytes, "", []string{"", "AA==", "/+8=", "aGVsbG8=", "XG4J"}},

	// Tables made by another program.
	{datatype.Int64, "decimal(19,0)", []string{"0", "-1", "10000", "-9223372036854775808"}},
	{datatype.Decimal(9, 2), "decimal(20,2)", []string{"0.00", "-1234567.80"}},
	{datatype.String, "varchar(6) CHARACTER SET utf8mb4", []string{"", "žluťou", "  ", "a     "}},
	{datatype.Untyped, "varchar(6) CHARACTER SET utf8mb4", []string{"", "žluťou"}},
	{datatype.String, "text CHARACTER SET latin1", []string{"", "é", `\`}},
	{datatype.String, "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", []string{"", "🙂"}},
	{datatype.Untyped, "mediumtext CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", []string{"", "🙂"}},
	{datatype.UUID, "char(36)", []string{"0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b", "0191f6a8-1c2d-8e3f-80ff-0c1d2e3f4a5b"}},
}

// Each value of each type is read back as it was, next to NULL, by LOAD DATA and by INSERT.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, insert := range []bool{false, true} {
		target := open(t, Options{InsertOnly: insert})
		for i, v := range values {
			name := fmt.Sprintf("%s %d", v.typ, i)
			tbl := table(name, required(col("n", datatype.Int64)), col("v", v.typ))
			if v.column != "" {
				exec(t, target, "CREATE TABLE "+quote(name)+" (n bigint NOT NULL, v "+v.column+")")
			}
			var rows [][]string
			for _, cell := range v.cells {
				rows = append(rows, []string{"1", cell})
			}
			if v.typ != datatype.Untyped {
				rows = append(rows, []string{"2", buffertest.Null})
			}
			mustImport(t, target, newFile(fmt.Sprint("file-", i), tbl, rows...))
			expectRows(t, target, name, rows...)
		}
	}
}

// A uuid in BINARY(16), as tables of MySQL have it.
func TestBinaryUUID(t *testing.T) {
	const id = "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b"
	for _, insert := range []bool{false, true} {
		target := open(t, Options{InsertOnly: insert})
		exec(t, target, "CREATE TABLE events (v binary(16), raw varbinary(3))")
		mustImport(t, target, newFile("file-1", table("events", col("v", datatype.UUID), col("raw", datatype.Bytes)), []string{id, "/+8="}, []string{buffertest.Null, ""}))
		var got string
		err := server.Connect(t, target.database).QueryRow("SELECT GROUP_CONCAT(CONCAT(COALESCE(HEX(v), '-'), ' ', HEX(raw)) ORDER BY v DESC) FROM events").Scan(&got)
		if want := strings.ToUpper(strings.ReplaceAll(id, "-", "")) + " FFEF,- "; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

// MariaDB 10.11 refuses these values of the versions 8 to f, as the page of the driver says.
func TestRefusedUUIDs(t *testing.T) {
	target := open(t, Options{})
	err := target.Import(t.Context(), newFile("file-1", table("events", col("v", datatype.UUID)),
		[]string{"0191f6a8-1c2d-7e3f-80ff-0c1d2e3f4a5b"}, []string{"0191f6a8-1c2d-8e3f-80ff-0c1d2e3f4a5b"}, []string{"0191f6a8-1c2d-fe3f-8100-0c1d2e3f4a5b"}))
	expectRefused(t, err, driver.RowError{Row: 1, Column: "v", Reason: "1292", Message: "incorrect value"})
}

// MySQL has one zero.
func TestNegativeZero(t *testing.T) {
	target := open(t, Options{})
	mustImport(t, target, newFile("file-1", table("events", col("v", datatype.Float64)), []string{"-0"}))
	if got := readTable(t, target.database, "events"); len(got) != 1 || strings.TrimPrefix(got[0][0], "-") != "0" {
		t.Errorf("got %q, want len(got) == 1 and strings.TrimPrefix(got[0][0], \"-\") == \"0\"", got)
	}
}

// A column that would change values, or holds other values, is refused.
func TestOtherTypes(t *testing.T) {
	target := open(t, Options{})
	for i, c := range []struct {
		typ    datatype.Type
		column string
		says   datatype.Type
	}{
		{datatype.Untyped, "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", datatype.String},
		{datatype.String, "mediumtext CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", datatype.Untyped},
		{datatype.String, "char(6)", "char(6)"}, // it drops spaces at the end
		{datatype.String, "enum('1','a')", "enum('1','a')"},
		{datatype.String, "set('1','a')", "set('1','a')"},
		{datatype.String, "int", "int(11)"},
		{datatype.String, "json", datatype.JSON},
		{datatype.String, "blob", "blob"},
		{datatype.JSON, "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "longtext"}, // not checked
		{datatype.Bool, "tinyint", "tinyint(4)"},
		{datatype.Int64, "int", "int(11)"},
		{datatype.Int64, "bigint unsigned", "bigint(20) unsigned"},
		{datatype.Int64, "double", datatype.Float64},
		{datatype.Int64, "decimal(18,0)", datatype.Decimal(18, 0)},
		{datatype.Float64, "float", "float"},
		{datatype.Float64, "double(10,2)", "double(10,2)"},
		{datatype.Decimal(9, 2), "decimal(9,3)", datatype.Decimal(9, 3)},
		{datatype.Decimal(9, 2), "decimal(8,2)", datatype.Decimal(8, 2)},
		{datatype.Decimal(9, 2), "decimal(9,2) unsigned", "decimal(9,2) unsigned"},
		{datatype.Timestamp, "datetime", "datetime"},
		{datatype.Timestamp, "datetime(3)", "datetime(3)"},
		{datatype.Timestamp, "timestamp(6) NULL", "timestamp(6)"}, // it ends in 2038
		{datatype.UUID, "char(32)", "char(32)"},
		{datatype.Bytes, "binary(16)", "binary(16)"}, // it appends zeros
		{datatype.Bytes, "text", "text"},
	} {
		id := fmt.Sprint("other ", i)
		exec(t, target, "CREATE TABLE "+quote(id)+" (v "+c.column+")")
		for _, extend := range []bool{false, true} {
			tbl := table(id, col("v", c.typ))
			tbl.Extend = extend
			var schema *driver.SchemaError
			err := target.Import(t.Context(), newFile("file "+id, tbl, []string{"1"}))
			if !errors.As(err, &schema) || len(schema.Got) != 1 || schema.Got[0].Type != c.says {
				t.Errorf("%s into %s = %v, want a *driver.SchemaError with the type %s", c.typ, c.column, err, c.says)
			}
		}
		expectRows(t, target, id)
	}
}

// Columns that the database fills may be there. An AUTO_INCREMENT column that the mapping names keeps zero.
func TestColumnsOfTheDatabase(t *testing.T) {
	for _, insert := range []bool{false, true} {
		target := open(t, Options{InsertOnly: insert})
		exec(t, target, `CREATE TABLE events (n bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, id bigint, twice bigint AS (2 * id) STORED, seen timestamp NOT NULL DEFAULT NOW());
			CREATE TABLE own (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, part varchar(20) DEFAULT 'none')`)
		mustImport(t, target, newFile("file-1", table("events", idColumn), []string{"7"}, []string{"8"}))
		if got := readTable(t, target.database, "events"); len(got) != 2 || got[1][1] != "8" || got[1][2] != "16" {
			t.Errorf("got %q, want len(got) == 2 and got[1][1] == \"8\" and got[1][2] == \"16\"", got)
		}
		own := table("own", required(idColumn))
		mustImport(t, target, newFile("file-2", own, []string{"0"}, []string{"-3"}))
		expectRows(t, target, "own", []string{"0", "none"}, []string{"-3", "none"})
		var schema *driver.SchemaError
		own.Columns = []datatype.Column{idColumn}
		if err := target.Import(t.Context(), newFile("file-3", own, []string{"5"})); !errors.As(err, &schema) {
			t.Errorf("a mapping that may leave AUTO_INCREMENT empty: %v, want a *driver.SchemaError", err)
		}
	}
}

// A column that becomes nullable keeps its type, its comment, and the check of JSON.
func TestNullableKeepsTheDefinition(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE events (id bigint, name varchar(20) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL COMMENT 'it''s', body json NOT NULL)`)
	tbl := table("events", idColumn)
	tbl.Extend = true
	mustEnsure(t, target, tbl)
	r, err := target.relation(t.Context(), target.db, "events")
	if err != nil || len(r.columns) != 3 {
		t.Fatal(r, err)
	}
	name, body := r.columns[1], r.columns[2]
	if name.required || name.typeName != "varchar(20)" || name.collation != "latin1_german1_ci" || name.comment != "it's" || body.required || !body.json {
		t.Errorf("got %+v, %+v, want an optional varchar(20) with its collation and comment, and optional JSON", name, body)
	}
}
