package catalog_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
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
		must(t, err)
		var got catalog.QuarantineBounds
		if err := json.Unmarshal(text, &got); err != nil || buffer.QuarantineBounds(got) != want {
			t.Errorf("%+v is stored as %s and read as %+v, error %v", want, text, got, err)
		}
	}
}

// The setting ingest.keepHeaders reaches the definition of the engine, and names that cannot be kept are refused with the setting.
func TestKeepHeadersIsASetting(t *testing.T) {
	eng := openEngine(t, forebay.Options{})
	cat := openCatalog(t, eng, catalog.Options{})
	do := done(t, cat)
	do(cat.CreateSource(user, shop()))
	set := func(value string) (catalog.Task, error) {
		return cat.ChangeSettings(user, catalog.Ref{Source: "shop"}, "", []catalog.SettingChange{{Key: "ingest.keepHeaders", Value: json.RawMessage(value)}})
	}
	do(set(`" X-Shop-Id ,x-plan,"`))
	if def, ok := eng.Source("shop"); !ok || !slices.Equal(def.KeepHeaders, []string{"X-Shop-Id", "x-plan"}) {
		t.Errorf("the source keeps %q, defined %v", def.KeepHeaders, ok)
	}
	for _, value := range []string{`"a b"`, `"X-Api-Key"`, `7`} {
		if _, err := set(value); code(err) != catalog.BadRequest || !strings.Contains(err.Error(), "ingest.keepHeaders") {
			t.Errorf("%s: got %v, want code(err) == %v and strings.Contains(err.Error(), \"ingest.keepHeaders\")", value, err, catalog.BadRequest)
		}
	}
	do(set(`null`))
	if def, _ := eng.Source("shop"); def.KeepHeaders != nil {
		t.Errorf("the source keeps %q", def.KeepHeaders)
	}
}
