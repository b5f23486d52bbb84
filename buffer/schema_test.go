package buffer_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

// parseColumns reads columns like "id,n int64,at timestamp!", where "!" stands for Required.
func parseColumns(s string) []datatype.Column {
	var columns []datatype.Column
	for c := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' }) {
		c, required := strings.CutSuffix(c, "!")
		name, typ, _ := strings.Cut(c, " ")
		columns = append(columns, datatype.Column{Name: name, Type: datatype.Type(typ), Required: required})
	}
	return columns
}

// A reader with a hundred columns must not have to compare them.
func TestSchemaErrorNamesTheColumns(t *testing.T) {
	for _, tt := range []struct{ want, got, text string }{
		{"id,user,body", "id,name,body", `the table has no "user", the mapping has no "name"`},
		{"id,user,body", "id", `the table has no "user", "body":`},
		{"id", "id,user", `the mapping has no "user"`},
		{"id,user,body", "id,body,user", `column 2 is "user" in the mapping and "body" in the table`},
		{"id", "", `the table has no "id"`},
		{"id", "id,id", "their number"},
		{"id,a,b,c,d,e,f,g,h", "id,x", `the table has no "a", "b", "c", "d", "e", and 3 more, the mapping has no "x": give`},
		{"id,n int64", "id,n", `the column "n" is int64 in the mapping and untyped in the table`},
		{"id,n int64", "id,n int64!", `the column "n" is int64 in the mapping and required int64 in the table`},
		{"n string,id", "id,n json", `the column "n" is string in the mapping and json in the table`},
		{"n int64,id", "id,n int64", `column 1 is "n" in the mapping and "id" in the table`},
	} {
		err := &buffer.SchemaError{Table: "in.c-web.events", Want: parseColumns(tt.want), Got: parseColumns(tt.got)}
		if text := err.Error(); !strings.Contains(text, tt.text) || !strings.Contains(text, "in.c-web.events") {
			t.Errorf("[%s] and [%s]: %s, want %s in it", tt.want, tt.got, text, tt.text)
		}
	}
}
