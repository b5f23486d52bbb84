package buffer_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
)

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
	} {
		split := func(s string) []string {
			return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
		}
		err := &buffer.SchemaError{Table: "in.c-web.events", Want: split(tt.want), Got: split(tt.got)}
		if text := err.Error(); !strings.Contains(text, tt.text) || !strings.Contains(text, "in.c-web.events") {
			t.Errorf("[%s] and [%s]: %s, want %s in it", tt.want, tt.got, text, tt.text)
		}
	}
}
