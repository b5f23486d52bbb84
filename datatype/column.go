package datatype

import (
	"encoding/json"
	"fmt"
)

// Column is one column of a table. Columns are compared with ==.
//
// In JSON an untyped column is its name, and any other an object with name, type and required.
type Column struct {
	// Name is the column's name as it was defined.
	Name string
	// Type is the type of its values.
	Type Type
	// Required says that no value is NULL. A table that gets the column later holds NULL in its older rows, so a target adds
	// it as nullable.
	Required bool
}

// columnObject is the JSON of a column that has more than a name.
type columnObject struct {
	Name     string `json:"name"`
	Type     Type   `json:"type,omitempty"`
	Required bool   `json:"required,omitempty"`
}

// String returns the name and the type, as messages show them.
func (c Column) String() string {
	s := fmt.Sprintf("%q", c.Name)
	if c.Type != Untyped {
		s += " " + string(c.Type)
	}
	if c.Required {
		s += " required"
	}
	return s
}

// MarshalJSON implements [json.Marshaler].
func (c Column) MarshalJSON() ([]byte, error) {
	if c == (Column{Name: c.Name}) {
		return json.Marshal(c.Name)
	}
	return json.Marshal(columnObject(c))
}

// UnmarshalJSON implements [json.Unmarshaler]. It does not validate the type, because a reader may show types that it does
// not know.
func (c *Column) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*c = Column{}
		return json.Unmarshal(b, &c.Name)
	}
	var o columnObject
	err := json.Unmarshal(b, &o)
	*c = Column(o)
	return err
}

// UntypedColumns returns one untyped column a name.
func UntypedColumns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns
}

// Names returns the names of columns. The caller owns the slice.
func Names(columns []Column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}
