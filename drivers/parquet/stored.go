package parquet

import (
	"bytes"
	endian "encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/quotes"
	"github.com/forebay/forebay/driverkit/uuidtext"
)

// addStored adds rows in the form in which they are stored, straight to the pages. That takes half of the CPU of finding all cells first. It ends
// before a row that is cut, that belongs to another part, or that has a cell in another form than the engine writes. Then add takes that row, and
// reports its fault. Both ways lead to the same pages.
func (w *fileWriter) addStored(rows *driver.FileRows) error {
	if w.last == nil || w.refused != nil {
		return nil
	}
	p, stored, taken, count := w.last, rows.Buffered(), 0, int64(0)
	for room := p.room(); ; {
		n, size, full := w.addStoredRow(p, stored[taken:])
		if n == 0 {
			rows.Skip(taken, count)
			return nil
		}
		taken += n
		count++
		if room--; full || room <= 0 {
			for i, in := range p.open {
				if in.full() {
					if err := p.endPage(i); err != nil {
						return err
					}
				}
			}
			room = p.room()
		}
		if err := w.added(p, size); err != nil {
			return err
		}
	}
}

// room returns how many rows can be added before a page has all its rows.
func (w *pages) room() int {
	most := 0
	for _, p := range w.open {
		most = max(most, p.rows)
	}
	return pageRows - most
}

// addStoredRow adds the first row of stored. It returns its length there, the size that add gives it, and whether a page may be full of bytes. The
// length is 0 if it leaves the row and the pages as they are.
func (w *fileWriter) addStoredRow(p *partWriter, stored []byte) (n, size int, full bool) {
	for i := range w.columns {
		c, in := &w.columns[i], p.open[i]
		length, cell, ok := c.addStored(in, stored[n:])
		if !ok {
			w.undoRow(p, i)
			return 0, 0, false
		}
		if i == w.day && (cell < len(w.lastDay) || string(stored[n+1:][:len(w.lastDay)]) != w.lastDay) {
			w.undoRow(p, i+1)
			return 0, 0, false
		}
		end := byte(',')
		if i == len(w.columns)-1 {
			end = '\n'
		}
		if n += length; n >= len(stored) || stored[n] != end {
			w.undoRow(p, i+1)
			return 0, 0, false
		}
		n++
		size += 8 + cell
		full = full || len(in.data) >= pageBytes
	}
	return n, size, full
}

// undoRow takes the first cells of a row back.
func (w *fileWriter) undoRow(p *partWriter, cells int) {
	for i := range cells {
		p.open[i].undo(&w.columns[i])
	}
}

// shortCell bounds a cell of a type whose texts are short, with the quotes and what follows.
const shortCell = 64

// addStored appends the first cell of stored to a page. It returns the length that the cell has there, and its own. If it does not know the form of
// the cell, ok is false, and it leaves the page as it is.
func (c *column) addStored(p *page, stored []byte) (n, cell int, ok bool) {
	if len(stored) < shortCell {
		return 0, 0, false
	}
	if stored[0] != '"' {
		if stored[0] != ',' && stored[0] != '\n' || c.notNull {
			return 0, 0, false
		}
		p.addNull()
		return 0, 0, true
	}
	switch c.kind {
	case text, document:
		if n = p.addShortText(stored); n > 0 {
			return n, n - 2, true
		}
		return p.addStoredText(stored)
	case identifier:
		const n = 2 + uuidtext.Len
		hi, lo, ok := uuidtext.Parse(stored[1 : n-1])
		if !ok || stored[n-1] != '"' {
			return 0, 0, false
		}
		p.data = endian.BigEndian.AppendUint64(endian.BigEndian.AppendUint64(p.data, hi), lo)
		p.countValue()
		return n, n - 2, true
	case moment:
		const n = len(`"2006-01-02T15:04:05.000000Z"`)
		micros, err := datatype.ParseTimestamp(stored[1 : n-1])
		if err != nil || stored[n-1] != '"' {
			return 0, 0, false
		}
		p.longs = append(p.longs, micros)
		p.countValue()
		return n, n - 2, true
	case boolean:
		is := string(stored[:6]) == `"true"`
		if n = len(`"true"`); !is {
			if n = len(`"false"`); string(stored[:7]) != `"false"` {
				return 0, 0, false
			}
		}
		p.addBool(is)
		p.countValue()
		return n, n - 2, true
	}
	if n = 2 + bytes.IndexByte(stored[1:], '"'); n < 2 { // none of the other texts has a quote
		return 0, 0, false
	}
	values := stored[1 : n-1]
	switch c.kind {
	case integer:
		v, err := datatype.ParseInt64(values)
		if err != nil {
			return 0, 0, false
		}
		p.longs = append(p.longs, v)
		p.countValue()
	case number:
		v, err := datatype.ParseFloat64(values)
		if err != nil {
			return 0, 0, false
		}
		p.data = endian.LittleEndian.AppendUint64(p.data, math.Float64bits(v))
		p.countValue()
	default:
		p.before = len(p.data)
		if c.addCell(p, values) != nil {
			p.trim(c)
			return 0, 0, false
		}
	}
	return n, n - 2, true
}

// addShortText appends the first cell of stored, which begins with a quote and has shortCell bytes or more. It returns its length there, or 0 if it
// leaves the page as it is because the text has more than 15 bytes, a quote, or other bytes than ASCII. It takes half the time of addStoredText.
func (p *page) addShortText(stored []byte) int {
	a, b := endian.LittleEndian.Uint64(stored[1:]), endian.LittleEndian.Uint64(stored[9:])
	size := bits.TrailingZeros64(quotes.In(a)) / 8
	if size == 8 {
		if size += bits.TrailingZeros64(quotes.In(b)) / 8; size == 16 {
			return 0
		}
	}
	if stored[size+2] == '"' || (a|b)&0x8080808080808080 != 0 {
		return 0
	}
	p.before = len(p.data)
	p.data = slices.Grow(p.data, 20)
	data := p.data[p.before : p.before+20]
	endian.LittleEndian.PutUint32(data, uint32(size))
	endian.LittleEndian.PutUint64(data[4:], a) // surplus bytes are overwritten later
	endian.LittleEndian.PutUint64(data[12:], b)
	p.data = p.data[:p.before+4+size]
	p.countValue()
	return size + 2
}

// addStoredText appends the first cell of stored, which begins with a quote, without the second one of two quotes.
func (p *page) addStoredText(stored []byte) (n, cell int, ok bool) {
	const atOnce = 16 // bytes are copied at once, and surplus bytes are overwritten later
	p.before = len(p.data)
	begin := len(p.data) + 4
	p.data = slices.Grow(p.data, 4+quotes.Bytes+atOnce)
	to, at, high := begin, 1, uint64(0)
	for {
		if at+quotes.Bytes+atOnce > len(stored) {
			p.data = p.data[:p.before]
			return 0, 0, false
		}
		p.data = slices.Grow(p.data[:to], quotes.Bytes+atOnce)
		data, block := p.data[:cap(p.data)], stored[at:at+quotes.Bytes+atOnce]
		for mask, from := quotes.Of((*[quotes.Bytes]byte)(block)), 0; ; mask &= mask - 1 {
			quote := min(bits.TrailingZeros64(mask), quotes.Bytes)
			for i := from; i < quote; i += atOnce {
				a, b := endian.LittleEndian.Uint64(block[i:]), endian.LittleEndian.Uint64(block[i+8:])
				endian.LittleEndian.PutUint64(data[to+i-from:], a)
				endian.LittleEndian.PutUint64(data[to+i-from+8:], b)
				high |= a | b
			}
			to += quote - from
			if quote == quotes.Bytes {
				at += quotes.Bytes
				break
			}
			if block[quote+1] != '"' {
				// high may have bytes of the next cell. Then all are looked at.
				if high&0x8080808080808080 != 0 && !utf8.Valid(data[begin:to]) {
					p.data = p.data[:p.before]
					return 0, 0, false
				}
				p.data = data[:to]
				endian.LittleEndian.PutUint32(data[p.before:], uint32(to-begin))
				p.countValue()
				return at + quote + 1, to - begin, true
			}
			data[to] = '"'
			to++
			if from = quote + 2; quote == quotes.Bytes-1 {
				at += quotes.Bytes + 1
				break
			}
			mask &= mask - 1
		}
	}
}

// undo removes the last cell, which addStored has added.
func (p *page) undo(c *column) {
	p.rows--
	if p.nulls > 0 {
		last := p.levels[len(p.levels)-1]
		p.levels = p.levels[:len(p.levels)-1]
		if last == 0 {
			if p.nulls--; p.nulls == 0 {
				p.levels = p.levels[:0]
			}
			return
		}
	}
	p.trim(c)
}

// trim removes the bytes added for a value that is not counted.
func (p *page) trim(c *column) {
	values := p.rows - p.nulls
	switch c.store {
	case texts:
		p.data = p.data[:p.before]
	case longs:
		p.longs = p.longs[:values]
	case ints:
		p.ints = p.ints[:values]
	case doubles:
		p.data = p.data[:values*8]
	case fixed:
		p.data = p.data[:values*16]
	case booleans:
		p.data = p.data[:(values+7)/8]
		if used := values % 8; used > 0 {
			p.data[len(p.data)-1] &= 1<<used - 1
		}
	}
}
