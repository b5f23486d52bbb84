// Package datatype names the types that a column can have, from the mapping to the target. Package mapping converts values to the
// texts below, and each driver says how its tables store a type. The functions Parse… and [AppendBytes] read those texts for drivers.
//
//	columns := []datatype.Column{{Name: "id", Type: datatype.Int64, Required: true}, {Name: "price", Type: datatype.Decimal(10, 2)}}
//
// A value of a type has one text, its canonical text, so equal values are equal bytes:
//
//	type           canonical text
//	string         the text itself, UTF-8
//	bool           true or false
//	int64          decimal digits, with a leading '-' below 0
//	float64        the shortest text that reads back as the same number; NaN, Infinity and -Infinity
//	decimal(p,s)   at most p digits, exactly s of them after the point
//	timestamp      2006-01-02T15:04:05.000000Z: UTC, always 6 digits, years 1 to 9999
//	date           2006-01-02, years 1 to 9999
//	uuid           lower case with hyphens
//	json           a JSON document without white space between its tokens
//	bytes          standard base64 with padding
//
// In addition to its values, every type but [Untyped] has NULL, which is no text at all.
package datatype

import (
	"fmt"
	"strconv"
	"strings"
)

// Type is the type of a column's values. The zero value is [Untyped]. Types are compared with ==. The Stream API, table.json
// and the store contain its text.
type Type string

// The types without parameters. [Decimal] makes the others.
const (
	// Untyped stores any bytes as the mapping writes them. It has no NULL.
	Untyped   Type = ""
	String    Type = "string"
	Bool      Type = "bool"
	Int64     Type = "int64"
	Float64   Type = "float64"
	Timestamp Type = "timestamp" // a moment, to the microsecond
	Date      Type = "date"
	UUID      Type = "uuid"
	JSON      Type = "json"
	Bytes     Type = "bytes"
)

// MaxPrecision is the highest number of digits of a decimal.
const MaxPrecision = 38

// Decimal returns the type of numbers with at most precision digits, scale of them after the point: 1 to [MaxPrecision], and
// 0 to precision. [Type.Validate] refuses others.
func Decimal(precision, scale int) Type { return Type(fmt.Sprintf("decimal(%d,%d)", precision, scale)) }

// DecimalOf returns the parameters of a decimal type. ok is false for other types.
func (t Type) DecimalOf() (precision, scale int, ok bool) {
	inner, found := strings.CutPrefix(string(t), "decimal(")
	if !found || !strings.HasSuffix(inner, ")") {
		return 0, 0, false
	}
	p, s, found := strings.Cut(inner[:len(inner)-1], ",")
	if !found {
		return 0, 0, false
	}
	precision, perr := strconv.Atoi(p)
	scale, serr := strconv.Atoi(s)
	if perr != nil || serr != nil || Decimal(precision, scale) != t {
		return 0, 0, false
	}
	return precision, scale, true
}

// Validate returns an error unless t is one of the types.
func (t Type) Validate() error {
	switch t {
	case Untyped, String, Bool, Int64, Float64, Timestamp, Date, UUID, JSON, Bytes:
		return nil
	}
	switch p, s, ok := t.DecimalOf(); {
	case !ok:
		return fmt.Errorf("%q is not a data type; use string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes", string(t))
	case p < 1 || p > MaxPrecision:
		return fmt.Errorf("%s: the precision is 1 to %d digits", t, MaxPrecision)
	case s < 0 || s > p:
		return fmt.Errorf("%s: the scale is 0 to %d, the precision", t, p)
	}
	return nil
}

// Holds reports whether t has every value of o, without a change of kind. The types that do are the same type, a decimal with
// the same scale and at least its precision, or for int64 a decimal with at least 19 digits before the point.
func (t Type) Holds(o Type) bool {
	p, s, ok := t.DecimalOf()
	if t == o || !ok {
		return t == o
	}
	if o == Int64 {
		return p-s >= 19
	}
	op, os, ok := o.DecimalOf()
	return ok && p >= op && s == os
}
