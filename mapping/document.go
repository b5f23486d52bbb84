package mapping

import (
	"bytes"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// Document is a record body that is structured data instead of bytes. It is written as JSON when the first column needs it,
// once for all mappers of a record.
type Document interface {
	// AppendJSON appends the document as one compact JSON value (RFC 8259, UTF-8) to dst and returns the extended
	// slice. Every call must give the same bytes, and dst must not be kept. An error rejects the record, except for columns
	// with a default.
	AppendJSON(dst []byte) ([]byte, error)
}

// FieldDocument is a [Document] whose fields can be read one by one. Path columns and Body(path) in templates then do not write
// the whole document.
type FieldDocument interface {
	Document
	// AppendField appends the value at path to dst, in the form that the kind names, and returns the extended slice. With
	// NoField it returns dst as it was. The value must be the one that path finds in the bytes of AppendJSON. Of several
	// members with the same key it is the first, even with Options.Compat. The path is never empty. dst must not be kept.
	AppendField(dst []byte, path FieldPath) ([]byte, FieldKind)
}

// FieldKind is the form of the value that a [FieldDocument] appends.
type FieldKind uint8

const (
	// NoField means that the document has no such field.
	NoField FieldKind = iota
	// FieldNull means that the value is null. Nothing is appended.
	FieldNull
	// FieldText means that the value is a string, appended as plain text without quotes and escapes. Bytes that are not UTF-8 become
	// U+FFFD in cells, and so does NUL if the target cannot store it.
	FieldText
	// FieldJSON means that the value is a number, true, false, an array or an object, appended as compact JSON.
	FieldJSON
)

// appendField is appendPath for a document that gives single fields.
func (w *rowWriter) appendField(dst []byte, d FieldDocument, c *cell) ([]byte, *Error) {
	s := w.s
	text, kind := d.AppendField(s.scratch[:0], FieldPath{c.path})
	s.scratch = text
	return w.fieldValue(dst, d, c, text, kind)
}

// fieldValue appends the cell of a value of a document. text is the scratch.
func (w *rowWriter) fieldValue(dst []byte, d FieldDocument, c *cell, text []byte, kind FieldKind) ([]byte, *Error) {
	s := w.s
	switch kind {
	case FieldJSON:
		return w.put(dst, text), nil
	case FieldText:
		if c.raw {
			s.scratch = tape.RepairUTF8(c.mendNUL(text, kind), 0)
			return w.put(dst, s.scratch), nil
		}
		s.quoted = jsontext.AppendString(s.quoted[:0], tape.AsString(text), w.m.compat)
		return w.put(dst, s.quoted), nil
	case FieldNull:
		if c.onNull {
			return w.put(dst, c.def), nil
		}
		return append(dst, "null"...), nil
	}
	if c.def == nil {
		return dst, missingField(d, &c.path, pathColumn)
	}
	return w.put(dst, c.def), nil
}

// mendNUL replaces each NUL in a value of a document by U+FFFD if the target cannot store NUL. The sender of telemetry cannot correct a value, and
// without the replacement the whole record would be rejected.
func (c *cell) mendNUL(text []byte, kind FieldKind) []byte {
	switch {
	case c.limits == nil || !c.limits.NoNUL:
	case kind == FieldText && bytes.IndexByte(text, 0) >= 0:
		return bytes.ReplaceAll(text, []byte{0}, []byte(replacement))
	case kind == FieldJSON && bytes.Contains(text, []byte(`\u0000`)):
		return mendEscapedNUL(text)
	}
	return text
}

// mendEscapedNUL is mendNUL for JSON, in which NUL is an escape.
func mendEscapedNUL(text []byte) (out []byte) {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || len(text) < i+2 {
			return append(out, text...)
		}
		out, text = append(out, text[:i]...), text[i:]
		if nul := []byte(`\u0000`); bytes.HasPrefix(text, nul) {
			out, text = append(out, replacement...), text[len(nul):]
			continue
		}
		out, text = append(out, text[:2]...), text[2:] // an escaped backslash does not begin an escape
	}
}
