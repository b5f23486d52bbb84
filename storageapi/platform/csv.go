package platform

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// csvFormat is how cells stand in a file. Quote is 0 when cells are escaped instead.
type csvFormat struct {
	delimiter, quote, escape byte
}

// plainCSV is the format of parts, with every cell quoted and rows that end with "\n".
var plainCSV = csvFormat{delimiter: ',', quote: '"'}

// csvReader reads rows. Unlike encoding/csv it keeps "\r\n" inside a cell, supports other quotes, and returns cells as
// bytes that are valid until the next row.
type csvReader struct {
	r      *bufio.Reader
	format csvFormat
	line   int64 // rows read so far
	data   []byte
	ends   []int
	cells  [][]byte
}

// maxRow bounds the memory that one row can take.
const maxRow = 64 << 20

func newCSVReader(r io.Reader, format csvFormat) *csvReader {
	return &csvReader{r: bufio.NewReaderSize(r, 64<<10), format: format}
}

// csvError is a row that cannot be read.
type csvError struct {
	row  int64
	text string
}

func (e *csvError) Error() string { return fmt.Sprintf("row %d: %s", e.row, e.text) }

func (c *csvReader) fail(text string) error { return &csvError{c.line + 1, text} }

// next returns the cells of the next row, or io.EOF. Lines without any character are skipped.
func (c *csvReader) next() ([][]byte, error) {
	for {
		c.data, c.ends = c.data[:0], c.ends[:0]
		bare, err := c.row()
		if err != nil {
			return nil, err
		}
		if bare && len(c.ends) == 1 && len(c.data) == 0 {
			continue
		}
		c.line++
		c.cells = c.cells[:0]
		begin := 0
		for _, end := range c.ends {
			c.cells = append(c.cells, c.data[begin:end:end])
			begin = end
		}
		return c.cells, nil
	}
}

// each calls row with the cells of every row, which are valid until row returns.
func (c *csvReader) each(row func(cells [][]byte) error) error {
	for {
		cells, err := c.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = row(cells)
		}
		if err != nil {
			return err
		}
	}
}

// row reads to the end of a row. bare says that no cell of it was quoted.
func (c *csvReader) row() (bare bool, err error) {
	bare = true
	for {
		first, err := c.r.ReadByte()
		if err == io.EOF {
			if len(c.ends) == 0 {
				return bare, io.EOF
			}
			c.ends = append(c.ends, len(c.data)) // a row that ends with a delimiter
			return bare, nil
		}
		if err != nil {
			return bare, err
		}
		var end byte
		if c.format.quote != 0 && first == c.format.quote {
			bare = false
			end, err = c.quoted()
		} else {
			if err := c.r.UnreadByte(); err != nil {
				return bare, err
			}
			end, err = c.unquoted()
		}
		if err != nil {
			return bare, err
		}
		c.ends = append(c.ends, len(c.data))
		if end == '\n' {
			return bare, nil
		}
		if len(c.ends) > maxColumns {
			return bare, c.fail("has too many cells")
		}
	}
}

// quoted reads to the end of a quoted cell and returns what ended it, the delimiter or a line break.
func (c *csvReader) quoted() (byte, error) {
	for {
		piece, err := c.r.ReadSlice(c.format.quote)
		c.data = append(c.data, piece...)
		if len(c.data) > maxRow {
			return 0, c.fail("is too long")
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF {
			return 0, c.fail("the file ends within a quoted cell")
		}
		if err != nil {
			return 0, err
		}
		after, err := c.r.ReadByte()
		if err == nil && after == c.format.quote {
			continue // a doubled quote, of which one was kept
		}
		c.data = c.data[:len(c.data)-1]
		switch {
		case err == io.EOF, err == nil && after == '\n':
			return '\n', nil
		case err != nil:
			return 0, err
		case after == c.format.delimiter:
			return after, nil
		case after == '\r':
			if after, err = c.r.ReadByte(); err == io.EOF || err == nil && after == '\n' {
				return '\n', nil
			}
			return 0, errors.Join(c.fail("a carriage return follows a closing quote"), err)
		}
		return 0, c.fail(fmt.Sprintf("%q follows a closing quote", after))
	}
}

func (c *csvReader) unquoted() (byte, error) {
	begin := len(c.data)
	for {
		b, err := c.r.ReadByte()
		switch {
		case err == io.EOF:
			c.data = trimReturn(c.data, begin)
			return '\n', nil
		case err != nil:
			return 0, err
		case c.format.escape != 0 && b == c.format.escape:
			if b, err = c.r.ReadByte(); err == io.EOF {
				return 0, c.fail("the file ends with an escape")
			} else if err != nil {
				return 0, err
			}
		case b == '\n':
			c.data = trimReturn(c.data, begin)
			return b, nil
		case b == c.format.delimiter:
			return b, nil
		}
		if c.data = append(c.data, b); len(c.data) > maxRow {
			return 0, c.fail("is too long")
		}
	}
}

// trimReturn removes the "\r" of a line end from the cell that starts at begin.
func trimReturn(data []byte, begin int) []byte {
	if len(data) > begin && data[len(data)-1] == '\r' {
		return data[:len(data)-1]
	}
	return data
}

// appendRow appends a row in the form of plainCSV.
func appendRow(dst []byte, cells [][]byte) []byte {
	for i, cell := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		for {
			at := bytes.IndexByte(cell, '"')
			if at < 0 {
				break
			}
			dst = append(append(dst, cell[:at+1]...), '"')
			cell = cell[at+1:]
		}
		dst = append(append(dst, cell...), '"')
	}
	return append(dst, '\n')
}
