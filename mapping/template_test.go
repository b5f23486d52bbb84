package mapping

import (
	"errors"
	"fmt"
)

// compileTemplate makes a mapper of one template column. Its error has the faults without the column.
func compileTemplate(content string, opts Options, more ...ColumnOption) (*Mapper, error) {
	m, err := Compile(Columns{Template("t", content, more...)}, opts)
	var faults DefinitionErrors
	if !errors.As(err, &faults) {
		return m, err
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		if errs[i] = f.Err; f.Line > 0 {
			errs[i] = fmt.Errorf("%d:%d: %w", f.Line, f.Col, f.Err)
		}
	}
	return nil, errors.Join(errs...)
}
