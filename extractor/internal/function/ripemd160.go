package function

import (
	"encoding/binary"
	"hash"
	"math/bits"
)

// ripemd160 is the hash of that name (Dobbertin, Bosselaers and Preneel, 1996). The standard library has none, and the
// one of its supplement is frozen; some interfaces still sign with it.
type ripemd160 struct {
	state  [5]uint32
	block  [64]byte
	length uint64
}

func newRIPEMD160() hash.Hash {
	r := new(ripemd160)
	r.Reset()
	return r
}

func (r *ripemd160) Size() int      { return 20 }
func (r *ripemd160) BlockSize() int { return 64 }

func (r *ripemd160) Reset() {
	*r = ripemd160{state: [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}}
}

func (r *ripemd160) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		at := int(r.length % 64)
		taken := copy(r.block[at:], p)
		p = p[taken:]
		r.length += uint64(taken)
		if at+taken == 64 {
			r.compress()
		}
	}
	return n, nil
}

func (r *ripemd160) Sum(in []byte) []byte {
	end := *r
	var tail [72]byte
	tail[0] = 0x80
	pad := int((119-r.length%64)%64) + 1
	binary.LittleEndian.PutUint64(tail[pad:], r.length*8)
	_, _ = end.Write(tail[:pad+8])
	for _, word := range end.state {
		in = binary.LittleEndian.AppendUint32(in, word)
	}
	return in
}

// A line is one of the two parallel chains of 80 steps: the order of the words, the rotations, the constants.
type line struct {
	words, shifts [80]byte
	constants     [5]uint32
	// reversed lines use the five functions from the last to the first.
	reversed bool
}

var lines = [2]line{
	{
		words: [80]byte{
			0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8,
			3, 10, 14, 4, 9, 15, 8, 1, 2, 7, 0, 6, 13, 11, 5, 12, 1, 9, 11, 10, 0, 8, 12, 4, 13, 3, 7, 15, 14, 5, 6, 2,
			4, 0, 5, 9, 7, 12, 2, 10, 14, 1, 3, 8, 11, 6, 15, 13,
		},
		shifts: [80]byte{
			11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8, 7, 6, 8, 13, 11, 9, 7, 15, 7, 12, 15, 9, 11, 7, 13, 12,
			11, 13, 6, 7, 14, 9, 13, 15, 14, 8, 13, 6, 5, 12, 7, 5, 11, 12, 14, 15, 14, 15, 9, 8, 9, 14, 5, 6, 8, 6, 5, 12,
			9, 15, 5, 11, 6, 8, 13, 12, 5, 12, 13, 14, 11, 8, 5, 6,
		},
		constants: [5]uint32{0, 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xa953fd4e},
	},
	{
		words: [80]byte{
			5, 14, 7, 0, 9, 2, 11, 4, 13, 6, 15, 8, 1, 10, 3, 12, 6, 11, 3, 7, 0, 13, 5, 10, 14, 15, 8, 12, 4, 9, 1, 2,
			15, 5, 1, 3, 7, 14, 6, 9, 11, 8, 12, 2, 10, 0, 4, 13, 8, 6, 4, 1, 3, 11, 15, 0, 5, 12, 2, 13, 9, 7, 10, 14,
			12, 15, 10, 4, 1, 5, 8, 7, 6, 2, 13, 14, 0, 3, 9, 11,
		},
		shifts: [80]byte{
			8, 9, 9, 11, 13, 15, 15, 5, 7, 7, 8, 11, 14, 14, 12, 6, 9, 13, 15, 7, 12, 8, 9, 11, 7, 7, 12, 7, 6, 15, 13, 11,
			9, 7, 15, 11, 8, 6, 6, 14, 12, 13, 5, 14, 13, 13, 7, 5, 15, 5, 8, 11, 14, 14, 6, 14, 6, 9, 12, 9, 12, 5, 15, 8,
			8, 5, 12, 9, 12, 5, 14, 6, 8, 13, 6, 5, 15, 13, 11, 11,
		},
		constants: [5]uint32{0x50a28be6, 0x5c4dd124, 0x6d703ef3, 0x7a6d76e9, 0},
		reversed:  true,
	},
}

func (r *ripemd160) compress() {
	var x [16]uint32
	for i := range x {
		x[i] = binary.LittleEndian.Uint32(r.block[4*i:])
	}
	var ends [2][5]uint32
	for i := range lines {
		l := lines[i]
		a, b, c, d, e := r.state[0], r.state[1], r.state[2], r.state[3], r.state[4]
		for step := range 80 {
			round := step / 16
			mixing := round
			if l.reversed {
				mixing = 4 - round
			}
			t := bits.RotateLeft32(a+mix(mixing, b, c, d)+x[l.words[step]]+l.constants[round], int(l.shifts[step])) + e
			a, e, d, c, b = e, d, bits.RotateLeft32(c, 10), b, t
		}
		ends[i] = [5]uint32{a, b, c, d, e}
	}
	s, left, right := r.state, ends[0], ends[1]
	for i := range s {
		r.state[i] = s[(i+1)%5] + left[(i+2)%5] + right[(i+3)%5]
	}
}

func mix(i int, x, y, z uint32) uint32 {
	switch i {
	case 0:
		return x ^ y ^ z
	case 1:
		return x&y | ^x&z
	case 2:
		return (x | ^y) ^ z
	case 3:
		return x&z | y&^z
	}
	return x ^ (y | ^z)
}
