package parquet

import (
	"context"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// MaxTail bounds what [Target.Tail] reads, in bytes of plain values. Values come by pages, of 512 KiB or one long value, so that the last row takes one
// page of each column, in addition to its dictionary.
const MaxTail = 16 << 20

// Tail implements [driver.Tailer]. It reads the parts that are last by name, which is roughly the order of the imports, of each the last pages, and not
// more than [MaxTail].
func (t *Target) Tail(ctx context.Context, table string, n int) (driver.Tail, error) {
	tail, err := t.folder.Tail(ctx, table, n, MaxTail, t.lastRows)
	if err != nil {
		return driver.Tail{}, fmt.Errorf("parquet: read the end of %q: %w", table, err)
	}
	return tail, nil
}

func (t *Target) lastRows(ctx context.Context, d parts.Definition, path string, n int, limit int64) (rows [][][]byte, read int64, err error) {
	info, err := t.folder.FS.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	f, err := t.folder.FS.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return nil, 0, errors.ErrUnsupported
	}
	return LastRows(ctx, at, info.Size(), d.Columns, n, limit)
}

// LastRows returns the last rows of a part, n at most, in their order, as the canonical texts of columns. NULL is nil, and so is a column that the part
// lacks. It returns fewer rows if it would have to read more than limit bytes of plain values for the others, and [driver.ErrTailTooLarge] if that is so
// for the last one. read is how much of the limit it has used, which is all of it if there are fewer rows for that reason.
func LastRows(ctx context.Context, part io.ReaderAt, size int64, columns []datatype.Column, n int, limit int64) (rows [][][]byte, read int64, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some damaged files
			rows, err = nil, fmt.Errorf("it cannot be read: %v", r)
		}
	}()
	p, err := openFile(part, size)
	if err != nil {
		return nil, 0, err
	}
	if !p.flat {
		return nil, 0, errors.New("its columns are nested")
	}
	t := tailReader{ctx: ctx, file: p, columns: make([]column, len(columns)), places: make([]int, len(columns))}
	for i, c := range columns {
		t.columns[i], t.places[i] = newColumn(c.Name, c, c), placeOf(p, c.Name)
		if at := t.places[i]; at >= 0 && !fits(p.schema.Fields()[at], c) {
			return nil, 0, fmt.Errorf("its column %q is not of the type of the table", c.Name)
		}
	}
	for g := len(p.meta.RowGroups) - 1; g >= 0 && len(rows) < n; g-- {
		want := min(p.meta.RowGroups[g].NumRows, int64(n-len(rows)))
		more, used, err := t.groupEnd(g, want, limit-read)
		if errors.Is(err, driver.ErrTailTooLarge) && len(rows) > 0 {
			return rows, limit, nil
		}
		if err != nil {
			return nil, read, err
		}
		rows = append(more, rows...)
		if read += used; int64(len(more)) < want {
			return rows, limit, nil
		}
	}
	return rows, read, nil
}

// tailReader reads the end of a part.
type tailReader struct {
	ctx     context.Context
	file    *partFile
	columns []column
	places  []int // of the columns in the part, where -1 means that it lacks them
}

// groupEnd returns the last rows of a row group, n of them, or a half, a quarter and so on if those cost less than the limit.
func (t *tailReader) groupEnd(g int, n, limit int64) (rows [][][]byte, cost int64, err error) {
	group, err := t.file.group(g)
	if err != nil {
		return nil, 0, err
	}
	for want := n; want > 0; want /= 2 {
		if cost, err = t.cost(g, want, limit); err != nil {
			return nil, 0, err
		}
		if cost > limit {
			continue
		}
		rows = make([][][]byte, want)
		cells := make([][]byte, want*int64(len(t.columns)))
		for i := range rows {
			rows[i], cells = cells[:len(t.columns):len(t.columns)], cells[len(t.columns):]
		}
		for i, at := range t.places {
			if at < 0 {
				continue
			}
			if err := t.columnEnd(group.ColumnChunks()[at], group.NumRows()-want, rows, i); err != nil {
				return nil, cost, fmt.Errorf("column %q: %w", t.columns[i].name, err)
			}
		}
		return rows, cost, nil
	}
	if n == 0 {
		return nil, 0, nil
	}
	return nil, 0, driver.ErrTailTooLarge
}

// cost is the number of plain bytes in the pages that have the last rows of a row group, and in their dictionaries. The pages are checked unless
// that is more than limit. Then it is any number that is too large.
func (t *tailReader) cost(g int, rows, limit int64) (cost int64, err error) {
	for _, at := range t.places {
		if at < 0 {
			continue
		}
		if t.ctx.Err() != nil {
			return 0, context.Cause(t.ctx)
		}
		plain, err := t.file.checkChunk(g, at, t.file.meta.RowGroups[g].NumRows-rows, limit-cost)
		if cost += plain; err != nil || cost > limit {
			return cost, err
		}
	}
	return cost, nil
}

// columnEnd sets one cell of each row to the texts of a column from a row of its group on.
func (t *tailReader) columnEnd(chunk pq.ColumnChunk, from int64, rows [][][]byte, cell int) error {
	if _, err := chunk.OffsetIndex(); err != nil && !errors.Is(err, pq.ErrMissingOffsetIndex) { // SeekToRow uses it once it was read
		return err
	}
	pages := chunk.Pages()
	defer pages.Close()
	if err := pages.SeekToRow(from); err != nil {
		return err
	}
	values := make([]pq.Value, min(len(rows), batchRows))
	for at := 0; at < len(rows); {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		page, err := pages.ReadPage()
		if err != nil {
			return fmt.Errorf("%d of %d values: %w", at, len(rows), err)
		}
		err = eachInPage(page, values, func(values []pq.Value) error {
			for _, v := range values[:min(len(values), len(rows)-at)] {
				rows[at][cell] = t.columns[cell].textOf(v)
				at++
			}
			return nil
		})
		pq.Release(page)
		if err != nil {
			return err
		}
	}
	return nil
}

// textOf returns the canonical text of a value, nil for NULL.
func (c *column) textOf(v pq.Value) []byte {
	if v.IsNull() {
		return nil
	}
	switch c.kind {
	case binary:
		return base64.StdEncoding.AppendEncode([]byte{}, v.ByteArray())
	case boolean:
		return strconv.AppendBool(nil, v.Boolean())
	case integer:
		return strconv.AppendInt(nil, v.Int64(), 10)
	case number:
		return datatype.AppendFloat64(nil, v.Double())
	case moment:
		return time.UnixMicro(v.Int64()).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z")
	case date:
		return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().AppendFormat(nil, time.DateOnly)
	case identifier:
		return uuidText(v.ByteArray())
	case decimal:
		return c.decimalText(v)
	}
	return append([]byte{}, v.ByteArray()...)
}

func uuidText(id []byte) []byte {
	text := hex.AppendEncode(nil, id)
	for _, at := range []int{20, 16, 12, 8} {
		text = slices.Insert(text, at, '-')
	}
	return text
}

func (c *column) decimalText(v pq.Value) []byte {
	var n big.Int
	if c.store == fixed {
		b := v.ByteArray()
		n.SetInt64(int64(endian.BigEndian.Uint64(b))).Lsh(&n, 64)
		n.Add(&n, new(big.Int).SetUint64(endian.BigEndian.Uint64(b[8:])))
	} else {
		n.SetInt64(v.Int64()) // an INT32 too
	}
	digits := new(big.Int).Abs(&n).Append(nil, 10)
	for len(digits) <= c.scale {
		digits = slices.Insert(digits, 0, '0')
	}
	if c.scale > 0 {
		digits = slices.Insert(digits, len(digits)-c.scale, '.')
	}
	if n.Sign() < 0 {
		digits = slices.Insert(digits, 0, '-')
	}
	return digits
}
