// Package celltype converts the text of a value into the one text that stands for it in a cell of a typed column, so that
// equal values are equal bytes.
//
// A value is accepted if it has exactly one reading and the type holds it exactly. Nothing is trimmed, rounded or guessed.
// There are two exceptions: a float takes the nearest double, and a timestamp drops the digits below a microsecond.
//
// Each function appends the cell to dst and returns it with [OK], or returns dst unchanged with the [Reason] for which the value does
// not fit. Text is neither kept nor changed, and nothing is allocated unless dst has to grow. The cost is bounded by the length of the text, whatever
// its exponent says.
package celltype

// Reason says in one word why a value does not fit a type.
type Reason string

// The reasons.
const (
	OK          Reason = ""
	EmptyText   Reason = "emptyText"   // there is no text at all
	NullValue   Reason = "nullValue"   // there is no value, where callers want one
	Malformed   Reason = "malformed"   // the text is not written in the way of the type
	NotIntegral Reason = "notIntegral" // a whole number is wanted
	OutOfRange  Reason = "outOfRange"  // beyond the type, such as 2^63, the 30th of February, the year 10000
	TooPrecise  Reason = "tooPrecise"  // more digits than the type keeps
	NoZone      Reason = "noZone"      // a time without Z or an offset
	LeapSecond  Reason = "leapSecond"  // a minute with a second 60
	NotUTF8     Reason = "notUTF8"     // bytes that are no text
	TooLong     Reason = "tooLong"     // more characters than the type has
)
