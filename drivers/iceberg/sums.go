package iceberg

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table"
)

// sums are checksums of the columns of rows, in order.
type sums struct {
	turn    sync.Mutex // held while rows are added
	columns []maphash.Hash
	rows    int64
}

// sumSeed makes the checksums, which live as long as one merge.
var sumSeed = maphash.MakeSeed()

func newSums(tbl *table.Table) *sums {
	s := &sums{columns: make([]maphash.Hash, len(tbl.Schema().Fields()))}
	for i := range s.columns {
		s.columns[i].SetSeed(sumSeed)
	}
	return s
}

// equal reports whether the same rows were added to both. It waits until rows are no longer added.
func (s *sums) equal(to *sums) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	to.turn.Lock()
	defer to.turn.Unlock()
	for i := range s.columns {
		if s.columns[i].Sum64() != to.columns[i].Sum64() {
			return false
		}
	}
	return s.rows == to.rows
}

// add adds the rows of a batch.
func (s *sums) add(batch arrow.RecordBatch) error {
	if int(batch.NumCols()) != len(s.columns) {
		return fmt.Errorf("%d columns were read, want %d", batch.NumCols(), len(s.columns))
	}
	s.rows += batch.NumRows()
	for i, column := range batch.Columns() {
		value, err := valuesOf(column)
		if err != nil {
			return err
		}
		sum := &s.columns[i]
		var length [5]byte
		for row := range column.Len() {
			if column.IsNull(row) {
				_ = sum.WriteByte(0)
				continue
			}
			v := value(row)
			length[0] = 1
			binary.LittleEndian.PutUint32(length[1:], uint32(len(v)))
			_, _ = sum.Write(length[:])
			_, _ = sum.Write(v)
		}
	}
	return nil
}

// valuesOf returns a function that returns the bytes of a value, until the next call.
func valuesOf(column arrow.Array) (func(row int) []byte, error) {
	switch c := column.(type) {
	case *array.String:
		return func(row int) []byte { return []byte(c.Value(row)) }, nil
	case *array.LargeString:
		return func(row int) []byte { return []byte(c.Value(row)) }, nil
	case *array.Binary:
		return c.Value, nil
	case *array.LargeBinary:
		return c.Value, nil
	case *array.Boolean:
		return func(row int) []byte {
			if c.Value(row) {
				return []byte{1}
			}
			return []byte{0}
		}, nil
	case array.ExtensionArray:
		return valuesOf(c.Storage())
	}
	if typ, ok := column.DataType().(arrow.FixedWidthDataType); ok && typ.BitWidth() >= 8 && len(column.Data().Buffers()) == 2 {
		width, data := typ.BitWidth()/8, column.Data().Buffers()[1].Bytes()
		offset := column.Data().Offset()
		return func(row int) []byte { return data[(offset+row)*width : (offset+row+1)*width] }, nil
	}
	return nil, fmt.Errorf("a column of %s was read", column.DataType())
}
