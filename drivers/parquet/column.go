package parquet

import (
	endian "encoding/binary"
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
	kind             kind
	precision, scale int  // of a decimal
	integers         bool // the cells of a decimal are stored as an int64
	notNull          bool // no cell is NULL
	optional         bool // the part can hold NULL
	dictionary       bool
}

// kind is a type as the parts have it.
type kind uint8

const (
	text kind = iota
	document
	binary
	boolean
	integer
	number
	moment
	date
	identifier
	decimal
)

var kinds = map[datatype.Type]kind{
	datatype.Untyped: text, datatype.String: text, datatype.JSON: document, datatype.Bytes: binary, datatype.Bool: boolean,
	datatype.Int64: integer, datatype.Float64: number, datatype.Timestamp: moment, datatype.Date: date, datatype.UUID: identifier,
}

func newColumn(name string, table, cell datatype.Column) column {
	c := column{name: name, optional: true, notNull: cell.Required || cell.Type == datatype.Untyped}
	var ok bool
	if c.kind, ok = kinds[table.Type]; !ok {
		c.kind = decimal
		c.precision, c.scale, _ = table.Type.DecimalOf()
		c.integers = cell.Type == datatype.Int64
	}
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

// node returns the column as the schema of a part has it.
func (c *column) node(codec compress.Codec) pq.Node {
	var n pq.Node
	switch c.kind {
	case text:
		n = pq.String()
	case document:
		n = pq.JSON()
	case binary:
		n = pq.Leaf(pq.ByteArrayType)
	case boolean:
		n = pq.Leaf(pq.BooleanType)
	case integer:
		n = pq.Int(64)
	case number:
		n = pq.Leaf(pq.DoubleType)
	case moment:
		n = pq.Timestamp(pq.Microsecond)
	case date:
		n = pq.Date()
	case identifier:
		n = pq.UUID()
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
	switch {
	case c.dictionary:
		n = pq.Encoded(n, &pq.RLEDictionary)
	case c.kind == moment, c.kind == date, c.kind == integer: // smaller, and less work for the codec
		n = pq.Encoded(n, &pq.DeltaBinaryPacked)
	default:
		n = pq.Encoded(n, &pq.Plain)
	}
	if c.optional {
		n = pq.Optional(n)
	}
	return pq.Compressed(n, codec)
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
		if c.notNull {
			return pq.Value{}, arena, errNull
		}
		return pq.Value{}, arena, nil
	}
	var v pq.Value
	var err error
	n := len(arena)
	switch c.kind {
	case text, document:
		if !utf8.Valid(cell) {
			return v, arena, errUTF8
		}
		arena = append(arena, cell...)
		v = pq.ByteArrayValue(arena[n:])
	case binary:
		arena, err = datatype.AppendBytes(arena, cell)
		v = pq.ByteArrayValue(arena[n:])
	case boolean:
		var b bool
		b, err = datatype.ParseBool(cell)
		v = pq.BooleanValue(b)
	case integer:
		var i int64
		i, err = datatype.ParseInt64(cell)
		v = pq.Int64Value(i)
	case number:
		var f float64
		f, err = datatype.ParseFloat64(cell)
		v = pq.DoubleValue(f)
	case moment:
		var i int64
		i, err = datatype.ParseTimestamp(cell)
		v = pq.Int64Value(i)
	case date:
		var i int32
		i, err = datatype.ParseDate(cell)
		v = pq.Int32Value(i)
	case identifier:
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
	if c.optional {
		v = v.Level(0, 1, at)
	}
	return v, arena, err
}

func (c *column) decimal(cell, arena []byte) (pq.Value, []byte, error) {
	if c.integers && c.scale > 0 { // the column of the table is wider
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
	arena = endian.BigEndian.AppendUint64(arena, uint64(hi))
	arena = endian.BigEndian.AppendUint64(arena, lo)
	return pq.FixedLenByteArrayValue(arena[n:]), arena, err
}
