package otlpflat

import (
	"encoding/base64"
	"math"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// A tag is the number of a field, at most 31, and its wire type.
const (
	varint  = 0
	fixed64 = 1
	content = 2
	fixed32 = 5

	tagKey   = 1<<3 | content
	tagValue = 2<<3 | content

	tagString  = 1<<3 | content
	tagBool    = 2<<3 | varint
	tagInt     = 3<<3 | varint
	tagDouble  = 4<<3 | fixed64
	tagArray   = 5<<3 | content
	tagMap     = 6<<3 | content
	tagBytes   = 7<<3 | content
	tagElement = 1<<3 | content // of an array or a map
)

// part is a field of a message, its tag, and its number or content.
type part struct {
	tag     byte
	number  uint64
	content string
}

// cut takes the first field off a message. ok is false if there is no field with a number up to 31 and one of the four wire types.
func cut(s string) (p part, rest string, ok bool) {
	if len(s) < 2 {
		return part{}, "", false
	}
	p.tag = s[0]
	if p.tag >= 0x80 { // a number above 15. The second byte of the tag has its last bit, which the first byte repeats
		if s[1] != 1 || len(s) < 3 {
			return part{}, "", false
		}
		s = s[1:]
	}
	switch p.tag & 7 {
	case varint:
		n := 0
		if p.number, n = readVarint(s, 1); n == 0 {
			return part{}, "", false
		}
		return p, s[n:], true
	case content:
		size, n := uint64(s[1]), 2
		if size >= 0x80 {
			if size, n = readVarint(s, 1); n == 0 {
				return part{}, "", false
			}
		}
		if size > uint64(len(s)-n) {
			return part{}, "", false
		}
		end := n + int(size)
		p.content = s[n:end]
		return p, s[end:], true
	case fixed64:
		if len(s) < 9 {
			return part{}, "", false
		}
		p.number = readFixed64(s[1:])
		return p, s[9:], true
	case fixed32:
		if len(s) < 5 {
			return part{}, "", false
		}
		p.number = uint64(s[1]) | uint64(s[2])<<8 | uint64(s[3])<<16 | uint64(s[4])<<24
		return p, s[5:], true
	}
	return part{}, "", false
}

// readFixed64 reads the first eight bytes.
func readFixed64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// readVarint reads the number at i and returns its end, 0 if there is none. As in pdata, bits beyond 64 are lost.
func readVarint(s string, i int) (v uint64, end int) {
	for shift := uint(0); shift < 64 && i < len(s); shift += 7 {
		b := s[i]
		i++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, i
		}
	}
	return 0, 0
}

// readPair reads a key and its value.
func readPair(s string) (m pair) {
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tagKey {
			m.key = p.content
		} else {
			m.value = p.content
		}
	}
	return m
}

// count counts the fields with a tag.
func count(s string, tag byte) (n int) {
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tag {
			n++
		}
	}
	return n
}

// value writes an encoded value.
func (w *writer) value(s string) {
	if s == "" {
		w.null()
		return
	}
	p, _, _ := cut(s)
	switch p.tag {
	case tagString:
		w.text(p.content)
	case tagBool:
		w.bool(p.number != 0)
	case tagInt:
		w.int(int64(p.number))
	case tagDouble:
		w.float(math.Float64frombits(p.number))
	case tagMap:
		w.attributes(fields{p.content, tagElement})
	case tagArray:
		w.array(fields{p.content, tagElement}, (*writer).value)
	case tagBytes:
		w.bytes(p.content)
	default: // an index into a dictionary, which only profiles have
		w.null()
	}
}

// pair is an encoded member of a map.
type pair struct{ key, value string }

// fields are the fields with one tag of an encoded message. There may be other fields between them.
type fields struct {
	text string
	tag  byte
}

func (f fields) empty() bool { return count(f.text, f.tag) == 0 }

// add puts the fields of a message into f. The rest of the message begins with one of them.
func (f *fields) add(rest string) {
	if f.text == "" {
		f.text = rest
	}
}

// attributes writes pairs as an object, in their order. Of equal keys the last is written. The pairs of all maps that are being written are in
// w.pairs, inner ones after outer ones.
func (w *writer) attributes(f fields) {
	s, tag := f.text, f.tag
	c := w.open('{')
	if w.seek {
		if v, ok := find(s, tag, w.want); ok {
			w.value(v)
		}
		w.close(c, '}')
		return
	}
	from := len(w.pairs)
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tag {
			w.pairs = append(w.pairs, readPair(p.content))
		}
	}
	to := len(w.pairs)
	w.keys = w.keys[:0]
	for i := from; i < to; i++ {
		w.keys = append(w.keys, w.pairs[i].key)
	}
	repeats := w.repeatedKeys()
	comma := false
	for i := from; i < to; i++ {
		if repeats != nil && repeats[i-from] {
			continue
		}
		if comma {
			w.dst = append(w.dst, ',')
		}
		comma = true
		p := w.pairs[i]
		w.dst = jsontext.AppendString(w.dst, p.key, false)
		w.dst = append(w.dst, ':')
		w.value(p.value)
	}
	w.pairs = w.pairs[:from]
	w.close(c, '}')
}

// find returns the value of the last pair whose key is written as want.
func find(s string, tag byte, want string) (found string, ok bool) {
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tag {
			if m := readPair(p.content); isKey(m.key, want) {
				found, ok = m.value, true
			}
		}
	}
	return found, ok
}

// array writes the wanted ones of some fields as an array.
func (w *writer) array(f fields, write func(w *writer, content string)) {
	c := w.open('[')
	from, to := w.elements(count(f.text, f.tag))
	for i, s := 0, f.text; i < to; {
		var p part
		if p, s, _ = cut(s); p.tag != f.tag {
			continue
		}
		if i >= from {
			w.comma(i)
			write(w, p.content)
		}
		i++
	}
	w.close(c, ']')
}

// comma separates element i of an array from the one before.
func (w *writer) comma(i int) {
	if !w.seek && i > 0 {
		w.dst = append(w.dst, ',')
	}
}

// fixed64s writes the wanted ones of numbers of eight bytes as an array.
func (w *writer) fixed64s(s string, write func(w *writer, number uint64)) {
	c := w.open('[')
	from, to := w.elements(len(s) / 8)
	for i := from; i < to; i++ {
		w.comma(i)
		write(w, readFixed64(s[8*i:]))
	}
	w.close(c, ']')
}

// varints is fixed64s for numbers without a fixed length.
func (w *writer) varints(s string) {
	n := 0
	for i := range len(s) {
		if s[i] < 0x80 {
			n++
		}
	}
	c := w.open('[')
	from, to := w.elements(n)
	at := 0
	for i := range to {
		var number uint64
		if number, at = readVarint(s, at); i >= from {
			w.comma(i)
			w.uint(number)
		}
	}
	w.close(c, ']')
}

func (w *writer) bits(number uint64) { w.float(math.Float64frombits(number)) }

// zigzag decodes a signed number whose sign is its last bit.
func zigzag(n uint64) int32 { return int32(uint32(n>>1)) ^ -int32(n&1) }

func (w *writer) bytes(s string) {
	if !w.beginPlain() {
		return
	}
	var chunk [768]byte
	for s != "" {
		n := copy(chunk[:], s)
		w.dst, s = base64.StdEncoding.AppendEncode(w.dst, chunk[:n]), s[n:]
	}
	w.endPlain()
}
