package parquet

import (
	"encoding/binary"
	"errors"
	"slices"
	"unicode/utf8"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/parts"
)

// column is one column of a part.
type column struct {
	name             string
	typ              datatype.Type // in the table
	cell             datatype.Type // of the cells of the file
	required         bool          // by the file
	precision, scale int           // of a decimal
	dictionary       bool
}

func newColumn(name string, table, cell datatype.Column) column {
	c := column{name: name, typ: table.Type, cell: cell.Type, required: cell.Required || cell.Type == datatype.Untyped}
	c.precision, c.scale, _ = table.Type.DecimalOf()
	return c
}

// fileColumns returns the columns of a part with the rows of a file. They have the names and types of the table, so all parts of a
// table agree, and the order of the file.
func fileColumns(d parts.Definition, columns []datatype.Column, names []string) []column {
	out := make([]column, len(columns))
	for i, c := range columns {
		table := c
		if at := slices.IndexFunc(d.Columns, func(c datatype.Column) bool { return c.Name == names[i] }); at >= 0 {
			table = d.Columns[at]
		}
		out[i] = newColumn(names[i], table, c)
	}
	return out
}

// text reports whether the column is one of text, which the format demands to be UTF-8.
func (c *column) text() bool {
	return c.typ == datatype.Untyped || c.typ == datatype.String || c.typ == datatype.JSON
}

// node returns the column as the schema of a part has it. Every column may be NULL there: that costs two bytes a page, and a column
// that becomes nullable later needs no other kind of part.
func (c *column) node(codec compress.Codec) pq.Node {
	var n pq.Node
	switch c.typ {
	case datatype.Bool:
		n = pq.Leaf(pq.BooleanType)
	case datatype.Int64:
		n = pq.Leaf(pq.Int64Type)
	case datatype.Float64:
		n = pq.Leaf(pq.DoubleType)
	case datatype.Timestamp:
		n = pq.Timestamp(pq.Microsecond)
	case datatype.Date:
		n = pq.Date()
	case datatype.UUID:
		n = pq.UUID()
	case datatype.JSON:
		n = pq.JSON()
	case datatype.Bytes:
		n = pq.Leaf(pq.ByteArrayType)
	case datatype.Untyped, datatype.String:
		n = pq.String()
	default:
		switch {
		case c.precision <= 9:
			n = pq.Decimal(c.scale, c.precision, pq.Int32Type)
		case c.precision <= 18:
			n = pq.Decimal(c.scale, c.precision, pq.Int64Type)
		default:
			n = pq.Decimal(c.scale, c.precision, pq.FixedLenByteArrayType(16))
		}
	}
	if c.dictionary {
		n = pq.Encoded(n, &pq.RLEDictionary)
	} else {
		n = pq.Encoded(n, &pq.Plain)
	}
	return pq.Compressed(pq.Optional(n), codec)
}

// root is a group whose columns keep their order. A [pq.Group] sorts them.
type root struct {
	pq.Group
	fields []pq.Field
}

func (r root) Fields() []pq.Field { return r.fields }

func schemaOf(columns []column, codec compress.Codec) *pq.Schema {
	r := root{Group: pq.Group{}}
	for i := range columns {
		c := &columns[i]
		n := c.node(codec)
		r.Group[c.name] = n
		r.fields = append(r.fields, pq.Group{c.name: n}.Fields()[0])
	}
	return pq.NewSchema("table", r)
}

// The reasons for which a row is refused.
var (
	errNull = errors.New("nullValue: the column has no NULL")
	errUTF8 = errors.New("invalidUTF8: the text is not UTF-8")
	errCell = errors.New("notCanonical: the cell is not a canonical text of its type")
)

// value converts a cell. Its bytes are appended to arena, and the value refers to them there.
func (c *column) value(cell []byte, at int, arena []byte) (pq.Value, []byte, error) {
	if cell == nil {
		if c.required {
			return pq.Value{}, arena, errNull
		}
		return pq.NullValue().Level(0, 0, at), arena, nil
	}
	var v pq.Value
	var err error
	n := len(arena)
	switch c.typ {
	case datatype.Untyped, datatype.String, datatype.JSON:
		if !utf8.Valid(cell) {
			return v, arena, errUTF8
		}
		arena = append(arena, cell...)
		v = pq.ByteArrayValue(arena[n:])
	case datatype.Bytes:
		arena, err = datatype.AppendBytes(arena, cell)
		v = pq.ByteArrayValue(arena[n:])
	case datatype.Bool:
		var b bool
		b, err = datatype.ParseBool(cell)
		v = pq.BooleanValue(b)
	case datatype.Int64:
		var i int64
		i, err = datatype.ParseInt64(cell)
		v = pq.Int64Value(i)
	case datatype.Float64:
		var f float64
		f, err = datatype.ParseFloat64(cell)
		v = pq.DoubleValue(f)
	case datatype.Timestamp:
		var i int64
		i, err = datatype.ParseTimestamp(cell)
		v = pq.Int64Value(i)
	case datatype.Date:
		var i int32
		i, err = datatype.ParseDate(cell)
		v = pq.Int32Value(i)
	case datatype.UUID:
		var id [16]byte
		id, err = datatype.ParseUUID(cell)
		arena = append(arena, id[:]...)
		v = pq.FixedLenByteArrayValue(arena[n:])
	default:
		v, arena, err = c.decimal(cell, arena)
	}
	if err != nil {
		err = errCell // the other error has the value, and the column may be secret
	}
	return v.Level(0, 1, at), arena, err
}

func (c *column) decimal(cell, arena []byte) (pq.Value, []byte, error) {
	if c.cell == datatype.Int64 && c.scale > 0 { // the column of the table is wider
		cell = append(append([]byte(nil), cell...), '.')
		for range c.scale {
			cell = append(cell, '0')
		}
	}
	hi, lo, err := datatype.ParseDecimal(cell, c.precision, c.scale)
	switch {
	case c.precision <= 9:
		return pq.Int32Value(int32(lo)), arena, err
	case c.precision <= 18:
		return pq.Int64Value(int64(lo)), arena, err
	}
	n := len(arena)
	arena = binary.BigEndian.AppendUint64(arena, uint64(hi))
	arena = binary.BigEndian.AppendUint64(arena, lo)
	return pq.FixedLenByteArrayValue(arena[n:]), arena, err
}
