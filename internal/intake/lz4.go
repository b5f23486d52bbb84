package intake

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// lz4Reader reads concatenated LZ4 frames from memory. The format is small and frozen, and docs/internals/dependencies.md says why no
// library reads it.
type lz4Reader struct {
	src []byte
	err error
	// out is decoded data, with the window of the next block, and from next on what Read has not returned yet.
	out  []byte
	next int

	// State of the current frame.
	inFrame, independent, blockSum, contentSum, hasSize bool

	blockMost       int // limit of a decoded block in bytes
	size, delivered uint64
	sum             xxh32
}

// lz4Window is the greatest distance of a match.
const lz4Window = 64 << 10

const (
	lz4Magic     = 0x184D2204
	lz4Skippable = 0x184D2A50 // and the next fifteen numbers
)

var (
	errLZ4       = errors.New("lz4: the data is corrupt")
	errLZ4Header = errors.New("lz4: this is not a frame")
	errLZ4Dict   = errors.New("lz4: the frame needs a dictionary")
	errLZ4Sum    = errors.New("lz4: a checksum does not fit")
)

func (z *lz4Reader) reset(src []byte) { *z = lz4Reader{src: src, out: z.out[:0]} }

// Read implements [io.Reader].
func (z *lz4Reader) Read(p []byte) (int, error) {
	for z.next == len(z.out) && z.err == nil {
		z.err = z.more()
	}
	if z.next == len(z.out) {
		return 0, z.err
	}
	n := copy(p, z.out[z.next:])
	z.next += n
	return n, nil
}

// take returns the next n bytes of the source.
func (z *lz4Reader) take(n int) ([]byte, error) {
	if n > len(z.src) {
		return nil, io.ErrUnexpectedEOF
	}
	b := z.src[:n]
	z.src = z.src[n:]
	return b, nil
}

func (z *lz4Reader) uint32() (uint32, error) {
	b, err := z.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// more decodes the next block, or the header of the next frame.
func (z *lz4Reader) more() error {
	if !z.inFrame {
		return z.header()
	}
	size, err := z.uint32()
	if err != nil {
		return err
	}
	if size == 0 {
		return z.end()
	}
	const stored = 1 << 31
	n := int(size &^ stored)
	if n > z.blockMost {
		return errLZ4
	}
	block, err := z.take(n)
	if err != nil {
		return err
	}
	if z.blockSum {
		var sum xxh32
		sum.write(block)
		if want, err := z.uint32(); err != nil || want != sum.sum() {
			return cmp.Or(err, errLZ4Sum)
		}
	}
	from := len(z.out)
	if !z.independent {
		from = max(0, from-lz4Window)
	}
	z.out = z.out[:copy(z.out, z.out[from:])]
	z.next = len(z.out)
	if size&stored != 0 {
		z.out = append(z.out, block...)
	} else if z.out, err = lz4Block(z.out, block, z.next+z.blockMost); err != nil {
		return err
	}
	z.delivered += uint64(len(z.out) - z.next)
	if z.contentSum {
		z.sum.write(z.out[z.next:])
	}
	return nil
}

// header reads the descriptor of a frame.
func (z *lz4Reader) header() error {
	if len(z.src) == 0 {
		return io.EOF
	}
	magic, err := z.uint32()
	if err != nil {
		return err
	}
	if magic&^0xf == lz4Skippable {
		n, err := z.uint32()
		if err != nil || uint64(n) > uint64(len(z.src)) {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		z.src = z.src[n:]
		return nil
	}
	if magic != lz4Magic {
		return errLZ4Header
	}
	descriptor := z.src
	flags, err := z.take(2)
	if err != nil {
		return err
	}
	flg, bd := flags[0], flags[1]
	if flg>>6 != 1 || flg&2 != 0 || bd&0x8f != 0 || bd>>4 < 4 {
		return errLZ4Header
	}
	if flg&1 != 0 {
		return errLZ4Dict
	}
	z.independent, z.blockSum, z.hasSize, z.contentSum = flg&0x20 != 0, flg&0x10 != 0, flg&8 != 0, flg&4 != 0
	z.blockMost = 1 << (8 + 2*(bd>>4))
	if z.hasSize {
		b, err := z.take(8)
		if err != nil {
			return err
		}
		z.size = binary.LittleEndian.Uint64(b)
	}
	descriptor = descriptor[:len(descriptor)-len(z.src)]
	check, err := z.take(1)
	if err != nil {
		return err
	}
	var sum xxh32
	sum.write(descriptor)
	if check[0] != byte(sum.sum()>>8) {
		return errLZ4Sum
	}
	z.inFrame, z.delivered, z.sum = true, 0, xxh32{}
	z.out, z.next = z.out[:0], 0
	return nil
}

// end reads what follows the last block of a frame.
func (z *lz4Reader) end() error {
	z.inFrame = false
	if z.hasSize && z.size != z.delivered {
		return errLZ4
	}
	if z.contentSum {
		if want, err := z.uint32(); err != nil || want != z.sum.sum() {
			return cmp.Or(err, errLZ4Sum)
		}
	}
	return nil
}

// lz4Block appends a decoded block to dst, which starts with the window of the block and may grow to most bytes.
func lz4Block(dst, src []byte, most int) ([]byte, error) {
	length := func(n int) (int, bool) { // the rest of a length whose first part n is in the token
		if n < 15 {
			return n, true
		}
		for i, b := range src {
			n += int(b)
			if n > most {
				return 0, false
			}
			if b != 255 {
				src = src[i+1:]
				return n, true
			}
		}
		return 0, false
	}
	for {
		if len(src) == 0 {
			return dst, errLZ4
		}
		token := src[0]
		src = src[1:]
		n, ok := length(int(token >> 4))
		if !ok || n > len(src) || len(dst)+n > most {
			return dst, errLZ4
		}
		dst = append(dst, src[:n]...)
		if src = src[n:]; len(src) == 0 {
			return dst, nil // the last sequence has no match
		}
		if len(src) < 2 {
			return dst, errLZ4
		}
		offset := int(src[0]) | int(src[1])<<8
		src = src[2:]
		n, ok = length(int(token & 15))
		n += 4
		if !ok || offset == 0 || offset > len(dst) || len(dst)+n > most {
			return dst, errLZ4
		}
		for n > 0 { // a match may overlap its own output
			from := len(dst) - offset
			part := min(n, offset)
			dst = append(dst, dst[from:from+part]...)
			n -= part
			offset += part
		}
	}
}

// xxh32 is the checksum of the format, with seed zero. The zero value is ready to use.
type xxh32 struct {
	v     [4]uint32
	total uint64
	rest  [16]byte
	begun bool
}

const (
	prime1 = 2654435761
	prime2 = 2246822519
	prime3 = 3266489917
	prime4 = 668265263
	prime5 = 374761393
)

func (x *xxh32) write(p []byte) {
	if !x.begun {
		p1 := uint32(prime1)
		x.v = [4]uint32{p1 + prime2, prime2, 0, -p1}
		x.begun = true
	}
	kept := int(x.total % 16)
	x.total += uint64(len(p))
	if kept > 0 {
		n := copy(x.rest[kept:], p)
		p = p[n:]
		if kept+n < 16 {
			return
		}
		x.stripe(x.rest[:])
	}
	for ; len(p) >= 16; p = p[16:] {
		x.stripe(p)
	}
	copy(x.rest[:], p)
}

func (x *xxh32) stripe(p []byte) {
	for i := range x.v {
		x.v[i] = bits.RotateLeft32(x.v[i]+binary.LittleEndian.Uint32(p[4*i:])*prime2, 13) * prime1
	}
}

func (x *xxh32) sum() uint32 {
	h := uint32(prime5)
	if x.total >= 16 {
		h = bits.RotateLeft32(x.v[0], 1) + bits.RotateLeft32(x.v[1], 7) + bits.RotateLeft32(x.v[2], 12) + bits.RotateLeft32(x.v[3], 18)
	}
	h += uint32(x.total)
	p := x.rest[:x.total%16]
	for ; len(p) >= 4; p = p[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(p)*prime3, 17) * prime4
	}
	for _, b := range p {
		h = bits.RotateLeft32(h+uint32(b)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}
