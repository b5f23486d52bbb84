package driver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// parseColumns reads columns like "id,n int64,d decimal(5.2)!", where "!" stands for Required and a decimal has a point.
func parseColumns(s string) []datatype.Column {
	var columns []datatype.Column
	for c := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' }) {
		c, required := strings.CutSuffix(c, "!")
		name, typ, _ := strings.Cut(c, " ")
		columns = append(columns, datatype.Column{Name: name, Type: datatype.Type(strings.ReplaceAll(typ, ".", ",")), Required: required})
	}
	return columns
}

// numbered has the columns c1 to cN.
func numbered(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("c", i+1)
	}
	return strings.Join(names, ",")
}

// A reader with a hundred columns must not have to compare them.
func TestSchemaErrorNamesTheColumns(t *testing.T) {
	for _, tt := range []struct{ want, got, text string }{
		{"id,user,body", "id,name,body", `the table has no "user", the mapping has no "name"`},
		{"id,user,body", "id", `the table has no "user", "body".`},
		{"id", "id,user", `the mapping has no "user"`},
		{"id,user,body", "id,body,user", `column 2 is "user" in the mapping and "body" in the table`},
		{"id", "", `the table has no "id"`},
		{"id", "id,id", "their number"},
		{"id,a,b,c,d,e,f,g,h", "id,x", `the table has no "a", "b", "c", "d", "e", "f", "g", "h", the mapping has no "x". Rows`},
		{"id," + numbered(52), "id", `"c50", and 2 more. Rows`},
		{"a int64,b string,c int64", "a,b string,c json", `the column "a" is int64 in the mapping and untyped in the table, which keeps it as text, the column "c" is int64 in the mapping and json in the table. Rows`},
		{"a,b,c", "b,c,a", `column 1 is "a" in the mapping and "b" in the table, column 2 is "b" in the mapping and "c" in the table, column 3 is "c"`},
		{"id,n int64", "id,n", `the column "n" is int64 in the mapping and untyped in the table`},
		{"id,n int64", "id,n int64!", `the column "n" is int64 in the mapping and required int64 in the table`},
		{"n string,id", "id,n json", `the column "n" is string in the mapping and json in the table`},
		{"n int64,id", "id,n int64", `column 1 is "n" in the mapping and "id" in the table`},
	} {
		err := &driver.SchemaError{Table: "in.c-web.events", Want: parseColumns(tt.want), Got: parseColumns(tt.got)}
		if text := err.Error(); !strings.Contains(text, tt.text) || !strings.Contains(text, "in.c-web.events") {
			t.Errorf("[%s] and [%s]: %s, want %s in it", tt.want, tt.got, text, tt.text)
		}
	}
}

// The text begins with the cause and ends with what to do. HintExtend adds that Extend avoids the error, if it does and the target has it.
func TestSchemaErrorSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		want, got, advice string
		extend            bool
	}{
		{"id,n int64", "id", "give the sink another table, or a mapping whose names", true},
		{"n int64,id", "id,n int64", "give the sink another table, or a mapping whose names", true},
		{"id,total int64", "id,sum decimal(20.0)", `the table has no "total", the mapping has no "sum". Rows that already wait need the table changed. For new rows, give a renamed column its former name, or the sink another table`, true},
		{"id,total int64", "id,sum string", "give the sink another table, or a mapping whose names", true},
		{"id,total", "sum,id", "give the sink another table, or a mapping whose names", true},
		{"id,n int64", "id,n", `in the table, which keeps it as text. Rows that already wait need the table changed. For new rows, give the sink another table, or these columns the types of the table or another name`, false},
		{"id,n", "id,n int64", `is untyped in the mapping and int64 in the table. Rows that already wait need the table changed. For new rows, give the sink another table, or these columns the types`, false},
		{"id,m,n int64", "id,n string", `the table has no "m", the column "n" is int64 in the mapping and string in the table. Rows that already wait need the table changed. For new rows, give the sink another table, or these columns`, false},
		{"n int64", "n int64!", "require these columns in the mapping, or give the sink another table", true},
		{"id,Id", "id", `their number`, false}, // names that Extend cannot tell apart
	} {
		err := &driver.SchemaError{Table: "t", Want: parseColumns(tt.want), Got: parseColumns(tt.got)}
		if text := err.Error(); !strings.Contains(text, tt.advice) || !strings.Contains(text, ". Rows that already wait need the table changed. For new rows, ") {
			t.Errorf("[%s] and [%s]: %s, want %s in it", tt.want, tt.got, text, tt.advice)
		}
		hint := func(target driver.Target, extend bool) bool {
			hinted := driver.Table{ID: "t", Columns: err.Want, Extend: extend}.HintExtend(target, err)
			var schema *driver.SchemaError
			return errors.As(hinted, &schema) && strings.HasPrefix(hinted.Error(), `table "t": columns differ: `) && strings.HasSuffix(hinted.Error(), ", or set extend so that the table accepts them")
		}
		grows, frozen := buffertest.NewMemory(), struct{ driver.Target }{buffertest.NewMemory()}
		if hint(grows, false) != tt.extend || hint(grows, true) || hint(frozen, false) {
			t.Errorf("[%s] and [%s]: Extend is proposed %v, want %v, and never if it is set or the target cannot", tt.want, tt.got, hint(grows, false), tt.extend)
		}
	}
}

func formatColumns(columns []datatype.Column) string {
	var parts []string
	for _, c := range columns {
		s := strings.TrimSpace(c.Name + " " + strings.ReplaceAll(string(c.Type), ",", "."))
		if c.Required {
			s += "!"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ",")
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		extend           bool
		want, have, then string
		refused          string
	}{
		{false, "id!,n int64", "", "id!,n int64", ""},
		{false, "id,n int64", "id,n int64", "id,n int64", ""},
		{false, "id,n int64!", "id,n int64", "id,n int64", ""},
		{false, "id,n int64", "id,n int64!", "", `required int64 in the table`},
		{false, "id,n int64", "id,n decimal(19.0)", "id,n decimal(19.0)", ""},
		{false, "id,n int64", "n int64,id", "", `column 1`},
		{false, "id,n int64", "id,N int64", "", `column 2 is "n" in the mapping and "N" in the table`},
		{false, "id", "id,n", "", `the mapping has no "n"`},
		{true, "id!,n int64!", "", "id,n int64", ""},
		{true, "n int64,id", "id,n int64", "id,n int64", ""},
		{true, "id,n int64", "ID", "ID,n int64", ""},
		{true, "Id,id", "id", "id", ""}, // definitions with both are refused before
		{true, "id", "Id,id!", "Id,id", ""},
		{true, "id", "id,n int64!", "id,n int64", ""},
		{true, "id,n int64", "id,n int64!", "id,n int64", ""},
		{true, "id!,n int64!", "id!,n int64!", "id!,n int64!", ""},
		{true, "id,n string,m", "id,N int64", "", `the column "n" is string in the mapping and int64 in the table`},
		{true, "id string", "id", "", `the column "id" is string in the mapping and untyped in the table`},
		{true, "n int64,d decimal(10.2)", "n decimal(19.0),d decimal(12.2)", "n decimal(19.0),d decimal(12.2)", ""},
		{true, "d decimal(12.2)", "d decimal(10.2)", "", `the column "d" is decimal(12,2) in the mapping and decimal(10,2) in the table`},
		{true, "n float64", "n int64", "", `the column "n" is float64 in the mapping and int64 in the table`},
	} {
		table := driver.Table{ID: "t", Columns: parseColumns(c.want), Extend: c.extend}
		got, err := table.Fit(parseColumns(c.have))
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) || !driver.IsPermanent(err) {
				t.Errorf("got %+v: %v, want an error and strings.Contains(err.Error(), c.refused) and driver.IsPermanent(err)", c, err)
			}
			continue
		}
		if err != nil || formatColumns(got) != c.then {
			t.Errorf("got %+v: %s, %v, want no error and formatColumns(got) == %v", c, formatColumns(got), err, c.then)
		}
	}
	table := driver.Table{Columns: parseColumns("b,Id,a"), Extend: true}
	if got := table.Places(parseColumns("id,x,a,b")); !slices.Equal(got, []int{1, -1, 2, 0}) {
		t.Errorf("places %v", got)
	}
}
