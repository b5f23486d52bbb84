package buffer

import (
	"encoding/binary"
	"fmt"
)

// The keys of the store. Numbers are big endian, so that keys sort by creation.
//
//	m/format            format version, decimal text
//	m/instance          random name of this data directory; the first part of every object and file id
//	m/counters          highest file and slice number given out, two 8-byte numbers
//	s <sink 4>          sinkRecord
//	f <file 8>          fileRecord
//	l <slice 8>         sliceRecord
//	c <slice 8> <seq 4> chunk
//	q <slice 8> <revision 4> <number 4>  Damage, kept for Options.DamageRetention
//	k <segment 8> <key 16> <sink 4> <part 4>  receipt of a call with a key, kept for Options.KeyRetention
const (
	formatVersion = 1

	keyFormat   = "m/format"
	keyInstance = "m/instance"
	keyCounters = "m/counters"

	prefixSink    = 's'
	prefixFile    = 'f'
	prefixSlice   = 'l'
	prefixChunk   = 'c'
	prefixDamage  = 'q'
	prefixReceipt = 'k'
)

func sinkKey(num uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{prefixSink}, num)
}

func fileKey(num uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixFile}, num)
}

func sliceKey(num uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixSlice}, num)
}

const chunkKeySize = 1 + 8 + 4

func putChunkKey(b []byte, slice uint64, seq uint32) {
	b[0] = prefixChunk
	binary.BigEndian.PutUint64(b[1:], slice)
	binary.BigEndian.PutUint32(b[9:], seq)
}

// chunkBounds are the bounds of all chunks of one slice: from is inside, to is outside.
func chunkBounds(slice uint64) (from, to []byte) {
	from = binary.BigEndian.AppendUint64([]byte{prefixChunk}, slice)
	to = binary.BigEndian.AppendUint64([]byte{prefixChunk}, slice+1)
	return from, to
}

func damageKey(slice uint64, revision, number uint32) []byte {
	b := binary.BigEndian.AppendUint64([]byte{prefixDamage}, slice)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, revision), number)
}

// objectID makes the id of a file or slice: unique over engines by the instance, ascending by the number.
func objectID(instance string, kind byte, num uint64) string {
	return fmt.Sprintf("%s-%c%012x", instance, kind, num)
}
