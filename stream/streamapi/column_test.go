package streamapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// TestSchemaDescribesTheColumn holds that the schema has each member that mapping.Column writes, and that a column of an
// answer reads back as it was.
func TestSchemaDescribesTheColumn(t *testing.T) {
	full := mapping.Column{
		Name: "c", Path: "a.b", Default: json.RawMessage(`1`), DefaultOnNull: true, RawString: true,
		Template: mapping.TemplateSource{Language: "jsonnet", Content: "1"},
		DataType: datatype.Timestamp, TypeOptions: mapping.TypeOptions{
			Required: true, EmptyIsNull: true, Epoch: mapping.EpochMillis, AssumeUTC: true, FromTimestamp: true, NotBefore: "a", NotAfter: "b", Round: true, ParseText: true,
		},
	}
	for _, typ := range []mapping.Type{
		mapping.TypeUUID, mapping.TypeDatetime, mapping.TypeIP, mapping.TypeBody, mapping.TypeHeaders, mapping.TypePath, mapping.TypeTemplate,
	} {
		full.Type = typ
		v := reflect.ValueOf(full)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Fatalf("give the column of this test a value for its field %s", v.Type().Field(i).Name)
			}
		}
		text, err := json.Marshal(bodyColumn(full))
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(new(column)); err != nil {
			t.Errorf("%s has no description: %v", text, err)
		}
		var want mapping.Column
		var got mappedColumn
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Column, want) || got.missing != "" {
			t.Errorf("a request with %s has the column %+v, want %+v", text, got, want)
		}
	}
}
