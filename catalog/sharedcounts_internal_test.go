package catalog

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// A node shows the files of other nodes like its own, so each field of a file reaches it. The table is known from the definition.
func TestFilesOfOtherNodesHaveAllFields(t *testing.T) {
	at := time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)
	f := buffer.FileStats{
		Level:   buffer.Level{Rows: 1, FirstAt: at, LastAt: at},
		Refused: &driver.RowError{Row: 4, Column: "c", Reason: "type", Message: "no number"},
	}
	v := reflect.ValueOf(&f).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		switch {
		case v.Type().Field(i).Name == "Table", !field.IsZero():
		case field.Kind() == reflect.String:
			field.SetString("text of " + v.Type().Field(i).Name)
		case field.CanInt():
			field.SetInt(int64(7 + i))
		case field.Kind() == reflect.Bool:
			field.SetBool(true)
		case field.Type() == reflect.TypeFor[time.Time]():
			field.Set(reflect.ValueOf(at.Add(time.Duration(i) * time.Second)))
		default:
			t.Fatalf("got the field %s of type %s, want a case of this test for it", v.Type().Field(i).Name, field.Type())
		}
	}
	text, err := json.Marshal(newSinkCounts(forebay.SinkStats{SinkStats: buffer.SinkStats{Files: []buffer.FileStats{f}}}))
	if err != nil {
		t.Fatal(err)
	}
	var came sinkCounts
	if err := json.Unmarshal(text, &came); err != nil {
		t.Fatal(err)
	}
	if got := came.stats().Files[0]; !reflect.DeepEqual(got, f) {
		t.Errorf("got %+v at another node, want %+v", got, f)
	}
}
