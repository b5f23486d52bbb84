package mapping

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/members"
)

// Encoder makes records of Go values as [From] does, for one type that is known before the first value. It inspects the type once. After that, records
// of bools, numbers, texts, times and byte slices, and of structs, pointers, slices and arrays of these, cost no reflection and no memory. Types with
// their own MarshalJSON or MarshalText cost only the memory that the method allocates. The Encoder uses encoding/json only for maps, interfaces,
// recursive types, and json.Number.
//
// An Encoder is immutable and safe for concurrent use.
type Encoder[T any] struct {
	append appendValue
	typ    reflect.Type // of the struct
	// pointers is the number of pointers from T to the struct.
	pointers int
	fields   fieldValues
	layout   *members.Layout
}

// NewEncoder returns the encoder of T, which is a struct, or a pointer to one, that [ColumnsOf] accepts. Its error names each field that has no JSON.
func NewEncoder[T any]() (*Encoder[T], error) {
	t := reflect.TypeFor[T]()
	if _, err := columnsOf(t); err != nil {
		return nil, err
	}
	e := &Encoder[T]{append: appenderOf(t, map[reflect.Type]bool{}), typ: t}
	for e.typ.Kind() == reflect.Pointer {
		e.typ = e.typ.Elem()
		e.pointers++
	}
	e.fields, e.layout = fieldsOf(e.typ)
	return e, nil
}

// Set resets a record and makes v its document. The record holds v itself. As with [From], v and the values that it points to must not change until
// the record was mapped. A nil v is null. Repeated calls with one record allocate nothing.
//
// From(v) gives the same rows, byte for byte. Typed columns of fields do not encode the whole value. So a field without JSON, such as NaN, rejects the
// record only if a column reads the field or the whole value.
func (e *Encoder[T]) Set(r *Record, v *T) {
	d, ok := r.Document.(*encoded[T])
	r.Reset()
	if !ok {
		d = new(encoded[T])
	}
	if d.by != e {
		d.by = e
	}
	d.v, d.at = v, unsafe.Pointer(v)
	for range e.pointers {
		if d.at != nil {
			d.at = *(*unsafe.Pointer)(d.at)
		}
	}
	r.Document = d
}

// Check reports the columns that the values of T can never fill. The path of such a column begins with no field of T and has no default, or the type of
// the column never accepts the kind of the field, such as a bool for a timestamp. The error joins one error for each column.
func (e *Encoder[T]) Check(columns Columns) error {
	fields := make(map[string]jsonField)
	for _, f := range jsonFields(e.typ) {
		fields[f.name] = f
	}
	var problems []error
	for _, c := range columns {
		if c.Type != TypePath || c.Default != nil {
			continue
		}
		path, err := ParsePath(c.Path)
		if err != nil || path.Len() == 0 {
			continue // Compile reports a path that is malformed
		}
		name, _ := path.Step(0)
		f, ok := fields[name]
		switch {
		case !ok && c.ElsePath == "" && !c.ElseArrival:
			err = fmt.Errorf("no field of %s writes %q; add the field, or give the column a default", e.typ, name)
		case ok && path.Len() == 1:
			err = f.fits(c)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("column %q: path %q: %w", c.Name, c.Path, err))
		}
	}
	return errors.Join(problems...)
}

// fits returns an error if a column can never accept the values of a field. It tries a value of each JSON kind that the field may have.
func (f jsonField) fits(c Column) error {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var sample string
	switch typ, nullable := goType(t); {
	case f.quoted:
		return nil
	case typ == datatype.Bool:
		sample = "true"
	case typ == datatype.Int64 || typ == datatype.Float64 || typ == datatype.Decimal(20, 0):
		sample = "1"
	case typ == datatype.JSON && !nullable && t.Kind() == reflect.Struct && !isNull(t):
		sample = "{}"
	default: // texts of many forms, and kinds that depend on the value
		return nil
	}
	options := c.TypeOptions
	options.ElsePath, options.ElseArrival = "", false
	m, err := Compile(Columns{UUID("id"), {Type: TypePath, Name: "value", DataType: c.DataType, TypeOptions: options}}, Options{})
	if err != nil {
		return nil // Compile reports it with the other columns
	}
	var fail *Error
	if _, err := m.AppendRow(nil, JSON([]byte(sample))); errors.As(err, &fail) && (fail.Reason == WrongKind || fail.Reason == NeedsUnit) {
		return fmt.Errorf("field %s has the type %s, and a column of type %s never accepts it (%s)", f.Name, f.Type, c.DataType, fail.Reason)
	}
	return nil
}

// encoded is the [Document] of a value.
type encoded[T any] struct {
	by *Encoder[T]
	v  *T
	at unsafe.Pointer // the struct, or nil if there is none
}

// AppendJSON implements [Document].
func (d *encoded[T]) AppendJSON(dst []byte) ([]byte, error) {
	if d.v == nil {
		return append(dst, "null"...), nil
	}
	out, err := d.by.append(dst, unsafe.Pointer(d.v))
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Layout implements fieldsDocument.
func (d *encoded[T]) Layout() *members.Layout { return d.by.layout }

// AppendValue implements fieldsDocument.
func (d *encoded[T]) AppendValue(dst []byte, number int) ([]byte, FieldKind) {
	if d.at == nil {
		return dst, fieldUnknown
	}
	return d.by.fields[number-1].append(dst, d.at)
}

// Nanos implements fieldsDocument.
func (d *encoded[T]) Nanos(number int) uint64 {
	f := &d.by.fields[number-1]
	at := unsafe.Pointer(nil)
	if d.at != nil {
		at = f.at(d.at)
	}
	if f.pointer && at != nil {
		at = *(*unsafe.Pointer)(at)
	}
	if at == nil {
		return 0
	}
	const year2262, day = 9_214_646_400, 24 * 60 * 60
	if _, zone := (*time.Time)(at).Zone(); zone%60 != 0 || zone <= -day || zone >= day {
		return 0 // RFC 3339 has no seconds in a zone, so the text is a different time
	}
	if s := (*time.Time)(at).Unix(); s > 0 && s < year2262 {
		return uint64((*time.Time)(at).UnixNano())
	}
	return 0
}
