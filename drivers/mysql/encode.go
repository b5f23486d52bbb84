package mysql

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// field is a cell of the rows of a file, and the column that takes it.
type field struct {
	name             string
	cell             int
	typ              datatype.Type // of the cell
	precision, scale int           // of a decimal cell
	characters       int           // the most of a text; 0 for no bound
	bytes            int           // the most of a text or of bytes; 0 for no bound
	binary           bool          // the column holds bytes, which are sent as hexadecimal digits
	key              bool
}

type fields []field

// fieldsOf finds the cell of each column. A column without one is not named, so the database fills it, or it is NULL.
func fieldsOf(t driver.Table, columns []column, have []datatype.Column) fields {
	var all fields
	for i, cell := range t.Places(have) {
		if cell < 0 {
			continue
		}
		c := columns[i]
		f := field{name: c.name, cell: cell, typ: t.Columns[cell].Type, key: c.key}
		f.precision, f.scale, _ = f.typ.DecimalOf()
		f.characters, f.bytes = c.limit()
		name, _, _ := c.size()
		f.binary = f.typ == datatype.Bytes || f.typ == datatype.UUID && name == "binary"
		all = append(all, f)
	}
	return all
}

// names returns the columns as SQL.
func (s fields) names() string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.name
	}
	return quoteAll(names)
}

// refusal says why a row cannot be sent.
type refusal struct {
	column, reason, message string
}

// at returns the refusal of a row of a file.
func (r *refusal) at(row int64) driver.RowError {
	return driver.RowError{Row: row, Column: r.column, Reason: r.reason, Message: r.message}
}

// malformed is the reason for a cell that is no text of its type. The row was damaged, or comes from another mapping.
const malformed = "malformed"

// form is how a row is written.
type form struct {
	escapes *[256]byte // what follows a backslash in place of a byte; 0 if the byte is written as it is
	quote   string     // around texts
	hex     [2]string  // around hexadecimal digits
	null    string
}

var (
	// loadForm is a line of LOAD DATA. loadClause has the separators.
	loadForm = form{escapes: &[256]byte{'\\': '\\', '\t': 't', '\n': 'n', 0: '0'}, null: `\N`}
	// valuesForm is the values of an INSERT.
	valuesForm = form{escapes: &[256]byte{'\\': '\\', '\'': '\'', 0: '0', '\n': 'n', '\r': 'r', 0x1a: 'Z'}, quote: "'", hex: [2]string{"x'", "'"}, null: "NULL"}
)

// appendLine appends a row as LOAD DATA reads it.
func (s fields) appendLine(dst []byte, cells [][]byte) ([]byte, *refusal) {
	var no *refusal
	for i := range s {
		if i > 0 {
			dst = append(dst, '\t')
		}
		if dst, no = s[i].append(dst, cells[s[i].cell], loadForm); no != nil {
			return dst, no
		}
	}
	return append(dst, '\n'), nil
}

// appendValues appends a row with a comma before it, as INSERT reads it.
func (s fields) appendValues(dst []byte, cells [][]byte) ([]byte, *refusal) {
	var no *refusal
	separator := ",("
	for i := range s {
		dst = append(dst, separator...)
		separator = ","
		if dst, no = s[i].append(dst, cells[s[i].cell], valuesForm); no != nil {
			return dst, no
		}
	}
	return append(dst, ')'), nil
}

// append appends a cell.
func (f *field) append(dst, cell []byte, form form) ([]byte, *refusal) {
	if cell == nil {
		return append(dst, form.null...), nil
	}
	var err error
	switch f.typ {
	case datatype.Untyped, datatype.String, datatype.JSON:
		if no := f.check(cell); no != nil {
			return dst, no
		}
		dst = append(appendEscaped(append(dst, form.quote...), cell, form.escapes), form.quote...)
	case datatype.Bool:
		var v bool
		v, err = datatype.ParseBool(cell)
		digit := byte('0')
		if v {
			digit = '1'
		}
		dst = append(dst, digit)
	case datatype.Int64:
		_, err = datatype.ParseInt64(cell)
		dst = append(dst, cell...)
	case datatype.Float64: // quoted: -0 would be a number without a sign
		var v float64
		if v, err = datatype.ParseFloat64(cell); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return dst, &refusal{column: f.name, reason: "nan", message: "MySQL has neither NaN nor infinities"}
		}
		dst = append(append(append(dst, form.quote...), cell...), form.quote...)
	case datatype.Timestamp:
		if _, err = datatype.ParseTimestamp(cell); err == nil {
			dst = append(append(dst, form.quote...), cell[:10]...)
			dst = append(append(dst, ' '), cell[11:len(cell)-1]...)
			dst = append(dst, form.quote...)
		}
	case datatype.Date:
		_, err = datatype.ParseDate(cell)
		dst = append(append(append(dst, form.quote...), cell...), form.quote...)
	case datatype.UUID:
		var v [16]byte
		if v, err = datatype.ParseUUID(cell); f.binary {
			return f.appendHex(dst, v[:], form), f.refuse(err)
		}
		dst = append(append(append(dst, form.quote...), cell...), form.quote...)
	case datatype.Bytes:
		v := make([]byte, 0, base64.StdEncoding.DecodedLen(len(cell)))
		if v, err = datatype.AppendBytes(v, cell); err == nil && f.bytes > 0 && len(v) > f.bytes {
			return dst, f.tooLong()
		}
		return f.appendHex(dst, v, form), f.refuse(err)
	default:
		_, _, err = datatype.ParseDecimal(cell, f.precision, f.scale)
		dst = append(dst, cell...)
	}
	return dst, f.refuse(err)
}

func (f *field) appendHex(dst, v []byte, form form) []byte {
	return append(hex.AppendEncode(append(dst, form.hex[0]...), v), form.hex[1]...)
}

// appendEscaped appends a text with a backslash before what needs one.
func appendEscaped(dst, text []byte, escapes *[256]byte) []byte {
	from := 0
	for i, b := range text {
		if e := escapes[b]; e != 0 {
			dst = append(append(dst, text[from:i]...), '\\', e)
			from = i + 1
		}
	}
	return append(dst, text[from:]...)
}

func (f *field) refuse(err error) *refusal {
	if err == nil {
		return nil
	}
	return &refusal{column: f.name, reason: malformed, message: fmt.Sprintf("the cell is not a canonical text of type %s", f.typ)}
}

// tooLong has the number of the server's error.
func (f *field) tooLong() *refusal {
	return &refusal{column: f.name, reason: "1406", message: "the value is longer than the column allows"}
}

// check refuses cells that the server would change or report late. It cuts spaces that do not fit.
func (f *field) check(cell []byte) *refusal {
	switch {
	case !utf8.Valid(cell):
		return &refusal{column: f.name, reason: "1366", message: "the text is not UTF-8"}
	case f.bytes > 0 && len(cell) > f.bytes, f.characters > 0 && len(cell) > f.characters && utf8.RuneCount(cell) > f.characters:
		return f.tooLong()
	}
	return nil
}

// literal returns a text as SQL.
func literal(text string) string {
	return "'" + string(appendEscaped(nil, []byte(text), valuesForm.escapes)) + "'"
}
