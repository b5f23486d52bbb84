package streamapi

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/forebay/forebay/mapping"
)

// The body of a column repeats the members of mapping.Column, so that they have a schema. Both must show and read the same.
func TestColumnBodyIsTheColumn(t *testing.T) {
	full := mapping.Column{
		Name: "c", Path: "a.b", Default: json.RawMessage(`1`), DefaultOnNull: true, RawString: true,
		Template: mapping.TemplateSource{Language: "jsonnet", Content: "1"},
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
		text, err := json.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := json.Marshal(bodyColumn(full))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(members(t, shown), members(t, text)) {
			t.Errorf("bodyColumn shows %s, want %s", shown, text)
		}
		var want mapping.Column
		var body column
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatal(err)
		}
		if got := catalogColumn(body); !reflect.DeepEqual(got, want) {
			t.Errorf("catalogColumn reads %+v of %s, want %+v", got, text, want)
		}
	}
}

func members(t *testing.T, text []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
