package mapping

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// appendValue appends the JSON of the value that p points to, as encoding/json writes it without HTML escapes. The value has the type that the
// function was made for, so reflect has given each offset below for this type.
type appendValue func(dst []byte, p unsafe.Pointer) ([]byte, error)

// appenderOf returns the function for a type. open has the types in progress. encoding/json writes a type that contains itself, because it
// notices cycles of values.
func appenderOf(t reflect.Type, open map[reflect.Type]bool) appendValue {
	other := func(dst []byte, p unsafe.Pointer) ([]byte, error) {
		return goValue{reflect.NewAt(t, p).Interface()}.AppendJSON(dst)
	}
	switch {
	case t == timeType:
		return appendTime
	case t == numberType, open[t]:
		return other
	case writesJSON(t) || writesText(t):
		return methodAppender(t, other)
	}
	open[t] = true
	defer delete(open, t)
	switch t.Kind() {
	case reflect.Bool:
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) { return strconv.AppendBool(dst, *(*bool)(p)), nil }
	case reflect.Int:
		return signed[int]
	case reflect.Int8:
		return signed[int8]
	case reflect.Int16:
		return signed[int16]
	case reflect.Int32:
		return signed[int32]
	case reflect.Int64:
		return signed[int64]
	case reflect.Uint:
		return unsigned[uint]
	case reflect.Uint8:
		return unsigned[uint8]
	case reflect.Uint16:
		return unsigned[uint16]
	case reflect.Uint32:
		return unsigned[uint32]
	case reflect.Uint64:
		return unsigned[uint64]
	case reflect.Uintptr:
		return unsigned[uintptr]
	case reflect.Float32:
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) {
			return appendFloat(dst, float64(*(*float32)(p)), 32)
		}
	case reflect.Float64:
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) { return appendFloat(dst, *(*float64)(p), 64) }
	case reflect.String:
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) { return appendGoText(dst, *(*string)(p)) }
	case reflect.Pointer:
		elem := appenderOf(t.Elem(), open)
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) {
			if p = *(*unsafe.Pointer)(p); p == nil {
				return append(dst, "null"...), nil
			}
			return elem(dst, p)
		}
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !writesJSON(e) && !writesText(e) {
			return appendBytes
		}
		elem, size := appenderOf(t.Elem(), open), t.Elem().Size()
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) {
			s := *(*[]struct{})(p) // every slice has its address and its length in these positions
			if s == nil {
				return append(dst, "null"...), nil
			}
			return appendElements(dst, unsafe.Pointer(unsafe.SliceData(s)), len(s), size, elem)
		}
	case reflect.Array:
		elem, size, n := appenderOf(t.Elem(), open), t.Elem().Size(), t.Len()
		return func(dst []byte, p unsafe.Pointer) ([]byte, error) { return appendElements(dst, p, n, size, elem) }
	case reflect.Struct:
		if append := structAppender(t, open); append != nil {
			return append
		}
	}
	return other
}

// methodAppender returns the function for a type with its own MarshalJSON or MarshalText. It calls the method without reflection. other writes what
// is left, such as the errors.
func methodAppender(t reflect.Type, other appendValue) appendValue {
	base, isPointer := t, t.Kind() == reflect.Pointer
	if isPointer {
		base = t.Elem()
	}
	write := func(dst []byte, p unsafe.Pointer) ([]byte, bool) { return dst, false }
	switch method := reflect.New(base).Interface().(type) { // the methods of the type and of its pointer
	case json.Marshaler:
		write = func(dst []byte, p unsafe.Pointer) ([]byte, bool) {
			method := method
			setPointer(unsafe.Pointer(&method), p)
			text, err := method.MarshalJSON()
			if err != nil {
				return dst, false
			}
			return appendCompact(dst, text)
		}
	case encoding.TextMarshaler:
		write = func(dst []byte, p unsafe.Pointer) ([]byte, bool) {
			method := method
			setPointer(unsafe.Pointer(&method), p)
			text, err := method.MarshalText()
			if err != nil {
				return dst, false
			}
			dst, err = appendGoText(dst, tape.AsString(text))
			return dst, err == nil
		}
	}
	return func(dst []byte, p unsafe.Pointer) ([]byte, error) {
		at := p
		if isPointer {
			if at = *(*unsafe.Pointer)(p); at == nil {
				return append(dst, "null"...), nil
			}
		}
		if out, ok := write(dst, at); ok {
			return out, nil
		}
		return other(dst, p)
	}
}

// setPointer replaces the pointer in an interface value that has a pointer. Every such value has its type and then the pointer.
func setPointer(iface, p unsafe.Pointer) { (*[2]unsafe.Pointer)(iface)[1] = p }

// compactBuffers has a *bytes.Buffer for a call of json.Compact.
var compactBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// appendCompact appends the JSON that a MarshalJSON has returned, without spaces. It returns false if it is not valid.
func appendCompact(dst, text []byte) ([]byte, bool) {
	b := compactBuffers.Get().(*bytes.Buffer)
	*b = *bytes.NewBuffer(dst)
	err := json.Compact(b, text)
	out := b.Bytes()
	*b = bytes.Buffer{}
	compactBuffers.Put(b)
	return out, err == nil
}

func appendElements(dst []byte, p unsafe.Pointer, n int, size uintptr, elem appendValue) ([]byte, error) {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = elem(dst, unsafe.Add(p, uintptr(i)*size)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// memberAppender is the plan of a field of a struct.
type memberAppender struct {
	name   string
	key    string // the name with quotes, a colon, and a comma before them
	typ    reflect.Type
	embeds []hop
	offset uintptr
	quoted bool // a number or bool that is written as a text
	omit   func(p unsafe.Pointer) bool
	append appendValue
}

// at returns the address of the field in a struct, or nil if the field is in an embedded struct whose pointer is nil.
func (m *memberAppender) at(p unsafe.Pointer) unsafe.Pointer {
	for _, h := range m.embeds {
		if p = unsafe.Add(p, h.offset); !h.pointer {
			continue
		}
		if p = *(*unsafe.Pointer)(p); p == nil {
			return nil
		}
	}
	return unsafe.Add(p, m.offset)
}

// membersOf returns false for a struct with a field that only encoding/json can write.
func membersOf(t reflect.Type, open map[reflect.Type]bool) (members []memberAppender, ok bool) {
	for _, f := range jsonFields(t) {
		m := memberAppender{name: f.name, key: "," + string(jsontext.AppendString(nil, f.name, false)) + ":", embeds: f.embeds, offset: f.Offset, typ: f.Type}
		_, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		for opt := range strings.SplitSeq(opts, ",") {
			switch opt {
			case "omitempty":
				m.omit = emptyTest(f.Type)
			case "omitzero":
				if m.omit = zeroTest(f.Type); m.omit == nil {
					return nil, false
				}
			}
		}
		own := writesJSON(f.Type) || writesText(f.Type)
		switch kind := f.Type.Kind(); {
		case f.fault != nil:
			return nil, false
		case !f.quoted || own || kind == reflect.Struct || kind == reflect.Slice || kind == reflect.Map || kind == reflect.Array || kind == reflect.Interface:
		case kind == reflect.String || kind == reflect.Pointer:
			return nil, false
		default:
			m.quoted = true
		}
		m.append = appenderOf(f.Type, open)
		members = append(members, m)
	}
	return members, true
}

// structAppender returns nil where membersOf returns false.
func structAppender(t reflect.Type, open map[reflect.Type]bool) appendValue {
	members, ok := membersOf(t, open)
	if !ok {
		return nil
	}
	return func(dst []byte, p unsafe.Pointer) ([]byte, error) {
		begin := len(dst)
		for i := range members {
			m := &members[i]
			at := m.at(p)
			if at == nil {
				continue
			}
			if m.omit != nil && m.omit(at) {
				continue
			}
			dst = append(dst, m.key...)
			if m.quoted {
				dst = append(dst, '"')
			}
			var err error
			if dst, err = m.append(dst, at); err != nil {
				return dst, err
			}
			if m.quoted {
				dst = append(dst, '"')
			}
		}
		if len(dst) == begin {
			return append(dst, "{}"...), nil
		}
		dst[begin] = '{' // in place of the first comma
		return append(dst, '}'), nil
	}
}

// emptyTest returns the test of omitempty for a type, or nil if its values are never empty.
func emptyTest(t reflect.Type) func(p unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		size := t.Size()
		return func(p unsafe.Pointer) bool {
			for _, b := range unsafe.Slice((*byte)(p), size) {
				if b != 0 {
					return false
				}
			}
			return true
		}
	case reflect.Float32:
		return func(p unsafe.Pointer) bool { return *(*float32)(p) == 0 }
	case reflect.Float64:
		return func(p unsafe.Pointer) bool { return *(*float64)(p) == 0 }
	case reflect.String:
		return func(p unsafe.Pointer) bool { return *(*string)(p) == "" }
	case reflect.Slice:
		return func(p unsafe.Pointer) bool { return len(*(*[]struct{})(p)) == 0 }
	case reflect.Pointer:
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	case reflect.Array:
		empty := t.Len() == 0
		return func(unsafe.Pointer) bool { return empty }
	case reflect.Map:
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().Len() == 0 }
	case reflect.Interface:
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsNil() }
	}
	return nil
}

// zeroTest returns the test of omitzero for a type, or nil if only encoding/json can decide.
func zeroTest(t reflect.Type) func(p unsafe.Pointer) bool {
	if t == timeType {
		return func(p unsafe.Pointer) bool { return (*time.Time)(p).IsZero() }
	}
	if _, own := reflect.PointerTo(t).MethodByName("IsZero"); own {
		return nil
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Interface:
		return nil
	}
	return emptyTest(t)
}

func signed[N int | int8 | int16 | int32 | int64](dst []byte, p unsafe.Pointer) ([]byte, error) {
	return strconv.AppendInt(dst, int64(*(*N)(p)), 10), nil
}

func unsigned[N uint | uint8 | uint16 | uint32 | uint64 | uintptr](dst []byte, p unsafe.Pointer) ([]byte, error) {
	return strconv.AppendUint(dst, uint64(*(*N)(p)), 10), nil
}

// appendFloat writes a number in the format of ECMAScript, like encoding/json.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, &json.UnsupportedValueError{Value: reflect.ValueOf(f), Str: strconv.FormatFloat(f, 'g', -1, bits)}
	}
	if n := int64(f); float64(n) == f && n != 0 && -1<<53 < n && n < 1<<53 && bits == 64 { // 0 may be negative
		return strconv.AppendInt(dst, n, 10), nil
	}
	abs, format := math.Abs(f), byte('f')
	if abs != 0 && (bits == 64 && (abs < 1e-6 || abs >= 1e21) || bits == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && (dst[n-3] == '-' || dst[n-3] == '+') && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 becomes e-9
		dst = dst[:n-1]
	}
	return dst, nil
}

func appendTime(dst []byte, p unsafe.Pointer) ([]byte, error) {
	out, err := (*time.Time)(p).AppendText(append(dst, '"'))
	if err != nil {
		return goValue{*(*time.Time)(p)}.AppendJSON(dst) // for its error
	}
	return append(out, '"'), nil
}

func appendBytes(dst []byte, p unsafe.Pointer) ([]byte, error) {
	b := *(*[]byte)(p)
	if b == nil {
		return append(dst, "null"...), nil
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"'), nil
}

// appendGoText appends a string. encoding/json escapes two separators and invalid UTF-8, and jsontext does not.
func appendGoText(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			continue
		}
		if !utf8.ValidString(s) || strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") {
			return goValue{s}.AppendJSON(dst)
		}
		break
	}
	return jsontext.AppendString(dst, s, false), nil
}
