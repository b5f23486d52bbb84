package buffer

import (
	"bytes"
	"errors"
	"io"
)

// rowCounter counts CSV rows in a stream of pieces: a newline outside of quotes ends a row.
type rowCounter struct {
	rows, bytes int64
	quoted      bool
	open        bool // bytes since the last row end
}

func (c *rowCounter) write(p []byte) {
	c.bytes += int64(len(p))
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\"\n")
		if i < 0 {
			c.open = true
			return
		}
		switch {
		case p[i] == '"':
			c.quoted = !c.quoted // a doubled quote toggles twice
			c.open = true
		case !c.quoted:
			c.rows++
			c.open = false
		}
		p = p[i+1:]
	}
}

var errTornRow = errors.New("the last row has no end")

func (c *rowCounter) end() error {
	if c.open || c.quoted {
		return errTornRow
	}
	return nil
}

// scanRows counts the rows and bytes of a stream of CSV.
func scanRows(r io.Reader) (rows, size int64, err error) {
	var c rowCounter
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		c.write(buf[:n])
		if err == io.EOF {
			return c.rows, c.bytes, c.end()
		}
		if err != nil {
			return c.rows, c.bytes, err
		}
	}
}

func countRows(e Encoding, payload []byte) (rows, size int64, err error) {
	if e == None {
		var c rowCounter
		c.write(payload)
		return c.rows, c.bytes, c.end()
	}
	plain, err := Decode(e, io.NopCloser(bytes.NewReader(payload)))
	if err != nil {
		return 0, 0, err
	}
	defer plain.Close()
	return scanRows(plain)
}
