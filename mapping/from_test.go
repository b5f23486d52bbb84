package mapping

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

type order struct {
	ID    int64          `json:"id"`
	Note  string         `json:"note"`
	Lines []string       `json:"lines,omitempty"`
	Extra map[string]any `json:"extra,omitempty"`
}

// A Go value gives the rows that its JSON gives.
func TestFromGivesTheRowsOfTheJSON(t *testing.T) {
	m := mustCompile(t, Body("b"), Path("id", "id"), Path("note", "note", RawString()), Path("none", "none", Default("d")),
		Template("t", `std.length(Body('lines')) + Body('extra.b')`), Template("all", `Body()`), Template("s", `BodyStr()`))
	value := order{ID: 1 << 60, Note: "a \"<b>\" & é\n", Lines: []string{"x", "y"}, Extra: map[string]any{"b": 2.5, "a": nil}}
	const text = `{"id":1152921504606846976,"note":"a \"<b>\" & é\n","lines":["x","y"],"extra":{"a":null,"b":2.5}}`
	want, err := m.AppendRow(nil, JSON([]byte(text)))
	must(t, err)
	for _, v := range []any{value, &value, json.RawMessage(text)} {
		r := From(v)
		for range 2 { // the second mapper of a record reads the encoding of the first
			if got, err := m.AppendRow(nil, r); err != nil || string(got) != string(want) {
				t.Errorf("%T: %v\ngot  %s\nwant %s", v, err, got, want)
			}
		}
	}
}

// A value that cannot be encoded is the fault of the record, and only of the columns that read it.
func TestFromOfWhatIsNoJSON(t *testing.T) {
	var unsupported *json.UnsupportedValueError
	r := From(map[string]any{"n": math.NaN()})
	_, err := mustCompile(t, Path("c", "n")).AppendRow(nil, r)
	if reasonOf(err) != InvalidBody || !errors.As(err, &unsupported) {
		t.Error(err)
	}
	if row, err := mustCompile(t, Path("c", "n", Default("d")), UUID("u")).AppendRow(nil, r); err != nil {
		t.Errorf("got %s %v, want no error", row, err)
	}
}
