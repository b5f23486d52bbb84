package buffer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
)

// SchemaError says that a table's columns are not those of the file or definition. Rows keep
// the table and the columns that they were mapped for, so those that wait stay where they are until the table has these columns
// again. A changed definition helps new rows only.
type SchemaError struct {
	// Table is the table's id.
	Table string
	// Want are the columns of the definition, Got those of the table, with the types that the target knows.
	Want, Got []datatype.Column
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("table %q: columns differ: %s: give the sink another table, or change one of them so that names, types and order agree; rows that wait already need the table changed",
		e.Table, e.difference())
}

// schemaErrorNames is how many columns of each side the text of a SchemaError names.
const schemaErrorNames = 5

// difference names the columns that only one of the two has, or else the first that has another type or stands elsewhere.
func (e *SchemaError) difference() string {
	var parts []string
	missing := func(who string, of, in []datatype.Column) {
		var names []string
		for _, c := range of {
			if column(in, c.Name) == nil {
				names = append(names, fmt.Sprintf("%q", c.Name))
			}
		}
		if more := len(names) - schemaErrorNames; more > 0 {
			names = append(names[:schemaErrorNames], fmt.Sprintf("and %d more", more))
		}
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf("the %s has no %s", who, strings.Join(names, ", ")))
		}
	}
	missing("table", e.Want, e.Got)
	missing("mapping", e.Got, e.Want)
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	for _, want := range e.Want {
		if got := column(e.Got, want.Name); *got != want {
			return fmt.Sprintf("the column %q is %s in the mapping and %s in the table", want.Name, kindOf(want), kindOf(*got))
		}
	}
	for i, want := range e.Want {
		if i < len(e.Got) && e.Got[i] != want {
			return fmt.Sprintf("column %d is %q in the mapping and %q in the table", i+1, want.Name, e.Got[i].Name)
		}
	}
	return fmt.Sprintf("their number: %d in the mapping, %d in the table", len(e.Want), len(e.Got)) // a name stands twice
}

// column returns the column of that name, or nil.
func column(columns []datatype.Column, name string) *datatype.Column {
	if i := slices.IndexFunc(columns, func(c datatype.Column) bool { return c.Name == name }); i >= 0 {
		return &columns[i]
	}
	return nil
}

// kindOf describes a column without its name.
func kindOf(c datatype.Column) string {
	kind := string(c.Type)
	if c.Type == datatype.Untyped {
		kind = "untyped"
	}
	if c.Required {
		kind = "required " + kind
	}
	return kind
}
