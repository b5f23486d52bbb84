package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
)

// SchemaError says that a table has other columns than the file or definition. Rows keep the table and the columns that they were
// mapped for, so rows that wait stay where they are until the table has these columns again. A changed definition helps new rows only.
type SchemaError struct {
	// Table is the table's id.
	Table string
	// Want has the columns of the definition and Got the columns of the table, with the types that the target knows. For a table with
	// Extend they are the conflicting columns.
	Want, Got []datatype.Column
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("table %q: columns differ: %s. Rows that already wait need the table changed. For new rows, %s", e.Table, e.difference(), e.advice())
}

// schemaErrorNames is how many columns of a kind the text of a SchemaError names. A log line has room for that many.
const schemaErrorNames = 50

// difference names the columns that only one of the two has and the columns that the table cannot take, or else the
// columns at another position.
func (e *SchemaError) difference() string {
	var parts []string
	missing := func(who string, of, in []datatype.Column) {
		var names []string
		for _, c := range of {
			if celltype.Place(in, c.Name) < 0 {
				names = append(names, fmt.Sprintf("%q", c.Name))
			}
		}
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf("the %s has no %s", who, firstNames(names)))
		}
	}
	missing("table", e.Want, e.Got)
	missing("mapping", e.Got, e.Want)
	var conflicts []string
	for _, c := range e.conflicts() {
		text := fmt.Sprintf("the column %q is %s in the mapping and %s in the table", c.want.Name, kindOf(c.want), kindOf(c.got))
		if c.got.Type == datatype.Untyped {
			text += ", which keeps it as text"
		}
		conflicts = append(conflicts, text)
	}
	if len(conflicts) > 0 {
		parts = append(parts, firstNames(conflicts))
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	for i, want := range e.Want {
		if i < len(e.Got) && e.Got[i].Name != want.Name {
			parts = append(parts, fmt.Sprintf("column %d is %q in the mapping and %q in the table", i+1, want.Name, e.Got[i].Name))
		}
	}
	if len(parts) > 0 {
		return firstNames(parts)
	}
	return fmt.Sprintf("their number: %d in the mapping, %d in the table", len(e.Want), len(e.Got)) // a name stands twice
}

// firstNames joins a list up to schemaErrorNames.
func firstNames(list []string) string {
	if more := len(list) - schemaErrorNames; more > 0 {
		list = append(list[:schemaErrorNames:schemaErrorNames], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// columnConflict is a column whose values the table cannot take, with the column of the table.
type columnConflict struct{ want, got datatype.Column }

// nullable reports whether the types agree, and only NULL does not fit.
func (c columnConflict) nullable() bool { return c.got.Type.Holds(c.want.Type) }

func (e *SchemaError) conflicts() (list []columnConflict) {
	for _, want := range e.Want {
		if i := celltype.Place(e.Got, want.Name); i >= 0 && (!e.Got[i].Type.Holds(want.Type) || e.Got[i].Required && !want.Required) {
			list = append(list, columnConflict{want, e.Got[i]})
		}
	}
	return list
}

// advice says what makes new rows fit. It is about the definition alone, because not every target has tables whose columns can be changed.
func (e *SchemaError) advice() string {
	switch conflicts := e.conflicts(); {
	case len(conflicts) == 0 && e.renamed():
		return "give a renamed column its former name, or the sink another table"
	case len(conflicts) == 0:
		return "give the sink another table, or a mapping whose names, types and order agree with the table"
	case !slices.ContainsFunc(conflicts, func(c columnConflict) bool { return !c.nullable() }):
		return "require these columns in the mapping, or give the sink another table"
	}
	return "give the sink another table, or these columns the types of the table or another name"
}

// renamed reports whether the columns agree but for names that only one of the two has.
func (e *SchemaError) renamed() bool {
	names := 0
	same := slices.EqualFunc(e.Want, e.Got, func(want, got datatype.Column) bool {
		if want.Name == got.Name {
			return true
		}
		names++
		return got.Type.Holds(want.Type) && celltype.Place(e.Got, want.Name) < 0 && celltype.Place(e.Want, got.Name) < 0
	})
	return same && names > 0
}

// CheckNames refuses names of columns that some target could not keep, or would not find again, if the table has types or Extend. It
// refuses two names that differ only in case, and names that are empty, have more than 63 bytes, control characters or a space at an
// end, or begin with _forebay_. It joins all problems.
func (t Table) CheckNames() error {
	if !t.Extend && !slices.ContainsFunc(t.Columns, func(c datatype.Column) bool { return c.Type != datatype.Untyped }) {
		return nil
	}
	var problems []error
	for i, c := range t.Columns {
		problem := celltype.NameProblem(c.Name)
		if other := celltype.Place(t.Columns[:i], c.Name); problem == "" && other >= 0 {
			problem = fmt.Sprintf("differs from %q only in case", t.Columns[other].Name)
			if t.Columns[other].Name == c.Name {
				problem = "is taken"
			}
		}
		if problem != "" {
			problems = append(problems, fmt.Errorf("column %d: the name %q %s", i+1, c.Name, problem))
		}
	}
	return errors.Join(problems...)
}

// HintExtend returns err, an error that a call of target returned for t. If it is a [*SchemaError] that Extend would avoid, the text of the
// result ends with that advice, after the cause.
func (t Table) HintExtend(target Target, err error) error {
	var schema *SchemaError
	if _, ok := target.(Extender); !ok || t.Extend || !errors.As(err, &schema) {
		return err
	}
	grown := Table{ID: schema.Table, Columns: schema.Want, Extend: true}
	if _, conflict := grown.Fit(schema.Got); conflict != nil || grown.CheckNames() != nil {
		return err
	}
	return fmt.Errorf("%w, or set extend so that the table accepts them", err)
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

// Fit compares t with the columns that its table has, in their order, or none for an absent table. It returns the columns that the
// table must have for the rows of t. They begin with its existing columns.
//
// Without t.Extend they are the same. Names and order must agree, the types of the table must hold every value of the types of t,
// and a column that the table requires must be required by t.
//
// With t.Extend columns are matched by name without case, in any order, and new ones are added at the end. A column that is
// required, and that t lacks or may leave NULL, becomes nullable. So is every column that a table gets.
//
// The error is a [*SchemaError].
func (t Table) Fit(have []datatype.Column) ([]datatype.Column, error) {
	if !t.Extend {
		return t.fitExactly(have)
	}
	want := slices.Clone(have)
	fed := make([]bool, len(have)) // the column gets a value from every row of t
	conflict := &SchemaError{Table: t.ID}
	for _, c := range t.Columns {
		switch i := celltype.Place(have, c.Name); {
		case i < 0:
			want = append(want, datatype.Column{Name: c.Name, Type: c.Type})
		case !have[i].Type.Holds(c.Type):
			conflict.Want = append(conflict.Want, c)
			conflict.Got = append(conflict.Got, have[i])
		default:
			fed[i] = c.Required
		}
	}
	if conflict.Want != nil {
		return nil, conflict
	}
	for i := range fed {
		want[i].Required = want[i].Required && fed[i]
	}
	return want, nil
}

func (t Table) fitExactly(have []datatype.Column) ([]datatype.Column, error) {
	if len(have) == 0 {
		return slices.Clone(t.Columns), nil
	}
	if !slices.EqualFunc(have, t.Columns, func(h, c datatype.Column) bool {
		return h.Name == c.Name && h.Type.Holds(c.Type) && (c.Required || !h.Required)
	}) {
		return nil, &SchemaError{Table: t.ID, Want: slices.Clone(t.Columns), Got: slices.Clone(have)}
	}
	return have, nil
}

// Places returns, for each column of a table, the place of its cell in a row of t; -1 where the row has none, which only a table with
// Extend has. have are the columns that [Table.Fit] has returned.
func (t Table) Places(have []datatype.Column) []int {
	places := make([]int, len(have))
	for i := range places {
		places[i] = -1
	}
	for i, c := range t.Columns {
		if at := celltype.Place(have, c.Name); at >= 0 {
			places[at] = i
		}
	}
	return places
}
