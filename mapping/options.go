package mapping

import (
	"errors"
	"fmt"

	"github.com/forebay/forebay/mapping/internal/template"
)

// Options are the options of [Compile]. The zero value is ready to use.
type Options struct {
	// Budget bounds each evaluation of a template.
	Budget Budget
	// Compat restores the bytes and failures of the published service where this package differs on purpose.
	// docs/compatibility.md lists the differences. Default: false.
	Compat bool
	// Limits are what the target cannot store. Typed columns reject it. A target cannot set them by itself yet: whoever knows it
	// gives them here, an embedder in forebay.Options.Mapping.
	Limits Limits
	// slots are shared by the mappers that are compiled with copies of these options, see Shared.
	slots template.Slots
}

// Shared returns options whose mappers share one bound on memory: of all evaluations over bodies of 64 KiB and more, at most
// GOMAXPROCS run at the same time, and the others wait for the processor. Without it each mapper has such a bound of its own.
// An engine shares one among all its mappers.
func (o Options) Shared() Options {
	o.slots = template.NewSlots()
	return o
}

// Limits are values of a type that a target cannot store, so that a record with one of them is rejected before it is stored. The
// zero value forbids nothing. Untyped columns have no limits.
type Limits struct {
	// NoNUL rejects NUL in texts, and its escape in JSON.
	NoNUL bool
	// NoNaN rejects NaN and infinities.
	NoNaN bool
	// MinYear and MaxYear bound timestamps and dates. Defaults: 1 and 9999.
	MinYear, MaxYear int
	// MaxCell bounds the bytes of a cell. Zero means no bound.
	MaxCell int
}

// Budget bounds one evaluation of a template; zero fields have their default. A template that needs more fails with
// [BudgetExceeded]. Negative values are refused.
//
// A program that goes through a text or list once costs steps and memory in proportion to its length, also when it asks for
// the characters, elements or members one after the other. The defaults grow with the body, up to 1 MiB, so that a program
// which makes one list with an element for each character takes every body that ingestion accepts. docs/compatibility.md has
// the cost of each kind of program.
type Budget struct {
	// Steps bounds the work: evaluated expressions, and elements and characters that library functions go through.
	// Default: 200 000, and 2 for each byte of the body.
	Steps int
	// Depth bounds nested calls and nested values. Default: 500.
	Depth int
	// Memory bounds the bytes that the values of one evaluation may take, in total. Default: 8 MiB, and 64 bytes for each byte
	// of the body. [Options.Shared] bounds how many evaluations over large bodies run at the same time.
	Memory int
	// Output bounds the bytes of the cell. Default: 1.5 MiB, the size of the largest row.
	Output int
}

// Validate reports every field that is out of its range.
func (o Options) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Budget.Steps", o.Budget.Steps},
		{"Budget.Depth", o.Budget.Depth},
		{"Budget.Memory", o.Budget.Memory},
		{"Budget.Output", o.Budget.Output},
		{"Limits.MinYear", o.Limits.MinYear},
		{"Limits.MaxYear", o.Limits.MaxYear},
		{"Limits.MaxCell", o.Limits.MaxCell},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("mapping: Options.%s is %d, must not be negative", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}
