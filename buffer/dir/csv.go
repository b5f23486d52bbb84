package dir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errCutRow says that the data ends within a row.
var errCutRow = errors.New("the data ends within a row")

// rowChecker is an [io.Writer] that checks and counts CSV rows as they pass: every cell is quoted, rows end with "\n".
type rowChecker struct {
	columns int // cells per row; 0: any number
	rows    int64
	cells   int // complete cells of the current row
	state   rowState
}

type rowState uint8

const (
	beforeCell rowState = iota
	inCell
	afterQuote // a quote in a cell: its end, or the first half of a doubled one
)

func (c *rowChecker) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i++ {
		switch c.state {
		case beforeCell:
			if p[i] != '"' {
				return i, fmt.Errorf("row %d, cell %d: want a quote, got %q", c.rows+1, c.cells+1, p[i])
			}
			c.state = inCell
		case inCell:
			n := bytes.IndexByte(p[i:], '"')
			if n < 0 {
				return len(p), nil
			}
			i += n
			c.state = afterQuote
		case afterQuote:
			switch p[i] {
			case '"':
				c.state = inCell
			case ',':
				c.cells++
				c.state = beforeCell
			case '\n':
				if c.columns > 0 && c.cells+1 != c.columns {
					return i, fmt.Errorf("row %d has %d cells, the table has %d columns", c.rows+1, c.cells+1, c.columns)
				}
				c.rows++
				c.cells = 0
				c.state = beforeCell
			default:
				return i, fmt.Errorf("row %d, cell %d: %q follows the closing quote", c.rows+1, c.cells+1, p[i])
			}
		}
	}
	return len(p), nil
}

// end checks that the last row is complete.
func (c *rowChecker) end() error {
	if c.state != beforeCell || c.cells > 0 {
		return errCutRow
	}
	return nil
}

// rowReader reads rows back. Unlike [encoding/csv] it keeps "\r\n" in a cell unchanged.
type rowReader struct {
	r    *bufio.Reader
	cell []byte
}

func newRowReader(r io.Reader) *rowReader {
	return &rowReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next row, or io.EOF after the last one.
func (r *rowReader) next(columns int) ([]string, error) {
	row := make([]string, 0, columns)
	for {
		first, err := r.r.ReadByte()
		if err == io.EOF && len(row) > 0 {
			err = errCutRow
		}
		if err != nil {
			return nil, err
		}
		if first != '"' {
			return nil, fmt.Errorf("want a quote, got %q", first)
		}
		last, err := r.readCell()
		if err == io.EOF {
			err = errCutRow
		}
		if err != nil {
			return nil, err
		}
		row = append(row, string(r.cell))
		switch last {
		case '\n':
			return row, nil
		case ',':
		default:
			return nil, fmt.Errorf("%q follows a closing quote", last)
		}
	}
}

// readCell reads to the end of a cell into r.cell, and returns the byte after the closing quote.
func (r *rowReader) readCell() (byte, error) {
	r.cell = r.cell[:0]
	for {
		piece, err := r.r.ReadSlice('"')
		r.cell = append(r.cell, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return 0, err
		}
		after, err := r.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if after != '"' {
			r.cell = r.cell[:len(r.cell)-1]
			return after, nil
		}
	}
}
