package tables

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// Mapping is the form in which the buffer keeps the columns of a table with Extend, so that they stay in use after a restart whose definition is
// refused. Other tables have none.
func Mapping(table driver.Table, columns mapping.Columns) []byte {
	if !table.Extend {
		return nil
	}
	text, err := json.Marshal(columns)
	if err != nil {
		return nil // columns that were compiled have a JSON form
	}
	return text
}

// Last returns the columns of a sink that were accepted last, and the columns of its table that they made. It returns false if the sink had another
// table, or if one of the tables is without Extend.
func (t Tables) Last(id string, table driver.Table) (columns mapping.Columns, made []datatype.Column, ok bool) {
	if !table.Extend {
		return nil, nil, false
	}
	before, known := t.Buffer.Sink(id).Table()
	if !known || !before.Extend || !same(before, table) {
		return nil, nil, false
	}
	err := json.Unmarshal(t.Buffer.Sink(id).Mapping(), &columns)
	return columns, before.Columns, err == nil
}

// Renames describes the columns that differ from columns before in their name alone. Nothing else follows from it. Values are never moved from one
// column to another.
func Renames(before, columns mapping.Columns) (renames []string) {
	has := func(columns mapping.Columns, name string) bool {
		return slices.ContainsFunc(columns, func(c mapping.Column) bool { return strings.EqualFold(c.Name, name) })
	}
	unnamed := func(c mapping.Column) string {
		c.Name = ""
		text, _ := json.Marshal(c) // columns that were compiled have a JSON form
		return string(text)
	}
	for _, c := range columns {
		for _, old := range before {
			if !has(before, c.Name) && !has(columns, old.Name) && unnamed(c) == unnamed(old) {
				renames = append(renames, old.Name+" → "+c.Name)
			}
		}
	}
	return renames
}
