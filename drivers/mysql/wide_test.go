package mysql

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

// wide returns a table with n columns of a type, and a row of equal cells.
func wide(id string, n int, typ datatype.Type, cell string) (tab driver.Table, row []string) {
	tab.ID = id
	for i := range n {
		tab.Columns = append(tab.Columns, col(fmt.Sprintf("c%d", i), typ))
		row = append(row, cell)
	}
	return tab, row
}

// Tables with as many columns as the server stores are filled. More columns are refused for good, with a reason.
func TestWideTables(t *testing.T) {
	target := open(t, Options{})
	for id, c := range map[string]struct {
		columns int
		typ     datatype.Type
		cell    string
	}{
		"flags": {maxColumns, datatype.Bool, "true"}, "numbers": {997, datatype.Int64, "-7"}, "texts": {383, datatype.String, "x"}, "untyped": {383, datatype.Untyped, "x"},
	} {
		tab, row := wide(id, c.columns, c.typ, c.cell)
		mustEnsure(t, target, tab)
		mustImport(t, target, newFile(id, tab, row))
		expectRows(t, target, id, row)

		message := "do not fit into a row"
		if c.columns == maxColumns {
			message = "would have 1018 columns"
		}
		more, _ := wide(id+"_new", c.columns+1, c.typ, "")
		drivertest.Permanent(t, id, target.Ensure(t.Context(), more), message, id+"_new")
		if c.columns == maxColumns { // Of a table that grows, the server checks the size of each row.
			more.ID, more.Extend = id, true
			drivertest.Permanent(t, id+", longer", target.Extend(t.Context(), more), message, id)
			expectRows(t, target, id, row)
		}
	}
}
