package driver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// RowReader reads the rows that a driver gets from [File.OpenRows], cell by cell and byte for byte. encoding/csv does not,
// because it turns "\r\n" inside a cell into "\n". It is not safe for concurrent use. [File.ReadRows] reads all slices and makes the
// checks.
//
//	for rows.Next() {
//		use(rows.Cells()) // compare their number with File.Table.Columns
//	}
//	if err := rows.Err(); err != nil {
//		return err
//	}
//	if rows.Rows() != obj.Rows {
//		return fmt.Errorf("staging has %d rows, want %d", rows.Rows(), obj.Rows)
//	}
//
// A row ends with "\n". A cell is quoted, with "" for a quote inside, and may hold any bytes. A cell without quotes is read as
// it stands, up to the next comma or row end. An empty one is nil in [RowReader.Cells], apart from the empty text.
type RowReader struct {
	in    *bufio.Reader
	line  []byte // the row, in the buffer of in, or all of long
	long  []byte // a row of several pieces
	cells [][]byte
	rows  int64
	err   error

	cellBytes []byte // the cells with quotes that scan has found
}

// NewRowReader returns a reader of the rows in r.
func NewRowReader(r io.Reader) *RowReader { return &RowReader{in: bufio.NewReaderSize(r, readerBytes)} }

// reset begins with the rows of another reader.
func (r *RowReader) reset(in io.Reader) {
	r.in.Reset(in)
	r.rows, r.err = 0, nil
}

// Next reads the next row and reports whether there is one. It returns false at the end and with an error, see
// [RowReader.Err].
func (r *RowReader) Next() bool {
	r.cells = r.cells[:0]
	if n := r.in.Buffered(); n > 0 && r.err == nil {
		buffered, _ := r.in.Peek(n)
		if n = r.scan(buffered); n > 0 {
			_, r.err = r.in.Discard(n)
			r.rows++
			return true
		}
		r.cells = r.cells[:0]
	}
	if !r.readRow() {
		return false
	}
	if r.err = r.split(r.line[:len(r.line)-1]); r.err != nil {
		r.cells = r.cells[:0]
		return false
	}
	r.rows++
	return true
}

// buffered returns the bytes that are read and not used yet. They begin with a row.
func (r *RowReader) buffered() []byte {
	if r.err != nil {
		return nil
	}
	all, _ := r.in.Peek(r.in.Buffered())
	return all
}

// skip consumes buffered rows.
func (r *RowReader) skip(n int, rows int64) {
	r.cells = r.cells[:0]
	if n > r.in.Buffered() {
		r.err = fmt.Errorf("a driver takes %d bytes of stored rows and was given %d", n, r.in.Buffered())
		return
	}
	_, _ = r.in.Discard(n) // cannot fail, nothing is read
	r.rows += rows
}

// readRow reads the next row into r.line, with its end. A newline outside of quotes ends a row.
func (r *RowReader) readRow() bool {
	if r.err != nil {
		return false
	}
	r.long = r.long[:0]
	for quoted := false; ; {
		piece, err := r.in.ReadSlice('\n')
		if bytes.Count(piece, quote)%2 == 1 { // a doubled quote toggles twice
			quoted = !quoted
		}
		if r.line = piece; err != nil || quoted || len(r.long) > 0 { // the next read overwrites the piece
			r.long = append(r.long, piece...)
			r.line = r.long
		}
		switch {
		case err == nil && !quoted:
			return true
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(r.line) == 0:
			r.err = io.EOF
			return false
		case errors.Is(err, io.EOF):
			r.err = r.fault("the data ends within the row")
			return false
		default:
			r.err = fmt.Errorf("row %d: %w", r.rows, err)
			return false
		}
	}
}

var quote = []byte{'"'}

// split finds the cells of a row without its end, in place.
func (r *RowReader) split(row []byte) error {
	for {
		var cell []byte
		if len(row) > 0 && row[0] == '"' {
			cell = row[1:1]
			for rest := row[1:]; ; {
				i := bytes.IndexByte(rest, '"')
				if i < 0 {
					return r.fault("a quoted cell has no end")
				}
				if len(cell) == 0 {
					cell = rest[:i]
				} else {
					cell = append(cell, rest[:i]...) // ends before rest[i:], which is not read yet
				}
				if rest = rest[i+1:]; len(rest) > 0 && rest[0] == '"' {
					cell, rest = append(cell, '"'), rest[1:]
					continue
				}
				row = rest
				break
			}
		} else {
			i := bytes.IndexByte(row, ',')
			if i < 0 {
				i = len(row)
			}
			if cell, row = row[:i:i], row[i:]; len(cell) == 0 {
				cell = nil
			}
			if bytes.IndexByte(cell, '"') >= 0 {
				return r.fault("a quote stands inside a cell that does not begin with one")
			}
		}
		r.cells = append(r.cells, cell[:len(cell):len(cell)])
		if len(row) == 0 {
			return nil
		}
		if row[0] != ',' {
			return r.fault(fmt.Sprintf("%q follows a quoted cell", row[0]))
		}
		row = row[1:]
	}
}

// NextStored reads the next row and returns it as it is stored, with its end, without a look at its cells. It returns false as Next does.
// The row is valid until the next call.
func (r *RowReader) NextStored() (row []byte, ok bool) {
	r.cells = r.cells[:0]
	if !r.readRow() {
		return nil, false
	}
	r.rows++
	return r.line, true
}

func (r *RowReader) fault(what string) error {
	return fmt.Errorf("row %d: %s: these are not rows of a buffer", r.rows, what)
}

// Cells returns the cells of the row. They are valid until the next call of Next, and the caller may modify them.
func (r *RowReader) Cells() [][]byte { return r.cells }

// Rows returns the number of rows that were read.
func (r *RowReader) Rows() int64 { return r.rows }

// Err returns why Next has returned false, or nil at the end of the rows.
func (r *RowReader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}
