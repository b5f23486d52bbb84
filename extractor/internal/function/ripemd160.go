package function

import (
	"encoding/binary"
	"hash"
	"math/bits"
)

// ripemd160 is the hash of that name (Dobbertin, Bosselaers and Preneel, 1996). The standard library has none, and its
// supplement's version is frozen. Some interfaces still sign with it.
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

// Each round takes the words of the round before in the order of permuted. One line begins with the words in order, the
// other with every ninth from the fifth on.
var permuted = [16]byte{7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8}

// shifts are the rotations by round and word, constants the addends by line and round.
var (
	shifts = [5][16]byte{
		{11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8},
		{12, 13, 11, 15, 6, 9, 9, 7, 12, 15, 11, 13, 7, 8, 7, 7},
		{13, 15, 14, 11, 7, 7, 6, 8, 13, 14, 13, 12, 5, 5, 6, 9},
		{14, 11, 12, 14, 8, 6, 5, 5, 15, 12, 15, 14, 9, 9, 8, 6},
		{15, 12, 13, 13, 9, 5, 8, 6, 14, 11, 12, 11, 8, 6, 5, 5},
	}
	constants = [2][5]uint32{
		{0, 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xa953fd4e},
		{0x50a28be6, 0x5c4dd124, 0x6d703ef3, 0x7a6d76e9, 0},
	}
)

// compress takes a block into the state, in two lines of 80 steps that are added at the end. The second line has the mixing
// functions in reverse.
func (r *ripemd160) compress() {
	var ends [2][5]uint32
	for line := range ends {
		a, b, c, d, e := r.state[0], r.state[1], r.state[2], r.state[3], r.state[4]
		for step := range 80 {
			round, word, mixing := step/16, byte(step%16), step/16
			if line == 1 {
				word, mixing = (9*word+5)%16, 4-round
			}
			for range round {
				word = permuted[word]
			}
			x := binary.LittleEndian.Uint32(r.block[4*word:])
			t := bits.RotateLeft32(a+mix(mixing, b, c, d)+x+constants[line][round], int(shifts[round][word])) + e
			a, e, d, c, b = e, d, bits.RotateLeft32(c, 10), b, t
		}
		ends[line] = [5]uint32{a, b, c, d, e}
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
