package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/driverkit/textcut"
)

// Reason tells why a record cannot be mapped. The reaction is the same for all. Reject the record, because it will fail again.
type Reason uint8

const (
	// MissingValue means that a path column, Body(path) or Header(name) without a default found nothing.
	MissingValue Reason = iota + 1
	// InvalidBody means that the body is malformed JSON, or a malformed form.
	InvalidBody
	// UnsupportedBody means that a column needs a field, but the body is neither JSON nor a form.
	UnsupportedBody
	// TemplateFailed means that a template raised its own error, such as a wrong type.
	TemplateFailed
	// BudgetExceeded means that a template needed more steps, memory, depth or output than its [Budget] allows.
	BudgetExceeded

	// The reasons of typed columns. For a missing value that is [Required] it is MissingValue.

	// NullValue means that the value is null, and the column is [Required].
	NullValue
	// EmptyText means that the type does not take the empty text. [TypeOptions.EmptyIsNull] makes it NULL.
	EmptyText
	// WrongKind means that the type does not take a number, text, boolean, object or array.
	WrongKind
	// Malformed means that the text is not written as the type demands.
	Malformed
	// NotIntegral means that the number is not whole.
	NotIntegral
	// OutOfRange means that the type has no such value, or it is outside of NotBefore and NotAfter or of the years of the target.
	OutOfRange
	// TooPrecise means that the number has more digits after the point than the type.
	TooPrecise
	// NeedsUnit means that a number cannot be a time without [TypeOptions.Epoch].
	NeedsUnit
	// NoZone means that the time has no zone. [TypeOptions.AssumeUTC] takes it as UTC.
	NoZone
	// LeapSecond means that the second is 60. [TypeOptions.ClampLeapSecond] takes leap seconds.
	LeapSecond
	// NotUTF8 means that the text has bytes that are not UTF-8.
	NotUTF8
	// LoneSurrogate means that the text has half of a surrogate pair.
	LoneSurrogate
	// HasNUL means that the target does not store NUL.
	HasNUL
	// NotFinite means that the target does not store NaN and infinities.
	NotFinite
	// TooLong means that the cell is larger than the target stores.
	TooLong
	// TooDeep means that the document has more levels than the target stores.
	TooDeep
)

// reasonWords are the reasons as words. Reasons of typed columns have the words of package celltype.
var reasonWords = [...]string{
	"unknown", "missingValue", "invalidBody", "unsupportedBody", "templateFailed", "budgetExceeded",
	"nullValue", "emptyText", "wrongKind", "malformed", "notIntegral", "outOfRange", "tooPrecise", "needsUnit", "noZone", "leapSecond",
	"notUTF8", "loneSurrogate", "hasNUL", "notFinite", "tooLong", "tooDeep",
}

// String returns the reason as a word for counters and messages, for example "missingValue".
func (r Reason) String() string {
	if int(r) < len(reasonWords) {
		return reasonWords[r]
	}
	return reasonWords[0]
}

// Error says that a record cannot become a row. It names the column and the fault. From the record it quotes only a value that
// does not fit the type of its column, and the text that a template puts into its own error.
type Error struct {
	// Column is the name of the column that failed.
	Column string
	// Reason is the kind of the failure.
	Reason Reason
	// Err is the cause, never nil.
	Err error
	// At is the expression that failed in a template. It is zero for other columns, and for a value that has no JSON form.
	At Spot
	// Type is the data type of the column.
	Type datatype.Type
	// Value is the value that does not fit the type, cut to 64 bytes; *** in a [Column.Secret]. It is empty for other failures.
	Value string

	next string // what to do, if Err does not say it
}

// Error returns the column, the place in its template, the cause and the expression, for example
// column "total": 2:14: unexpected type null, expected number, in x * 1.2.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Column != "" {
		fmt.Fprintf(&b, "column %q: ", e.Column)
	}
	if e.At.Line > 0 {
		fmt.Fprintf(&b, "%v: ", e.At)
	}
	b.WriteString(e.Err.Error())
	if e.At.Expr != "" {
		b.WriteString(", in " + e.At.Expr)
	}
	if e.next != "" {
		b.WriteString("; " + e.next)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// in returns a copy of e for a column. The failure to read a body is shared by all columns that need it.
func (e *Error) in(c *cell) *Error {
	own := *e
	own.Column = c.name
	if c.typed != nil {
		own.Type = c.typed.typ
	}
	if c.secret {
		own.hide(c)
	}
	return &own
}

// hidden stands for the values of a secret column.
const hidden = "***"

var errHidden = errors.New("the template failed; its message is not shown, because the column is secret")

// hide takes out of e what may be a value of its column.
func (e *Error) hide(c *cell) {
	m, misfits := e.Err.(*misfitError)
	switch {
	case misfits:
		e.Value, e.Err = hidden, &misfitError{m.typ, m.why, m.kind, hidden}
	case c.prog != nil:
		e.Err = errHidden
	}
}

// maxQuoted bounds what an error quotes of a value.
const maxQuoted = 64

// misfit is the error of a value that does not fit a type.
func misfit(t datatype.Type, why celltype.Reason, k celltype.Kind, text []byte) *Error {
	value := string(textcut.Head(text, maxQuoted))
	return &Error{Reason: Reason(slices.Index(reasonWords[:], string(why))), Value: value, Err: &misfitError{t, why, k, strconv.Quote(value)}}
}

// misfitError is the cause of an Error about a value that does not fit a type.
type misfitError struct {
	typ   datatype.Type
	why   celltype.Reason
	kind  celltype.Kind
	shown string // the value, quoted
}

func (e *misfitError) Error() string {
	text := fmt.Sprintf("%s: %s: %s %s", e.typ, e.why, e.shown, celltype.Explain(e.why, e.typ, e.kind))
	if e.why == celltype.OutOfRange {
		text += "; send another value, or give the column another type"
	}
	return text
}

// RowTooLargeError rejects a record whose row is larger than the engine allows. Sending the record again is useless.
type RowTooLargeError struct {
	// Size of the encoded row and Limit are in bytes.
	Size, Limit int
}

func (e *RowTooLargeError) Error() string {
	return fmt.Sprintf("the row has %d bytes, at most %d are allowed: send a smaller record, or raise the limit of a row", e.Size, e.Limit)
}

// Spot is a place in a template.
type Spot struct {
	// Line and Col count from 1; Col counts characters. Both are 0 where there is no place.
	Line, Col int
	// Expr is the expression that stands there, cut to 60 characters and one line.
	Expr string
}

// String returns the place as it stands in error messages, for example 2:14.
func (s Spot) String() string { return fmt.Sprintf("%d:%d", s.Line, s.Col) }

// DefinitionError is one fault of a mapping's definition, found by [Compile].
type DefinitionError struct {
	// Index is the position of the column, from 0, or -1 for a fault of the whole mapping. Column is its name.
	Index  int
	Column string
	// Field is the field at fault under its name in the Stream API, for example "rawString" or "template.content". The name is
	// the name in [Column] with a small first letter, except for Default, which is "defaultValue".
	Field string
	// Line and Col are the place in the path or template, both from 1, or 0 when the fault has no place.
	Line, Col int
	// Err is the fault.
	Err error
}

func (e *DefinitionError) Error() string {
	var b strings.Builder
	if e.Index >= 0 {
		fmt.Fprintf(&b, "column %d (%q): ", e.Index+1, e.Column)
	}
	b.WriteString(e.Field)
	if e.Field == "defaultValue" {
		b.WriteString(" (Default)")
	}
	switch {
	case e.Line > 0 && e.Field == "path":
		fmt.Fprintf(&b, ":%d", e.Col)
	case e.Line > 0:
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the fault.
func (e *DefinitionError) Unwrap() error { return e.Err }

// DefinitionErrors are all faults of one definition, in the order of the columns.
type DefinitionErrors []*DefinitionError

func (e DefinitionErrors) Error() string {
	lines := make([]string, len(e))
	for i, d := range e {
		lines[i] = d.Error()
	}
	return "mapping: " + strings.Join(lines, "\nmapping: ")
}

// Unwrap returns the faults for [errors.As].
func (e DefinitionErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, d := range e {
		errs[i] = d
	}
	return errs
}
