package dir

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/forebay/forebay/buffer"
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

// newRowReader returns a reader of a part. Like [rowChecker] it refuses cells without quotes.
func newRowReader(r io.Reader) *buffer.RowReader {
	return buffer.NewRowReader(io.TeeReader(r, &rowChecker{}))
}
