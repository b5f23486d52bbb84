package mapping

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/jsontext"
)

// ColumnsOf returns a typed column for each field that encoding/json writes of a struct T, in the order of the fields. [From]
// makes records of its values.
//
//	type Order struct {
//		ID    int64           `json:"id"`
//		Total json.Number     `json:"total" forebay:"total,type=decimal(10,2)"`
//		Paid  *time.Time      `json:"paid"`
//		Lines []Line          `json:"lines"`
//		Debug string          `json:"debug" forebay:"-"`
//	}
//
// A column has the name of its field in JSON, unless a tag forebay gives another one. After the name follow the type and options
// of [TypeOptions] by their names in JSON, such as required=false or epoch=ms, or secret for a [Column.Secret]. Without a type in its tag a column has the one of
// the Go type:
//
//	bool, string, float32, float64     bool, string, float64
//	signed and small unsigned integers int64
//	uint, uint64, uintptr              decimal(20,0)
//	time.Time                          timestamp
//	[]byte                             bytes
//	a [16]byte that writes itself      uuid
//	json.Number, and what writes text  string
//	all others                         json
//
// A column is Required unless its value can be null or left out: pointers, interfaces, maps, slices, sql.Null and its kin, what
// writes its own JSON, and fields with omitempty or omitzero. A sql.Null is NULL when it is not valid; it becomes a template
// column, so a pointer costs less.
func ColumnsOf[T any]() (Columns, error) {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || writesJSON(t) || t == timeType {
		return nil, fmt.Errorf("mapping: %s is not a struct with fields in JSON", t)
	}
	var columns Columns
	var errs []error
	for _, f := range jsonFields(t) {
		switch c, err := f.column(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("mapping: field %s of %s: %w", f.Name, t, err))
		case c.Name != "":
			columns = append(columns, c)
		}
	}
	return columns, errors.Join(errs...)
}

// jsonField is a field as encoding/json sees it.
type jsonField struct {
	reflect.StructField
	name     string // in JSON
	depth    int    // how many embedded structs it is in
	tagged   bool   // the name is from a tag
	optional bool   // it may be missing
}

// jsonFields returns the fields that encoding/json writes: of several with one name the one that is embedded least, and of
// those the one with a tag. If still several are left, none.
func jsonFields(t reflect.Type) []jsonField {
	var all []jsonField
	collectFields(&all, t, 0, false, map[reflect.Type]bool{})
	better := func(f, g jsonField) bool { return f.depth < g.depth || f.depth == g.depth && f.tagged && !g.tagged }
	var fields []jsonField
	for i, f := range all {
		hidden := false
		for k, g := range all {
			hidden = hidden || k != i && g.name == f.name && !better(f, g)
		}
		if !hidden {
			fields = append(fields, f)
		}
	}
	return fields
}

// collectFields adds the fields of t and of the structs that it embeds. open are the types that it is in.
func collectFields(all *[]jsonField, t reflect.Type, depth int, optional bool, open map[reflect.Type]bool) {
	if open[t] {
		return
	}
	open[t] = true
	defer delete(open, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		embedded := f.Anonymous && name == "" && inner.Kind() == reflect.Struct
		switch {
		case tag == "-", !f.IsExported() && !embedded:
			continue
		case embedded:
			collectFields(all, inner, depth+1, optional || f.Type != inner, open)
			continue
		}
		field := jsonField{StructField: f, name: name, depth: depth, tagged: name != "", optional: optional}
		if name == "" {
			field.name = f.Name
		}
		for opt := range strings.SplitSeq(opts, ",") {
			field.optional = field.optional || opt == "omitempty" || opt == "omitzero"
		}
		*all = append(*all, field)
	}
}

// column returns the column of a field, without a name if a tag leaves it out.
func (f jsonField) column() (Column, error) {
	tag := f.Tag.Get("forebay")
	if tag == "-" {
		return Column{}, nil
	}
	c := Column{Type: TypePath, Name: f.name, Path: memberPath(f.name)}
	t, nullable := f.Type, f.optional
	for t.Kind() == reflect.Pointer {
		t, nullable = t.Elem(), true
	}
	if isNull(t) {
		quoted := jsontext.AppendString(nil, c.Path, false)
		c = Template(f.name, fmt.Sprintf("local n = Body(%s, null); if n != null && n.Valid then n.%s else null", quoted, t.Field(0).Name))
		t, nullable = t.Field(0).Type, true
	}
	var null bool
	c.DataType, null = goType(t)
	c.TypeOptions.Required = !nullable && !null
	err := c.parseTag(tag)
	if err == nil && c.DataType == datatype.Untyped {
		err = fmt.Errorf("encoding/json cannot write a %s", t)
	}
	return c, err
}

// parseTag applies a tag forebay: a name, and options.
func (c *Column) parseTag(tag string) error {
	name, rest, _ := strings.Cut(tag, ",")
	if name != "" {
		c.Name = name
	}
	for rest != "" {
		end := strings.IndexByte(rest, ',')
		if open := strings.IndexByte(rest, '('); end > open && open >= 0 { // decimal(10,2)
			if end = strings.IndexByte(rest[open:], ')'); end >= 0 {
				end += open + 1
			}
		}
		if end < 0 || end > len(rest) {
			end = len(rest)
		}
		option, value, given := strings.Cut(rest[:end], "=")
		rest = strings.TrimPrefix(rest[end:], ",")
		switch {
		case option == "type":
			c.DataType = datatype.Type(value)
			if err := c.DataType.Validate(); err != nil {
				return err
			}
			continue
		case option == "secret" && !given:
			c.Secret = true
			continue
		case !given:
			value = "true"
		case value != "true" && value != "false":
			value = string(jsontext.AppendString(nil, value, false))
		}
		dec := json.NewDecoder(strings.NewReader(fmt.Sprintf("{%q:%s}", option, value)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c.TypeOptions); err != nil {
			return fmt.Errorf("the option %q of its tag: %w", option, err)
		}
	}
	return nil
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	numberType = reflect.TypeFor[json.Number]()
	jsonWriter = reflect.TypeFor[json.Marshaler]()
	textWriter = reflect.TypeFor[encoding.TextMarshaler]()
)

func writesJSON(t reflect.Type) bool {
	return t.Implements(jsonWriter) || reflect.PointerTo(t).Implements(jsonWriter)
}

func writesText(t reflect.Type) bool {
	return t.Implements(textWriter) || reflect.PointerTo(t).Implements(textWriter)
}

// isNull reports whether t is a sql.Null or one of the types like it: a value, and whether it is valid. It is known by its name,
// because this package needs nothing else of a driver for databases.
func isNull(t reflect.Type) bool {
	return t.PkgPath() == "database/sql" && strings.HasPrefix(t.Name(), "Null") && t.Kind() == reflect.Struct && t.NumField() == 2 && t.Field(1).Name == "Valid"
}

// goType returns the data type of what encoding/json writes of a Go type, and whether that can be null. It is untyped if there is
// none.
func goType(t reflect.Type) (_ datatype.Type, nullable bool) {
	switch {
	case t == timeType:
		return datatype.Timestamp, false
	case t == numberType:
		return datatype.String, false
	case t.Kind() == reflect.Array && t.Len() == 16 && t.Elem().Kind() == reflect.Uint8 && writesText(t):
		return datatype.UUID, false
	case writesJSON(t):
		return datatype.JSON, true
	case writesText(t):
		return datatype.String, t.Kind() == reflect.Interface
	}
	switch t.Kind() {
	case reflect.Bool:
		return datatype.Bool, false
	case reflect.String:
		return datatype.String, false
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return datatype.Int64, false
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return datatype.Decimal(20, 0), false
	case reflect.Float32, reflect.Float64:
		return datatype.Float64, false
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !writesJSON(e) && !writesText(e) {
			return datatype.Bytes, true
		}
		return datatype.JSON, true
	case reflect.Map, reflect.Interface:
		return datatype.JSON, true
	case reflect.Struct, reflect.Array:
		return datatype.JSON, false
	}
	return datatype.Untyped, false
}

// memberPath returns the path of a member of the body.
func memberPath(name string) string {
	if name != "" && name[0] > '9' && !strings.ContainsAny(name, `.[\`) {
		return name
	}
	return "[" + string(jsontext.AppendString(nil, name, false)) + "]"
}
