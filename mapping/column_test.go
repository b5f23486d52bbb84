package mapping

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/forebay/forebay/datatype"
)

func TestColumnJSON(t *testing.T) {
	cols := Columns{
		UUID("u"), Datetime("d"), IP("i"), Body("b"), Headers("h"),
		Path("p", "a.b"), Path("q", "", Default("x"), RawString()), Path("n", "x", Default(nil), DefaultOnNull()),
		Template("t", "Body()", RawString()),
	}
	b, err := json.Marshal(cols)
	want := `[{"type":"uuid","name":"u"},{"type":"datetime","name":"d"},{"type":"ip","name":"i"},{"type":"body","name":"b"},` +
		`{"type":"headers","name":"h"},{"type":"path","name":"p","path":"a.b","rawString":false},` +
		`{"type":"path","name":"q","path":"","defaultValue":"x","rawString":true},` +
		`{"type":"path","name":"n","path":"x","defaultValue":null,"defaultOnNull":true,"rawString":false},` +
		`{"type":"template","name":"t","rawString":true,"template":{"language":"jsonnet","content":"Body()"}}]`
	if err != nil || string(b) != want {
		t.Errorf("got  %s %v\nwant %s", b, err, want)
	}
	var back Columns
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, cols) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, back, cols)
	}
	for _, s := range []string{`{"type":"path","name":"p"}`, `{"type":"template","name":"t"}`, `{"type":5}`} {
		if err := json.Unmarshal([]byte(s), new(Column)); err == nil {
			t.Errorf("%s: got no error, want one", s)
		}
	}
	// Nothing that was written is dropped silently. A field that no column has is an error here, a field that the type lacks is an error of Compile.
	for s, want := range map[string]string{
		`{"type":"path","name":"p","path":"a","rawSring":true}`:                          `mapping: column "p": json: unknown field "rawSring"`,
		`{"type":"uuid","name":"u","id":"5"}`:                                            `mapping: column "u": json: unknown field "id"`,
		`{"type":"template","name":"t","template":{"language":"jsonnet","contnet":"1"}}`: `mapping: column "t": json: unknown field "contnet"`,
		`{"typ":"uuid"}`: `mapping: a column: json: unknown field "typ"`,
	} {
		if err := json.Unmarshal([]byte(s), new(Column)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", s, err, want)
		}
	}
	for s, want := range map[string]string{
		`{"type":"uuid","name":"c","rawString":true}`:                                                     `rawString: applies to path and template columns only; remove it`,
		`{"type":"uuid","name":"c","path":"x"}`:                                                           `path: applies to path columns only; remove it, or set the type path`,
		`{"type":"template","name":"c","defaultValue":1,"template":{"language":"jsonnet","content":"1"}}`: `defaultValue (Default): applies to path columns only; remove it, or set the type path`,
		`{"type":"body","name":"c","template":{"language":"jsonnet","content":"1"}}`:                      `template: applies to template columns only`,
	} {
		var c Column
		if err := json.Unmarshal([]byte(s), &c); err != nil {
			t.Errorf("%s: got %v, want no error", s, err)
		}
		if _, err := Compile(Columns{c}, Options{}); err == nil || err.Error() != `mapping: column 1 ("c"): `+want {
			t.Errorf("%s: got %v, want %s", s, err, want)
		}
	}
}

// A field that the JSON form forgets would be lost in the catalog and in the Stream API, so each field is written for some type and
// read back.
func TestColumnJSONHasEveryField(t *testing.T) {
	full := Column{
		Name: "c", Path: "a.b", Default: json.RawMessage(`1`), DefaultOnNull: true, RawString: true,
		Template: TemplateSource{Language: "jsonnet", Content: "1"},
		DataType: datatype.Timestamp, TypeOptions: TypeOptions{
			Required: true, EmptyIsNull: true, Epoch: EpochMillis, AssumeUTC: true, ClampLeapSecond: true, FromTimestamp: true, NotBefore: "a", NotAfter: "b", Round: true, ParseText: true, AnyKind: true, ElsePath: "e", ElseArrival: true,
		},
		Secret: true,
	}
	options := reflect.ValueOf(full.TypeOptions)
	for i := range options.NumField() {
		if options.Field(i).IsZero() {
			t.Fatalf("give the column of this test a value for its option %s", options.Type().Field(i).Name)
		}
	}
	fields := reflect.TypeFor[Column]()
	written := map[string]bool{}
	for _, typ := range []Type{TypeUUID, TypeDatetime, TypeIP, TypeBody, TypeHeaders, TypePath, TypeTemplate} {
		full.Type = typ
		text, err := json.Marshal(full)
		var back Column
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil {
			t.Fatalf("%s: got %v, want no error", typ, err)
		}
		given, read := reflect.ValueOf(full), reflect.ValueOf(back)
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			switch {
			case given.Field(i).IsZero():
				t.Fatalf("give the column of this test a value for its field %s", name)
			case !read.Field(i).IsZero():
				written[name] = true
				if !reflect.DeepEqual(read.Field(i).Interface(), given.Field(i).Interface()) {
					t.Errorf("%s of %s: read %v, want %v", name, text, read.Field(i), given.Field(i))
				}
			}
		}
	}
	for i := range fields.NumField() {
		if name := fields.Field(i).Name; !written[name] {
			t.Errorf("MarshalJSON or UnmarshalJSON of Column forgets the field %s for every type", name)
		}
	}
}
