package kept

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/forebay/forebay/buffer"
)

// CallKey hashes the name of a call. With the length of the source id first, keys of two sources cannot collide.
func CallKey(sourceID, name string) (k buffer.Key) {
	text := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(sourceID)))
	sum := sha256.Sum256(append(append(text, sourceID...), name...))
	copy(k[:], sum[:])
	return k
}
