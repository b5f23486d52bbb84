package datatype_test

import (
	"encoding/json"
	"testing"

	"github.com/forebay/forebay/datatype"
)

// The JSON of columns is stored. An untyped column is its name, as it was before columns had types.
func TestColumnsInJSON(t *testing.T) {
	for _, c := range []struct {
		column datatype.Column
		json   string
		text   string
	}{
		{datatype.Column{Name: "id"}, `"id"`, `"id"`},
		{datatype.Column{Name: "n", Type: datatype.Int64}, `{"name":"n","type":"int64"}`, `"n" int64`},
		{datatype.Column{Name: "n", Type: datatype.Int64, Required: true}, `{"name":"n","type":"int64","required":true}`, `"n" int64 required`},
		{datatype.Column{Name: "n", Required: true}, `{"name":"n","required":true}`, `"n" required`},
		{datatype.Column{Name: `"a`, Type: "decimal(3,1)"}, `{"name":"\"a","type":"decimal(3,1)"}`, `"\"a" decimal(3,1)`},
		{datatype.Column{}, `""`, `""`},
	} {
		b, err := json.Marshal(c.column)
		if err != nil || string(b) != c.json {
			t.Errorf("got %+v: %s, %v, want %s", c.column, b, err, c.json)
		}
		back := datatype.Column{Name: "old", Type: datatype.Date, Required: true}
		if err := json.Unmarshal(b, &back); err != nil || back != c.column {
			t.Errorf("%s: got %+v, %v, want %+v", b, back, err, c.column)
		}
		if got := c.column.String(); got != c.text {
			t.Errorf("%+v is shown as %s, want %s", c.column, got, c.text)
		}
	}
	var c datatype.Column
	if err := json.Unmarshal([]byte(`7`), &c); err == nil {
		t.Errorf("a number was read as %+v", c)
	}
}
