// Package celltype converts the text of a value into its canonical text in a cell of a typed column, so that equal values
// are equal bytes.
//
// A value is accepted if it has exactly one reading and the type holds it exactly. Nothing is trimmed, rounded or guessed,
// with two exceptions. A float becomes the nearest double, and a timestamp loses the digits below a microsecond. A [Converter]
// does it for the values of one column, with the options of the column and the limits of its target.
//
// Each function appends the cell to dst and returns it with [OK], or returns dst unchanged with the [Reason] why the value
// does not fit. The text is neither kept nor changed. Only a growing dst allocates. The cost is bounded by the length of the
// text, whatever its exponent.
package celltype

// Reason is the word that says why a value does not fit a type.
type Reason string

// The reasons.
const (
	OK            Reason = ""
	EmptyText     Reason = "emptyText"     // no text at all
	NullValue     Reason = "nullValue"     // no value, where one is required
	WrongKind     Reason = "wrongKind"     // a number, text, boolean, object or array where the type takes none
	Malformed     Reason = "malformed"     // not the syntax of the type
	NotIntegral   Reason = "notIntegral"   // not a whole number
	OutOfRange    Reason = "outOfRange"    // beyond the type: 2^63, the 30th of February, the year 10000
	TooPrecise    Reason = "tooPrecise"    // more digits than the type holds
	NeedsUnit     Reason = "needsUnit"     // a number as a time, without a unit
	NoZone        Reason = "noZone"        // a time without Z or an offset
	LeapSecond    Reason = "leapSecond"    // a second 60
	NotUTF8       Reason = "notUTF8"       // bytes that are not UTF-8
	LoneSurrogate Reason = "loneSurrogate" // half of a surrogate pair
	HasNUL        Reason = "hasNUL"        // a NUL, which the target cannot store
	NotFinite     Reason = "notFinite"     // NaN or an infinity, which the target cannot store
	TooLong       Reason = "tooLong"       // more characters than the type allows, or more bytes than the target does
	TooDeep       Reason = "tooDeep"       // more levels of arrays and objects than the target stores
)
