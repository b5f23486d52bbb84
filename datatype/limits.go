package datatype

import "fmt"

// Limits are values of a type that a target cannot store, so that a record with one of them is rejected before it is stored. The
// zero value forbids nothing. UTF8, NoNUL and MaxCell apply to untyped columns too.
type Limits struct {
	// NoNUL rejects NUL in texts and in untyped columns, and its escape in json columns.
	NoNUL bool
	// NoNaN rejects NaN and infinities.
	NoNaN bool
	// MinYear and MaxYear bound timestamps and dates. Defaults: 1 and 9999.
	MinYear, MaxYear int
	// UTF8 rejects text that is not UTF-8 in untyped columns too. Typed columns never have such text.
	UTF8 bool
	// MaxCell bounds the bytes of a cell. Zero means no bound.
	MaxCell int
	// MaxDepth bounds the levels of arrays and objects in a json column. Zero means no bound.
	MaxDepth int
	// NumberDigits and NumberScale bound the digits of a number in a json column before and after its point, once its exponent is applied.
	// Zero means no bound.
	NumberDigits, NumberScale int
}

// Validate returns an error that names a field below zero.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"MinYear", l.MinYear}, {"MaxYear", l.MaxYear}, {"MaxCell", l.MaxCell}, {"MaxDepth", l.MaxDepth}, {"NumberDigits", l.NumberDigits}, {"NumberScale", l.NumberScale}} {
		if f.value < 0 {
			return fmt.Errorf("limit %s is %d, must not be negative", f.name, f.value)
		}
	}
	return nil
}

// And returns limits that forbid what l or o forbids.
func (l Limits) And(o Limits) Limits {
	return Limits{
		NoNUL: l.NoNUL || o.NoNUL, NoNaN: l.NoNaN || o.NoNaN, UTF8: l.UTF8 || o.UTF8,
		MinYear: max(l.MinYear, o.MinYear), MaxYear: least(l.MaxYear, o.MaxYear), MaxCell: least(l.MaxCell, o.MaxCell),
		MaxDepth: least(l.MaxDepth, o.MaxDepth), NumberDigits: least(l.NumberDigits, o.NumberDigits), NumberScale: least(l.NumberScale, o.NumberScale),
	}
}

// least returns the smaller of two bounds. Zero is no bound.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
