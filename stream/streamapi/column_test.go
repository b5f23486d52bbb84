package streamapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// TestSchemaDescribesTheColumn checks that the schema has each member that mapping.Column writes, and that a column of a
// response reads back unchanged.
func TestSchemaDescribesTheColumn(t *testing.T) {
	full := mapping.Column{
		Name: "c", Path: "a.b", Default: json.RawMessage(`1`), DefaultOnNull: true, RawString: true,
		Template: mapping.TemplateSource{Language: "jsonnet", Content: "1"},
		DataType: datatype.Timestamp, TypeOptions: mapping.TypeOptions{
			Required: true, EmptyIsNull: true, Epoch: mapping.EpochMillis, AssumeUTC: true, ClampLeapSecond: true, FromTimestamp: true, NotBefore: "a", NotAfter: "b", Round: true, ParseText: true,
		},
		Secret: true,
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
		must(t, err)
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(new(column)); err != nil {
			t.Errorf("%s has no description: %v", text, err)
		}
		var want mapping.Column
		var got mappedColumn
		must(t, json.Unmarshal(text, &want))
		must(t, json.Unmarshal(text, &got))
		if !reflect.DeepEqual(got.Column, want) || got.missing != "" {
			t.Errorf("a request with %s has the column %+v, want %+v", text, got, want)
		}
	}
}

// TestTypedColumns defines a sink with types over HTTP, reads it back, and shows the rows that it would store.
func TestTypedColumns(t *testing.T) {
	s := newService(t, serviceOptions{})
	columns := func(list string) string {
		return `{"type":"http","name":"Web","sinks":[{"type":"table","name":"A","table":{"type":"` + DefaultTableType +
			`","tableId":"in.c-web.a","mapping":{"columns":[` + list + `]}}}]}`
	}
	path := func(name, rest string) string {
		return `{"type":"path","name":"` + name + `","path":"` + name + `",` + rest + `}`
	}
	a := s.want(400, "", testToken, "POST", b+"/sources", columns(path("n", `"dataType":"int32"`)+`,`+path("u", `"required":true`)+`,`+path("N", `"dataType":"float64","epoch":"s"`)))
	for _, want := range []string{`\"int32\" is not a data type`, "applies only to columns with a dataType", "same name but for its case", "epoch"} {
		if !strings.Contains(a.text, want) {
			t.Errorf("%s lacks %q", a.text, want)
		}
	}
	s.done("POST", b+"/sources", columns(`{"type":"uuid","name":"id","dataType":"uuid"},`+path("n", `"dataType":"decimal(6,2)","required":true`)+`,`+
		path("at", `"dataType":"timestamp","epoch":"ms"`)+`,`+path("text", `"rawString":true,"defaultValue":"none"`)))
	sink := s.get(b + "/sources/web/sinks/a")
	for place, want := range map[string]any{
		"0.dataType": "uuid", "1.dataType": "decimal(6,2)", "1.required": true, "2.epoch": "ms", "2.required": nil, "3.dataType": nil,
	} {
		if got := sink.at("table.mapping.columns." + place); got != want {
			t.Errorf("%s is %v, want %v", place, got, want)
		}
	}
	test := func(body string) response {
		return s.post(s.server.URL+b+"/sources/web/test", body, http.Header{tokenHeader: {testToken}, "Content-Type": {"application/json"}})
	}
	shown := func(a response, status int, want string) {
		t.Helper()
		text, err := json.Marshal(a.at("tables.0.rows.0.columns"))
		if err != nil || a.status != status || !strings.HasSuffix(string(text), want) {
			t.Errorf("status %d: %s, want %s", a.status, text, want)
		}
	}
	shown(test(`{"n":1.5,"at":null}`), 200, `{"dataType":"decimal(6,2)","name":"n","value":"1.50"},{"dataType":"timestamp","name":"at","value":null},{"name":"text","value":"none"}]`)
	shown(test(`{"n":null,"at":1700000000000}`), 422, `{"dataType":"decimal(6,2)","error":"column \"n\": the value is null, and the column is required","name":"n","reason":"nullValue","value":""},`+
		`{"dataType":"timestamp","name":"at","value":"2023-11-14T22:13:20.000000Z"},{"name":"text","value":"none"}]`)
}
