package celltype

import (
	"bytes"
	"strings"

	"github.com/forebay/forebay/datatype"
)

// Kind is the form in which a value arrives.
type Kind uint8

// The kinds of JSON but null, which is no value.
const (
	Number    Kind = iota // the digits of a JSON number, as they were written
	Text                  // the decoded text of a JSON string, or another text, perhaps not UTF-8
	Bool                  // true or false
	Composite             // an object or array, as compact JSON
)

// KindOf returns the kind of a JSON text other than null.
func KindOf(json []byte) Kind {
	switch json[0] {
	case '"':
		return Text
	case 't', 'f':
		return Bool
	case '{', '[':
		return Composite
	}
	return Number
}

// Rules say which values a column accepts in addition to the values of its type.
type Rules struct {
	Epoch         Epoch // numbers are times in this unit, and an int64 counts it
	AssumeUTC     bool  // a time without a zone is in UTC
	ClampLeap     bool  // a leap second is the last microsecond before it
	FromTimestamp bool  // a time gives its day in UTC
	Round         bool  // a decimal with too many digits is rounded to the nearest, halves to the even digit
	// NotBefore and NotAfter bound times and dates, as cells. Empty means no bound.
	NotBefore, NotAfter string
}

// Converter makes the cells of one column. It is immutable. It does not convert to json, because a document is checked where it is parsed.
type Converter struct {
	base             base
	precision, scale int
	rules            Rules
	limits           datatype.Limits
	bounded          bool // rules or limits bound times
	json             bool // the type is json
}

// base is a type without its parameters.
type base uint8

const (
	baseDecimal base = iota
	baseString
	baseBool
	baseInt64
	baseFloat64
	baseTimestamp
	baseDate
	baseUUID
	baseBytes
)

// NewConverter returns the converter of a type, which must be valid and not untyped. The converter for json only checks.
func NewConverter(t datatype.Type, rules Rules, limits datatype.Limits) Converter {
	c := Converter{rules: rules, limits: limits, json: t == datatype.JSON}
	c.precision, c.scale, _ = t.DecimalOf()
	c.bounded = rules.NotBefore != "" || rules.NotAfter != "" || limits.MinYear > 1 || limits.MaxYear > 0 && limits.MaxYear < 9999
	c.base = map[datatype.Type]base{
		datatype.String: baseString, datatype.Bool: baseBool, datatype.Int64: baseInt64, datatype.Float64: baseFloat64,
		datatype.Timestamp: baseTimestamp, datatype.Date: baseDate, datatype.UUID: baseUUID, datatype.Bytes: baseBytes,
	}[t]
	return c
}

// Append appends the cell of a value. Only a cell of type string can contain a quote.
func (c *Converter) Append(dst, text []byte, k Kind) ([]byte, Reason) {
	out, reason := c.convert(dst, text, k)
	if c.limits.MaxCell > 0 && reason == OK && len(out)-len(dst) > c.limits.MaxCell {
		return dst, TooLong
	}
	return out, reason
}

// convert is Append without the largest cell.
func (c *Converter) convert(dst, text []byte, k Kind) ([]byte, Reason) {
	switch c.base {
	case baseInt64:
		if k <= Text {
			return c.int64(dst, text, k)
		}
	case baseDecimal:
		if k <= Text {
			return c.decimal(dst, text)
		}
	case baseFloat64:
		if k <= Text {
			return c.float64(dst, text)
		}
	case baseTimestamp:
		if k <= Text {
			return c.time(dst, text, k)
		}
	case baseDate:
		if k <= Text {
			return c.date(dst, text, k)
		}
	case baseBool:
		switch k {
		case Bool:
			return append(dst, text...), OK
		case Text:
			return AppendBool(dst, text)
		}
	case baseUUID:
		if k == Text {
			return AppendUUID(dst, text)
		}
	case baseBytes:
		if k == Text {
			return AppendBytes(dst, text)
		}
	case baseString:
		if reason := c.CheckString(text, k); reason != OK {
			return dst, reason
		}
		return append(dst, text...), OK
	}
	return dst, WrongKind
}

// CheckString says whether a value fits the type string. Its cell is then the text itself.
func (c *Converter) CheckString(text []byte, k Kind) Reason {
	switch {
	case k == Composite:
		return WrongKind
	case c.limits.MaxCell > 0 && len(text) > c.limits.MaxCell:
		return TooLong
	case k != Text:
		return OK
	case c.limits.NoNUL && bytes.IndexByte(text, 0) >= 0:
		return HasNUL
	}
	return CheckText(text, 0)
}

// FitsUTF8 reports whether the type string takes a text that is known to be UTF-8.
func (c *Converter) FitsUTF8(text []byte) bool {
	return (c.limits.MaxCell == 0 || len(text) <= c.limits.MaxCell) && (!c.limits.NoNUL || bytes.IndexByte(text, 0) < 0)
}

// CheckDocument says whether a JSON text, which is valid, can be stored.
func (c *Converter) CheckDocument(text []byte) Reason {
	if c.limits.MaxCell > 0 && len(text) > c.limits.MaxCell {
		return TooLong
	}
	if reason := CheckJSON(text, c.limits.NoNUL); reason != OK {
		return reason
	}
	return c.CheckShape(text)
}

// CheckShape says whether the levels and the numbers of a JSON text, which is valid, can be stored.
func (c *Converter) CheckShape(text []byte) Reason {
	if !c.json {
		return OK
	}
	return checkShape(text, &c.limits)
}

// int64 takes times too, if it has a unit.
func (c *Converter) int64(dst, text []byte, k Kind) ([]byte, Reason) {
	if c.rules.Epoch != "" && k == Text && len(text) > len("2006-01-02T") && text[4] == '-' { // no number has a hyphen there, but for an exponent
		if out, reason := AppendUnits(dst, text, c.rules.Epoch); reason != Malformed {
			return out, reason
		}
	}
	return AppendInt64(dst, text)
}

func (c *Converter) float64(dst, text []byte) ([]byte, Reason) {
	out, reason := AppendFloat64(dst, text)
	if c.limits.NoNaN && reason == OK && out[len(out)-1] > '9' { // of NaN or Infinity
		return dst, NotFinite
	}
	return out, reason
}

func (c *Converter) decimal(dst, text []byte) ([]byte, Reason) {
	out, reason := AppendDecimal(dst, text, c.precision, c.scale)
	if reason == TooPrecise && c.rules.Round {
		return appendRounded(dst, text, c.precision, c.scale)
	}
	return out, reason
}

func (c *Converter) time(dst, text []byte, k Kind) ([]byte, Reason) {
	out, reason := c.timestamp(dst, text, k)
	if c.bounded && reason == OK {
		if reason = c.checkTime(out[len(dst):]); reason != OK {
			return dst, reason
		}
	}
	return out, reason
}

// timestamp is time without the bounds.
func (c *Converter) timestamp(dst, text []byte, k Kind) ([]byte, Reason) {
	if k == Number {
		if c.rules.Epoch == "" {
			return dst, NeedsUnit
		}
		return AppendEpoch(dst, text, c.rules.Epoch)
	}
	out, reason := AppendTimestamp(dst, text, c.rules.AssumeUTC)
	if reason == LeapSecond && c.rules.ClampLeap {
		return AppendLeapSecond(dst, text, c.rules.AssumeUTC)
	}
	if reason == Malformed {
		if _, number := parseNumber(text); number == OK {
			return c.timestamp(dst, text, Number)
		}
	}
	return out, reason
}

func (c *Converter) date(dst, text []byte, k Kind) ([]byte, Reason) {
	var out []byte
	var reason Reason
	switch {
	case k == Text && (!c.rules.FromTimestamp || len(text) == len("2006-01-02") && text[4] == '-'):
		out, reason = AppendDate(dst, text)
	case c.rules.FromTimestamp:
		if out, reason = c.timestamp(dst, text, k); reason == OK {
			out = out[:len(dst)+len("2006-01-02")]
		}
	default:
		reason = WrongKind
	}
	if reason == OK && c.bounded {
		reason = c.checkTime(out[len(dst):])
	}
	if reason != OK {
		return dst, reason
	}
	return out, OK
}

// CheckTime holds the cell of a time or date against the bounds.
func (c *Converter) CheckTime(cell []byte) Reason {
	if c.bounded {
		return c.checkTime(cell)
	}
	return OK
}

// checkTime compares texts, because cells of one type sort as their times do.
func (c *Converter) checkTime(cell []byte) Reason {
	year := two(cell)*100 + two(cell[2:])
	switch {
	case c.limits.MinYear > 0 && year < c.limits.MinYear, c.limits.MaxYear > 0 && year > c.limits.MaxYear,
		string(cell) < c.rules.NotBefore, c.rules.NotAfter != "" && string(cell) > c.rules.NotAfter:
		return OutOfRange
	}
	return OK
}

// Explain returns the rest of a sentence that begins with the value. It says why the type does not take it.
func Explain(r Reason, t datatype.Type, k Kind) string {
	switch r {
	case EmptyText:
		return "is the empty text"
	case WrongKind:
		return "is " + [...]string{"a number", "a text", "a boolean", "an object or array"}[k]
	case Malformed:
		base, _, _ := strings.Cut(string(t), "(")
		return map[string]string{
			"bool": "is not true or false", "int64": "is not a number in decimal digits", "float64": "is not a number in decimal digits",
			"decimal": "is not a number in decimal digits", "timestamp": "is not a time as 2006-01-02T15:04:05Z", "date": "is not a date as 2006-01-02",
			"uuid": "is not 32 hexadecimal digits, with or without hyphens", "bytes": "is not base64", "json": "is not a JSON document",
		}[base]
	case NotIntegral:
		return "is not a whole number"
	case OutOfRange:
		return "is out of the range of " + string(t)
	case TooPrecise:
		return "has more digits after the point than the type holds"
	case NeedsUnit:
		return "is a number, and the column has no epoch unit"
	case NoZone:
		return "has no zone such as Z or +01:00"
	case LeapSecond:
		return "is a leap second"
	case NotUTF8:
		return "is not UTF-8"
	case LoneSurrogate:
		return "has half of a surrogate pair"
	case HasNUL:
		return "has a NUL, which the target cannot store"
	case NotFinite:
		return "is not finite, which the target cannot store"
	case TooLong:
		return "is longer than the target can store"
	case TooDeep:
		return "has more levels than the target can store"
	}
	return "does not fit"
}
