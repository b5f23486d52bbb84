package catalog_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
)

// TestBoundsKeepEachField stores the bounds of a quarantine as JSON with one field set at a time, and all of them, so that no field of
// [buffer.QuarantineBounds] can be forgotten there.
func TestBoundsKeepEachField(t *testing.T) {
	values := map[reflect.Type]any{
		reflect.TypeFor[int64](): int64(7), reflect.TypeFor[int](): 8, reflect.TypeFor[bool](): true, reflect.TypeFor[time.Duration](): 90 * time.Minute,
	}
	var all buffer.QuarantineBounds
	fields := reflect.TypeOf(all)
	cases := []buffer.QuarantineBounds{}
	for i := range fields.NumField() {
		v, ok := values[fields.Field(i).Type]
		if !ok {
			t.Fatalf("give this test a value for the field %s", fields.Field(i).Name)
		}
		var one buffer.QuarantineBounds
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(v))
		reflect.ValueOf(&all).Elem().Field(i).Set(reflect.ValueOf(v))
		cases = append(cases, one)
	}
	for _, want := range append(cases, all, buffer.QuarantineBounds{}) {
		text, err := json.Marshal(catalog.QuarantineBounds(want))
		if err != nil {
			t.Fatal(err)
		}
		var got catalog.QuarantineBounds
		if err := json.Unmarshal(text, &got); err != nil || buffer.QuarantineBounds(got) != want {
			t.Errorf("%+v is stored as %s and read as %+v, error %v", want, text, got, err)
		}
	}
}
