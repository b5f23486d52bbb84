package parquet

import (
	endian "encoding/binary"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/driverkit/parts"
)

// column is one column of a part.
type column struct {
	name             string
	kind             kind
	store            store
	precision, scale int  // of a decimal
	integers         bool // the cells of a decimal are stored as an int64
	notNull          bool // no cell is NULL
	optional         bool // the part can hold NULL
	filtered         bool // its row groups have Bloom filters
}

// kind is a type of values in a part.
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

// store is the physical type of a kind in a part.
type store uint8

const (
	texts    store = iota // BYTE_ARRAY
	longs                 // INT64
	ints                  // INT32
	doubles               // DOUBLE
	booleans              // BOOLEAN
	fixed                 // FIXED_LEN_BYTE_ARRAY(16)
)

var kinds = map[datatype.Type]struct {
	kind
	store
}{
	datatype.Untyped: {text, texts}, datatype.String: {text, texts}, datatype.JSON: {document, texts}, datatype.Bytes: {binary, texts},
	datatype.Bool: {boolean, booleans}, datatype.Int64: {integer, longs}, datatype.Float64: {number, doubles},
	datatype.Timestamp: {moment, longs}, datatype.Date: {date, ints}, datatype.UUID: {identifier, fixed},
}

func newColumn(name string, table, cell datatype.Column) column {
	c := column{name: name, optional: true, notNull: cell.Required || cell.Type == datatype.Untyped}
	if k, ok := kinds[table.Type]; ok {
		c.kind, c.store = k.kind, k.store
		return c
	}
	c.kind = decimal
	c.precision, c.scale, _ = table.Type.DecimalOf()
	c.integers = cell.Type == datatype.Int64
	switch {
	case c.precision <= 9:
		c.store = ints
	case c.precision <= 18:
		c.store = longs
	default:
		c.store = fixed
	}
	return c
}

// fileColumns returns the columns of a part with the rows of a file. They have the names and types of the table, on which all parts agree,
// and the order of the file.
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

// node returns the type of the column as the schema of a part has it.
func (c *column) node() pq.Node {
	switch c.kind {
	case text:
		return pq.String()
	case document:
		return pq.JSON()
	case binary:
		return pq.Leaf(pq.ByteArrayType)
	case boolean:
		return pq.Leaf(pq.BooleanType)
	case integer:
		return pq.Int(64)
	case number:
		return pq.Leaf(pq.DoubleType)
	case moment:
		return pq.Timestamp(pq.Microsecond)
	case date:
		return pq.Date()
	case identifier:
		return pq.UUID()
	}
	switch c.store {
	case ints:
		return pq.Decimal(c.scale, c.precision, pq.Int32Type)
	case longs:
		return pq.Decimal(c.scale, c.precision, pq.Int64Type)
	}
	return pq.Decimal(c.scale, c.precision, pq.FixedLenByteArrayType(16))
}

// The reasons for which a row is refused.
var (
	errNull = errors.New(string(celltype.NullValue) + ": the column has no NULL")
	errUTF8 = errors.New(string(celltype.NotUTF8) + ": the text is not UTF-8")
	errCell = errors.New(string(celltype.Malformed) + ": the cell is not a canonical text of its type")
)

// addCell appends a cell to a page. After an error the page must not be used.
func (c *column) addCell(p *page, cell []byte) error {
	if cell == nil {
		if c.notNull {
			return errNull
		}
		p.addNull()
		return nil
	}
	var err error
	switch c.kind {
	case text, document:
		if !utf8.Valid(cell) {
			return errUTF8
		}
		p.addText(cell)
	case binary:
		at := len(p.data)
		p.data, err = datatype.AppendBytes(append(p.data, 0, 0, 0, 0), cell)
		endian.LittleEndian.PutUint32(p.data[at:], uint32(len(p.data)-at-4))
	case boolean:
		var b bool
		b, err = datatype.ParseBool(cell)
		p.addBool(b)
	case integer:
		var n int64
		n, err = datatype.ParseInt64(cell)
		p.longs = append(p.longs, n)
	case number:
		var f float64
		f, err = datatype.ParseFloat64(cell)
		p.data = endian.LittleEndian.AppendUint64(p.data, math.Float64bits(f))
	case moment:
		var n int64
		n, err = datatype.ParseTimestamp(cell)
		p.longs = append(p.longs, n)
	case date:
		var n int32
		n, err = datatype.ParseDate(cell)
		p.ints = append(p.ints, n)
	case identifier:
		var id [16]byte
		id, err = datatype.ParseUUID(cell)
		p.data = append(p.data, id[:]...)
	case decimal:
		err = c.addDecimal(p, cell)
	}
	if err != nil {
		return errCell // the other error has the value, and the column may be secret
	}
	p.countValue()
	return nil
}

func (c *column) addDecimal(p *page, cell []byte) error {
	if c.integers { // the column of the table is wider
		var room [64]byte
		cell = celltype.AppendWidened(room[:0], cell, c.scale)
	}
	hi, lo, err := datatype.ParseDecimal(cell, c.precision, c.scale)
	switch c.store {
	case ints:
		p.ints = append(p.ints, int32(lo))
	case longs:
		p.longs = append(p.longs, int64(lo))
	default:
		p.data = endian.BigEndian.AppendUint64(p.data, uint64(hi))
		p.data = endian.BigEndian.AppendUint64(p.data, lo)
	}
	return err
}

// addValue appends a value of another part.
func (c *column) addValue(p *page, v pq.Value) {
	if v.IsNull() {
		p.addNull()
		return
	}
	switch c.store {
	case texts:
		p.addText(v.ByteArray())
	case longs:
		p.longs = append(p.longs, v.Int64())
	case ints:
		p.ints = append(p.ints, v.Int32())
	case doubles:
		p.data = endian.LittleEndian.AppendUint64(p.data, math.Float64bits(v.Double()))
	case booleans:
		p.addBool(v.Boolean())
	case fixed:
		p.data = append(p.data, v.ByteArray()...)
	}
	p.countValue()
}
