package duckdb

import (
	"math"
	"sync/atomic"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// appender appends batches to a table. One goroutine reads rows into a batch while another hands the previous batch to DuckDB.
type appender struct {
	raw     mapping.Appender
	fields  []field
	types   []mapping.LogicalType
	batches []*batch
	rows    int64 // that DuckDB has taken
}

// newAppender returns an appender for the columns that have a cell in the rows of t. DuckDB fills the others.
func newAppender(c *conn, t driver.Table, have []datatype.Column) (*appender, error) {
	a := &appender{}
	if mapping.AppenderCreateExt(c.raw, "", "main", t.ID, &a.raw) == mapping.StateError {
		defer a.close()
		return nil, a.error()
	}
	for i, place := range t.Places(have) {
		if place < 0 {
			continue
		}
		f := field{cell: place, name: have[i].Name, typ: t.Columns[place].Type, required: have[i].Required}
		f.precision, f.scale, _ = f.typ.DecimalOf()
		a.fields = append(a.fields, f)
	}
	if len(a.fields) < len(have) {
		for _, f := range a.fields {
			if mapping.AppenderAddColumn(a.raw, f.name) == mapping.StateError {
				defer a.close()
				return nil, a.error()
			}
		}
	}
	for i := range a.fields {
		a.types = append(a.types, a.typeOf(i))
	}
	for range 2 {
		a.batches = append(a.batches, newBatch(a.fields, a.types))
	}
	return a, nil
}

// typeOf returns the type of a vector, which is the type of the cells. DuckDB converts a number for a wider column.
func (a *appender) typeOf(i int) mapping.LogicalType {
	kinds := map[datatype.Type]mapping.Type{
		datatype.Untyped: mapping.TypeVarchar, datatype.String: mapping.TypeVarchar, datatype.Bool: mapping.TypeBoolean,
		datatype.Int64: mapping.TypeBigInt, datatype.Float64: mapping.TypeDouble, datatype.Timestamp: mapping.TypeTimestampTZ,
		datatype.Date: mapping.TypeDate, datatype.UUID: mapping.TypeUUID, datatype.Bytes: mapping.TypeBlob,
	}
	f := a.fields[i]
	if f.typ == datatype.JSON { // a VARCHAR with an alias, which only the column's own type has
		return mapping.AppenderColumnType(a.raw, mapping.IdxT(i))
	}
	if kind, ok := kinds[f.typ]; ok {
		return mapping.CreateLogicalType(kind)
	}
	return mapping.CreateDecimalType(uint8(f.precision), uint8(f.scale))
}

func (a *appender) close() {
	for _, b := range a.batches {
		b.close()
	}
	for i := range a.types {
		mapping.DestroyLogicalType(&a.types[i])
	}
	// This flushes, which does no harm, because the transaction of a failed import is rolled back.
	mapping.AppenderDestroy(&a.raw)
}

// error returns why the last call of the appender has failed.
func (a *appender) error() error {
	data := mapping.AppenderErrorData(a.raw)
	defer mapping.DestroyErrorData(&data)
	return &sqlError{mapping.ErrorDataErrorType(data), mapping.ErrorDataMessage(data)}
}

// appendError is an error about one of the rows from number from on. DuckDB has taken the rows before it.
type appendError struct {
	err  error
	from int64
}

func (e *appendError) Error() string { return e.err.Error() }
func (e *appendError) Unwrap() error { return e.err }

// flushBytes bounds the rows that wait in DuckDB until they go to the table, which then checks its constraints. DuckDB flushes by itself
// after each 204,800 rows.
const flushBytes = 16 << 20

// probe looks for the row that the table refuses. From row from on, step rows at a time go to the table.
type probe struct{ from, step int64 }

var noProbe = probe{from: math.MaxInt64}

// splits reports whether a batch with this number of rows ends before the row next.
func (p probe) splits(rows int, next int64) bool {
	return next == p.from || next > p.from && int64(rows) >= p.step
}

// append appends all rows. The error is a [*driver.RowsError] with the rows that the driver refuses, or an [*appendError] if DuckDB refuses
// one.
func (a *appender) append(rows *driver.FileRows, p probe) error {
	defer rows.Close()
	free, full, done := make(chan *batch, len(a.batches)), make(chan *batch), make(chan error, 1)
	for _, b := range a.batches {
		free <- b
	}
	var failed atomic.Bool
	go func() { done <- a.handOver(full, free, p, &failed) }()
	refused := &driver.RowsError{}
	b := <-free
	for rows.Next() && !failed.Load() {
		cells, number := rows.Cells(), rows.Row()
		if b.rows > 0 && p.splits(b.rows, number) || !b.hasRoom(cells) {
			full <- b
			b = <-free
			b.hasRoom(cells)
		}
		if b.rows == 0 {
			b.first = number
		}
		column, reason := b.add(cells)
		if reason != "" && !refused.Add(driver.RowError{Row: number, Column: column, Reason: reason}) {
			break
		}
		if len(refused.Rows) > 0 {
			b.empty() // nothing will be stored, but all such rows are named
		}
	}
	full <- b
	close(full)
	err := <-done
	switch {
	case len(refused.Rows) > 0:
		return refused
	case rows.Err() != nil:
		return rows.Err()
	}
	return err
}

// handOver gives batches to DuckDB until there are no more.
func (a *appender) handOver(full <-chan *batch, free chan<- *batch, p probe, failed *atomic.Bool) (err error) {
	from, bytes := int64(0), 0 // of the rows that wait
	flush := func(next int64) {
		if mapping.AppenderFlush(a.raw) == mapping.StateError {
			err = &appendError{a.error(), from}
		}
		from, bytes = next, 0
	}
	for b := range full {
		if next := b.first + int64(b.rows); err == nil && b.rows > 0 {
			mapping.DataChunkSetSize(b.chunk, mapping.IdxT(b.rows))
			if bytes += b.bytes; mapping.AppendDataChunk(a.raw, b.chunk) == mapping.StateError {
				err = &appendError{a.error(), from}
			} else if a.rows += int64(b.rows); bytes >= flushBytes || next >= p.from {
				flush(next)
			}
			failed.Store(err != nil)
		}
		b.reset()
		free <- b
	}
	if err == nil {
		flush(from)
	}
	return err
}
