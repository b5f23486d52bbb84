package datatype_test

import (
	"testing"

	"github.com/forebay/forebay/datatype"
)

func TestLimitsForbidWhatEitherForbids(t *testing.T) {
	for _, c := range []struct{ a, b, want datatype.Limits }{
		{},
		{a: datatype.Limits{NoNUL: true, MaxCell: 5}, want: datatype.Limits{NoNUL: true, MaxCell: 5}},
		{a: datatype.Limits{UTF8: true}, want: datatype.Limits{UTF8: true}},
		{b: datatype.Limits{UTF8: true}, want: datatype.Limits{UTF8: true}},
		{
			datatype.Limits{MinYear: 1900, MaxYear: 2200, MaxCell: 7, MaxDepth: 4, NumberDigits: 9},
			datatype.Limits{NoNaN: true, MinYear: 1970, MaxYear: 2100, MaxCell: 9, MaxDepth: 5, NumberScale: 3},
			datatype.Limits{NoNaN: true, MinYear: 1970, MaxYear: 2100, MaxCell: 7, MaxDepth: 4, NumberDigits: 9, NumberScale: 3},
		},
	} {
		if got := c.a.And(c.b); got != c.want {
			t.Errorf("%+v and %+v: got %+v, want %v", c.a, c.b, got, c.want)
		}
		if got := c.b.And(c.a); got != c.want {
			t.Errorf("%+v and %+v: got %+v, want %v", c.b, c.a, got, c.want)
		}
	}
	for _, l := range []datatype.Limits{{MinYear: -1}, {MaxYear: -1}, {MaxCell: -1}, {MaxDepth: -1}, {NumberDigits: -1}, {NumberScale: -1}} {
		if l.Validate() == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}
