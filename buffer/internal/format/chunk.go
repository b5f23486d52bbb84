package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

const (
	chunkVersion = 1
	// ChunkHeaderSize is the length of the header of a chunk.
	ChunkHeaderSize = 56
)

// Encoding says how rows are stored.
type Encoding uint8

// None is plain CSV, Gzip a sequence of gzip members, Zstd a sequence of Zstandard frames.
const (
	None Encoding = iota
	Gzip
	Zstd
)

// Tally counts rows on one level.
type Tally struct {
	// Rows is the number of rows, Raw their bytes before compression, Stored their bytes as they are stored.
	Rows   int64 `json:"rows,omitempty"`
	Raw    int64 `json:"raw,omitempty"`
	Stored int64 `json:"stored,omitempty"`
	// First and Last are acceptance times in Unix milliseconds, 0 when Rows is 0.
	First int64 `json:"first,omitempty"`
	Last  int64 `json:"last,omitempty"`
}

// Add adds the rows of o.
func (t *Tally) Add(o Tally) {
	if o.Rows == 0 {
		return
	}
	if t.Rows == 0 || o.First < t.First {
		t.First = o.First
	}
	t.Last = max(t.Last, o.Last)
	t.Rows += o.Rows
	t.Raw += o.Raw
	t.Stored += o.Stored
}

// Time is the time of Unix milliseconds, zero for 0.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// ChunkHeader is the decoded header of a chunk.
type ChunkHeader struct {
	// Encoding tells how the payload is compressed.
	Encoding Encoding
	// Rows is the number of rows in the chunk, Raw their bytes before compression. Both are below 1 << 32.
	Rows, Raw int64
	// Last is the acceptance time of the last row of the chunk, Unix milliseconds.
	Last int64
	// Slice holds the running totals of the slice. Only Last stores its time. Once parsed, Slice.Last is Last.
	Slice Tally
}

// PutChunkHeader fills b[:ChunkHeaderSize]. The payload must already follow it, because the checksum covers it.
func PutChunkHeader(b []byte, h ChunkHeader) {
	clear(b[:ChunkHeaderSize])
	b[0] = chunkVersion
	b[1] = byte(h.Encoding)
	le := binary.LittleEndian
	le.PutUint32(b[8:], uint32(h.Rows))
	le.PutUint32(b[12:], uint32(h.Raw))
	le.PutUint64(b[16:], uint64(h.Slice.Rows))
	le.PutUint64(b[24:], uint64(h.Slice.Raw))
	le.PutUint64(b[32:], uint64(h.Slice.Stored))
	le.PutUint64(b[40:], uint64(h.Slice.First))
	le.PutUint64(b[48:], uint64(h.Last))
	le.PutUint32(b[4:], chunkSum(b))
}

// Checksum is the checksum of an object in staging. The zero value means that the checksum is unknown, because an object has at least one byte.
type Checksum struct {
	CRC  uint32 `json:"crc"`  // CRC-32C of all bytes
	Size int64  `json:"size"` // number of bytes
}

// Write adds bytes. It never fails.
func (c *Checksum) Write(p []byte) (int, error) {
	c.CRC = crc32.Update(c.CRC, castagnoli, p)
	c.Size += int64(len(p))
	return len(p), nil
}

// Known reports whether the checksum is known.
func (c Checksum) Known() bool { return c.Size > 0 }

func (c Checksum) String() string { return fmt.Sprintf("%d bytes with checksum %08x", c.Size, c.CRC) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func chunkSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// ErrChunk is matched by the errors of [ParseChunk]. The bytes differ from the written ones.
var ErrChunk = errors.New("damaged chunk")

// ParseChunk checks a stored chunk and returns its header and payload. The payload aliases b.
func ParseChunk(b []byte) (ChunkHeader, []byte, error) {
	if len(b) < ChunkHeaderSize {
		return ChunkHeader{}, nil, fmt.Errorf("%w: %d bytes are shorter than a header", ErrChunk, len(b))
	}
	if b[0] != chunkVersion {
		return ChunkHeader{}, nil, fmt.Errorf("%w: version %d, this library reads %d", ErrChunk, b[0], chunkVersion)
	}
	if got, want := chunkSum(b), binary.LittleEndian.Uint32(b[4:]); got != want {
		return ChunkHeader{}, nil, fmt.Errorf("%w: checksum %08x, stored %08x", ErrChunk, got, want)
	}
	return ParseChunkHeader(b), b[ChunkHeaderSize:], nil
}

// ParseChunkHeader reads the header of a chunk without checking anything. b must have at least ChunkHeaderSize bytes.
func ParseChunkHeader(b []byte) ChunkHeader {
	le := binary.LittleEndian
	return ChunkHeader{
		Encoding: Encoding(b[1]),
		Rows:     int64(le.Uint32(b[8:])),
		Raw:      int64(le.Uint32(b[12:])),
		Last:     int64(le.Uint64(b[48:])),
		Slice: Tally{
			Rows:   int64(le.Uint64(b[16:])),
			Raw:    int64(le.Uint64(b[24:])),
			Stored: int64(le.Uint64(b[32:])),
			First:  int64(le.Uint64(b[40:])),
			Last:   int64(le.Uint64(b[48:])),
		},
	}
}
