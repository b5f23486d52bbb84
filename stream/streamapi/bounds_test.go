package streamapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/catalog"
)

// TestBoundsAreRequestAndAnswer gives each field of [catalog.QuarantineBounds] a value, writes the response of the API, and reads it as a
// request. No field may be forgotten in one of the two.
func TestBoundsAreRequestAndAnswer(t *testing.T) {
	var want catalog.QuarantineBounds
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Duration]():
			f.SetInt(int64(90 * time.Minute))
		case f.CanInt():
			f.SetInt(int64(7 + i))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("give this test a value for the field %s", v.Type().Field(i).Name)
		}
	}
	text, err := json.Marshal(newBounds(want))
	must(t, err)
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	var body boundsBody
	must(t, dec.Decode(&body))
	var p problems
	if got := body.bounds("", &p); got != want {
		t.Errorf("the answer %s is the request of %+v, want %+v", text, got, want)
	}
	var stored catalog.QuarantineBounds // API and catalog have one form
	if err := json.Unmarshal(text, &stored); err != nil || stored != want {
		t.Errorf("the catalog reads %s as %+v, error %v, want %+v", text, stored, err, want)
	}
}
