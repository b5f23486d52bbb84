// Package template compiles jsonnet programs to closures over an [Event] and evaluates them within a [Budget].
//
// [Compile] parses the text with the reference implementation, which also desugars it, and turns the tree into closures
// (compile.go, calls.go, operators.go). A [Program] runs on a machine (machine.go), which counts the cost and makes the
// strings. Values are lazy (value.go). Objects are bound late (object.go). The standard library is written in Go (std_*.go)
// where that is faster, and otherwise compiled from the library's own text (std.go).
//
// With the build tag forebay_notemplates the package has no jsonnet in it, and [Compile] refuses each text (none.go).
package template

import (
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// MaxLength is the highest number of characters of a template.
const MaxLength = 4096

// Event is the record that a program reads. What its methods return must not change during the evaluation. An error ends
// the evaluation and becomes [Error.Err].
type Event interface {
	// Size is the number of bytes of the body as it was received, which default budgets grow with.
	Size() int
	// AppendIP appends the text of Ip().
	AppendIP(dst []byte) []byte
	// AppendTime appends the text of Now() without a format.
	AppendTime(dst []byte) []byte
	// Time is the time that Now(format) formats. The zero time gives the empty text.
	Time() time.Time
	// BodyBytes returns the text of BodyStr(), which may be invalid UTF-8.
	BodyBytes() ([]byte, error)
	// Body returns the parsed body.
	Body() (*tape.Tape, error)
	// AppendField reads a single field where the event can do so without Body. Path has at least one step.
	AppendField(dst []byte, path *tape.Path) ([]byte, FieldKind)
	// Missing returns the error of Body(path) without a default when the body has no such field.
	Missing(path *tape.Path) error
	// Header returns the value of a header by its canonical name.
	Header(name string) (value string, ok bool)
	// MissingHeader returns the error of Header(name) without a default when there is no such header.
	MissingHeader(name string) error
	// Headers yields the name and the value of each header.
	Headers() iter.Seq2[string, string]
	// HeaderText returns the text of HeaderStr(), which may be invalid UTF-8.
	HeaderText() string
}

// FieldKind says how [Event.AppendField] found a field.
type FieldKind uint8

const (
	// FieldUnknown means that the event gives no single fields. Body has the result.
	FieldUnknown FieldKind = iota
	// FieldMissing means that there is no such field.
	FieldMissing
	// FieldNull means that the value is null. Nothing was appended.
	FieldNull
	// FieldText means that the plain text of a string was appended, which may be invalid UTF-8.
	FieldText
	// FieldJSON means that a value was appended as JSON.
	FieldJSON
)

// HeaderReads are headers that something reads.
type HeaderReads struct {
	// All is set when it may read every header.
	All bool
	// Names are the canonical names of single ones. A name may be there twice.
	Names []string
}

// Options are the options of [Compile], documented at mapping.Options.
type Options struct {
	Budget Budget // of each evaluation
	Compat bool   // give the bytes and failures of the published service
	Slots  Slots  // of evaluations over large bodies, and nil means no bound
}

// Slots bound how many evaluations over large bodies run at the same time. Each may take many times its body. They
// wait for nothing but the processor, so more of them than processors would take memory and gain no time. Programs that were
// compiled with the same Slots share them.
type Slots chan struct{}

// NewSlots returns a slot for each processor.
func NewSlots() Slots { return make(Slots, runtime.GOMAXPROCS(0)) }

// Budget bounds one evaluation. Zero fields have their default. mapping.Budget documents it.
type Budget struct{ Steps, Depth, Memory, Output int }

// Fault says why a template is refused, with the place in the user's text.
type Fault struct {
	// Line and Col count from 1; Col counts characters. Both are 0 when the fault has no place.
	Line, Col int
	// Msg describes the fault.
	Msg string
}

// Error is the failure of an evaluation.
type Error struct {
	// Kind is the reaction that the failure calls for.
	Kind ErrorKind
	// Err is the cause. When Kind is Unreadable it is the error of the event, unchanged.
	Err error
	// Next is what to do, if there is more to say than what Err tells.
	Next string
	// At is the expression that failed, or zero for a value that cannot be written as JSON.
	At Spot
}

// ErrorKind is the kind of an [Error].
type ErrorKind uint8

const (
	Failed     ErrorKind = iota // the program raised an error, such as a wrong type
	Exceeded                    // the program needs more than its budget
	Unreadable                  // the event gave an error
)

// Spot is a place in a template, for error messages.
type Spot struct {
	// Line and Col count from 1; Col counts characters. Both are 0 where there is no place.
	Line, Col int
	// Expr is the expression that stands there, cut to 60 characters and one line.
	Expr string
}

// String returns the place as it stands in error messages, for example 2:14.
func (s Spot) String() string { return fmt.Sprintf("%d:%d", s.Line, s.Col) }
