package mapping

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/jsontext"
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
// A column has the name of its field in JSON, unless a tag forebay gives a different name. After the name follow the type and
// options of [TypeOptions] by their names in JSON, such as required=false or epoch=ms, or secret for a [Column.Secret]. Without a
// type in its tag a column has the type that fits the field:
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
// A column is Required unless its value can be null or left out. That holds for pointers, interfaces, maps, slices, sql.Null and types like it, types
// that write their own JSON, and fields with omitempty or omitzero. A sql.Null is NULL when it is not valid. It becomes a template
// column, so a pointer costs less.
//
// encoding/json calls a MarshalJSON or MarshalText with a pointer receiver only for values that it can address, so give From a
// pointer to T if the type of a field has such a method. It refuses NaN and infinities, even in a sql.Null, and the record is rejected with
// [InvalidBody].
func ColumnsOf[T any]() (Columns, error) { return columnsOf(reflect.TypeFor[T]()) }

func columnsOf(t reflect.Type) (Columns, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() != reflect.Struct || t == timeType:
		return nil, fmt.Errorf("mapping: %s is not a struct with fields in JSON", t)
	case writesJSON(t) || writesText(t):
		return nil, fmt.Errorf("mapping: %s is not a struct with fields in JSON: it writes itself with MarshalJSON or MarshalText, perhaps of an embedded type", t)
	}
	var columns Columns
	var errs []error
	owners := make(map[string]string) // fields by the names of their columns
	for _, f := range jsonFields(t) {
		c, err := f.column()
		if first := owners[strings.ToLower(c.Name)]; err == nil && c.Name != "" && first != "" {
			err = fmt.Errorf("field %s has a column of the same name %q, perhaps in another case", first, c.Name)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("mapping: field %s of %s: %w", f.Name, t, err))
		case c.Name != "":
			columns = append(columns, c)
			owners[strings.ToLower(c.Name)] = f.Name
		}
	}
	if len(columns) == 0 && errs == nil {
		return nil, fmt.Errorf("mapping: %s has no field that encoding/json writes", t)
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
	quoted   bool   // it is a text that has its JSON
	embeds   []hop  // the embedded structs on the way to it
	fault    error
}

// hop leads from a struct to an embedded struct, perhaps through a pointer.
type hop struct {
	offset  uintptr
	pointer bool
}

// jsonFields returns the fields that encoding/json writes. Of several with one name it returns the one that is embedded least, and of
// those the one with a tag. If still several are left, none.
func jsonFields(t reflect.Type) []jsonField {
	var all []jsonField
	collectFields(&all, t, nil, false, map[reflect.Type]bool{})
	better := func(f, g jsonField) bool { return f.depth < g.depth || f.depth == g.depth && f.tagged && !g.tagged }
	var fields []jsonField
	for i, f := range all {
		hidden := false
		for k, g := range all {
			if k == i || g.name != f.name || better(f, g) {
				continue
			}
			hidden = true
			if f.depth == 0 && g.depth == 0 && !better(g, f) && f.fault == nil {
				f.fault = fmt.Errorf("encoding/json writes neither it nor field %s, because both have the name %q", g.Name, f.name)
			}
		}
		if !hidden || f.fault != nil {
			fields = append(fields, f)
		}
	}
	return fields
}

// collectFields adds the fields of t and of the structs that it embeds. open are the types that it is in.
func collectFields(all *[]jsonField, t reflect.Type, embeds []hop, optional bool, open map[reflect.Type]bool) {
	if open[t] {
		return
	}
	depth := len(embeds)
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
		case tag == "-", !f.IsExported() && !(f.Anonymous && inner.Kind() == reflect.Struct):
			if own := f.Tag.Get("forebay"); own != "" && own != "-" {
				*all = append(*all, jsonField{StructField: f, depth: depth, fault: errors.New("it has a tag forebay, but encoding/json does not write it")})
			}
			continue
		case embedded:
			pointer := f.Type != inner
			collectFields(all, inner, append(slices.Clone(embeds), hop{f.Offset, pointer}), optional || pointer, open)
			continue
		}
		field := jsonField{StructField: f, name: name, depth: depth, tagged: name != "", optional: optional, embeds: embeds}
		switch {
		case name == "":
			field.name = f.Name
		case strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
		}):
			field.fault = fmt.Errorf("encoding/json does not take the name %q of its tag, and would write %q", name, f.Name)
		}
		for opt := range strings.SplitSeq(opts, ",") {
			field.optional = field.optional || opt == "omitempty" || opt == "omitzero"
			field.quoted = field.quoted || opt == "string"
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
	if f.fault != nil {
		return Column{}, f.fault
	}
	c := Column{Type: TypePath, Name: f.name, Path: memberPath(f.name)}
	t, nullable := f.Type, f.optional
	for t.Kind() == reflect.Pointer {
		t, nullable = t.Elem(), true
	}
	if isNull(t) {
		quoted := jsontext.AppendString(nil, c.Path, false)
		c = Template(f.name, fmt.Sprintf("local all = Body(), n = Body(%s, null); if all != null && n != null && n.Valid then n.%s else null", quoted, t.Field(0).Name))
		t, nullable = t.Field(0).Type, true
	}
	var null bool
	c.DataType, null = goType(t)
	c.TypeOptions.Required = !nullable && !null
	err := c.parseTag(tag)
	switch {
	case err != nil:
	case c.DataType == datatype.Untyped:
		err = fmt.Errorf("encoding/json cannot write a %s", t)
	case f.quoted && t.Kind() == reflect.String && t != numberType && !writesJSON(t) && !writesText(t):
		err = errors.New("the option string of its tag json would store the text with quotes and escapes")
	}
	return c, err
}

// parseTag applies a tag forebay, which has a name and options.
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
		case option == "type" && value == "":
			return errors.New("the option type of its tag has no type")
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

// isNull reports whether t is a sql.Null or one of the types like it, which hold a value, and whether it is valid. It is known by its name,
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

func memberPath(name string) string {
	if name != "" && name[0] > '9' && !strings.ContainsAny(name, `.[\`) {
		return name
	}
	return "[" + string(jsontext.AppendString(nil, name, false)) + "]"
}
