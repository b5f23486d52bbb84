package dir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forebay/forebay/driver"
)

var errCutRow = errors.New("the data ends within a row")

// rowChecker is an [io.Writer] that checks and counts CSV rows as they pass. Every cell is quoted or, for NULL, empty, and
// rows end with "\n".
type rowChecker struct {
	columns int // cells per row, 0 for any number
	rows    int64
	cells   int // complete cells of the current row
	state   rowState
}

type rowState uint8

const (
	beforeCell rowState = iota
	inCell
	afterQuote // a quote in a cell, which is its end or the first half of a doubled one
)

func (c *rowChecker) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i++ {
		switch c.state {
		case beforeCell:
			switch p[i] {
			case '"':
				c.state = inCell
			case ',', '\n': // NULL
				if err := c.endCell(p[i]); err != nil {
					return i, err
				}
			default:
				return i, fmt.Errorf("row %d, cell %d: want a quote, got %q", c.rows+1, c.cells+1, p[i])
			}
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
			case ',', '\n':
				if err := c.endCell(p[i]); err != nil {
					return i, err
				}
			default:
				return i, fmt.Errorf("row %d, cell %d: %q follows the closing quote", c.rows+1, c.cells+1, p[i])
			}
		}
	}
	return len(p), nil
}

// endCell ends a cell, and with '\n' its row.
func (c *rowChecker) endCell(by byte) error {
	c.cells++
	c.state = beforeCell
	if by == ',' {
		return nil
	}
	if c.columns > 0 && c.cells != c.columns {
		return fmt.Errorf("row %d has %d cells, the table has %d columns", c.rows+1, c.cells, c.columns)
	}
	c.rows++
	c.cells = 0
	return nil
}

// end checks that the last row is complete.
func (c *rowChecker) end() error {
	if c.state != beforeCell || c.cells > 0 {
		return errCutRow
	}
	return nil
}

// endOf checks that as many rows were read as a slice has.
func (c *rowChecker) endOf(obj driver.Object) error {
	if err := c.end(); err != nil {
		return err
	}
	if c.rows != obj.Rows {
		return fmt.Errorf("staging has %d rows, want %d", c.rows, obj.Rows)
	}
	return nil
}

// newRowReader returns a reader of a part. Like [rowChecker] it refuses values without quotes.
func newRowReader(r io.Reader) *driver.RowReader {
	return driver.NewRowReader(io.TeeReader(r, &rowChecker{}))
}

func headerLine(names []string) []byte {
	var b bytes.Buffer
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(strings.ReplaceAll(name, `"`, `""`))
		b.WriteByte('"')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// readRow appends the bytes of the next row, with its end, to row. The error is [io.EOF] if there is none.
func readRow(in *bufio.Reader, row []byte) ([]byte, error) {
	for quoted := false; ; {
		piece, err := in.ReadSlice('\n')
		row = append(row, piece...)
		if bytes.Count(piece, []byte{'"'})%2 == 1 { // a doubled quote toggles twice
			quoted = !quoted
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull), err == nil && quoted:
		case errors.Is(err, io.EOF) && len(row) > 0:
			return row, errCutRow
		default:
			return row, err
		}
	}
}

// rawCell returns cell k of a row that a [rowChecker] has passed, without its outer quotes, or nil for NULL.
func rawCell(row []byte, k int) []byte {
	for ; ; k-- {
		end := 0 // after the cell
		for end < len(row) && row[end] == '"' {
			end++
			end += bytes.IndexByte(row[end:], '"') + 1
		}
		switch {
		case k > 0:
			row = row[end+1:]
		case end == 0:
			return nil
		default:
			return row[1 : end-1]
		}
	}
}
