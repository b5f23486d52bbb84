package buffer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// A chunk is what one commit adds to one slice. Its stored form is
//
//	offset size
//	0      1    version, now 1
//	1      1    Encoding of the payload: None, or that of the slice
//	2      2    0
//	4      4    CRC-32C of offsets 0 to 3 and of everything from offset 8 on
//	8      4    rows in this chunk
//	12     4    row bytes in this chunk, before compression
//	16     8    rows of the slice up to and with this chunk
//	24     8    row bytes of the slice, likewise
//	32     8    payload bytes of the slice, likewise
//	40     8    first row of the slice accepted, Unix milliseconds
//	48     8    last row of this chunk accepted, Unix milliseconds
//	56     …    payload
//
// all little endian. The running totals stand in the chunk itself, not in a record of their own: so counters and data
// cannot disagree, one key a commit and sink is enough, and recovery reads the last chunk of an open slice.
const (
	chunkVersion    = 1
	chunkHeaderSize = 56
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tally counts rows on one level.
type tally struct {
	rows, raw, stored int64
	first, last       int64 // Unix ms; 0 when rows is 0
}

func (t *tally) add(o tally) {
	if o.rows == 0 {
		return
	}
	if t.rows == 0 || o.first < t.first {
		t.first = o.first
	}
	t.last = max(t.last, o.last)
	t.rows += o.rows
	t.raw += o.raw
	t.stored += o.stored
}

// chunkHeader is the decoded head of a stored chunk.
type chunkHeader struct {
	encoding  Encoding
	rows, raw int64
	last      int64
	slice     tally // running totals
}

// putChunkHeader fills b[:chunkHeaderSize]. The payload must already stand behind it.
func putChunkHeader(b []byte, h chunkHeader) {
	clear(b[:chunkHeaderSize])
	b[0] = chunkVersion
	b[1] = byte(h.encoding)
	le := binary.LittleEndian
	le.PutUint32(b[8:], uint32(h.rows))
	le.PutUint32(b[12:], uint32(h.raw))
	le.PutUint64(b[16:], uint64(h.slice.rows))
	le.PutUint64(b[24:], uint64(h.slice.raw))
	le.PutUint64(b[32:], uint64(h.slice.stored))
	le.PutUint64(b[40:], uint64(h.slice.first))
	le.PutUint64(b[48:], uint64(h.last))
	le.PutUint32(b[4:], chunkSum(b))
}

func chunkSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

var errChunk = errors.New("damaged chunk")

// parseChunk checks a stored chunk and returns its head and payload, which aliases b.
func parseChunk(b []byte) (chunkHeader, []byte, error) {
	var h chunkHeader
	if len(b) < chunkHeaderSize {
		return h, nil, fmt.Errorf("%w: %d bytes are shorter than a header", errChunk, len(b))
	}
	if b[0] != chunkVersion {
		return h, nil, fmt.Errorf("%w: version %d, this library reads %d", errChunk, b[0], chunkVersion)
	}
	le := binary.LittleEndian
	if got, want := chunkSum(b), le.Uint32(b[4:]); got != want {
		return h, nil, fmt.Errorf("%w: checksum %08x, stored %08x", errChunk, got, want)
	}
	return parseHeader(b), b[chunkHeaderSize:], nil
}

// parseHeader reads the head of a chunk as it is.
func parseHeader(b []byte) chunkHeader {
	le := binary.LittleEndian
	return chunkHeader{
		encoding: Encoding(b[1]),
		rows:     int64(le.Uint32(b[8:])),
		raw:      int64(le.Uint32(b[12:])),
		last:     int64(le.Uint64(b[48:])),
		slice: tally{
			rows:   int64(le.Uint64(b[16:])),
			raw:    int64(le.Uint64(b[24:])),
			stored: int64(le.Uint64(b[32:])),
			first:  int64(le.Uint64(b[40:])),
			last:   int64(le.Uint64(b[48:])),
		},
	}
}

func unixMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
