package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// changedColumn is one difference between two lists of columns.
type changedColumn struct {
	Name string `json:"name"`
	// What is added, removed, changed or moved.
	What   string         `json:"what"`
	Fields []changedField `json:"fields,omitempty"`
}

type changedField struct {
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// tryDiff compares columns with the columns of the sink, and says what its table will make of them.
func (c *request) tryDiff() (any, error) {
	var asked sinkDraft
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	source, sink, version, err := c.sinkNamed(asked.Source, asked.Sink)
	if err != nil {
		return nil, err
	}
	columns := columnsOf(asked.Columns)
	if _, err := c.tryCompile(source.ID, sink.ID, columns); err != nil {
		return nil, refuseColumns(err)
	}
	return map[string]any{
		"version": version, "changes": changesOf(draftOf(sink.Table.Columns), asked.Columns), "warnings": c.warnings(source, sink, columns),
	}, nil
}

// refuseColumns is the refusal of columns that do not compile.
func refuseColumns(err error) error {
	return &refusal{http.StatusUnprocessableEntity, "The columns have errors.", map[string]any{"problems": problemsOf(err)}}
}

// changesOf lists the changes, in the order of the new columns, and then the removed columns.
func changesOf(before, after []draftColumn) []changedColumn {
	changes := []changedColumn{}
	find := func(list []draftColumn, name string) int {
		return slices.IndexFunc(list, func(d draftColumn) bool { return strings.EqualFold(d.Name, name) })
	}
	// A column has moved if the columns in both lists are in another order.
	var kept []int
	for _, d := range after {
		if i := find(before, d.Name); i >= 0 {
			kept = append(kept, i)
		}
	}
	sorted := slices.Sorted(slices.Values(kept))
	at := 0
	for _, d := range after {
		i := find(before, d.Name)
		if i < 0 {
			changes = append(changes, changedColumn{Name: d.Name, What: "added", Fields: fieldsOf(draftColumn{}, d)})
			continue
		}
		moved := at < len(sorted) && sorted[at] != i
		at++
		switch fields := fieldsOf(before[i], d); {
		case len(fields) > 0:
			changes = append(changes, changedColumn{d.Name, "changed", fields})
		case moved:
			changes = append(changes, changedColumn{Name: d.Name, What: "moved"})
		}
	}
	for _, d := range before {
		if find(after, d.Name) < 0 {
			changes = append(changes, changedColumn{Name: d.Name, What: "removed", Fields: fieldsOf(d, draftColumn{})})
		}
	}
	return changes
}

// fieldsOf lists the fields that differ and count for the kind of a column.
func fieldsOf(before, after draftColumn) (fields []changedField) {
	was, is := membersOf(before), membersOf(after)
	names := make(map[string]struct{}, len(is))
	for name := range was {
		names[name] = struct{}{}
	}
	for name := range is {
		names[name] = struct{}{}
	}
	for name := range names {
		if was[name] != is[name] {
			fields = append(fields, changedField{name, was[name], is[name]})
		}
	}
	slices.SortFunc(fields, func(a, b changedField) int { return cmp.Compare(a.Field, b.Field) })
	return fields
}

// membersOf are the members of a column as texts. Members without an effect are left out.
func membersOf(d draftColumn) map[string]string {
	clean := draftOf(mapping.Columns{d.column()})[0]
	var members map[string]any
	if json.Unmarshal(encode(clean), &members) != nil {
		return nil
	}
	texts := make(map[string]string, len(members))
	for name, v := range members {
		if text := fmt.Sprint(v); text != "" && text != "false" {
			texts[name] = text
		}
	}
	return texts
}

// warnings returns known problems of the table without asking the target.
func (c *request) warnings(source forebay.Source, sink forebay.Sink, columns mapping.Columns) []string {
	warnings := []string{}
	before, err := c.tryCompile(source.ID, sink.ID, sink.Table.Columns)
	after, err2 := c.tryCompile(source.ID, sink.ID, columns)
	if err == nil && err2 == nil && !sink.Table.Extend && !slices.Equal(before.Columns(), after.Columns()) {
		warnings = append(warnings, fmt.Sprintf("The table %s would need other columns, and the sink is not set to extend it: the change will be refused unless the table has exactly these columns.", visible(sink.Table.ID)))
	}
	i := slices.IndexFunc(source.Sinks, func(s forebay.Sink) bool { return s.ID == sink.ID })
	if i < 0 {
		return warnings
	}
	source.Sinks = slices.Clone(source.Sinks)
	source.Sinks[i].Table = sink.Table
	source.Sinks[i].Table.Columns = columns
	if d, err := c.eng.Compile(source); err == nil {
		for _, p := range d.Problems() {
			if p.Sink == sink.ID {
				warnings = append(warnings, visible(p.Err.Error()))
			}
		}
	}
	return warnings
}
