package mapping

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// fieldsDocument is a [Document] that gives the values of its fields without their JSON. The documents of an [Encoder] are of this kind.
type fieldsDocument interface {
	Document
	// Layout returns the same value for all documents of a type.
	Layout() *members.Layout
	// AppendValue appends a field as [FieldDocument.AppendField] does. It returns fieldUnknown if only the JSON of the document has the value.
	AppendValue(dst []byte, number int) ([]byte, FieldKind)
	// Nanos returns a field that is a time, in nanoseconds since 1970. It returns 0 if the caller must use AppendValue.
	Nanos(number int) uint64
}

const fieldUnknown FieldKind = 0xff

// fieldValue is the plan of a field of a struct.
type fieldValue struct {
	memberAppender
	pointer bool // to a time
	append  func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind)
}

type fieldValues []fieldValue

// fieldsOf returns the plans of the fields of a struct, and their layout. It returns none for a struct that only encoding/json can write.
func fieldsOf(t reflect.Type) (fields fieldValues, layout *members.Layout) {
	all, _ := membersOf(t, map[reflect.Type]bool{t: true})
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
		f := fieldValue{memberAppender: m, pointer: m.typ.Kind() == reflect.Pointer}
		value := valueOf(m.typ, m.memberValue())
		f.append = func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
			if p = m.at(p); p == nil || m.omit != nil && m.omit(p) {
				return dst, NoField
			}
			return value(dst, p)
		}
		fields = append(fields, f)
	}
	isTime := func(t reflect.Type) bool { return t == timeType || t == reflect.PointerTo(timeType) }
	return fields, members.NewLayout(names, func(number int) (time, shared bool) {
		m := &all[number-1]
		return isTime(m.typ) && m.omit == nil, false
	})
}

// memberValue is the JSON of a field, with quotes if its tag has the option string.
func (m *memberAppender) memberValue() appendValue {
	if !m.quoted {
		return m.append
	}
	return func(dst []byte, p unsafe.Pointer) ([]byte, error) {
		out, err := m.append(append(dst, '"'), p)
		return append(out, '"'), err
	}
}

// valueOf returns the function that appends a value of a type, whose JSON is known.
func valueOf(t reflect.Type, asJSON appendValue) func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
	switch {
	case t == timeType:
		return func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
			out, err := (*time.Time)(p).AppendText(dst)
			if err != nil {
				return dst, fieldUnknown
			}
			return out, FieldText
		}
	case writesJSON(t) || writesText(t):
	case t.Kind() == reflect.Pointer:
		elem := valueOf(t.Elem(), appenderOf(t.Elem(), map[reflect.Type]bool{}))
		return func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
			if p = *(*unsafe.Pointer)(p); p == nil {
				return dst, FieldNull
			}
			return elem(dst, p)
		}
	case t.Kind() == reflect.String && t != numberType:
		return func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
			s := *(*string)(p)
			if !utf8.ValidString(s) {
				return dst, fieldUnknown
			}
			return append(dst, s...), FieldText
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !writesJSON(t.Elem()) && !writesText(t.Elem()):
		return func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
			b := *(*[]byte)(p)
			if b == nil {
				return dst, FieldNull
			}
			return base64.StdEncoding.AppendEncode(dst, b), FieldText
		}
	}
	return func(dst []byte, p unsafe.Pointer) ([]byte, FieldKind) {
		out, err := asJSON(dst, p)
		if err != nil {
			return dst, fieldUnknown
		}
		switch text := out[len(dst):]; {
		case text[0] == 'n':
			return dst, FieldNull
		case text[0] != '"':
			return out, FieldJSON
		case bytes.IndexByte(text, '\\') >= 0:
			return dst, fieldUnknown
		default:
			return out[:len(dst)+copy(text, text[1:len(text)-1])], FieldText
		}
	}
}

// appendFields is AppendRow for a fieldsDocument.
func (m *Mapper) appendFields(dst []byte, r *Record, d fieldsDocument) ([]byte, error) {
	w := rowWriter{m: m, r: r, s: r.parsed()}
	p := m.planFor(d.Layout())
	out := dst
	for i := range m.cells {
		c := &m.cells[i]
		if i > 0 {
			out = append(out, ',', '"')
		} else {
			out = append(out, '"')
		}
		number := p.numbers[i]
		if c.typed == nil {
			number = 0
		}
		if number > 0 && p.steps[i].time {
			if text, ok := c.typed.conv.AppendNanos(out, d.Nanos(number)); ok {
				out = append(text, '"')
				continue
			}
		}
		var fail *Error
		if number > 0 {
			out, fail = w.appendGoField(out, d, c, number)
		} else {
			out, fail = w.append(out, c)
		}
		if fail != nil {
			return dst, fail.in(c)
		}
		if w.null {
			out, w.null = out[:len(out)-1], false
			continue
		}
		out = append(out, '"')
	}
	return append(out, '\n'), nil
}

// appendGoField is append for a typed column of a field.
func (w *rowWriter) appendGoField(dst []byte, d fieldsDocument, c *cell, number int) ([]byte, *Error) {
	var text []byte
	var kind FieldKind
	if c.typed.isString {
		out, k := d.AppendValue(dst, number)
		text, kind = out[len(dst):], k
		if kind == FieldText && len(text) > 0 && bytes.IndexByte(text, '"') < 0 && c.typed.conv.FitsUTF8(text) {
			return out, nil
		}
		text = append(w.s.scratch[:0], text...)
	} else {
		text, kind = d.AppendValue(w.s.scratch[:0], number)
	}
	w.s.scratch = text
	switch {
	case kind == FieldNull:
		return w.appendNull(dst, c)
	case kind == FieldText && c.typed.isJSON && !jsontext.IsPlain(tape.AsString(text)): // the column keeps the escapes of encoding/json
	case kind == FieldText:
		return w.appendText(dst, c, text)
	case kind == FieldJSON:
		return w.appendValue(dst, c, celltype.KindOf(text), text)
	case kind == NoField && (c.hasDefault() || !c.typed.opts.Required):
		return w.appendDefault(dst, c)
	}
	return w.append(dst, c) // this call also returns the error
}
