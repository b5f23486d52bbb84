package mapping

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/datatype"
)

// columnJSON has the names of the Stream API, and omits the same members. A member that the published service does not have
// is omitted when it is zero. Definitions that do not use it then keep their text, and earlier releases can read them.
type columnJSON struct {
	Type          Type            `json:"type"`
	Name          string          `json:"name"`
	Path          *string         `json:"path,omitempty"`
	Default       json.RawMessage `json:"defaultValue,omitempty"`
	DefaultOnNull bool            `json:"defaultOnNull,omitempty"`
	RawString     *bool           `json:"rawString,omitempty"`
	Template      *TemplateSource `json:"template,omitempty"`
	DataType      datatype.Type   `json:"dataType,omitempty"`
	TypeOptions
	Secret bool `json:"secret,omitempty"`
}

// MarshalJSON writes the column as the Stream API does. It writes only the fields of its type, rawString always for path and
// template columns, defaultValue only when it is set.
func (c Column) MarshalJSON() ([]byte, error) {
	j := columnJSON{Type: c.Type, Name: c.Name, DataType: c.DataType, TypeOptions: c.TypeOptions, Secret: c.Secret}
	switch c.Type {
	case TypePath:
		j.Path, j.Default, j.DefaultOnNull, j.RawString = &c.Path, c.Default, c.DefaultOnNull, &c.RawString
	case TypeTemplate:
		j.Template, j.RawString = &c.Template, &c.RawString
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads the form that MarshalJSON writes. It refuses unknown members, a path column without a path, and a template
// column without a template. The empty path must be written, because it means the whole body. Members that belong to another
// type are kept, and [Compile] refuses them with the other faults. A defaultValue of null is a default, the value null.
func (c *Column) UnmarshalJSON(b []byte) error {
	var j columnJSON
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		name := gjson.GetBytes(b, "name").String()
		if name == "" {
			return fmt.Errorf("mapping: a column: %w", err)
		}
		return fmt.Errorf("mapping: column %q: %w", name, err)
	}
	col := Column{
		Type: j.Type, Name: j.Name, Default: j.Default, DefaultOnNull: j.DefaultOnNull, DataType: j.DataType, TypeOptions: j.TypeOptions, Secret: j.Secret,
	}
	switch {
	case j.Path != nil:
		col.Path = *j.Path
	case j.Type == TypePath:
		return fmt.Errorf("mapping: column %q: path is required for a path column", j.Name)
	}
	switch {
	case j.Template != nil:
		col.Template = *j.Template
	case j.Type == TypeTemplate:
		return fmt.Errorf("mapping: column %q: template is required for a template column", j.Name)
	}
	if j.RawString != nil {
		col.RawString = *j.RawString
	}
	*c = col
	return nil
}
