package duckdb

import (
	"runtime"
	"unicode/utf8"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
)

// batchRows is the number of rows of a vector in DuckDB.
const batchRows = 2048

// blockBytes is the room for the long texts of a batch. A batch of longer texts has fewer rows, down to one.
const blockBytes = 1 << 20

// field is a column of the table that gets a cell of each row.
type field struct {
	cell             int // its place in the row
	name             string
	typ              datatype.Type // of the cell
	precision, scale int           // of a decimal cell
	required         bool
}

// batch is up to batchRows rows in the form of DuckDB. Its vectors are memory of DuckDB and point into a block of Go memory. The block is
// pinned, because DuckDB copies the texts only when it gets the batch.
type batch struct {
	fields  []field
	chunk   mapping.DataChunk
	vectors []vector
	block   []byte
	pinner  runtime.Pinner
	rows    int
	first   int64 // the number of its first row in the file
	bytes   int   // of the cells
}

// vector has the values of a column, one after the other, and a bit for each that is 0 for NULL.
type vector struct {
	data  unsafe.Pointer
	valid *[batchRows / 64]uint64
}

// text is DuckDB's string_t, which is a text of at most 12 bytes, or the length of a longer one, its first bytes and a pointer to it.
type text struct {
	length uint32
	prefix [4]byte
	rest   [8]byte // or the pointer to the text
}

const shortText = 12

// hugeint is a number of 128 bits.
type hugeint struct {
	lo uint64
	hi int64
}

func newBatch(fields []field, types []mapping.LogicalType) *batch {
	b := &batch{fields: fields, chunk: mapping.CreateDataChunk(types), vectors: make([]vector, len(fields))}
	b.grow(blockBytes)
	b.reset()
	return b
}

func (b *batch) close() {
	mapping.DestroyDataChunk(&b.chunk)
	b.pinner.Unpin()
}

// reset empties the batch.
func (b *batch) reset() {
	mapping.DataChunkReset(b.chunk)
	for i := range b.vectors {
		v := mapping.DataChunkGetVector(b.chunk, mapping.IdxT(i))
		mapping.VectorEnsureValidityWritable(v)
		b.vectors[i] = vector{mapping.VectorGetData(v), (*[batchRows / 64]uint64)(mapping.VectorGetValidity(v))}
	}
	if cap(b.block) > blockBytes {
		b.grow(blockBytes)
	}
	b.empty()
}

func (b *batch) empty() { b.block, b.rows, b.bytes = b.block[:0], 0, 0 }

// grow replaces the block, to which no vector may point.
func (b *batch) grow(bytes int) {
	b.pinner.Unpin()
	b.block = make([]byte, 0, bytes)
	b.pinner.Pin(unsafe.SliceData(b.block))
}

// hasRoom reports whether the batch takes a row. An empty one takes every row.
func (b *batch) hasRoom(cells [][]byte) bool {
	bytes := 0
	for _, c := range cells {
		bytes += len(c)
	}
	switch {
	case b.rows == batchRows, b.rows > 0 && len(b.block)+bytes > cap(b.block):
		return false
	case bytes > cap(b.block):
		b.grow(bytes)
	}
	b.bytes += bytes
	return true
}

// Reasons of rows that the driver refuses itself.
const (
	nullValue = string(celltype.NullValue) // NULL in a required column
	malformed = string(celltype.Malformed) // no canonical text of the type
	notUTF8   = string(celltype.NotUTF8)   // DuckDB has no other texts
)

// add adds a row, or says why it cannot be stored and in which column.
func (b *batch) add(cells [][]byte) (column, reason string) {
	for i := range b.fields {
		f := &b.fields[i]
		if reason := b.set(f, b.vectors[i], cells[f.cell]); reason != "" {
			return f.name, reason
		}
	}
	b.rows++
	return "", ""
}

// at is where the value of the row is.
func at[T any](b *batch, v vector) *T { return &unsafe.Slice((*T)(v.data), batchRows)[b.rows] }

func (b *batch) set(f *field, v vector, cell []byte) (reason string) {
	if cell == nil {
		if f.required {
			return nullValue
		}
		v.valid[b.rows/64] &^= 1 << (b.rows % 64)
		return ""
	}
	v.valid[b.rows/64] |= 1 << (b.rows % 64) // a refused row may have cleared the bit
	var err error
	switch f.typ {
	case datatype.Untyped, datatype.String, datatype.JSON:
		if !utf8.Valid(cell) {
			return notUTF8
		}
		*at[text](b, v) = b.text(cell)
	case datatype.Bool:
		*at[bool](b, v), err = datatype.ParseBool(cell)
	case datatype.Int64:
		*at[int64](b, v), err = datatype.ParseInt64(cell)
	case datatype.Float64:
		*at[float64](b, v), err = datatype.ParseFloat64(cell)
	case datatype.Timestamp:
		*at[int64](b, v), err = datatype.ParseTimestamp(cell)
	case datatype.Date:
		*at[int32](b, v), err = datatype.ParseDate(cell)
	case datatype.UUID:
		var id [16]byte
		id, err = datatype.ParseUUID(cell)
		*at[hugeint](b, v) = uuid(id)
	case datatype.Bytes:
		from := len(b.block)
		b.block, err = datatype.AppendBytes(b.block, cell)
		value := b.block[from:]
		b.block = b.block[:from]
		*at[text](b, v) = b.text(value)
	default:
		err = b.setDecimal(f, v, cell)
	}
	if err != nil {
		return malformed
	}
	return ""
}

// setDecimal stores a number in the size that DuckDB has for its precision.
func (b *batch) setDecimal(f *field, v vector, cell []byte) error {
	hi, lo, err := datatype.ParseDecimal(cell, f.precision, f.scale)
	switch {
	case f.precision <= 4:
		*at[int16](b, v) = int16(lo)
	case f.precision <= 9:
		*at[int32](b, v) = int32(lo)
	case f.precision <= 18:
		*at[int64](b, v) = int64(lo)
	default:
		*at[hugeint](b, v) = hugeint{lo, hi}
	}
	return err
}

// uuid turns the highest bit over, so that DuckDB sorts ids as numbers.
func uuid(id [16]byte) (h hugeint) {
	var hi uint64
	for i := range 8 {
		hi, h.lo = hi<<8|uint64(id[i]), h.lo<<8|uint64(id[8+i])
	}
	h.hi = int64(hi ^ 1<<63)
	return h
}

// text keeps a text in the block, unless it is short. The block has room.
func (b *batch) text(value []byte) (t text) {
	t.length = uint32(len(value))
	copy(t.prefix[:], value)
	if len(value) <= shortText {
		copy(t.rest[:], value[min(len(value), len(t.prefix)):])
		return t
	}
	place := uintptr(unsafe.Pointer(unsafe.SliceData(b.block))) + uintptr(len(b.block))
	b.block = append(b.block, value...)
	*(*uintptr)(unsafe.Pointer(&t.rest)) = place
	return t
}
