package sqltail

import "github.com/forebay/forebay/datatype"

// OrderColumn returns the column that a query to copy is ordered by where the database does not tell the order of the imports. It is the column of
// [TimeColumn], else the first column, so that the same query gives the same rows again. It returns "" if no column is known.
func OrderColumn(columns []datatype.Column, names ...string) string {
	if by := TimeColumn(columns, names...); by != "" || len(columns) == 0 {
		return by
	}
	return columns[0].Name
}
