package parquet

import (
	"bytes"
	endian "encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/quotes"
)

// addStored adds rows in the form in which they are stored, straight to the pages. That takes half of the CPU of finding all cells first. It ends
// before a row that is cut, that belongs to another part, or that has a cell in another form than the engine writes: add takes that row, and
// says what is wrong with it. Both ways lead to the same pages.
func (w *fileWriter) addStored(rows *buffer.FileRows) error {
	if w.last == nil || w.refused != nil {
		return nil
	}
	stored := rows.Buffered()
	for p := w.last; ; {
		n, size, full := w.addStoredRow(p, stored)
		if n == 0 {
			return nil
		}
		rows.Skip(n, 1)
		stored = stored[n:]
		if full {
			for i, in := range p.open {
				if in.full() {
					if err := p.endPage(i); err != nil {
						return err
					}
				}
			}
		}
		if err := w.added(p, size); err != nil {
			return err
		}
	}
}

// addStoredRow adds the first row of stored. It returns its length there, the size that add gives it, and whether a page is full. The length is 0
// if it leaves the row and the pages as they are.
func (w *fileWriter) addStoredRow(p *partWriter, stored []byte) (n, size int, full bool) {
	end := byte('\n')
	for i := range w.columns {
		in := p.open[i]
		in.mark()
		length, cell, ok := w.columns[i].addStored(in, stored[n:])
		if ok && i == w.day {
			ok = cell >= len(w.lastDay) && string(stored[n+1:][:len(w.lastDay)]) == w.lastDay
		}
		n += length
		if end = '\n'; i < len(w.columns)-1 {
			end = ','
		}
		if !ok || n >= len(stored) || stored[n] != end {
			for j := range i + 1 {
				p.open[j].undo(&w.columns[j])
			}
			return 0, 0, false
		}
		n++
		size += 8 + cell
		full = full || in.full()
	}
	return n, size, full
}

// addStored appends the first cell of stored to a page. It returns the length that the cell has there, and its own. If it does not know the form of
// the cell, ok is false, and the page must be undone.
func (c *column) addStored(p *page, stored []byte) (n, cell int, ok bool) {
	if len(stored) == 0 {
		return 0, 0, false
	}
	if stored[0] != '"' {
		return 0, 0, (stored[0] == ',' || stored[0] == '\n') && c.addCell(p, nil) == nil
	}
	switch c.kind {
	case text, document:
		return p.addStoredText(stored)
	case identifier:
		n = len(`"00000000-0000-0000-0000-000000000000"`)
	case moment:
		n = len(`"2006-01-02T15:04:05.000000Z"`)
	case date:
		n = len(`"2006-01-02"`)
	default:
		n = 2 + bytes.IndexByte(stored[1:], '"')
	}
	if n < 2 || n > len(stored) || stored[n-1] != '"' {
		return 0, 0, false
	}
	return n, n - 2, c.addCell(p, stored[1:n-1]) == nil // no value has a quote
}

// addStoredText appends the first cell of stored, which begins with a quote, without the second one of two quotes.
func (p *page) addStoredText(stored []byte) (n, cell int, ok bool) {
	const atOnce = 16 // bytes are copied at once, and what is too much is overwritten
	begin := len(p.data) + 4
	p.data = slices.Grow(p.data, 4+quotes.Bytes+atOnce)
	to, at, high := begin, 1, uint64(0)
	for {
		if at+quotes.Bytes+atOnce > len(stored) {
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
				n = at + quote + 1
				p.data = data[:to]
				endian.LittleEndian.PutUint32(data[begin-4:], uint32(to-begin))
				// high may have bytes of the next cell. Then all are looked at.
				ok = high&0x8080808080808080 == 0 || utf8.Valid(data[begin:to])
				p.addLevel()
				return n, to - begin, ok
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

// mark is a place in a page to which undo goes back.
type mark struct{ rows, nulls, bytes int }

func (p *page) mark() { p.marked = mark{p.rows, p.nulls, len(p.data)} }

// undo removes what was added since mark: one cell, or what is left of a cell that could not be added.
func (p *page) undo(c *column) {
	m := p.marked
	p.rows, p.nulls = m.rows, m.nulls
	if p.levels = p.levels[:min(len(p.levels), m.rows)]; m.nulls == 0 {
		p.levels = p.levels[:0]
	}
	p.data = p.data[:m.bytes]
	values := m.rows - m.nulls
	switch c.store {
	case longs:
		p.longs = p.longs[:values]
	case ints:
		p.ints = p.ints[:values]
	case booleans:
		if used := values % 8; used > 0 {
			p.data[m.bytes-1] &= 1<<used - 1
		}
	}
}
