package mapping

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping/internal/template"
)

// Type is the kind of a column. It says where its value comes from. The words come from the Stream API, which calls it type.
type Type string

// The kinds of columns of the published service.
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

// Column is the definition of one column. The Stream API reads and writes its JSON form. The constructors set only the fields that the
// kind uses. Every field is a plain value and none is a pointer, because an engine recognises columns that it has compiled by their
// values.
type Column struct {
	// Type is the kind of the column. It decides which of the other fields apply.
	Type Type
	// Name is the column's name in the table, unique in the mapping and not empty.
	Name string

	// Path is the field that a path column stores. See [ParsePath]. The empty path is the whole body.
	Path string
	// Default is the JSON value that a path column stores when the field is missing or unreadable, because the body has no such field,
	// or is malformed, or is neither JSON nor a form. Nil means no default, and the record is then rejected.
	Default json.RawMessage
	// DefaultOnNull makes a path column store Default even for a field that is present but null.
	DefaultOnNull bool
	// RawString makes a path or template column store a JSON string as its plain text, without quotes and escapes.
	// It changes nothing for other values.
	RawString bool

	// Template is the program of a template column.
	Template TemplateSource

	// DataType is the type of the values. The zero value is untyped. The cells have the bytes that the kind of the column says,
	// and no NULL. docs/types.md says which values each type takes. Body columns take string, json and bytes, headers json and
	// string, ip string, uuid uuid and string, datetime timestamp, date and string.
	DataType datatype.Type
	TypeOptions

	// Secret keeps the values of the column out of errors and of [Mapper.Cells], which show *** instead. Of the error of a template
	// they keep only the place. The table has the values. A value that other columns hold too, such as the body, needs the mark there.
	Secret bool
}

// TypeOptions are the options of a column with a [Column.DataType]. The zero value is ready to use.
type TypeOptions struct {
	// Required rejects a record whose value is null or missing, which is NULL otherwise.
	Required bool `json:"required,omitempty"`
	// EmptyIsNull takes the empty text as null, as a form needs it. Without it only string, bytes and json take the empty text.
	EmptyIsNull bool `json:"emptyIsNull,omitempty"`
	// Epoch makes a timestamp take numbers of units since 1970-01-01T00:00:00Z. So does a date with FromTimestamp. An int64 with an Epoch takes
	// times with a zone, and stores how many whole units they are after 1970. It stores numbers as they are. An int64 of nanoseconds
	// reaches from 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z.
	Epoch EpochUnit `json:"epoch,omitempty"`
	// AssumeUTC makes a timestamp, or a date with FromTimestamp, take times without a zone.
	AssumeUTC bool `json:"assumeUtc,omitempty"`
	// ClampLeapSecond makes a timestamp, or a date with FromTimestamp, take a leap second as the last microsecond before it.
	// It is a second 60 at the end of a month in UTC.
	ClampLeapSecond bool `json:"clampLeapSecond,omitempty"`
	// FromTimestamp makes a date accept all values that a timestamp accepts. It stores the date of the moment in UTC.
	FromTimestamp bool `json:"fromTimestamp,omitempty"`
	// NotBefore and NotAfter bound timestamps and dates, in their own syntax, so that a time in a wrong unit is rejected.
	NotBefore string `json:"notBefore,omitempty"`
	NotAfter  string `json:"notAfter,omitempty"`
	// Round makes a decimal take more digits after the point than it has. It rounds to the nearest, halves to the even digit.
	Round bool `json:"round,omitempty"`
	// ParseText makes a json column take a text as a document: "[1]" is stored as an array. Without it a text is a JSON string.
	ParseText bool `json:"parseText,omitempty"`
	// AnyKind makes a string take objects and arrays too, as compact JSON.
	AnyKind bool `json:"anyKind,omitempty"`
	// ElsePath is the path of a second field, for a path column whose own field is null, or missing without a default.
	ElsePath string `json:"elsePath,omitempty"`
	// ElseArrival makes a path column store the arrival time of the record instead of NULL. It applies to timestamps, to
	// dates with FromTimestamp, and to int64 with an Epoch.
	ElseArrival bool `json:"elseArrival,omitempty"`
}

// EpochUnit is the unit of times that are numbers.
type EpochUnit string

// The units. Nothing is guessed from the size of a number.
const (
	EpochSeconds EpochUnit = "s"
	EpochMillis  EpochUnit = "ms"
	EpochMicros  EpochUnit = "us"
	EpochNanos   EpochUnit = "ns"
)

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
func UUID(name string, opts ...ColumnOption) Column {
	return Column{Type: TypeUUID, Name: name}.with(opts)
}

// Datetime returns a column that stores the arrival time in UTC with milliseconds.
func Datetime(name string, opts ...ColumnOption) Column {
	return Column{Type: TypeDatetime, Name: name}.with(opts)
}

// IP returns a column that stores the address of the sender, or nothing if it is unknown.
func IP(name string, opts ...ColumnOption) Column { return Column{Type: TypeIP, Name: name}.with(opts) }

// Body returns a column that stores the unaltered body.
func Body(name string, opts ...ColumnOption) Column {
	return Column{Type: TypeBody, Name: name}.with(opts)
}

// Headers returns a column that stores the request headers as a compact JSON object with sorted names.
func Headers(name string, opts ...ColumnOption) Column {
	return Column{Type: TypeHeaders, Name: name}.with(opts)
}

// Path returns a column that stores one field of the body as JSON. See [ParsePath] for the syntax of path.
func Path(name, path string, opts ...ColumnOption) Column {
	return Column{Type: TypePath, Name: name, Path: path}.with(opts)
}

// Template returns a column that stores the value of a jsonnet program. [Default] and [DefaultOnNull] do not apply, because the
// program has its own defaults.
//
// A template is a jsonnet program (https://jsonnet.org). It reads the record through these functions. Arguments may be passed
// by name:
//
//	Ip()                     the address of the sender
//	Now(format)              the arrival time in UTC, by default as a datetime column; format is for strftime, with %f
//	                         for the milliseconds
//	Body(path, default)      a field of the body; without arguments the whole body
//	BodyStr()                the body as text
//	Header(header, default)  a header by its name in any case; without arguments an object of all headers
//	HeaderStr()              one "name: value" line for each header value, sorted
//
// A missing field or header without a default rejects the record. A default is evaluated only when it is needed.
//
// [Compile] compiles the whole language and its standard library to closures. Nothing is interpreted. Each evaluation has a
// [Budget] and starts from nothing, so a template can neither stall the process nor see another record or an earlier failure.
// import, std.extVar and std.native are not available.
//
// A number, string or object that a program passes on without computing with it is stored exactly as a path column stores it.
// A number that is computed with or compared is a 64-bit float, as everywhere in jsonnet. So is a number written in the
// program.
func Template(name, content string, opts ...ColumnOption) Column {
	return Column{Type: TypeTemplate, Name: name, Template: TemplateSource{Language: "jsonnet", Content: content}}.with(opts)
}

func (c Column) with(opts []ColumnOption) Column {
	for _, o := range opts {
		o(&c)
	}
	return c
}

// InTable returns the column as its table has it. A typed column of the kind uuid or headers is Required, because its cells are
// never NULL.
func (c Column) InTable() datatype.Column {
	typed := c.DataType != datatype.Untyped
	return datatype.Column{Name: c.Name, Type: c.DataType, Required: typed && (c.TypeOptions.Required || c.Type == TypeUUID || c.Type == TypeHeaders)}
}

// Typed returns the columns with a data type for each that has none, the type that fits its kind. This is uuid for uuid,
// timestamp for datetime, string for ip and for texts with RawString, and json for all others.
func (c Columns) Typed() Columns {
	typed := slices.Clone(c)
	for i := range typed {
		col := &typed[i]
		if col.DataType != datatype.Untyped {
			continue
		}
		switch {
		case col.Type == TypeUUID:
			col.DataType = datatype.UUID
		case col.Type == TypeDatetime:
			col.DataType = datatype.Timestamp
		case col.Type == TypeIP, col.RawString:
			col.DataType, col.RawString = datatype.String, false
		default:
			col.DataType = datatype.JSON
		}
	}
	return typed
}

// ColumnOption is an option of a column. [Compile] refuses one that does not apply to the kind or the type of the column.
type ColumnOption func(*Column)

// DataType gives the column a type, such as [datatype.Int64] or datatype.Decimal(10, 2).
func DataType(t datatype.Type) ColumnOption { return func(c *Column) { c.DataType = t } }

// With replaces the options of the column's type.
func With(o TypeOptions) ColumnOption { return func(c *Column) { c.TypeOptions = o } }

// Required rejects records whose value is null or missing.
func Required() ColumnOption { return func(c *Column) { c.TypeOptions.Required = true } }

// Secret keeps the values of the column out of errors and payload tests. See [Column.Secret].
func Secret() ColumnOption { return func(c *Column) { c.Secret = true } }

// Epoch makes a timestamp take numbers in a unit.
func Epoch(unit EpochUnit) ColumnOption { return func(c *Column) { c.TypeOptions.Epoch = unit } }

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
