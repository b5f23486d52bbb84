package platform

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// newULID makes an identifier of 26 characters: 48 bits of milliseconds and 80 random ones in Crockford's base 32, so
// that identifiers sort by time.
func newULID(at time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	ms := uint64(at.UnixMilli())
	binary.BigEndian.PutUint64(b[:8], ms<<16|uint64(binary.BigEndian.Uint16(b[6:8])))
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	var out [26]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}
