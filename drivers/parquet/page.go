package parquet

import (
	"bytes"
	"cmp"
	endian "encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/textcut"
)

const (
	// pageRows and pageBytes end a page. Readers skip by pages, and one fits the cache of a core while it is made.
	pageRows, pageBytes = 16 << 10, 512 << 10
	// boundBytes is the greatest length of a text as a bound. Longer texts are cut.
	boundBytes = 64
)

// page has the values of one column in some rows, before encoding. A NULL takes a level and no value.
type page struct {
	rows, nulls int
	levels      []byte  // 1 for a value, 0 for NULL. It is empty while there is no NULL
	data        []byte  // values as PLAIN has them, of columns that are not stored as integers
	longs       []int64 // values of columns that are
	ints        []int32
	before      int // the length of data before the last text of addStored
}

func (p *page) reset() {
	*p = page{levels: p.levels[:0], data: p.data[:0], longs: p.longs[:0], ints: p.ints[:0]}
}

func (p *page) full() bool { return p.rows >= pageRows || len(p.data) >= pageBytes }

// bytes is the memory of the values.
func (p *page) bytes() int { return len(p.levels) + len(p.data) + 8*len(p.longs) + 4*len(p.ints) }

// countValue counts a row whose value was appended.
func (p *page) countValue() {
	if p.nulls > 0 {
		p.levels = append(p.levels, 1)
	}
	p.rows++
}

func (p *page) addNull() {
	if p.nulls == 0 {
		for range p.rows {
			p.levels = append(p.levels, 1)
		}
	}
	p.levels = append(p.levels, 0)
	p.nulls++
	p.rows++
}

func (p *page) addText(text []byte) {
	p.data = append(endian.LittleEndian.AppendUint32(p.data, uint32(len(text))), text...)
}

func (p *page) addBool(b bool) {
	at := uint(p.rows-p.nulls) % 8
	if at == 0 {
		p.data = append(p.data, 0)
	}
	if b {
		p.data[len(p.data)-1] |= 1 << at
	}
}

// texts yields the texts of a page.
func (p *page) texts(yield func([]byte) bool) {
	for data := p.data; len(data) > 0; {
		end := 4 + int(endian.LittleEndian.Uint32(data))
		if !yield(data[4:end:end]) {
			return
		}
		data = data[end:]
	}
}

// bounds are the least and the greatest value. In statistics a shorter text may take their place, one that is not greater or not smaller. Both
// are nil if there is no value that can be a bound.
type bounds struct{ least, most []byte }

// add widens b by v, which b may keep.
func (b *bounds) add(c *column, v []byte) {
	if b.least == nil {
		b.least, b.most = v, v
	} else if c.compare(v, b.least) < 0 {
		b.least = v
	} else if c.compare(v, b.most) > 0 {
		b.most = v
	}
}

// boundsOf returns the bounds of a page, in separate memory.
func (c *column) boundsOf(p *page) (b bounds) {
	switch c.store {
	case longs:
		if len(p.longs) > 0 {
			b.least = endian.LittleEndian.AppendUint64(nil, uint64(slices.Min(p.longs)))
			b.most = endian.LittleEndian.AppendUint64(nil, uint64(slices.Max(p.longs)))
		}
		return b
	case ints:
		if len(p.ints) > 0 {
			b.least = endian.LittleEndian.AppendUint32(nil, uint32(slices.Min(p.ints)))
			b.most = endian.LittleEndian.AppendUint32(nil, uint32(slices.Max(p.ints)))
		}
		return b
	case booleans:
		n, trues := p.rows-p.nulls, 0
		for _, eight := range p.data {
			trues += bits.OnesCount8(eight)
		}
		if n > 0 {
			b = bounds{[]byte{0}, []byte{0}}
			if trues == n {
				b.least[0] = 1
			}
			if trues > 0 {
				b.most[0] = 1
			}
		}
		return b
	case doubles:
		return doubleBounds(p.data)
	case fixed:
		b = c.fixedBounds(p.data)
	case texts:
		b = c.textBounds(p.data)
	}
	return b.cut(c)
}

// fixedBounds compares halves of values, which nearly always tell that a value is between the bounds.
func (c *column) fixedBounds(data []byte) (b bounds) {
	sign := uint64(0)
	if c.kind == decimal {
		sign = 1 << 63
	}
	low, high := uint64(1), uint64(0) // the halves of b. Nothing is between these
	for at := 0; at < len(data); at += 16 {
		v := data[at : at+16]
		if half := endian.BigEndian.Uint64(v) ^ sign; low < half && half < high {
			continue
		}
		b.add(c, v)
		low, high = endian.BigEndian.Uint64(b.least)^sign, endian.BigEndian.Uint64(b.most)^sign
	}
	return b
}

// textBounds compares the eight bytes after the common prefix of the bounds, which nearly always show that a text is between them. The
// design that lost compares each text with both bounds, which takes three times as long.
func (c *column) textBounds(data []byte) (b bounds) {
	same, low, high := 0, uint64(1), uint64(0)
	for len(data) > 0 {
		end := 4 + int(endian.LittleEndian.Uint32(data))
		text := data[4:end:end]
		data = data[end:]
		if low < high && len(text) >= same+8 && string(text[:same]) == string(b.least[:same]) {
			if eight := endian.BigEndian.Uint64(text[same:]); low < eight && eight < high {
				continue
			}
		}
		b.add(c, text)
		same, low, high = 0, 1, 0
		for n := min(len(b.least), len(b.most)); same < n && b.least[same] == b.most[same]; {
			same++
		}
		if len(b.least) >= same+8 && len(b.most) >= same+8 {
			low, high = endian.BigEndian.Uint64(b.least[same:]), endian.BigEndian.Uint64(b.most[same:])
		}
	}
	return b
}

// doubleBounds leaves out NaN, which cannot be a bound, and treats both zeros as equal, as the format demands.
func doubleBounds(data []byte) (b bounds) {
	least, most := math.Inf(1), math.Inf(-1)
	for at := 0; at < len(data); at += 8 {
		f := math.Float64frombits(endian.LittleEndian.Uint64(data[at:]))
		if f < least {
			least = f
		}
		if f > most {
			most = f
		}
	}
	if least > most {
		return b
	}
	if least == 0 {
		least = math.Copysign(0, -1)
	}
	if most == 0 {
		most = 0
	}
	b.least = endian.LittleEndian.AppendUint64(nil, math.Float64bits(least))
	b.most = endian.LittleEndian.AppendUint64(nil, math.Float64bits(most))
	return b
}

// cut returns bounds in separate memory, of at most boundBytes.
func (b bounds) cut(c *column) bounds {
	if b.least == nil || c.store != texts {
		return bounds{bytes.Clone(b.least), bytes.Clone(b.most)}
	}
	least := textcut.Head(b.least, boundBytes)
	most := append([]byte{}, b.most...)
	if len(most) > boundBytes {
		if most = following(textcut.Head(most, boundBytes)); most == nil {
			return bounds{}
		}
	}
	return bounds{append([]byte{}, least...), most}
}

// following returns a text that is greater than every text that begins with this one, or nil. It reuses the memory of text.
func following(text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeLastRune(text)
		last := text[len(text)-1]
		switch text = text[:len(text)-n]; {
		case r == utf8.RuneError && n == 1: // it is not UTF-8
			if last < 0xff {
				return append(text, last+1)
			}
		case r == 0xd7ff: // the next code points are not runes
			return utf8.AppendRune(text, 0xe000)
		case r < utf8.MaxRune:
			return utf8.AppendRune(text, r+1)
		}
	}
	return nil
}

// compare compares two values in the form of bounds.
func (c *column) compare(a, b []byte) int {
	switch c.store {
	case longs:
		return cmp.Compare(int64(endian.LittleEndian.Uint64(a)), int64(endian.LittleEndian.Uint64(b)))
	case ints:
		return cmp.Compare(int32(endian.LittleEndian.Uint32(a)), int32(endian.LittleEndian.Uint32(b)))
	case doubles:
		return cmp.Compare(math.Float64frombits(endian.LittleEndian.Uint64(a)), math.Float64frombits(endian.LittleEndian.Uint64(b)))
	case fixed:
		if c.kind == decimal && a[0] != b[0] { // signed
			return cmp.Compare(int8(a[0]), int8(b[0]))
		}
	}
	return bytes.Compare(a, b)
}
