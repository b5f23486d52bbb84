package mapping

import (
	"errors"
	"fmt"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping/internal/template"
)

// Options are the options of [Compile]. The zero value is ready to use.
type Options struct {
	// Budget bounds each evaluation of a template.
	Budget Budget
	// Compat restores the bytes and failures of the published service where this package differs on purpose.
	// docs/internals/compatibility.md lists the differences. Default: false.
	Compat bool
	// Limits describe the values that the tables cannot store. Columns reject such values. An engine adds the limits of its target.
	Limits datatype.Limits
	// slots are shared by the mappers that are compiled with copies of these options, see Shared.
	slots template.Slots
}

// Shared returns options whose mappers share one bound on memory. Of all evaluations over bodies of 64 KiB and more, at most
// GOMAXPROCS run at the same time, and the others wait for the processor. Without it each mapper has its own bound. An engine
// shares one among all its mappers.
func (o Options) Shared() Options {
	o.slots = template.NewSlots()
	return o
}

// Budget bounds one evaluation of a template. Zero fields have their default. A template that needs more fails with
// [BudgetExceeded]. Negative values are refused.
//
// A program that goes through a text or list once costs steps and memory in proportion to its length, even if it asks for the characters,
// elements or members one after the other. The defaults grow with the body, up to 1 MiB, so that a program which makes one list with an
// element for each character can process every body that ingestion accepts. docs/internals/compatibility.md has the cost of each kind of
// program.
type Budget struct {
	// Steps bounds the work. It counts evaluated expressions, and elements and characters that library functions go through.
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
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("mapping: Options.%s is %d, must not be negative", f.name, f.value))
		}
	}
	if err := o.Limits.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("mapping: Options.Limits: %w", err))
	}
	return errors.Join(errs...)
}
