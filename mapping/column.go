package mapping

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/mapping/internal/template"
)

// Type is the type of a column. The values are the words of the Stream API.
type Type string

// The column types of the published service.
const (
	TypeUUID     Type = "uuid"     // a new UUID version 7 for each column and row, ascending
	TypeDatetime Type = "datetime" // arrival time, UTC, 2006-01-02T15:04:05.000Z
	TypeIP       Type = "ip"       // address of the sender
	TypeBody     Type = "body"     // the unaltered body
	TypeHeaders  Type = "headers"  // the request headers as a JSON object
	TypePath     Type = "path"     // one field of the body
	TypeTemplate Type = "template" // the value of a jsonnet program
)

// MaxColumns is the highest number of columns of one mapping.
const MaxColumns = 100

// MaxTemplateLength is the highest number of characters of a template, 4096.
const MaxTemplateLength = template.MaxLength

// Column is the definition of one column. Its JSON form is the one of the Stream API. The constructors set only the fields that
// the type uses. Every field is a plain value and none is a pointer, because an engine recognises columns that it has compiled
// by their values.
type Column struct {
	// Type says what the column stores; it decides which of the other fields apply.
	Type Type
	// Name is the column's name in the table, unique in the mapping and not empty.
	Name string

	// Path is the field that a path column stores. See [ParsePath]. The empty path is the whole body.
	Path string
	// Default is the JSON value that a path column stores when the field is missing or unreadable: the body has no such field,
	// or is malformed, or is neither JSON nor a form. Nil means no default: the record is then rejected.
	Default json.RawMessage
	// DefaultOnNull makes a path column store Default also for a field that is present but null.
	DefaultOnNull bool
	// RawString makes a path or template column store a JSON string as its plain text, without quotes and escapes.
	// It changes nothing for other values.
	RawString bool

	// Template is the program of a template column.
	Template TemplateSource
}

// TemplateSource is the program of a template column.
type TemplateSource struct {
	// Language is "jsonnet".
	Language string `json:"language"`
	// Content is the program: 1 to [MaxTemplateLength] characters.
	Content string `json:"content"`
}

// Columns are the columns of one mapping in the order of the cells of a row.
type Columns []Column

// UUID returns a column that stores a new UUID version 7 for each row. The values of one [Mapper] ascend.
func UUID(name string) Column { return Column{Type: TypeUUID, Name: name} }

// Datetime returns a column that stores the arrival time in UTC with milliseconds.
func Datetime(name string) Column { return Column{Type: TypeDatetime, Name: name} }

// IP returns a column that stores the address of the sender, or nothing if it is unknown.
func IP(name string) Column { return Column{Type: TypeIP, Name: name} }

// Body returns a column that stores the unaltered body.
func Body(name string) Column { return Column{Type: TypeBody, Name: name} }

// Headers returns a column that stores the request headers as a compact JSON object with sorted names.
func Headers(name string) Column { return Column{Type: TypeHeaders, Name: name} }

// Path returns a column that stores one field of the body as JSON. See [ParsePath] for the syntax of path.
func Path(name, path string, opts ...ColumnOption) Column {
	c := Column{Type: TypePath, Name: name, Path: path}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Template returns a column that stores the value of a jsonnet program. [Default] and [DefaultOnNull] do not apply: the
// program has its own defaults.
func Template(name, content string, opts ...ColumnOption) Column {
	c := Column{Type: TypeTemplate, Name: name, Template: TemplateSource{Language: "jsonnet", Content: content}}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// ColumnOption is an option of [Path] or [Template].
type ColumnOption func(*Column)

// Default gives the value that is stored when the field is missing or unreadable. v is encoded by encoding/json, so that a string
// becomes a JSON string and a [json.RawMessage] is taken as it is; [Compile] refuses a value that cannot be encoded.
func Default(v any) ColumnOption {
	return func(c *Column) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			c.Default = json.RawMessage(fmt.Sprintf("%T cannot be encoded as JSON", v))
			return
		}
		c.Default = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
}

// DefaultOnNull makes the default apply also to a field that is present but null.
func DefaultOnNull() ColumnOption { return func(c *Column) { c.DefaultOnNull = true } }

// RawString stores a JSON string as its plain text, without quotes and escapes.
func RawString() ColumnOption { return func(c *Column) { c.RawString = true } }

// columnJSON has the names of the Stream API, and omits what it omits. A member that the published service does not have is
// omitted when it is zero. Definitions that do not use it then keep their text, and earlier releases can read them.
type columnJSON struct {
	Type          Type            `json:"type"`
	Name          string          `json:"name"`
	Path          *string         `json:"path,omitempty"`
	Default       json.RawMessage `json:"defaultValue,omitempty"`
	DefaultOnNull bool            `json:"defaultOnNull,omitempty"`
	RawString     *bool           `json:"rawString,omitempty"`
	Template      *TemplateSource `json:"template,omitempty"`
}

// MarshalJSON writes the column as the Stream API does: only the fields of its type, rawString always for path and
// template columns, defaultValue only when it is set.
func (c Column) MarshalJSON() ([]byte, error) {
	j := columnJSON{Type: c.Type, Name: c.Name}
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
// type are kept, and [Compile] refuses them with the other faults. A defaultValue of null is a default: the value null.
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
	col := Column{Type: j.Type, Name: j.Name, Default: j.Default, DefaultOnNull: j.DefaultOnNull}
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
