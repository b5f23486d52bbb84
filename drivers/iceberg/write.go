package iceberg

import (
	"context"
	"errors"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/celltype"
)

const (
	// batchRows and batchBytes bound a batch of rows for the library, queuedBatches the batches that wait for each of its writers.
	batchRows, batchBytes = 8192, 4 << 20
	queuedBatches         = 2
	writeWorkers          = 2
)

// writeFiles writes the rows of a file to data files of the table, which nothing refers to yet. The caller removes the created files if
// it commits nothing.
func writeFiles(ctx context.Context, tbl *table.Table, f *driver.File) (data []iceberglib.DataFile, created *recordedFiles, err error) {
	recorded, created, err := recordCreated(ctx, tbl)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			created.remove()
		}
	}()
	schema, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	if err != nil {
		return nil, nil, err
	}
	rows := newRowSource(ctx, f, tbl.Schema(), schema)
	written := table.WriteRecords(ctx, recorded, schema, rows.batches, table.WithWriteUUID(attemptUUID(f.ID)),
		table.WithRecordBatchBufferSize(queuedBatches), table.WithMaxWriteWorkers(writeWorkers))
	for d, writeErr := range written {
		if writeErr != nil {
			err = writeErr
			break
		}
		data = append(data, d)
	}
	if own := rows.end(); own != nil {
		err = own // the library wraps it
	}
	var n int64
	for _, d := range data {
		n += d.Count()
	}
	if err == nil && n != rows.rows {
		err = errors.New("the library has not written the number of rows that it was given")
	}
	if err == nil {
		err = ctx.Err()
	}
	return data, created, err
}

// rowSource reads the rows of a file into batches, on a goroutine of the library.
type rowSource struct {
	ctx     context.Context
	file    *driver.File
	builder *array.RecordBuilder
	appends []func(cell []byte) error // by column of the table
	places  []int                     // of the cell of each column in a row of the file, -1 for none
	columns []datatype.Column         // of the file

	turn  sync.Mutex // held while the rows are read
	ended bool
	// The fields below are valid after end.
	rows int64
	err  error
}

func newRowSource(ctx context.Context, f *driver.File, schema *iceberglib.Schema, arrowSchema *arrow.Schema) *rowSource {
	have := columnsOf(schema, f.Table)
	s := &rowSource{
		ctx: ctx, file: f, columns: f.Table.Columns, builder: array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema),
		places: f.Table.Places(have), appends: make([]func([]byte) error, len(have)),
	}
	for i, at := range s.places {
		if at >= 0 {
			s.appends[i] = appender(s.builder.Field(i), have[i], f.Table.Columns[at])
		}
	}
	return s
}

// end waits until the rows are no longer read, and returns the error that ended it.
func (s *rowSource) end() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.ended = true
	return s.err
}

// batches is the sequence for the library, which releases each batch.
func (s *rowSource) batches(yield func(arrow.RecordBatch, error) bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.ended {
		return
	}
	defer s.builder.Release()
	if err := s.read(yield); err != nil {
		s.err = err
		yield(nil, err)
	}
}

func (s *rowSource) read(yield func(arrow.RecordBatch, error) bool) error {
	rows := s.file.ReadRows(s.ctx)
	defer rows.Close()
	refused := &driver.RowsError{}
	waiting, bytes := 0, 0
	for rows.Next() {
		bad := false
		cells := rows.Cells()
		for i, to := range s.appends {
			if to == nil {
				s.builder.Field(i).AppendNull()
				continue
			}
			cell := cells[s.places[i]]
			bytes += len(cell)
			if err := to(cell); err != nil && !bad {
				bad = true
				reason, message, _ := strings.Cut(err.Error(), ": ")
				row := driver.RowError{Row: rows.Row(), Column: s.columns[s.places[i]].Name, Reason: reason, Message: message}
				if !refused.Add(row) {
					return refused
				}
			}
		}
		s.rows++
		if waiting++; waiting < batchRows && bytes < batchBytes {
			continue
		}
		waiting, bytes = 0, 0
		if batch := s.builder.NewRecordBatch(); len(refused.Rows) > 0 {
			batch.Release() // the file is refused, and the other rows are only checked
		} else if !yield(batch, nil) {
			return nil // the library has failed
		}
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case len(refused.Rows) > 0:
		refused.Complete = true
		return refused
	case waiting > 0:
		yield(s.builder.NewRecordBatch(), nil)
	}
	return nil
}

// The reasons for which a row is refused.
var (
	errNull = errors.New(string(celltype.NullValue) + ": the column has no NULL")
	errUTF8 = errors.New(string(celltype.NotUTF8) + ": the text is not UTF-8")
	errCell = errors.New(string(celltype.Malformed) + ": the cell is not a canonical text of its type")
)

// appender returns the function that appends a cell to a column. For a refused cell it appends a placeholder.
func appender(to array.Builder, column, cells datatype.Column) func(cell []byte) error {
	add := typedAppender(to, column.Type, cells.Type)
	return func(cell []byte) error {
		if cell == nil {
			to.AppendNull()
			if column.Required || cells.Required || cells.Type == datatype.Untyped {
				return errNull
			}
			return nil
		}
		err := add(cell)
		if err != nil {
			to.AppendNull()
			if !errors.Is(err, errUTF8) {
				err = errCell // the other error has the value, and the column may be secret
			}
		}
		return err
	}
}

// typedAppender returns the function that appends a cell that is not NULL. With an error it has appended nothing.
func typedAppender(to array.Builder, typ, cells datatype.Type) func(cell []byte) error {
	switch to := to.(type) {
	case *array.StringBuilder:
		return func(cell []byte) error {
			if !utf8.Valid(cell) {
				return errUTF8
			}
			to.BinaryBuilder.Append(cell)
			return nil
		}
	case *array.BinaryBuilder:
		var decoded []byte
		return func(cell []byte) (err error) {
			if decoded, err = datatype.AppendBytes(decoded[:0], cell); err == nil {
				to.Append(decoded)
			}
			return err
		}
	case *array.BooleanBuilder:
		return parsed(datatype.ParseBool, to.Append)
	case *array.Int64Builder:
		return parsed(datatype.ParseInt64, to.Append)
	case *array.Float64Builder:
		return parsed(datatype.ParseFloat64, to.Append)
	case *array.TimestampBuilder:
		return parsed(datatype.ParseTimestamp, func(v int64) { to.Append(arrow.Timestamp(v)) })
	case *array.Date32Builder:
		return parsed(datatype.ParseDate, func(v int32) { to.Append(arrow.Date32(v)) })
	case *extensions.UUIDBuilder:
		return parsed(datatype.ParseUUID, to.AppendBytes)
	case *array.Decimal128Builder:
		p, s, _ := typ.DecimalOf()
		var widened []byte
		return func(cell []byte) error {
			if cells == datatype.Int64 { // the column of the table is wider
				widened = celltype.AppendWidened(widened[:0], cell, s)
				cell = widened
			}
			hi, lo, err := datatype.ParseDecimal(cell, p, s)
			if err == nil {
				to.Append(decimal128.New(hi, lo))
			}
			return err
		}
	}
	return func([]byte) error { return errCell } // Fit has refused such a column
}

func parsed[T any](parse func([]byte) (T, error), add func(T)) func([]byte) error {
	return func(cell []byte) error {
		v, err := parse(cell)
		if err == nil {
			add(v)
		}
		return err
	}
}
